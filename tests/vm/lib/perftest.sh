# shellcheck shell=sh
# perftest.sh - ib_write_bw and ib_read_bw over a rail, as the measure of what it can carry.

listening() { grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; } # port 18515: perftest's and ibv_rc_pingpong's
not_listening() { ! listening; }
# serve COMMAND...: the server of such a pair; returns when a client can come. It ends with its client.
serve() {
	within 20 not_listening || return
	start server "$@" && within 20 listening
}

# perftest_rate RAIL write|read BYTES DEPTH TIMES: MB/s, from end a to end b, by their IPv4 GIDs. On a busy host it may
# not find out how long a cycle is, and says 0.00 then: once more, three times at most.
perftest_rate() {
	for _ in 1 2 3; do
		perftest_once "$@" >"$T/rate" && read -r rate <"$T/rate" && [ "$rate" != 0.00 ] && echo "$rate" && return
	done
	return 1
}
perftest_once() {
	serve ib_"$2"_bw -F -N -d rxb"$1" -x "$(gid_index rxb"$1" v4)" -s "$3" -t "$4" -n "$5" >&2 || return
	timeout 60 ib_"$2"_bw -F -N -d rxa"$1" -x "$(gid_index rxa"$1" v4)" -s "$3" -t "$4" -n "$5" "$LOCAL" >"$T/perftest" 2>&1 ||
		cat "$T/perftest" >&2
	ended server 20 >&2
	awk -v size="$3" '$1 == size { printf "%.2f\n", $4 * 1.048576 }' "$T/perftest" # it counts MiB
}
