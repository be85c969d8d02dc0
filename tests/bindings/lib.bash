# lib.bash - what the tests of the bindings share: what is installed, prefix and all, and programs that print TAP.

# Once a file, from setup_file: $ROOT has what `make install` leaves, and pkg-config finds it there.
install_root() {
	export ROOT=$BATS_FILE_TMPDIR/root PREFIX=$BATS_FILE_TMPDIR/root/opt/te
	make -s -C "$BATS_TEST_DIRNAME/../.." install PREFIX=/opt/te DESTDIR="$ROOT" >/dev/null
	export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$ROOT
}

# Flags that a program needs beside a library which was built with sanitizers.
san_flags() {
	case ${O:-build} in
	*-asan) echo -fsanitize=address,undefined ;;
	*-tsan) echo -fsanitize=thread ;;
	esac
}

# The names of the functions that a header of ours declares.
declared() {
	gcc -E -P -x c "$1" | tr '\n' ' ' | grep -oE '\b[a-z][A-Za-z]+ ?\([a-z]' | grep -oE '^[A-Za-z]+' | sort -u
}

# tap PROGRAM ARG...: it exits 0, every line of its TAP is ok, and the plan is kept.
tap() {
	run timeout $((60 * SLOW)) "$@"
	if [ "$status" != 0 ] || grep -qE '^(not ok|Bail)' <<<"$output"; then
		echo "$*: exit $status"
		grep -vE '^ok' <<<"$output"
		return 1
	fi
	[ "$(grep -c '^ok' <<<"$output")" = "$(sed -n 's/^1\.\.//p' <<<"$output")" ]
	grep '^#' <<<"$output" >&3 || true
}

# The four ways to find each other: sets $MC_METADATA_SERVER.
conn() {
	case $1 in
	p2p) export MC_METADATA_SERVER=P2PHANDSHAKE ;;
	*) store "$1" ;;
	esac
}

# peer_target NAME COMMAND...: COMMAND serves as "peer target CONN NAME"; its segment is in $SEGMENT. peer_ends NAME: it has the
# pattern, and ends well.
peer_target() {
	local name=$1 wish=$1
	shift
	[ "$MC_METADATA_SERVER" != P2PHANDSHAKE ] || wish=127.0.0.1
	mkfifo "$T/$name.in"
	# shellcheck disable=SC2016 # the inner shell's
	start "$name" sh -c 'exec "$@" <"$0"' "$T/$name.in" "$@" target "$MC_METADATA_SERVER" "$wish"
	exec 9>"$T/$name.in"
	wait_line '^ready ' "$T/$name.out" || { cat "$T/$name.err"; return 1; }
	SEGMENT=$(awk '/^ready/ { print $2 }' "$T/$name.out")
}
peer_ends() {
	exec 9>&-
	ends "$1" 0
}

# peer_moves COMMAND...: COMMAND as "peer initiator CONN NAME SEGMENT" moves 1 MiB to $SEGMENT and back.
peer_moves() {
	local wish=initiator
	[ "$MC_METADATA_SERVER" != P2PHANDSHAKE ] || wish=127.0.0.1
	run -0 timeout $((60 * SLOW)) "$@" initiator "$MC_METADATA_SERVER" $wish "$SEGMENT"
	assert_line --partial 'moved 1 MiB and back'
}

# peer_and_te_target KIND COMMAND...: through that store to a te-target, whose memory is then the pattern; and COMMAND as a target,
# which te-bench reads.
peer_and_te_target() {
	local kind=$1
	shift
	conn "$kind"
	truncate -s 1M "$T/t.mem"
	target t --file="$T/t.mem"
	peer_moves "$@"
	pattern | cmp - "$T/t.mem"
	peer_target mine "$@"
	run -0 timeout 20 te-bench --segment-id="$SEGMENT" --operation=write --verify --buffer-size=1M --block-size=16K \
		--batch-size=16 --requests=64 --json
	check_json '[.cases[].errors] | add == 0'
	peer_moves "$@"
	peer_ends mine
}

# The 1 MiB that every peer writes.
pattern() { perl -e 'print pack("C*", map { ($_ * 31 + int($_ / 251)) & 255 } 0 .. (1 << 20) - 1)'; }

# bench_sample COMMAND STATUS: the bench of a language, with Mooncake's flags, against a target of its own, which SIGTERM ends with
# STATUS, and against te-target.
bench_sample() {
	local wide=(--protocol=tcp --block-size 16384 --batch_size=8 --threads=2 --buffer_size=1048576)
	conn http
	start own "$1" --mode=target --metadata_server="$MC_METADATA_SERVER" --local_server_name=own "${wide[@]}"
	wait_line 'target own at' "$T/own.out" || { cat "$T/own.err"; return 1; }
	target t --local-server-name=t --buffer-size=1M
	for segment in own t; do
		run -0 timeout 20 "$1" --metadata_server "$MC_METADATA_SERVER" --segment_id=$segment --local_server_name=me \
			--operation=write --duration=1 --report_unit=MiB --noauto_discovery "${wide[@]}"
		assert_line --regexp '^Test completed: duration 1\.[0-9]+, batch count [1-9][0-9]*, throughput [1-9][0-9.]+ MiB/s$'
	done
	# By address, as Mooncake's has it; and by one that is nothing's.
	run -0 timeout 20 "$1" --metadata_server="$MC_METADATA_SERVER" --segment_id=t --local_server_name=me --duration=1 \
		--target_base="$(ready t '.buffers[0].addr')" "${wide[@]}"
	run -1 timeout 20 "$1" --metadata_server="$MC_METADATA_SERVER" --segment_id=t --local_server_name=me --duration=1 \
		--target_base=4096 "${wide[@]}"
	assert_output --partial 'in no buffer of the target'
	kill -TERM "$(pid_of own)"
	ends own "$2"
	run -0 te-meta ls
	refute_output --partial own
}
bench_sample_wrong() {
	for wrong in --no-such-flag=1 --mode=neither --operation=erase --threads=0 --block_size=x word; do
		run -1 --separate-stderr "$1" $wrong
		[ -n "$stderr" ]
	done
	run -1 --separate-stderr "$1" --metadata_server=P2PHANDSHAKE --protocol=tcp --local_server_name=127.0.0.1 --segment_id=127.0.0.1:1 \
		--buffer_size=65536 --block_size=4096 --batch_size=1 --threads=1
	[[ $stderr == *openSegment*127.0.0.1:1* ]]
}
