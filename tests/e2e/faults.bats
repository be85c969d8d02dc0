# faults.bats - peers and stores that die, freeze, lie or never answer: errors in time, and nobody else is harmed.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers

setup() { te_setup; }
teardown() { te_teardown; }

# under_way NAME: the bench that was started has a connection to the data port of target NAME.
under_way() { until_ok 10 connected "$(ready "$1" .tcp_data_port)"; }
# written FILE: the memory behind a target, all zeros at first, is so no more.
written() { ! cmp -s -n 65536 "$1" /dev/zero; }
# served NAME: bytes that target NAME has served, by its metrics.
served() { curl -sf "http://127.0.0.1:$(cat "$T/$1.metrics")/metrics" | awk '/^[a-z_]*served_bytes/ { print $NF; exit }'; }

served_more() { [ "$(served "$1")" -gt "$2" ]; }

# dies NAME SIGNAL SECONDS: the running bench ends with 1 within SECONDS after its target NAME got the signal, and
# has named it on stderr.
dies() {
	local name=$1 began took
	began=$(now_ms)
	kill "-$2" "$(pid_of "$name")"
	ends bench 1 $(($3 + 2))
	took=$(($(now_ms) - began))
	echo "bench ended after $took ms: $(cat "$T/bench.err")"
	[ "$took" -lt $(($3 * 1000 * SLOW)) ]
	grep -qF "$(ready "$name" .segment)" "$T/bench.err"
}

@test "a target killed in the middle of a run over tcp is an error within 2 s that names it" {
	target a --protocol=tcp
	start bench te-bench --protocol=tcp --segment-id="$SEGMENT" --operation=write --duration=60 --json
	under_way a
	dies a KILL 2
	check_json '.te_bench == 1 and .cases[0].errors > 0' "$T/bench.out"
}

@test "a target killed in the middle of a run over shm is an error within 2 s that names it" {
	truncate -s 16M "$T/mem"
	target a --file="$T/mem"
	start bench te-bench --protocol=shm --segment-id="$SEGMENT" --operation=write --verify --duration=60
	until_ok 10 written "$T/mem"
	dies a KILL 2
}

@test "a target stopped with SIGSTOP is an error within MC_TRANSFER_TIMEOUT" {
	target a
	MC_TRANSFER_TIMEOUT=3 start bench te-bench --protocol=tcp --segment-id="$SEGMENT" --duration=60
	under_way a
	dies a STOP 5
}

@test "SIGSTOP inside a large payload is an error in time too" {
	target a --buffer-size=256M
	MC_TRANSFER_TIMEOUT=3 start bench te-bench --protocol=tcp --segment-id="$SEGMENT" --operation=write \
		--buffer-size=256M --block-size=256M --batch-size=1 --duration=60
	under_way a
	dies a STOP 5
}

@test "a frozen target takes no throughput from a healthy one of the same run" {
	local b before after i port
	for i in a b; do
		port=$(free_port)
		echo "$port" >"$T/$i.metrics"
		target $i --metrics="127.0.0.1:$port"
	done
	MC_TRANSFER_TIMEOUT=3 start bench te-bench --protocol=tcp --duration=60 --json \
		--segment-id="$(ready a .segment),$(ready b .segment)"
	under_way a
	under_way b
	# The rate of b for a second with both alive, then for two with a frozen, of which the better one counts: others
	# use this machine too. The windows are the measurement.
	b=$(served b)
	sleep 1
	before=$(($(served b) - b))
	kill -STOP "$(pid_of a)"
	after=0
	for i in 1 2; do
		b=$(served b)
		sleep 1
		b=$(($(served b) - b))
		[ "$b" -le "$after" ] || after=$b
	done
	echo "b served $before bytes/s, then $after"
	[ "$before" -gt 0 ]
	[ $((after * 10)) -ge $((before * 8)) ]
	# One line names the frozen one in time, and the run goes on with the other.
	wait_line "$(ready a .segment)" "$T/bench.err" 3
	b=$(served b)
	run ! gone "$(pid_of bench)"
	until_ok 5 served_more b "$b"
	kill -INT "$(pid_of bench)"
	wait_exit "$(pid_of bench)" 5
	[ "$(grep -cF "$(ready a .segment)" "$T/bench.err")" = 1 ]
	check_json '.interrupted == true and .cases[0].errors > 0' "$T/bench.out"
}

@test "a segment at a black-holed address is an error in time" {
	local began port
	start deaf "$BATS_TEST_DIRNAME/../lib/deaf.py" blackhole
	wait_file "$T/deaf.out"
	port=$(cat "$T/deaf.out")
	began=$(now_ms)
	MC_TRANSFER_TIMEOUT=3 run -1 --separate-stderr te-bench --segment-id="127.0.0.1:$port" --duration=5
	[ $(($(now_ms) - began)) -lt $((5000 * SLOW)) ]
	[[ $stderr == *"127.0.0.1:$port"* ]]
}

@test "a black-holed host, in a network of its own, delays no healthy target of the run" {
	cat >"$T/inside" <<-'EOF'
		ip link set lo up
		# What goes to this address comes back on lo, where nobody is it: dropped without a word.
		ip route add 10.99.0.2/32 dev lo
		te-target --metadata-server=P2PHANDSHAKE --ready-file="$T/t.json" --buffer-size=16M &
		target=$!
		for i in $(seq 500); do [ -s "$T/t.json" ] && break; sleep 0.02; done
		MC_TRANSFER_TIMEOUT=3 te-bench --metadata-server=P2PHANDSHAKE --protocol=tcp --json --duration=6 \
			--segment-id="10.99.0.2:15999,$(jq -r .segment "$T/t.json")" >"$T/bench.out" 2>"$T/bench.err"
		echo $? >"$T/rc"
		kill $target
		wait $target
	EOF
	export T
	began=$(now_ms)
	run -0 timeout 30 unshare -n bash "$T/inside"
	echo "$(cat "$T/bench.err") $(cat "$T/bench.out")"
	# 3 s until the host is given up, 6 s of work and its warm-up.
	[ $(($(now_ms) - began)) -lt $((15000 * SLOW)) ]
	[ "$(cat "$T/rc")" = 1 ]
	grep -q 10.99.0.2:15999 "$T/bench.err"
	check_json '.cases[0].requests > 1000' "$T/bench.out"
}

@test "a data port that is black-holed is an error in time, and names address and segment" {
	start deaf "$BATS_TEST_DIRNAME/../lib/deaf.py" blackhole
	wait_file "$T/deaf.out"
	store http
	target a --protocol=tcp -n frozen
	# The store says another port from now on.
	te-meta get mooncake/ram/frozen | jq -c ".tcp_data_port = $(cat "$T/deaf.out") | del(.te)" | te-meta put mooncake/ram/frozen -
	began=$(now_ms)
	MC_TRANSFER_TIMEOUT=3 run -1 --separate-stderr te-bench --protocol=tcp --segment-id=frozen --duration=5
	[ $(($(now_ms) - began)) -lt $((5000 * SLOW)) ]
	[[ $stderr == *frozen* && $stderr == *"127.0.0.1:$(cat "$T/deaf.out")"* ]]
}

# used_by COMMAND: in args, words that make it need its store.
used_by() {
	case $1 in
	te-target) args=(--buffer-size=1M) ;;
	te-bench) args=(--segment-id=x --duration=1) ;;
	te-meta) args=(get mooncake/ram/x) ;;
	esac
}

# timed NAME COMMAND...: the command; its milliseconds go to $T/NAME.ms.
timed() {
	local name=$1 began rc=0
	shift
	began=$(now_ms)
	timeout 30 "$@" || rc=$?
	echo $(($(now_ms) - began)) >"$T/$name.ms"
	return $rc
}

@test "a store that accepts and never answers is an error in time, for every command and kind" {
	local kind c port
	start deaf "$BATS_TEST_DIRNAME/../lib/deaf.py" accepts
	wait_file "$T/deaf.out"
	port=$(cat "$T/deaf.out")
	export MC_TRANSFER_TIMEOUT=3
	for kind in http redis etcd; do
		for c in te-target te-bench te-meta; do
			used_by $c
			start $kind-$c timed $kind-$c $c "${args[@]}" --metadata-server="$kind://127.0.0.1:$port"
		done
	done
	for kind in http redis etcd; do
		for c in te-target te-bench te-meta; do
			ends $kind-$c 1 35
			echo "$c, $kind: $(cat "$T/$kind-$c.ms") ms: $(cat "$T/$kind-$c.err")"
			[ "$(cat "$T/$kind-$c.ms")" -lt $((5000 * SLOW)) ]
			grep -qF "127.0.0.1:$port" "$T/$kind-$c.err"
		done
	done
}

@test "a store that refuses connections is an error at once" {
	local uri port
	port=$(free_port)
	for uri in "http://127.0.0.1:$port/metadata" "redis://127.0.0.1:$port" "etcd://127.0.0.1:$port"; do
		for c in te-target te-bench te-meta; do
			used_by $c
			run -1 --separate-stderr timeout 5 $c "${args[@]}" --metadata-server="$uri"
			[[ $stderr == *"127.0.0.1:$port"* ]]
		done
	done
}

@test "the store of a running transfer may die" {
	store http
	target a -n survivor
	start bench te-bench --protocol=tcp --segment-id=survivor --duration=2 --json
	under_way a
	store_stop
	ends bench 0
	check_json '.cases[0].errors == 0' "$T/bench.out"
}

@test "an initiator that is killed leaves the target to the next one" {
	local p
	for p in tcp shm; do
		rm -f "$T/mem"
		truncate -s 16M "$T/mem"
		target $p --file="$T/mem"
		start bench te-bench --protocol=$p --segment-id="$SEGMENT" --operation=write --verify --duration=60 --threads=2
		until_ok 10 written "$T/mem"
		murder bench
		bench --protocol=$p --segment-id="$SEGMENT" --operation=write --verify
		stop $p
	done
}

hostile() {
	target a --protocol=tcp --buffer-size=1M
	run "$BATS_TEST_DIRNAME/../lib/hostile.py" "$1" "$T/a.json" "$PID"
	if [ "$status" != 0 ]; then
		grep -A1 -E '^(not ok|Traceback)|Error' <<<"$output"
		cat "$T/a.err"
		return 1
	fi
	stop a
}
@test "malformed handshake frames are closed, and harm nobody" { hostile rpc; }
@test "bad ranges and headers on the data port are refused, and harm nobody" { hostile data; }
@test "200 idle connections that promise much delay no probe and cost no memory" { hostile idle; }
@test "clients that send a byte every three seconds delay nobody" { hostile drip; }
@test "malformed frames leave memory and descriptors flat" { hostile memory; }

@test "out of descriptors, the target does not spin, and recovers" {
	target a --buffer-size=1M
	prlimit --pid "$PID" --nofile=40:40
	cat >"$T/flood.py" <<-'EOF'
		import socket, sys, time
		held = [socket.create_connection(("127.0.0.1", int(p)), 2) for p in sys.argv[1:3] for _ in range(40)]
		print("there", flush=True)
		sys.stdin.read()
	EOF
	mkfifo "$T/hold"
	/usr/bin/python3 "$T/flood.py" "$(ready a .rpc_port)" "$(ready a .tcp_data_port)" <"$T/hold" >"$T/flood.out" 3>&- &
	echo $! >>"$T/pids"
	exec 7>"$T/hold"
	wait_line there "$T/flood.out"
	before=$(cpu_ticks "$PID")
	sleep 1
	used=$(($(cpu_ticks "$PID") - before))
	echo "$used ticks of CPU in a second, $(wc -l <"$T/a.err") lines of log"
	[ $used -le 20 ]
	[ "$(wc -l <"$T/a.err")" -le 20 ]
	exec 7>&-
	bench --protocol=tcp --segment-id="$SEGMENT"
}
