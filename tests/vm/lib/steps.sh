# shellcheck shell=sh
# steps.sh - an initiator that a script leads by the hand: tests/e2e/progs/steps.c has its commands.

# steps DEVICES: start it; one at a time.
steps() {
	trap '' PIPE # that it has died shows in its answer
	[ -p "$T/steps.in" ] || mkfifo "$T/steps.in" "$T/steps.answers"
	"$BUILD/progs/steps" "$1" <"$T/steps.in" >"$T/steps.answers" 2>"$T/steps.err" &
	echo $! >"$T/steps.pid"
	exec 8>"$T/steps.in" 9<"$T/steps.answers"
}
# step COMMAND...: false when it failed. What it said is in $ANSWER, how long it took in $MS.
step() {
	ANSWER=
	echo "$@" >&8
	read -r ANSWER <&9 || {
		wait "$(cat "$T/steps.pid")"
		ANSWER="ended with status $?: $(cat "$T/steps.err")"
	}
	echo "$ANSWER"
	MS=${ANSWER#* } MS=${MS%%[: ]*}
	case $ANSWER in 'ok '*) return 0 ;; esac
	return 1
}
# said WORD...: the last answer has each of them.
said() {
	for said_word; do
		case $ANSWER in *"$said_word"*) ;; *) echo "no '$said_word' in: $ANSWER" && return 1 ;; esac
	done
}
# total evictions|retries|failed: of the last answer, which was ok.
total() {
	said " $1 " >/dev/null || { echo 0 && return; }
	total_rest=${ANSWER#*" $1 "}
	echo "${total_rest%% *}"
}
# steps_end: it has no more to do, and ends well.
steps_end() {
	echo end >&8
	exec 8>&- 9<&-
	ended steps 10 && [ "$ENDED" = 0 ]
}
