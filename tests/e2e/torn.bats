# torn.bats - COMPLETED of a WRITE means: applied in the target's memory, seen by any other process.
bats_require_minimum_version 1.5.0
load ../lib/te

setup() { te_setup; }
teardown() { te_teardown; }

# torn ROUNDS [TRANSPORT]: WRITEs of 2.4 MB into a target that is stopped two thirds of the time.
torn() {
	truncate -s 4M "$T/mem"
	target a --file="$T/mem"
	run -0 timeout $((120 * SLOW)) "$PROGS/torn" "$SEGMENT" "$T/mem" "$PID" "$1" 2400000 ${2:+"$2"}
	run ! grep -E '^(not ok|#|Bail)' <<<"$output"
}

@test "400 rounds over tcp, hashed by another process, with a slowed reader: none is torn" { torn 400 tcp; }
@test "40 rounds over tcp to a peer that acknowledges nothing (v1): none is torn" { MC_TCP_PROTO=1 torn 40 tcp; }
@test "400 rounds over shm: none is torn" { torn 400 shm; }
