#!/bin/sh
# faults.t - rails that are cut in the middle of a verified run, both of them at last; a target that is killed, or frozen.
. "$(dirname "$0")/lib/guest.sh"
. "$here/lib/steps.sh"

A=--device-name=rxa0,rxa1
B=--device-name=rxb0,rxb1

# run NAME OPTION...: a long verified run over both rails, which tells every 0.1 s how it goes.
run() {
	run_name=$1
	shift
	start "$run_name" te-bench -v --json --segment-id="$SEGMENT" --protocol=rdma $A --local-server-name=$LOCAL --verify \
		--block-size=64K --batch-size=16 --duration=600 --warmup=0 --interval=0.1 --report-unit=KB "$@"
}
# uses RAIL: more crosses it than handshakes would.
uses() {
	uses_from=$(rail_bytes "$1") && within 10 used "$1"
}
used() { [ "$(rail_bytes "$1")" -gt $((uses_from + 300000)) ]; }
# Seconds of the longest pause between two reports of progress.
longest_pause() {
	awk '$2 == "s" && $4 == "requests/s" && $3 > 0 { if ($1 - at > most) most = $1 - at; at = $1 } END { print most + 0 }' \
		"$T/$1.err"
}
sum() { json "$T/$1.out" "$2" | awk '{ n += $1 } END { print n + 0 }'; }
has() { grep -qE -- "$2" "$T/$1" || { grep -v 'requests/s' "$T/$1" && return 1; }; }

# ---- one rail is cut -------------------------------------------------------------------------------------------------

cut_one() { # cut_one RAIL OPERATION
	other=$((1 - $1))
	run cut --operation="$2"
	for how in near far loss; do
		text="$2, rail $1 cut ($how)"
		ok "$text: it was in use" uses "$1"
		rail_cut $how "$1"
		sleep 2.5 # of work under the cut, at most 2 of which may pass in silence
		ok "$text: the other is in use" uses $other
		rail_mend "$1"
		ok "$text: used again once mended" uses "$1"
	done
	ok "$2: the run can be ended" stop cut INT
	is "$2: status, errors, mismatches" "$ENDED $(sum cut errors) $(sum cut mismatches)" '0 0 0'
	near "$2: slices were tried again" "$(sum cut retries)" 1 100000
	pause=$(longest_pause cut)
	near "$2: longest pause, s" "$pause" 0 $((2 * SLOW))
	[ "${pause%.*}" -lt 2 ] || diag "$(cat "$T/cut.err")"
}

ok 'two rails come up' rails_up
ok 'te-target serves' target t --protocol=rdma $B --buffer=cpu:0:8M --pattern
cut_one 0 mixed
if [ -n "$ALL" ]; then
	cut_one 1 mixed
	cut_one 0 write
	stop t
	target t --protocol=rdma $B --buffer=cpu:0:8M --pattern
	cut_one 0 read
fi

# ---- both are cut ----------------------------------------------------------------------------------------------------

export MC_TRANSFER_TIMEOUT=4
run both --operation=mixed
ok 'both rails are in use' eval 'uses 0 && uses 1'
rail_cut near 0
rail_cut loss 1
now_ms
began=$NOW
ok 'both rails cut: the run ends' ended both 20
now_ms
is 'with status 1' "$ENDED" 1
# A block of 1 MiB has 5 s; reading back what was written, which may be its turn, as much again.
near 'in time: ms' $((NOW - began)) 0 $((11000 * SLOW))
ok 'naming the segment and both paths' has both.err "$SEGMENT.*rxa0 to rxb0.*rxa1 to rxb1"
is 'and nothing wrong was read' "$(sum both mismatches)" 0
rail_mend 0
rail_mend 1
ok 'the next run finds both well' bench next --protocol=rdma $A --operation=write --verify --requests=128
is 'without errors' "$(figure next errors)" 0
stop t

# ---- the target is killed, or frozen ----------------------------------------------------------------------------------

mortal() { target k --protocol=rdma --local-server-name=$LOCAL:16321 $B --buffer=cpu:0:2M; }
ok 'te-target serves at a port of its own' mortal
steps rxa0,rxa1
ok 'write' step write "$SEGMENT" 1000000
ok 'and read' step check "$SEGMENT" 1000000
rail_cut far 0
rail_cut loss 1
# Packets of a queue pair that wait for a neighbour keep the kernel from destroying it: nobody else may wait for that.
forget() {
	sleep 4.3
	ip neigh del fd00:1::2 dev a1
	ip neigh del fd00:1::1 dev b1
}
forget &
not_ok 'both rails cut: a write fails' step write "$SEGMENT" 1000000
near 'within its time-out of 4 s, and one for its size: ms' "$MS" 0 $((5500 * SLOW))
ok 'naming both paths' said "$SEGMENT" 'rxa0 to rxb0' 'rxa1 to rxb1'
rail_mend 0
rail_mend 1
ok 'mended: a write' step write "$SEGMENT" 1000000
ok 'and read' step check "$SEGMENT" 1000000
stop k KILL
not_ok 'target killed: the next transfer fails' step write "$SEGMENT" 1000000
ok 'and says whose' said "$SEGMENT"
near 'in time: ms' "$MS" 0 $((6000 * SLOW))
ok 'target restarted' mortal
ok 'the same initiator writes' step write "$SEGMENT" 1000000
ok 'and reads' step check "$SEGMENT" 1000000
stop k KILL
ok 'killed and restarted between two transfers' mortal
ok 'its buffer is looked up' step look "$SEGMENT"
ok 'the same initiator writes' step write "$SEGMENT" 1000000
ok 'and reads' step check "$SEGMENT" 1000000

run killed --operation=write
ok 'a run is under way' uses 0
kill -KILL "$(cat "$T/k.pid")"
ok 'its target is killed: it ends' ended killed 15
is 'with status 1' "$ENDED" 1
ok 'and says whose' has killed.err "$SEGMENT"
ok 'target restarted' mortal
ok 'the initiator from before writes' step look "$SEGMENT"
ok 'after a look' step write "$SEGMENT" 1000000

kill -STOP "$(cat "$T/k.pid")"
ok 'frozen target: its NICs go on without it' step write "$SEGMENT" 1000000
ok 'and reads find it' step check "$SEGMENT" 1000000
now_ms
began=$NOW
not_ok 'who does not know it yet gets an error' bench frozen --protocol=rdma $A --requests=1
now_ms
near 'in time: ms' $((NOW - began)) 0 $((9000 * SLOW))
ok 'that names it' has frozen.err "$SEGMENT"
kill -CONT "$(cat "$T/k.pid")"
ok 'and nothing once it goes on' bench thawed --protocol=rdma $A --requests=10
ok 'the initiator ends' steps_end
ok 'te-target ends' stop k
is 'no queue pair is left' "$(qp_count rxa0 rxa1 rxb0 rxb1)" 0
done_testing
