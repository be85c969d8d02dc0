#!/bin/sh
# python.t - the four examples of Mooncake's Python document over rdma, with a real etcd; what they write lies in a file.
. "$(dirname "$0")/lib/guest.sh"

ok 'two rails come up' rails_up
export PYTHONPATH="$BUILD/python" PYTHONDONTWRITEBYTECODE=1
export LOCAL=127.0.0.1:12345 TARGET=127.0.0.1:12346 METADATA=127.0.0.1:2379 PROTOCOL=rdma DEVICES=rxa0,rxa1
# The examples take all devices, or shared memory: those of end b are the target's, and this is about rdma.
export MC_FORCE_HCA=1

# A sanitizer's run-time comes before a Python that is built without it.
preload=
case $BUILD in
*asan) preload=$(cc -print-file-name=libasan.so) ;;
*tsan) preload=$(cc -print-file-name=libtsan.so) ;;
esac

# example NAME: it ends well; what it says is in $SAID.
example() {
	SAID=$(LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0 /usr/bin/python3 "$TOP/bindings/python/examples/$1.py" \
		2>"$T/$1.err") && return
	cat "$T/$1.err"
	return 1
}
start etcd etcd --data-dir "$T/etcd" --log-level error --listen-client-urls http://$METADATA \
	--advertise-client-urls http://$METADATA --listen-peer-urls http://127.0.0.1:2380
ok 'etcd starts' within 60 te-meta --metadata-server=etcd://$METADATA ping
truncate -s 8M "$T/memory"
ok 'te-target serves rdma' target t --metadata-server=etcd://$METADATA --local-server-name=$TARGET --protocol=rdma \
	--device-name=rxb0,rxb1 --file="$T/memory"
is 'under the name of the examples' "$SEGMENT" $TARGET

export MC_TE_FILTERS=$DEVICES
ok 'basic' example basic
is 'it says so' "$SAID" 'Data transfer completed successfully'
is 'the bytes are there' "$(head -c 23 "$T/memory")" 'Hello, Transfer Engine!'

before=$(($(rail_bytes 0) + $(rail_bytes 1)))
ok 'asynchronous' example asynchronous
is 'it says so' "$SAID" 'Transfer completed successfully'
is 'all bytes are there' "$(head -c 1048576 "$T/memory" | tr -d '\245' | wc -c)" 0
near 'by the rails' $(($(rail_bytes 0) + $(rail_bytes 1) - before)) 1048576 2000000

ok 'managed' example managed
is 'it says so' "$SAID" "Read data: b'Test data for managed buffer'"
unset MC_TE_FILTERS
ok 'environment, which names its devices' example environment
is 'it says so' "$SAID" 'initialize: 0'
ok 'the target ends' stop t
done_testing
