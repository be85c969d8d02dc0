#!/bin/sh
# guard.t - what rdma does not do: make queue pairs for anybody, lock memory beyond the limit in silence, burn a processor.
. "$(dirname "$0")/lib/guest.sh"

A=--device-name=rxa0
B=--device-name=rxb0
# ticks NAME: processor time of a program that was started, in hundredths of a second.
ticks() {
	read -r stat <"/proc/$(cat "$T/$1.pid")/stat"
	# shellcheck disable=SC2086 # fields, after the name in brackets
	set -- ${stat##*) }
	echo $((${12} + ${13}))
}

ok 'two rails come up' rails_up
ok 'te-target serves' target t --protocol=rdma $B --buffer=cpu:0:2M --pattern --local-server-name=$LOCAL
PORT=${SEGMENT##*:}
OWN=$SEGMENT@rxb0
GID=00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01

# ---- made-up handshakes ----------------------------------------------------------------------------------------------

# says FROM TO QPS ACK: the JSON of a handshake.
says() {
	printf '{"local_gid":"%s","local_lid":0,"local_nic_path":"%s","peer_nic_path":"%s","qp_num":%s,"ready_ack":%s,"reply_msg":""}\n' \
		$GID "$1" "$2" "$3" "$4"
}
# forged TEXT PATTERN TYPE [ANNOUNCED]: what stands on standard input is sent to the target; its answer is as the pattern says,
# and no queue pair is made.
forged() {
	reply=$("$BUILD/progs/forge" "$PORT" "$3" ${4+"$4"})
	# shellcheck disable=SC2254 # a pattern
	case $reply in
	$2) pass "$1: refused" ;;
	*) fail "$1: refused" "got: $reply" ;;
	esac
	is "$1: no queue pair" "$(qp_count rxb0)" 0
}
refusal='*"reply_msg":"?*'
says 'nobody@mlx5_0' "$OWN" '[100,101]' false >"$T/h" && forged 'a NIC path of nobody' "$refusal" 0 <"$T/h"
says "$LOCAL:1@rxa0" "$OWN" '[100,101]' false >"$T/h" && forged 'a peer that does not answer' "$refusal" 0 <"$T/h"
says "$SEGMENT@rxa0" "$OWN" '[100,101]' false >"$T/h" && forged 'a NIC that its segment has not' "$refusal" 0 <"$T/h"
says "$OWN" "$OWN" '[100,101]' false >"$T/h" && forged 'a GID that its NIC has not' "$refusal" 0 <"$T/h"
says 'nobody@mlx5_0' "$SEGMENT@mlx5_9" '[100,101]' false >"$T/h" && forged 'for a NIC that is not here' "$refusal" 0 <"$T/h"
says "$LOCAL:1@rxa0" "$OWN" '[100,101]' true >"$T/h" && forged 'a stray ready-ack' "$refusal" 0 <"$T/h"
says "$LOCAL:1@rxa0" "$OWN" '[1]' false >"$T/h" && forged 'too few QPs' "$refusal" 0 <"$T/h"
says "$LOCAL:1@rxa0" "$OWN" "[$(seq -s , 1 300)]" false >"$T/h" && forged 'very many QPs' closed 0 <"$T/h"
says "$LOCAL:1@rxa0" "$OWN" '"[1,2]"' false >"$T/h" && forged 'QPs that are a text' closed 0 <"$T/h"
says "$LOCAL:1@rxa0" "$OWN" '[-1,4294967296]' false >"$T/h" && forged 'QP numbers out of range' closed 0 <"$T/h"
says "$LOCAL:1@$(printf '%0300d' 0)" "$OWN" '[1,2]' false >"$T/h" && forged 'a path that is too long' closed 0 <"$T/h"
echo '[1,2]' >"$T/h" && forged 'a list' closed 0 <"$T/h"
echo '{"qp_num":' >"$T/h" && forged 'half of a JSON text' closed 0 <"$T/h"
says "$LOCAL:1@rxa0" "$OWN" '[100,101]' false >"$T/h" && forged 'a frame announced too long' closed 0 1000000000 <"$T/h"
says "$LOCAL:1@rxa0" "$OWN" '[100,101]' false >"$T/h" && forged 'the type of no message' closed 5 <"$T/h"
says "$LOCAL:1@rxa0" "$OWN" '[100,101]' false >"$T/h" && forged 'a farewell to nobody' '{}' 16 <"$T/h"
says "$LOCAL:1@rxa0" "$OWN" '[]' false >"$T/h" && forged 'a farewell without QPs' '?*' 16 <"$T/h"
ok 'the target serves all the same' bench after --protocol=rdma $A --verify --block-size=65537 --batch-size=4 --requests=8

# ---- idle ------------------------------------------------------------------------------------------------------------

start idle te-bench --segment-id="$SEGMENT" --protocol=rdma $A --rate=1 --batch-size=1 --duration=60 --local-server-name=$LOCAL
connected() { [ "$(qp_count rxb0)" -gt 0 ]; }
ok 'somebody is connected' within 10 connected
sleep 1
before=$(ticks t)
sleep 2
near 'ticks of 10 ms of a target that is connected, in 2 s' $(($(ticks t) - before)) 0 $((2 * SLOW))
stop idle KILL
before=$(ticks t)
sleep 2
near 'of one that has been left' $(($(ticks t) - before)) 0 $((2 * SLOW))
ok 'te-target ends' stop t
is 'no queue pair is left' "$(qp_count rxa0 rxb0)" 0

# ---- locked memory ---------------------------------------------------------------------------------------------------

# limited KIB COMMAND...: with so much memory to lock, and without the right to lock more.
limited() {
	limit=$1
	shift
	prlimit --memlock=$((limit << 10)) setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock -- "$@"
}
limited 4096 te-target --protocol=rdma $B --local-server-name=$LOCAL --buffer=cpu:0:16M >"$T/out" 2>"$T/err" </dev/null
is 'a limit of 4 MiB, a buffer of 16: status' $? 1
is 'one line' "$(wc -l <"$T/err")" 1
for word in rxb0 4194304 16777216 ulimit; do ok "which names $word" grep -q $word "$T/err"; done
limited 4096 te-target --protocol=rdma $B --local-server-name=$LOCAL --buffer=cpu:0:1M --max-duration=1 >"$T/out" 2>"$T/err" </dev/null
is 'a buffer of 1 MiB: status' $? 0
ok 'te-target serves' target t --protocol=rdma $B --buffer=cpu:0:64M
limited 4096 te-bench --segment-id="$SEGMENT" --protocol=rdma $A --block-size=16M --batch-size=1 --requests=1 \
	--local-server-name=$LOCAL >"$T/out" 2>"$T/err" </dev/null
is 'te-bench with a limit of 4 MiB: status' $? 1
ok 'which names NIC and limit' grep -q 'rxa0.*4194304' "$T/err"
ok 'te-target ends' stop t
done_testing
