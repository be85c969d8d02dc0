# shellcheck shell=sh
# tap.sh - results of tests, and bounded waits.

SLOW=1 # how much longer a sanitizer build may take
case $BUILD in *asan | *tsan) SLOW=5 ;; esac
test_number=0
test_failed=0

# plan COUNT: say how many tests there will be. Without it, `done_testing` says how many there were.
plan() { echo "1..$1"; }
# done_testing: the last line of a script without a plan; returns false when a test failed.
done_testing() {
	echo "1..$test_number"
	[ $test_failed = 0 ]
}
# skip_all REASON: nothing of this script can be tested here.
skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}
diag() { printf '%s\n' "$*" | sed 's/^/# /'; }

pass() { test_number=$((test_number + 1)) && echo "ok $test_number - $1"; }
fail() { # fail TEXT [WHY]
	test_number=$((test_number + 1)) test_failed=$((test_failed + 1))
	echo "not ok $test_number - $1"
	[ -z "${2-}" ] || diag "$2"
}
# skip TEXT REASON
skip() { pass "$1 # SKIP $2"; }
# ok TEXT COMMAND...: the command succeeds; what it said is shown when not.
ok() {
	test_text=$1
	shift
	if "$@" >"$T/ok" 2>&1; then pass "$test_text"; else fail "$test_text" "failed: $* $(cat "$T/ok")"; fi
}
# not_ok TEXT COMMAND...: it fails.
not_ok() {
	test_text=$1
	shift
	if "$@" >"$T/ok" 2>&1; then fail "$test_text" "succeeded: $* $(cat "$T/ok")"; else pass "$test_text"; fi
}
is() { # is TEXT GOT EXPECTED
	if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "got '$2', expected '$3'"; fi
}
# near TEXT GOT LOW HIGH: numbers, which may have fractions.
near() {
	if awk -v g="$2" -v l="$3" -v h="$4" 'BEGIN { exit !(g != "" && g + 0 >= l + 0 && g + 0 <= h + 0) }'; then
		pass "$1: $2"
	else
		fail "$1: $2" "expected $3 to $4"
	fi
}

# Milliseconds since boot, in $NOW; without a process.
now_ms() {
	read -r NOW _ </proc/uptime
	NOW=${NOW%.*}${NOW#*.}0
}

# within SECONDS COMMAND...: try it until it succeeds, every 50 ms. False after SECONDS, and says for what.
within() {
	now_ms
	within_end=$((NOW + $1 * SLOW * 1000))
	shift
	until "$@" >/dev/null 2>&1; do
		now_ms
		if [ "$NOW" -gt $within_end ]; then
			echo "timed out waiting for: $*"
			return 1
		fi
		sleep 0.05
	done
}
