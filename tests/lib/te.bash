# te.bash - what the end-to-end tests share: processes that never outlive their test, bounded waits, targets, JSON.
#
# In a .bats file:
#	load ../lib/te
#	setup() { te_setup; }
#	teardown() { te_teardown; }
# Files of a test lie in $T. Everything started by `start` or `target` is killed and reaped by te_teardown.
# The commands are found by PATH; $O names the build directory (build, build-asan, build-tsan).

bats_load_library bats-support
bats_load_library bats-assert

te_setup() {
	local v
	for v in $(compgen -e MC_) NO_COLOR; do unset "$v"; done
	T=${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}
	O=${O:-build}
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	PROGS=$TOP/$O/progs
	SLOW=1 # how much longer a sanitizer build may take
	case $O in *asan | *tsan) SLOW=5 ;; esac
	export MC_TCP_BIND_ADDRESS=127.0.0.1
	: >>"$T/pids"
}

# And $F, a directory for files of segments, by the path that te gives it.
te_setup_files() {
	te_setup
	F=$(realpath "$T")/srv
	mkdir "$F"
}

te_teardown() {
	local pid
	while read -r pid; do
		kill -CONT "$pid" 2>/dev/null
		kill -KILL "$pid" 2>/dev/null
	done <"$T/pids"
	while read -r pid; do
		wait "$pid" 2>/dev/null
		gone "$pid" || until_ok 2 gone "$pid"
	done <"$T/pids"
	rm -f "$T/pids"
	return 0
}

# gone PID: it has ended (or is a zombie that its parent has not fetched).
gone() {
	local state
	state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) || return 0
	[ -z "$state" ] || [ "$state" = Z ] || [ "$state" = X ]
}

# until_ok SECONDS COMMAND...: try COMMAND every 20 ms until it succeeds. Fails after SECONDS and says for what.
until_ok() {
	local end=$((${EPOCHREALTIME/./} + $1 * SLOW * 1000000))
	shift
	until "$@" >/dev/null 2>&1; do
		if ((${EPOCHREALTIME/./} > end)); then
			echo "timed out waiting for: $*" >&2
			return 1
		fi
		sleep 0.02
	done
}
wait_file() { until_ok "${2:-10}" test -s "$1"; }                # wait_file FILE [SECONDS]
wait_line() { until_ok "${3:-10}" grep -qE -- "$1" "$2"; }       # wait_line REGEX FILE [SECONDS]
wait_exit() { until_ok "${2:-10}" gone "$1"; }                   # wait_exit PID [SECONDS]
wait_listen() { until_ok "${2:-10}" port_open "$1"; }            # wait_listen PORT [SECONDS]
port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# ends NAME STATUS [SECONDS]: what was started as NAME ends with that exit status.
ends() {
	local pid rc=0
	pid=$(pid_of "$1")
	wait_exit "$pid" "${3:-10}" || return 1
	wait "$pid" || rc=$?
	[ "$rc" = "$2" ] || { echo "$1 ended with $rc, not $2: $(cat "$T/$1.err")"; return 1; }
}

now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

# A port below the ephemeral range that nobody listens on.
free_port() {
	local p
	while :; do
		p=$((20000 + RANDOM % 12000))
		port_open $p || break
	done
	echo $p
}

# start NAME COMMAND...: run it in the background; $T/NAME.out, $T/NAME.err; its pid in $PID and $T/NAME.pid.
start() {
	local name=$1
	shift
	"$@" >"$T/$name.out" 2>"$T/$name.err" 3>&- 4>&- </dev/null &
	PID=$!
	echo $PID >>"$T/pids"
	echo $PID >"$T/$name.pid"
}
pid_of() { cat "$T/$1.pid"; }

# target NAME [OPTION...]: a te-target under the ready file $T/NAME.json; returns once it can be reached.
# $PID, and $SEGMENT: the name it is published under. 16 MiB unless an option says otherwise.
target() {
	local name=$1 size=--buffer-size=16M o
	shift
	for o; do case $o in --buffer* | --file*) size= ;; esac; done
	rm -f "$T/$name.json"
	start "$name" te-target --ready-file="$T/$name.json" ${size:+"$size"} "$@"
	wait_ready "$name"
}
# wait_ready NAME: the second half of target, for those started together.
wait_ready() {
	until_ok 15 ready_or_gone "$1" || { cat "$T/$1.err"; return 1; }
	[ -s "$T/$1.json" ] || { echo "te-target $1 ended:"; cat "$T/$1.err"; return 1; }
	PID=$(pid_of "$1")
	SEGMENT=$(ready "$1" .segment)
}
ready_or_gone() { [ -s "$T/$1.json" ] || gone "$(pid_of "$1")"; }
# ready NAME FILTER: a member of its ready file.
ready() { jq -r "$2" "$T/$1.json"; }

# stop NAME: SIGTERM, and the exit status must be 0 within 5 s.
stop() {
	kill -TERM "$(pid_of "$1")"
	ends "$1" 0 5
}
# murder NAME: SIGKILL, reaped.
murder() {
	local pid
	pid=$(pid_of "$1")
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
}

# refused STATUS WORD COMMAND...: ends with STATUS and says nothing but one line with the word (a pattern).
refused() {
	run "-$1" --separate-stderr "${@:3}"
	[ -z "$output" ] && [ "$(wc -l <<<"$stderr")" = 1 ] && [[ $stderr == te-*:*$2* ]] ||
		{ echo "${*:3}: $output $stderr"; return 1; }
}
usage() { refused 2 "$@"; }
fails() { refused 1 "$@"; }

# at_once N FUNCTION: FUNCTION 1 to FUNCTION N at the same moment, and all succeed.
at_once() {
	local i bad=0 pids=()
	for ((i = 1; i <= $1; i++)); do
		"$2" "$i" >/dev/null 2>"$T/at_once.$i" 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || bad=1; done
	[ "$bad" = 0 ] || { cat "$T"/at_once.*; return 1; }
}

# as_nobody COMMAND...: as a user who is not root, behind let_nobody_in. The build may lie where only root can go: a copy.
as_nobody() {
	[ "$(id -u)" = 0 ] || { "$@"; return; }
	mkdir -p "$T/nobody"
	cp "$(command -v "$1")" "$T/nobody/"
	chmod -R a+rX "$T/nobody"
	set -- "$T/nobody/$1" "${@:2}"
	(cd / && setpriv --reuid=65534 --regid=65534 --clear-groups "$@")
}
let_nobody_in() { chmod 755 "$BATS_RUN_TMPDIR" "$T"; }

# check_json FILTER [FILE]: the filter is true of the document (default: $output of `run`).
check_json() {
	if [ $# -gt 1 ]; then set -- "$1" "$(cat "$2")"; else set -- "$1" "$output"; fi
	jq -e "$1" <<<"$2" >/dev/null || { printf 'not true: %s\nof: %s\n' "$1" "$2"; return 1; }
}

# bench OPTION...: a short verified run that must succeed; its JSON is in $output.
bench() {
	run -0 --separate-stderr te-bench --json --buffer-size=4M --block-size=16K --batch-size=16 --requests=256 "$@"
	check_json '.te_bench == 1 and ([.cases[].errors] | add) == 0'
}

# connected PORT: somebody has an established connection to it.
connected() { ss -Htn state established "dport = :$1" | grep -q .; }
rss_anon_kb() { awk '/^RssAnon/ { print $2 }' "/proc/$1/status"; }
cpu_ticks() { sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'; }
