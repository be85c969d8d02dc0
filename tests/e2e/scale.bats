# scale.bats - many targets, many transfers, many ports, many threads, many buffers.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers

setup() { te_setup; }
teardown() { te_teardown; }

@test "64 targets started at once: all reachable, all ports different" {
	local i list
	for i in $(seq 64); do
		start t"$i" te-target --ready-file="$T/t$i.json" --buffer-size=1M
	done
	for i in $(seq 64); do wait_ready t"$i"; done
	[ "$(jq -s '[.[] | .rpc_port, .tcp_data_port] | unique | length' "$T"/t*.json)" = 128 ]
	list=$(jq -rs '[.[].segment] | join(",")' "$T"/t*.json)
	run -0 --separate-stderr te-bench --json --protocol=tcp --segment-id="$list" --operation=write --verify \
		--buffer-size=16M --block-size=4K --batch-size=4 --requests=1024
	check_json '.cases[0] | .errors == 0 and .segments == 64 and .verify.mismatches == 0'
	check_json '[.cases[0].path[] | select(.bytes > 0)] | length >= 64'
	for i in $(seq 64); do kill -TERM "$(pid_of t"$i")"; done
	for i in $(seq 64); do ends t"$i" 0; done
}

@test "60,000 single transfers with 1,000 ephemeral ports: no error, a flat number of sockets" {
	cat >"$T/inside" <<-'EOF'
		ip link set lo up
		echo 40000 40999 >/proc/sys/net/ipv4/ip_local_port_range
		echo 0 >/proc/sys/net/ipv4/tcp_tw_reuse
		te-target --metadata-server=P2PHANDSHAKE --ready-file="$T/t.json" --buffer-size=1M &
		target=$!
		for i in $(seq 500); do [ -s "$T/t.json" ] && break; sleep 0.02; done
		te-bench --metadata-server=P2PHANDSHAKE --protocol=tcp --segment-id="$(jq -r .segment "$T/t.json")" \
			--batch-size=1 --block-size=512 --requests=60000 --json >"$T/bench.out" 2>"$T/bench.err" &
		bench=$!
		while kill -0 $bench 2>/dev/null; do
			awk '/^TCP:/ { print $3 + $7 }' /proc/net/sockstat >>"$T/sockets"
			sleep 0.05
		done
		wait $bench
		echo $? >"$T/rc"
		kill $target
		wait $target
	EOF
	export T
	timeout $((60 * SLOW)) unshare -n bash "$T/inside"
	cat "$T/bench.err"
	[ "$(cat "$T/rc")" = 0 ]
	check_json '.cases[0] | .errors == 0 and .requests == 60000' "$T/bench.out"
	most=$(sort -n "$T/sockets" | tail -1)
	echo "at most $most sockets, in use and in TIME_WAIT"
	[ "$(wc -l <"$T/sockets")" -ge 3 ]
	[ "$most" -le 24 ]
}

@test "a batch of 20,000 requests" {
	local p
	target a
	for p in tcp shm; do
		run -0 --separate-stderr te-bench --json --protocol=$p --segment-id="$SEGMENT" --operation=write --verify \
			--buffer-size=16M --batch-size=20000 --block-size=512 --requests=40000
		check_json '.cases[0] | .errors == 0 and .requests == 40000 and .batch_size == 20000 and .verify.mismatches == 0'
	done
}

@test "12 threads of 512 requests" {
	local p
	target a
	for p in tcp shm; do
		run -0 --separate-stderr te-bench --json --protocol=$p --segment-id="$SEGMENT" --threads=12 --batch-size=512 \
			--block-size=4K --duration=1
		check_json '.cases[0] | .errors == 0 and .threads == 12 and .requests >= 6144'
	done
}

@test "2 threads, verified, of requests that are cut over several connections" {
	target a --buffer-size=64M
	run -0 --separate-stderr te-bench --json --protocol=tcp --segment-id="$SEGMENT" --operation=write --verify --threads=2 \
		--buffer-size=64M --block-size=8M --batch-size=2 --bytes=256M
	check_json '.cases[0] | .errors == 0 and .bytes == 268435456 and .verify.mismatches == 0'
}

@test "10,000 registered buffers" {
	run -0 timeout $((60 * SLOW)) "$PROGS/buffers" tcp
	run ! grep '^not ok' <<<"$output"
}

@test "a target of 2,000 buffers in a store of each kind of limit" {
	local buffers
	store http
	mapfile -t buffers < <(yes -- --buffer=cpu:0:4K | head -n 2000)
	target many -n many "${buffers[@]}"
	[ "$(te-meta get mooncake/ram/many | jq '.buffers | length')" = 2000 ]
	bench --protocol=tcp --segment-id=many --block-size=4K --operation=write --verify
	stop many
}
