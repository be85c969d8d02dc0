# shellcheck shell=sh
# te.sh - targets and benches in the guest. Targets serve end b of the rails, benches are at end a.

# Handshakes go over loopback, where no rail is cut.
LOCAL=127.0.0.1
unset MC_METADATA_SERVER MC_FORCE_TCP MC_GID_INDEX

# json FILE MEMBER: its values, one a line, wherever the member is.
json() { grep -oE "\"$2\": *(\"[^\"]*\"|[^],}]*)" "$1" | sed 's/^"[^"]*": *//; s/^"\(.*\)"$/\1/'; }

# start NAME COMMAND...: in the background; $T/NAME.out, $T/NAME.err, $T/NAME.pid. Ends with the script at the latest.
start() {
	start_name=$1
	shift
	"$@" >"$T/$start_name.out" 2>"$T/$start_name.err" </dev/null &
	echo $! >"$T/$start_name.pid"
}
is_gone() { ! kill -0 "$(cat "$T/$1.pid")" 2>/dev/null; }
# stop NAME [SIGNAL [SECONDS]]: it ends within SECONDS (10); with status 0 after SIGTERM (the default).
stop() {
	kill -"${2:-TERM}" "$(cat "$T/$1.pid")" 2>/dev/null || true # it may have ended; with what status?
	ended "$1" "${3:-10}" || return
	[ "${2:-TERM}" != TERM ] || [ "$ENDED" = 0 ] || { echo "$1 ended with $ENDED: $(cat "$T/$1.err")" && return 1; }
}
# ended NAME SECONDS: it ends by itself; its status is in $ENDED.
ended() {
	within "$2" is_gone "$1" || { kill -KILL "$(cat "$T/$1.pid")" && return 1; }
	wait "$(cat "$T/$1.pid")"
	ENDED=$?
}

# target NAME [OPTION...]: a te-target that can be reached once this returns; its name is in $SEGMENT.
target() {
	target_name=$1
	shift
	rm -f "$T/$target_name.json"
	start "$target_name" te-target --local-server-name=$LOCAL --ready-file="$T/$target_name.json" "$@"
	within 30 is_ready_or_gone "$target_name"
	[ -s "$T/$target_name.json" ] || { echo "te-target did not start: $(cat "$T/$target_name.err")" && return 1; }
	SEGMENT=$(json "$T/$target_name.json" segment | head -n 1)
}
is_ready_or_gone() { [ -s "$T/$1.json" ] || is_gone "$1"; }

# bench NAME [OPTION...]: run te-bench against $SEGMENT until it ends; its document is $T/NAME.json. False as te-bench is.
bench() {
	bench_name=$1
	shift
	te-bench --json --segment-id="$SEGMENT" "$@" >"$T/$bench_name.json" 2>"$T/$bench_name.err" || {
		cat "$T/$bench_name.err"
		return 1
	}
}
# figure NAME MEMBER: the first such member of that run's result (bytes, errors, mismatches, bytes_per_second, transport).
figure() { json "$T/$1.json" "$2" | head -n 1; }
