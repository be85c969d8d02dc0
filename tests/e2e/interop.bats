#!/usr/bin/env bats
# What a Mooncake engine that knows nothing of te sees of us, and we of it: tests/lib/peer.py plays it.
bats_require_minimum_version 1.5.0
load ../lib/te
setup() { te_setup; }
teardown() { te_teardown; }

# serve STYLE [OPTION...]: a foreign segment; its name goes to $SEGMENT.
serve() {
	start peer /usr/bin/python3 "$TOP/tests/lib/peer.py" serve "$1" "$T/peer.ready" "$T/peer.stats" "${@:2}"
	wait_file "$T/peer.ready"
	SEGMENT=$(<"$T/peer.ready")
}

# stats: stop the peer, which then tells what it has seen; stat NAME: one of it.
stats() {
	kill -TERM "$(pid_of peer)"
	wait_file "$T/peer.stats"
}
stat() { /usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$T/peer.stats" "$1"; }

# verified OPTION...: verified WRITEs and READs over tcp.
verified() {
	run --separate-stderr te-bench -m P2PHANDSHAKE --protocol=tcp --segment-id="$SEGMENT" --operation=write \
		--verify --json "$@"
	assert_success
	[ "$(jq '[.cases[].errors] | add' <<<"$output")" = 0 ]
	[ "$(jq '[.cases[].verify.mismatches] | add' <<<"$output")" = 0 ]
}

@test "v2 peer: verified, pipelined over few connections, clean pads" {
	local size
	for size in 17 4K 65537; do
		rm -f "$T"/peer.*
		serve v2
		verified --block-size=$size --batch-size=16 --requests=200
		stats
		[ "$(stat v1)" = 0 ]
		[ "$(stat pads)" = 0 ]
		[ "$(stat most_open)" -le 4 ]
		[ "$(stat most_requests)" -ge 100 ]
	done
}

@test "v2 peer: a request above 1 MiB is spread, over no more than 4 connections" {
	serve v2 --length=$((16 << 20))
	run -0 --separate-stderr te-bench -m P2PHANDSHAKE --protocol=tcp --segment-id="$SEGMENT" --block-size=8M \
		--batch-size=1 --requests=4
	stats
	[ "$(stat most_open)" -gt 1 ]
	[ "$(stat most_open)" -le 4 ]
}

@test "v2 peer under MC_TCP_PROTO=1: version 1 on the wire" {
	serve v2
	MC_TCP_PROTO=1 verified --block-size=4K --batch-size=16 --requests=100
	stats
	[ "$(stat v2)" = 0 ]
}

@test "v1 peers, said and unsaid: verified, connections are kept" {
	local style
	for style in v1 v1-absent; do
		rm -f "$T"/peer.*
		serve "$style"
		verified --block-size=17,65537 --batch-size=16 --requests=100
		stats
		[ "$(stat v2)" = 0 ]
		[ "$(stat pads)" = 0 ]
		[ "$(stat connections)" -le 16 ] # 2 sizes, and as many again to verify
	done
}

@test "old peer, one request a connection: verified, never more than 4 connections, none cut" {
	serve old
	verified --block-size=17,65537,2M --batch-size=8 --requests=40
	stats
	[ "$(stat most_requests)" = 1 ]
	[ "$(stat most_open)" -le 5 ] # one may still be closing
	[ "$(stat v2)" = 0 ]
}

@test "a peer that has the range no more: the task fails and says so" {
	serve v2 --deny
	run --separate-stderr te-bench -m P2PHANDSHAKE --protocol=tcp --segment-id="$SEGMENT" --block-size=4K --requests=10
	assert_failure 1
	[[ $stderr == *"not registered"* ]]
}

@test "an old peer that closes without an answer: an error in time that names it" {
	serve old --deny
	run --separate-stderr timeout 20 te-bench -m P2PHANDSHAKE --protocol=tcp --segment-id="$SEGMENT" \
		--operation=write --block-size=4K --requests=10
	assert_failure 1
	[[ $stderr == *"$SEGMENT"* ]]
}

@test "real initiator against te-target: handshakes, v1, v2, pool on and off, refusals, pipelining" {
	target foreign -m P2PHANDSHAKE -n 127.0.0.1 --protocol=tcp --buffer-size=4M
	run /usr/bin/python3 "$TOP/tests/lib/peer.py" initiate "$T/foreign.json"
	echo "$output"
	assert_success
	refute_line --regexp '^not ok'
}
