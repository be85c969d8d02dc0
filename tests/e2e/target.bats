#!/usr/bin/env bats
# te-target: what it says, how it starts, serves and ends.
bats_require_minimum_version 1.5.0
load ../lib/te

setup() { te_setup; }
teardown() { te_teardown; }

# A store of our own: its URL in $STORE.
store() {
	start store te-http-meta --listen=127.0.0.1:0 --ready-file="$T/store.json"
	wait_file "$T/store.json"
	STORE=$(grep -oE 'http://[^"]*/metadata' "$T/store.json" | head -n 1)
}
fails_with() { # STATUS REGEX COMMAND...: one line on standard error, nothing else
	local status=$1 regex=$2
	shift 2
	run "-$status" --separate-stderr timeout 10 "$@"
	assert_equal "$output" ''
	assert_regex "$stderr" "$regex"
	[ "$(wc -l <<<"$stderr")" = 1 ] || { echo "more than one line: $stderr"; return 1; }
}

@test "text: name, addresses, ports, buffers and the command to run" {
	target t --buffer-size=16M
	run -0 cat "$T/t.out"
	assert_line --regexp "^segment +$SEGMENT\$"
	assert_line --regexp '^metadata +P2PHANDSHAKE$'
	assert_line --regexp "^address +127\.0\.0\.1, rpc port $(ready t .rpc_port), tcp data port $(ready t .tcp_data_port)\$"
	assert_line --regexp '^buffers +cpu:0 +0x[0-9a-f]+ +16\.8 MB$'
	assert_line "  te-bench --metadata-server=P2PHANDSHAKE --segment-id=$SEGMENT"
	assert_equal "$(cat "$T/t.err")" ''
}

@test "the command it prints works as it stands" {
	target t --buffer-size=16M --pattern=5
	cmd=$(grep '^  te-bench ' "$T/t.out")
	run -0 bash -c "$cmd --bytes=1M"
	assert_output --partial 'Test completed'
}

@test "--json: one document with the keys that scripts rely on" {
	start t te-target --json --buffer-size=16M --buffer=cpu:0:1M
	wait_line buffers "$T/t.out"
	check_json 'keys == ["buffers","metadata_server","nics","protocol","rpc_port","segment","tcp_data_port"]' "$T/t.out"
	check_json '.protocol == "tcp" and .nics == [] and .segment == "127.0.0.1:\(.rpc_port)" and .tcp_data_port > 0' "$T/t.out"
	check_json '[.buffers[].length] | sort == [1048576, 16777216]' "$T/t.out"
	check_json 'all(.buffers[]; .addr > 0 and .location == "cpu:0" and (keys == ["addr","length","location"]))' "$T/t.out"
	assert_equal "$(wc -l <"$T/t.out")" 1
	stop t
}

@test "the ready file is the same document; an old one goes first, ours at the end" {
	echo stale >"$T/t.json"
	start t te-target --json --buffer-size=1M --ready-file="$T/t.json"
	until_ok 5 jq -e .segment "$T/t.json"
	cmp "$T/t.json" "$T/t.out"
	stop t
	[ ! -e "$T/t.json" ]
	[ -z "$(find "$T" -name '*.tmp')" ]
}

@test "SIGTERM, SIGINT and SIGHUP: entries removed, exit 0" {
	store
	for sig in TERM INT HUP; do
		target t -m "$STORE" -n "t-$sig"
		run -0 te-meta -m "$STORE" ls
		assert_output --partial "mooncake/ram/t-$sig"
		kill "-$sig" "$(pid_of t)"
		ends t 0
		run -0 te-meta -m "$STORE" ls
		assert_output ''
	done
}

@test "--max-duration and --idle-timeout end it with 0" {
	run -0 timeout 10 te-target --buffer-size=1M --max-duration=200ms
	run -0 timeout 10 te-target --buffer-size=1M --idle-timeout=0.2
	target t --idle-timeout=1
	before=$(now_ms)
	MC_FORCE_TCP=1 run -0 te-bench --segment-id="$SEGMENT" --duration=1.5 --buffer-size=4M --block-size=4K
	kill -0 "$(pid_of t)"
	ends t 0 5
	[ $(($(now_ms) - before)) -ge 2400 ] # 1.5 s of work, and 1 s without
}

@test "a name in use: exit 1 and its owner named; the first stays" {
	store
	target a -m "$STORE" -n same
	fails_with 1 "^te-target: .*name in use by 127\.0\.0\.1:$(ready a .rpc_port): 'same'" \
		te-target -m "$STORE" -n same --buffer-size=1M
	run -0 te-meta -m "$STORE" get mooncake/rpc_meta/same
	check_json ".rpc_port == $(ready a .rpc_port)"
	bench -m "$STORE" --segment-id=same
}

@test "a store that is not there: one line, exit 1" {
	port=$(free_port)
	for uri in "http://127.0.0.1:$port/metadata" "redis://127.0.0.1:$port" "etcd://127.0.0.1:$port"; do
		fails_with 1 "127\.0\.0\.1:$port" te-target -m "$uri" -n x --buffer-size=1M
	done
	fails_with 2 'gopher.*etcd://.*http://.*redis://.*P2PHANDSHAKE' te-target -m gopher://x -n x --buffer-size=1M
}

@test "10,000 buffers: published, reachable, quickly gone" {
	yes -- --buffer=cpu:0:4K | head -n 10000 >"$T/options"
	mapfile -t options <"$T/options"
	target t "${options[@]}"
	check_json '(.buffers | length) == 10000 and all(.buffers[]; .length == 4096)' "$T/t.json"
	# In the order of their addresses, and none touches the next.
	check_json '[.buffers[].addr] | . == sort' "$T/t.json"
	check_json '[.buffers[].addr] | [.[:-1], .[1:]] | transpose | all(.[1] - .[0] > 4096)' "$T/t.json"
	bench --segment-id="$SEGMENT" --block-size=4K
	before=$(now_ms)
	stop t
	[ "$SLOW" != 1 ] || [ $(($(now_ms) - before)) -lt 3000 ]
}

@test "buffers where they were asked for" {
	target t --buffer=cpu:0:64K '--buffer=*:128K' --buffer=cpu:0:3000
	check_json '[.buffers[] | "\(.location) \(.length)"] | sort == ["cpu:0 131072","cpu:0 3000","cpu:0 65536"]' "$T/t.json"
	fails_with 1 'cpu:99' te-target --buffer=cpu:99:64K
	fails_with 1 "cuda:0.*" te-target --buffer=cuda:0:64K
	fails_with 1 "moon" te-target --buffer=moon:64K
}

@test "--hugepages says what is missing" {
	[ "$(cat /proc/sys/vm/nr_hugepages)" = 0 ] || skip 'this host has huge pages'
	fails_with 1 'huge' te-target --buffer-size=4M --hugepages
}

@test "wrong values: one line that names option and value, exit 2" {
	for o in --buffer-size=0 --buffer-size=1.5G --buffer-size=-1 --buffer=1G --buffer=:1G --buffer=cpu:0: \
		--protocol=carrier --pattern=x --max-duration=0 --max-duration=x --idle-timeout=-1; do
		fails_with 2 "^te-target: .*${o%%=*}.*; try te-target --help\$" te-target "$o"
	done
	fails_with 2 "unexpected argument 'x'" te-target x
	fails_with 2 'overwrite' te-target --file=/etc/passwd --pattern
}

@test "--file serves a file: reads see it, writes end up in it" {
	head -c 1000000 /dev/urandom >"$T/file"
	cp "$T/file" "$T/copy"
	target t --file="$T/file"
	check_json '.buffers | length == 1 and .[0].length == 1000000' "$T/t.json"
	bench --segment-id="$SEGMENT" --operation=read --block-size=4K
	cmp "$T/file" "$T/copy"
	bench --segment-id="$SEGMENT" --operation=write --block-size=4K
	run -1 cmp "$T/file" "$T/copy"
	[ "$(stat -c %s "$T/file")" = 1000000 ]
	fails_with 1 "$T/none" te-target --file="$T/none"
	fails_with 1 "'$T'" te-target --file="$T"
	: >"$T/empty"
	fails_with 1 "$T/empty" te-target --file="$T/empty"
}

@test "--pattern: reads verify with the right seed and fail with the wrong one" {
	target t --buffer=cpu:0:1M --buffer=cpu:0:70001 --pattern=7
	for transport in shm tcp; do
		bench --segment-id="$SEGMENT" --operation=read --verify=7 --block-size=1111 --require-transport=$transport \
			--protocol=$transport
		run -1 --separate-stderr te-bench --segment-id="$SEGMENT" --operation=read --verify=8 --requests=100 \
			--buffer-size=4M --block-size=4K --protocol=$transport
		assert_regex "$stderr$output" 'offset'
	done
}

@test "--metrics serves Prometheus text" {
	target t --metrics=127.0.0.1:0
	port=$(ready t .metrics_port)
	assert [ "$port" -gt 0 ]
	grep -q "^metrics .*$port" "$T/t.out"
	MC_FORCE_TCP=1 bench --segment-id="$SEGMENT"
	run -0 curl -sSf "http://127.0.0.1:$port/metrics"
	assert_output --regexp '# TYPE te_[a-z_]+ counter'
	served=$(awk '/^te_served_bytes/ { print $2 }' <<<"$output")
	[ "${served%.*}" -ge $((256 * 16384)) ]
	run -0 curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/else"
	assert_output 404
	run -0 curl -sS -o /dev/null -w '%{http_code}' -X PUT "http://127.0.0.1:$port/metrics"
	assert_output 405
	run -1 --separate-stderr timeout 10 te-target --buffer-size=1M --metrics="127.0.0.1:$port"
	assert_regex "$stderr" "$port.*in use"
	stop t
}

@test "rdma is refused, not replaced" {
	[ ! -e /sys/class/infiniband ] || skip "this host has RDMA devices: tests/vm covers them"
	fails_with 1 'no RDMA device' te-target --protocol=rdma --buffer-size=1M
	fails_with 1 "mlx5_7.*none" te-target --protocol=rdma --device-name=mlx5_7 --buffer-size=1M
	MC_FORCE_HCA=1 fails_with 1 'MC_FORCE_HCA.*no RDMA device' te-target --buffer-size=1M
}

@test "a matrix that is wrong is told, even where tcp would do" {
	echo '{"cpu:0": [["mlx5_0"]' >"$T/bad.json"
	fails_with 1 "priority matrix: invalid JSON at line" te-target --nic-priority-matrix="$T/bad.json" --buffer-size=1M
	MC_CUSTOM_TOPO_JSON=$T/bad.json fails_with 1 "MC_CUSTOM_TOPO_JSON.*bad\.json': invalid JSON at line" \
		te-target --buffer-size=1M
	MC_CUSTOM_TOPO_JSON=$T/none.json fails_with 1 "cannot read '$T/none\.json'" te-target --buffer-size=1M
	fails_with 1 "no NIC 'mlx5_7' in the priority matrix; there: mlx5_0" te-target --buffer-size=1M \
		--nic-priority-matrix='{"cpu:0": [["mlx5_0"], []]}' --device-name=mlx5_7
	# Ignored with tcp; a good one for NICs that are not here is no reason to fail.
	MC_CUSTOM_TOPO_JSON=$T/bad.json target t --protocol=tcp --buffer-size=1M
	stop t
	target t --nic-priority-matrix='{"cpu:0": [["mlx5_0"], []]}' --buffer-size=1M
	check_json '.protocol == "tcp"' "$T/t.json"
	stop t
}

@test "the options of Mooncake's bench, underscores and all" {
	port=$(free_port)
	target t --metadata_server=P2PHANDSHAKE --local_server_name=127.0.0.1:"$port" --protocol=tcp --device_name=mlx5_0 \
		--nic_priority_matrix=/no/such/file --auto_discovery --buffer_size=1M
	assert_equal "$SEGMENT" "127.0.0.1:$port"
	stop t
	target t --auto_discovery=false --noauto_discovery
	fails_with 2 auto-discovery te-target --auto_discovery=maybe
	fails_with 1 /no/such/file te-target --nic-priority-matrix=/no/such/file --buffer-size=1M
}

@test "output that cannot be written ends it, and leaves nothing in the store" {
	store
	run -1 --separate-stderr bash -c 'timeout 10 te-target "$@" >/dev/full' _ -m "$STORE" -n full --buffer-size=1M
	assert_regex "$stderr" 'cannot write to standard output'
	fails_with 1 "$T/none/ready" bash -c 'te-target "$@" >/dev/null' _ -m "$STORE" -n full --buffer-size=1M \
		--ready-file="$T/none/ready"
	run -0 te-meta -m "$STORE" ls
	assert_output ''
}

@test "a reader of its output that goes away does not take it along" {
	mkfifo "$T/pipe"
	te-target --buffer-size=1M --ready-file="$T/t.json" >"$T/pipe" 2>"$T/t.err" 3>&- &
	PID=$!
	echo $PID >>"$T/pids"
	echo $PID >"$T/t.pid"
	head -n 1 <"$T/pipe"
	wait_file "$T/t.json"
	bench --segment-id="$(ready t .segment)"
	stop t
}
