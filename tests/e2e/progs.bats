# progs.bats - the library itself, by small C programs over te.h (tests/e2e/progs), each of which prints TAP.
bats_require_minimum_version 1.5.0
load ../lib/te

setup() { te_setup; }
teardown() { te_teardown; }

# prog NAME ARG...: it exits 0, every line of its TAP is ok, and the plan is kept.
prog() {
	run timeout $((60 * SLOW)) "$PROGS/$1" "${@:2}"
	if [ "$status" != 0 ] || grep -qE '^(not ok|Bail)' <<<"$output"; then
		echo "$1 ${*:2}: exit $status"
		grep -vE '^ok' <<<"$output"
		return 1
	fi
	[ "$(grep -c '^ok' <<<"$output")" = "$(sed -n 's/^1\.\.//p' <<<"$output")" ]
}

# file_target NAME SIZE: a te-target that serves the file $T/NAME.mem.
file_target() {
	truncate -s "$2" "$T/$1.mem"
	target "$1" --file="$T/$1.mem"
}

@test "a batch that is submitted and never polled completes, over tcp" {
	file_target a 8M
	prog unpolled "$SEGMENT" "$T/a.mem" tcp
}
@test "a batch that is submitted and never polled completes, over shm" {
	file_target a 8M
	prog unpolled "$SEGMENT" "$T/a.mem" shm
}

three() {
	for i in a b c; do file_target $i 1M; done
	prog mixed "$(ready a .segment)" "$T/a.mem" "$(ready b .segment)" "$T/b.mem" "$(ready c .segment)" "$T/c.mem" "$1"
}
@test "one batch to three segments, READ and WRITE mixed, and bad requests, over tcp" { three tcp; }
@test "one batch to three segments, READ and WRITE mixed, and bad requests, over shm" { three shm; }

@test "a stopped target: cancel, time-out and drain" {
	file_target a 64M
	prog stalled "$SEGMENT" "$T/a.mem" "$PID"
}

@test "four engines in one process" { prog engines; }
@test "notifications follow completion, and their queue is bounded" { prog notify; }
@test "stale and invented ids are refused" { prog ids; }
@test "unregister during transfers over tcp" { prog unregister tcp; }
@test "unregister during transfers over shm" { prog unregister shm; }
@test "unregistered, local-only, wrapping and 1 TiB ranges cannot be reached" { prog localonly; }

@test "a file system that freezes: TIMEOUT, busy memory, and a close that ends" {
	[ "$(id -u)" = 0 ] || skip "only root may mount and freeze"
	mkdir "$T/fs"
	truncate -s 32M "$T/image"
	mkfs.ext4 -q "$T/image" || skip "no mkfs.ext4"
	unshare -m mount -o loop "$T/image" "$T/fs" || skip "no loop device here"
	start meta te-http-meta --listen=127.0.0.1:0 --ready-file="$T/meta.json"
	wait_file "$T/meta.json"
	export MC_METADATA_SERVER
	MC_METADATA_SERVER=$(jq -r .url "$T/meta.json")
	file_target ram 1M
	cat >"$T/frozen" <<-'EOF'
		#!/bin/sh -e
		mount -o loop "$2/image" "$2/fs"
		head -c 65536 /dev/zero >"$2/fs/f"
		te-register nvmeof held "$2/fs/f" >&2
		head -c 65536 /dev/zero >"$2/other"
		te-register nvmeof other "$2/other" >&2
		exec "$1/held" "$MC_METADATA_SERVER" held "$2/fs" "$3" "$2/ram.mem" other
	EOF
	chmod +x "$T/frozen"
	set -- "$T/frozen" "$PROGS" "$T" "$SEGMENT"
	PROGS=/usr/bin
	prog unshare -m "$@"
}
