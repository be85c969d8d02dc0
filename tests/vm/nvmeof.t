#!/bin/sh
# nvmeof.t - a segment of files on a real NVMe-oF target, the kernel's own over tcp: mounted, read and written, lost and cured.
. "$(dirname "$0")/lib/guest.sh"
nvmet_up || skip_all 'no NVMe-oF in this kernel'
ok 'two files are served' storage_up
SEGMENT=nvmeof/disk0

transfer() { # transfer NAME OPTION...: te-bench as client, in blocks that cross the border of the two files
	bench "$@" --local-server-name=client --block-size=65537 --batch-size=16
}

# ---- all the way and back, twice ------------------------------------------------------------------------------------------

for round in first second; do
	ok "$round: connect, mount, publish" prints "publish +/srv/b is $MNT/b on client" both
	is "$round: both paths are published" "$(mapped)" "$MNT/a $MNT/b "
	[ $round = second ] || is 'the bytes are those of the target' "$(sum $MNT/a) $(sum $MNT/b)" "$SUMS"
	ok "$round: status is well" prints 'connection +nvme0: .*: live' status
	ok "$round: once more changes nothing" prints 'keep +/srv/a' both
	is "$round: one connection" "$(controllers)" nvme0
	for operation in write read; do
		ok "$round: te-bench, verified $operation" transfer $operation --operation=$operation --pattern --verify --requests=150
		is "$round: $operation: no mismatch" "$(figure $operation mismatches)" 0
		is "$round: $operation: all bytes compared" "$(figure $operation checked_bytes)" $((65537 * 150))
		is "$round: $operation: from and to both mounted files" "$(json "$T/$operation.json" remote | sort | tr '\n' ' ')" "$SEGMENT ($MNT/a) $SEGMENT ($MNT/b) "
		not_ok "$round: $operation: past the page cache" grep -q O_DIRECT "$T/$operation.err"
	done
	SUMS="$(sum $MNT/a) $(sum $MNT/b)"
	ok "$round: unmount" prints 'disconnect +nvme0' unmount nvmeof/disk0
	ok "$round: nothing is left" clean
	mount -o loop,ro,noload "$T/image" /srv
	is "$round: the target has what was written" "$(sum /srv/a) $(sum /srv/b)" "$SUMS"
	umount /srv
done

# ---- a target that goes away and comes back -------------------------------------------------------------------------------

break_journal() { # a change that cannot reach the device: the file system gives up
	touch $MNT/b
	sync -f $MNT
	! touch $MNT/new
}
lose() { # lose NAME TIMEOUT OPTION...: a transfer in the middle of which the target goes; $TOOK: until it has ended after that
	lose_name=$1 lose_timeout=$2
	shift 2
	start "$lose_name" env MC_TRANSFER_TIMEOUT="$lose_timeout" te-bench --segment-id=$SEGMENT --local-server-name=client --block-size=64K --duration=60 --json "$@"
	sleep 4
	is_gone "$lose_name" && return 1
	nvmet_hide $NQN $PORT
	timed ended "$lose_name" 40
}
# Without what ext4 reads ahead for itself after a mount: that it cannot is an error which it writes down, as soon as it can.
ok 'connected' connect --options=no_prefetch_block_bitmaps disk0 /srv/a /srv/b $MNT
ok 'lost in the middle of reads' lose cut 30 --operation=read
near 'the run ends soon' "$TOOK" 0 $((20 * SLOW))
is 'by itself, with a failure' "$ENDED" 1
ok 'that names a file' grep -q "$MNT/[ab]" "$T/cut.err"
diag "$(cat "$T/cut.err")"
nvmet_serve $NQN $PORT
ok 'the target is back' within 30 controller_state live
ok 'reads work again' transfer again --operation=read --pattern --verify --requests=20
ok 'and writes' transfer again --operation=write --verify --requests=20
ok 'the file system has not suffered' status
ok 'lost in the middle of writes, with a short time-out' lose late 2 --operation=write --batch-size=4
is 'a failure' "$ENDED" 1
ok 'that names a file, which the kernel still has in its hands' grep -q "$MNT/[ab].*kernel has not ended it in time" "$T/late.err"
diag "$(cat "$T/late.err")"
near 'the run ends soon' "$TOOK" 0 $((20 * SLOW))
ok 'the target is gone' within 10 controller_state connecting
not_ok 'status says so' timed status
near 'in time' "$TOOK" 0 $((10 * SLOW))
status >"$T/status" # what was not answered above is by now, with an error
ok 'the connection is named' grep -q "nvme0 to 127.0.0.1 is 'connecting'" "$T/status"
ok 'the file system sees errors' timed break_journal
near 'within the time-out' "$TOOK" 0 $((20 * SLOW))
nvmet_serve $NQN $PORT
ok 'the target is back' within 30 controller_state live
status >"$T/status"
ok 'the file system has become read-only' grep -q "file system $MNT has become read-only" "$T/status"
ok '--connect alone does not do' says 'read-only after errors.*--unmount' both
ok '--unmount' unmount disk0
ok 'nothing is left' clean
ok 'and --connect' both
ok 'cure it' status
nvmet_hide $NQN $PORT
within 10 controller_state connecting
ok 'a dead file system can be unmounted' timed unmount disk0
near 'in time' "$TOOK" 0 $((25 * SLOW))
ok 'nothing is left of it' clean
nvmet_serve $NQN $PORT
ok 'the end' storage_down
done_testing
