# limits.bats - what an idle te-target costs, and how fast it comes and goes.
bats_require_minimum_version 1.5.0
load ../lib/te

setup() {
	te_setup
	[ "$SLOW" = 1 ] || skip "times and sizes of a sanitizer build mean nothing"
}
teardown() { te_teardown; }

median() { sort -n | sed -n "$(((${1:-5} + 1) / 2))p"; }

@test "an idle target uses no CPU" {
	target a
	before=$(cpu_ticks "$PID")
	sleep 2 # the window of the measurement
	used=$(($(cpu_ticks "$PID") - before))
	echo "$used ticks in 2 s"
	[ $used -le 1 ]
}

@test "an idle target uses no CPU after it has served, and while its initiator is connected and idle" {
	target a
	bench --protocol=tcp --segment-id="$SEGMENT"
	exec 7<>"/dev/tcp/127.0.0.1/$(ready a .tcp_data_port)"
	before=$(cpu_ticks "$PID")
	sleep 2
	used=$(($(cpu_ticks "$PID") - before))
	exec 7>&-
	echo "$used ticks in 2 s"
	[ $used -le 1 ]
}

@test "start to ready takes less than 100 ms" {
	local i began
	for i in 1 2 3 4 5; do
		began=${EPOCHREALTIME/./}
		start t$i te-target --ready-file="$T/t$i.json" --buffer-size=16M
		until [ -s "$T/t$i.json" ]; do gone_or_wait "$PID"; done
		echo $(((${EPOCHREALTIME/./} - began) / 1000)) >>"$T/ms"
		stop t$i
	done
	echo "ready after $(paste -sd' ' "$T/ms") ms"
	[ "$(median <"$T/ms")" -lt 100 ]
}
gone_or_wait() { kill -0 "$1"; }

@test "SIGTERM to exit takes less than 200 ms, idle and while it serves" {
	local i began
	for i in 1 2 3 4 5; do
		target t$i
		began=${EPOCHREALTIME/./}
		kill -TERM "$PID"
		wait "$PID"
		echo $(((${EPOCHREALTIME/./} - began) / 1000)) >>"$T/ms"
	done
	echo "idle: gone after $(paste -sd' ' "$T/ms") ms"
	[ "$(median <"$T/ms")" -lt 200 ]
	rm "$T/ms"
	for i in 1 2 3; do
		target s$i
		start bench te-bench --protocol=tcp --segment-id="$SEGMENT" --duration=60
		until_ok 10 connected "$(ready s$i .tcp_data_port)"
		PID=$(pid_of s$i)
		began=${EPOCHREALTIME/./}
		kill -TERM "$PID"
		wait "$PID"
		echo $(((${EPOCHREALTIME/./} - began) / 1000)) >>"$T/ms"
		wait_exit "$(pid_of bench)" 5
	done
	echo "serving: gone after $(paste -sd' ' "$T/ms") ms"
	[ "$(median 3 <"$T/ms")" -lt 200 ]
}

@test "private memory of an idle target is below 6 MB plus its buffers" {
	local kb
	target a
	kb=$(rss_anon_kb "$PID")
	echo "RssAnon $kb kB with untouched buffers"
	[ "$kb" -lt 6000 ]
	bench --protocol=tcp --segment-id="$SEGMENT" --operation=write
	kb=$(rss_anon_kb "$PID")
	echo "RssAnon $kb kB after it has served"
	[ "$kb" -lt $((6000 + 16384)) ]
}
