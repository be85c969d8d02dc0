# seed.bats - the command lines of transfer_engine_bench's documents, with only the name of the binary changed.
bats_require_minimum_version 1.5.0
load ../lib/te

FINAL='^Test completed: duration [0-9]+\.[0-9]+, batch count [0-9]+, throughput [0-9]+\.[0-9]+ '

setup() { te_setup; }
teardown() { te_teardown; }

# last_line UNIT: of $output, text mode.
last_line() {
	tail -n 1 <<<"$output" | grep -qE "$FINAL$1/s\$" || { echo "$output"; return 1; }
}

@test "target and initiator through an http store" {
	meta=$(free_port)
	start meta te-http-meta --addr=127.0.0.1:"$meta"
	wait_listen "$meta"
	start target te-bench --mode=target \
		--metadata_server=http://127.0.0.1:"$meta"/metadata \
		--local_server_name=TARGET_NAME \
		--protocol=tcp --buffer_size=67108864
	until_ok 10 curl -sf "http://127.0.0.1:$meta/metadata?key=mooncake%2Fram%2FTARGET_NAME"
	for op in read write; do
		run -0 --separate-stderr te-bench --metadata_server=http://127.0.0.1:"$meta"/metadata \
			--segment_id=TARGET_NAME \
			--local_server_name=INITIATOR_NAME \
			--operation=$op --block_size=65536 --batch_size=16 --duration=1 --threads=2 --report_unit=GB \
			--protocol=tcp --buffer_size=67108864
		last_line GB
	done
	stop target
	[ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$meta/metadata?key=mooncake%2Fram%2FTARGET_NAME")" = 404 ]
}

@test "flags and their values as separate words, without a store" {
	port=$(free_port)
	start target te-bench --mode target --metadata_server P2PHANDSHAKE --local_server_name "127.0.0.1:$port" --protocol tcp \
		--buffer_size 16777216
	wait_listen "$port"
	run -0 --separate-stderr te-bench --metadata_server P2PHANDSHAKE --segment_id "127.0.0.1:$port" --operation write \
		--block_size 4096 --batch_size 128 --duration 1 --threads 1 --report_unit MiB --report_precision 3 --protocol tcp \
		--buffer_size 16777216
	last_line MiB
	grep -qE 'throughput [0-9]+\.[0-9]{3} MiB/s$' <<<"$output"
}

@test "every report unit" {
	target a
	for u in GB GiB Gb MB MiB Mb KB KiB Kb; do
		run -0 --separate-stderr te-bench --segment_id="$SEGMENT" --protocol=tcp --duration=0.1 --report_unit=$u
		last_line $u
	done
}

@test "auto_discovery in all forms; NIC options are ignored with tcp" {
	target a --auto_discovery=false --device_name=erdma_0
	for f in --auto_discovery --auto_discovery=true --auto_discovery=false --noauto_discovery --auto-discovery; do
		run -0 --separate-stderr te-bench --segment_id="$SEGMENT" --protocol=tcp $f --device_name=mlx5_2 --duration=0.1
		last_line GB
	done
}

@test "the seed's etcd command line" {
	client=$(free_port) peer=$(free_port)
	start etcd etcd --data-dir "$T/etcd" --listen-client-urls "http://0.0.0.0:$client" \
		--advertise-client-urls "http://127.0.0.1:$client" \
		--listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
		--initial-cluster "default=http://127.0.0.1:$peer"
	until_ok 20 curl -sf "http://127.0.0.1:$client/health"
	start target te-bench --mode=target --metadata_server=etcd://127.0.0.1:"$client" --local_server_name=TARGET_NAME \
		--protocol=tcp --buffer_size=16777216
	# A bare host:port is etcd too. The initiator looks until the target has published itself.
	until_ok 10 te-bench --metadata_server=127.0.0.1:"$client" --segment_id=TARGET_NAME --protocol=tcp --duration=0.1
	run -0 --separate-stderr te-bench --metadata_server=etcd://127.0.0.1:"$client" --segment_id=TARGET_NAME --protocol=tcp \
		--duration=1
	last_line GB
	stop target
}

@test "a pattern is verified with the right seed, and a wrong one says where" {
	target a --pattern=7 --buffer-size=4M
	run -0 --separate-stderr te-bench --segment-id="$SEGMENT" --protocol=tcp --verify=7 --block-size=64K --requests=640 --json
	check_json '.cases[0] | .errors == 0 and .verify.mismatches == 0 and .verify.checked_bytes == 640 * 65536'
	run -1 --separate-stderr te-bench --segment-id="$SEGMENT" --protocol=tcp --verify=8 --block-size=64K --requests=640
	[[ $stderr == *"$SEGMENT"* && $stderr == *offset* && $stderr == *expected* && $stderr == *found* && $stderr == *tcp* ]]
	# READ with verify never writes: the right seed still fits.
	run -0 --separate-stderr te-bench --segment-id="$SEGMENT" --protocol=tcp --verify=7 --block-size=64K --requests=64
}
