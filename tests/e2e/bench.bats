# bench.bats - te-bench: what it measures, what it says, how it ends.
bats_require_minimum_version 1.5.0
load ../lib/te

setup() { te_setup; }
teardown() { te_teardown; }

KEYS='["baseline","batch_size","block_size","bytes","bytes_per_second","cpu_seconds","duration_seconds","errors","latency_us","operation","path","requests","requests_per_second","retries","segments","threads","verify"]'
FINAL='^Test completed: duration [0-9]+\.[0-9]{2}, batch count [0-9]+, throughput [0-9]+\.[0-9]{2} GB/s$'

self() { run -0 --separate-stderr te-bench --self --json --block-size=16K --batch-size=16 "$@"; }
# usage OPTION...: refused with one line and status 2.
usage() {
	run -2 --separate-stderr te-bench "$@"
	[ "$output" = '' ] && [ "$(wc -l <<<"$stderr")" = 1 ] && [[ $stderr == te-bench:* ]] ||
		{ echo "te-bench $*: $output $stderr"; return 1; }
}
# fails STATUS TEXT OPTION...: refused with one line that has TEXT (a regular expression).
fails() {
	run "-$1" --separate-stderr te-bench "${@:3}"
	[ "$output" = '' ] && [ "$(wc -l <<<"$stderr")" = 1 ] && [[ $stderr =~ $2 ]] ||
		{ echo "te-bench ${*:3}: $output $stderr"; return 1; }
}
# child PID: the process that te-bench PID has started.
child() { pgrep -P "$1"; }

@test "--self --json is one document with the keys of the contract, for every operation and path" {
	for p in auto local shm tcp; do
		for op in read write mixed bidir; do
			self --protocol=$p --operation=$op --duration=0.1
			check_json 'keys == ["cases","environment","te_bench"] and .te_bench == 1 and (.cases | length) == 1'
			check_json ".cases[0] | keys == $KEYS"
			check_json '.environment | keys == ["command","cpu","cpus","date","host","kernel","segments","store","tunables","version"]'
			check_json ".cases[0] | .operation == \"$op\" and .block_size == 16384 and .batch_size == 16 and .threads == 1"
			check_json '.cases[0] | .errors == 0 and .retries == 0 and .requests > 0 and .bytes == .requests * 16384'
			check_json '.cases[0] | .verify == null and .baseline == null and .segments == 1'
			check_json '.cases[0] | .duration_seconds >= 0.1 and (.bytes_per_second - .bytes / .duration_seconds | fabs) < 1000'
			check_json '.cases[0].latency_us | 0 < .min and .min <= .p50 and .p50 <= .p90 and .p90 <= .p99 and .p99 <= .p999 and .p999 <= .max and .min <= .avg and .avg <= .max'
			check_json ".cases[0] | .path | length == 1 and .[0].transport == \"${p/auto/shm}\" and .[0].slices > 0"
			check_json '.cases[0] | .path[0].bytes == .bytes'
			[ "$stderr" = '' ]
		done
	done
}

@test "--verify: the time is no shorter than that of one request" {
	for d in --requests=32 --duration=0.02 --duration=0.06; do
		self --protocol=tcp $d --warmup=0.01 --block-size=1M --batch-size=32 --verify
		check_json '.cases[0] | .duration_seconds * 1e6 >= .latency_us.max'
	done
}

@test "every byte is verified, at odd sizes, for every operation" {
	for p in tcp shm local; do
		for op in read write mixed bidir; do
			self --protocol=$p --operation=$op --verify --block-size=1,17,512,65535,65536,65537 --requests=300
			check_json '.cases | length == 6 and all(.errors == 0 and .requests == 300 and .verify.mismatches == 0)'
			check_json '.cases | all(.verify.checked_bytes == .block_size * 300 and .bytes == .block_size * 300)'
		done
	done
}

@test "3 GiB are verified" {
	for op in write read; do
		self --protocol=tcp --operation=$op --verify=5 --block-size=1M --bytes=3G
		check_json '.cases[0] | .errors == 0 and .bytes == 3221225472 and .verify == { checked_bytes: 3221225472, mismatches: 0 }'
	done
}

@test "a changed block is found by READ: segment, buffer, offset, bytes, path, kind" {
	target a --pattern --buffer-size=1M
	run -0 te-bench --segment-id="$SEGMENT" --verify --requests=256 --block-size=4K
	# Another round's bytes in the first 4 KiB: a whole block of them is stale, half a block torn.
	run -0 te-bench --segment-id="$SEGMENT" --operation=write --verify --requests=1 --block-size=4K
	for way in "4K stale tcp" "8K torn tcp" "4K stale shm"; do
		read -r size kind path <<<"$way"
		run -1 --separate-stderr te-bench --segment-id="$SEGMENT" --protocol="$path" --verify --bytes=1M --block-size="$size" --json
		check_json '.cases[0] | .verify.mismatches == 1 and .errors == 0'
		[ "$(wc -l <<<"$stderr")" = 1 ]
		[[ $stderr =~ "segment '$SEGMENT', buffer 0, offset "[0-3]:\ expected\ 0x[0-9a-f]{2},\ found\ 0x[0-9a-f]{2}\ \($kind,\ .*path\ $path\) ]] ||
			{ echo "$stderr"; return 1; }
	done
}

@test "the wrong seed is told apart, in at most a dozen lines" {
	target a --pattern=7 --buffer-size=1M
	run -1 --separate-stderr te-bench --segment-id="$SEGMENT" --verify=8 --bytes=1M --block-size=4K
	[[ $stderr == *foreign* && $stderr == *"--pattern=8"* ]]
	[ "$(wc -l <<<"$stderr")" -le 12 ]
	[[ ${lines[-1]} =~ $FINAL ]]
}

@test "--requests and --bytes are totals of a case over all threads" {
	self --requests=1000 --threads=1,3,7
	check_json '.cases | length == 3 and all(.requests == 1000 and .bytes == 16384000)'
	self --bytes=100000 --threads=3 --verify --operation=write
	check_json '.cases[0] | .requests == 7 and .bytes == 100000 and .verify.checked_bytes == 100000'
	self --requests=500 --warmup=0.1
	check_json '.cases[0] | .requests == 500 and .path[0].bytes == .bytes'
}

@test "lists and ranges are swept, block size fastest" {
	self --block-size=4K..32K --batch-size=1,4 --threads=1..2 --requests=50
	check_json '[.cases[] | [.block_size, .batch_size, .threads]] | length == 16 and .[0] == [4096, 1, 1] and
		.[3] == [32768, 1, 1] and .[4] == [4096, 4, 1] and .[15] == [32768, 4, 2]'
	self --block-size=1K..3K,17 --requests=1
	check_json '[.cases[].block_size] == [1024, 2048, 3072, 17]'
	run -0 --separate-stderr te-bench --self --block-size=4K,8K --requests=50
	[ "${#lines[@]}" = 4 ]
	[[ ${lines[0]} == operation*block*batch*threads*path ]]
	[[ ${lines[-1]} =~ $FINAL ]]
}

@test "text ends in the seed's line, below duration, requests, throughput, latency and path" {
	run -0 --separate-stderr te-bench --self --duration=0.1 --operation=write
	[ "$stderr" = '' ]
	for word in duration requests throughput latency path; do assert_line --regexp "^  $word "; done
	[[ ${lines[-1]} =~ $FINAL ]]
}

@test "--rate offers requests whether earlier ones have ended or not" {
	self --rate=500 --threads=3 --duration=1 --batch-size=8
	check_json '.cases[0] | .requests >= 480 and .requests <= 501'
	self --rate=200 --requests=100 --batch-size=1 --protocol=tcp
	check_json '.cases[0] | .requests == 100 and .duration_seconds > 0.45 and .duration_seconds < 2'
}

@test "more in flight than a buffer holds shares places, verified or not" {
	for op in read write mixed bidir; do
		self --buffer-size=64K --block-size=16K --threads=6 --batch-size=64 --operation=$op --requests=600 --verify
		check_json '.cases[0] | .errors == 0 and .requests == 600 and .verify.mismatches == 0'
		self --buffer-size=64K --block-size=48K --threads=3 --operation=$op --requests=600 --protocol=tcp
		check_json '.cases[0] | .errors == 0 and .requests == 600'
	done
}

@test "several buffers: no request crosses one, each is used" {
	target a --buffer=cpu:0:100000 --buffer=cpu:0:5000 --buffer=cpu:0:70000 --pattern
	run -0 --separate-stderr te-bench --segment-id="$SEGMENT" --json --block-size=6000 --verify --requests=100 --batch-size=8
	check_json '.cases[0] | .errors == 0 and .verify.mismatches == 0'
	run -0 --separate-stderr te-bench --segment-id="$SEGMENT" --json --block-size=6000 --operation=write --verify --requests=100
	check_json '.cases[0].verify.mismatches == 0'
	usage --segment-id="$SEGMENT" --block-size=100001
	[[ $stderr == *"$SEGMENT"*100000* ]]
	usage --segment-id="$SEGMENT" --block-size=60000 --operation=mixed --verify
}

@test "wrong usage is one line, exit 2" {
	for o in --threads=0 --threads=-1 --batch-size=0 --block-size=0 --block-size=x --block-size=8K..4K --operation=erase \
		--protocol=quic --require-transport=auto --duration=0 --duration=x --requests=0 --rate=0 --warmup=-1 \
		--interval=0 --report-precision=x --plot=x.gif --mode=both --verify=x --pattern --ready-file=x \
		--block-size=1..1M,1..1M,1..1M,1..1M; do
		usage --self $o
	done
	usage --self --duration=1 --requests=5
	usage --self --segment-id=x
	usage --protocol=local --segment-id=x
	usage --self --protocol=tcp --require-transport=shm
	usage --segment-id=
	usage --segment-id=,
	usage --self --metadata-server=ftp://x
	usage
	usage --self spare
}

@test "a warning for an unknown report unit, and GB" {
	run -0 --separate-stderr te-bench --self --requests=10 --report-unit=furlong
	[[ ${lines[-1]} =~ $FINAL ]]
	[[ $stderr == *furlong* ]]
}

@test "alone on a terminal it prints its help" {
	run -0 script -qec te-bench /dev/null
	assert_output --partial 'Usage: te-bench'
	assert_output --partial '--segment-id'
}

@test "an unknown segment is named with its store, and costs the others nothing" {
	start meta te-http-meta --listen=127.0.0.1:0 --ready-file="$T/meta.json"
	wait_file "$T/meta.json"
	export MC_METADATA_SERVER
	MC_METADATA_SERVER=$(jq -r '.metadata_server // .url // .urls[0] // empty' "$T/meta.json")
	target a -n here
	run -1 --separate-stderr te-bench --segment-id=nowhere --duration=5
	[[ $stderr == *"'nowhere'"*"$MC_METADATA_SERVER"* ]]
	run -1 --separate-stderr te-bench --segment-id=nowhere,here --requests=100 --json
	check_json '.cases[0] | .requests == 100 and .errors == 0'
	[ "$(grep -c nowhere <<<"$stderr")" = 1 ]
}

@test "rdma is refused with its reason" {
	run -1 --separate-stderr te-bench --self --protocol=rdma --requests=1
	[[ $stderr == *rdma* ]]
	[ "$(wc -l <<<"$stderr")" = 1 ]
}

@test "--require-transport, and the variables that exclude shm" {
	run -1 --separate-stderr te-bench --self --require-transport=tcp --requests=10
	[[ $stderr == *shm*tcp* ]]
	MC_FORCE_TCP=1 self --requests=10
	check_json '.cases[0].path[0].transport == "tcp" and .environment.tunables.MC_FORCE_TCP == "1"'
	MC_FORCE_TCP=1 run -1 te-bench --self --require-transport=shm --requests=10
	self --require-transport=shm --requests=10
}

@test "NIC options: a matrix is a file or JSON, and tcp takes no notice of them" {
	fails 1 "'/no/matrix'" --self --nic-priority-matrix=/no/matrix --requests=10
	fails 1 "'$T'.*[Dd]irectory" --self --nic-priority-matrix="$T" --requests=10
	self --protocol=tcp --nic_priority_matrix=/no/matrix --device_name=mlx5_7 --auto_discovery --requests=10
	check_json '.cases[0].path[0].transport == "tcp"'
}

@test "rdma is never replaced by what is there" {
	[ ! -e /sys/class/infiniband ] || skip "this host has RDMA devices: tests/vm covers them"
	fails 1 'no RDMA device' --self --protocol=rdma --requests=10
	fails 1 'rdma' --self --require-transport=rdma --requests=10
	MC_FORCE_HCA=1 fails 1 MC_FORCE_HCA --self --requests=10
	MC_FORCE_HCA=1 MC_FORCE_TCP=1 fails 2 'MC_FORCE_TCP.*MC_FORCE_HCA' --self --requests=10
	MC_FORCE_HCA=1 fails 2 "MC_FORCE_HCA.*'tcp'" --self --protocol=tcp --requests=10
}

@test "--baseline gives the raw limit of the path that was taken" {
	for p in tcp shm local; do
		self --protocol=$p --baseline --duration=0.2
		check_json '.cases[0].baseline | .bytes_per_second > 1e6 and .ratio > 0.01 and .spread[0] > 0 and .spread[0] <= .spread[1]'
		check_json '.cases[0] | .errors == 0 and .duration_seconds >= 1.6'
	done
	self --protocol=tcp --baseline --requests=1000 --operation=bidir --threads=2
	check_json '.cases[0] | .requests == 1000 and .baseline.ratio > 0'
}

@test "--csv has a row a case; a full disk is noticed" {
	run -0 te-bench --self --block-size=4K,8K,16K --requests=20 --csv="$T/x.csv" --verify --operation=write
	[ "$(wc -l <"$T/x.csv")" = 4 ]
	[ "$(awk -F, '{ print NF }' "$T/x.csv" | sort -u | wc -l)" = 1 ]
	[ "$(awk -F, 'NR == 3 { print $1, $2, $7, $20 }' "$T/x.csv")" = 'write 8192 20 163840' ]
	run -1 --separate-stderr te-bench --self --requests=20 --csv=/dev/full
	[[ $stderr == *"'/dev/full'"* ]]
	run -1 --separate-stderr te-bench --self --requests=20 --csv=/nonexistent/x.csv
	[[ $stderr == *"'/nonexistent/x.csv'"* && $output == '' ]]
}

@test "--plot draws; without gnuplot it says so before it measures" {
	run -0 --separate-stderr te-bench --self --block-size=4K..64K,1M --threads=1,2 --requests=20 --plot="$T/it's.svg"
	grep -q '<svg' "$T/it's.svg"
	for word in '64 KiB' '1 MiB' 'block size' 'GB/s' 'batches of 128, 2 threads'; do
		grep -q ">$word<" "$T/it's.svg" || { echo "$word is not in the picture"; return 1; }
	done
	run -0 --separate-stderr te-bench --self --requests=20 --plot="$T/x.png"
	assert_equal "$stderr" ''
	[ "$(head -c 4 "$T/x.png" | tail -c 3)" = PNG ]
	mkdir "$T/bin"
	ln -s "$(command -v te-bench)" "$T/bin/"
	ln -s "$(command -v env)" "$T/bin/"
	run -1 --separate-stderr env PATH="$T/bin" te-bench --self --duration=60 --plot="$T/y.svg"
	[[ $stderr == *gnuplot* && $output == '' ]]
}

@test "--interval tells progress on standard error, and the document stays one" {
	self --interval=0.1 --duration=0.5
	check_json '.cases[0].errors == 0'
	[ "$(grep -c 'requests/s' <<<"$stderr")" -ge 3 ]
}

@test "Ctrl-C prints what was measured, exit 0, and takes the target of --self along" {
	for p in tcp shm; do
		start bench te-bench --self --protocol=$p --warmup=0 --interval=0.1 --duration=60 --json
		wait_line '[1-9][0-9]* requests/s' "$T/bench.err"
		of=$(child "$(pid_of bench)")
		kill -INT "$(pid_of bench)"
		ends bench 0 5
		check_json '.interrupted == true and .cases[0].errors == 0 and .cases[0].requests > 0' "$T/bench.out"
		gone "$of"
	done
	start bench te-bench --self --warmup=0 --interval=0.1 --duration=60
	wait_line '[1-9][0-9]* requests/s' "$T/bench.err"
	kill -TERM "$(pid_of bench)"
	ends bench 0 5
	tail -n 1 "$T/bench.out" | grep -qE "$FINAL"
	grep -qx interrupted "$T/bench.out"
}

@test "the target of --self goes with its te-bench, however that goes, and even if it is frozen" {
	start bench te-bench --self --protocol=tcp --duration=60
	until_ok 10 child "$(pid_of bench)"
	of=$(child "$(pid_of bench)")
	murder bench
	wait_exit "$of" 5
	start bench te-bench --self --protocol=tcp --duration=60
	until_ok 10 child "$(pid_of bench)"
	of=$(child "$(pid_of bench)")
	kill -STOP "$of"
	kill -INT "$(pid_of bench)"
	wait_exit "$(pid_of bench)" 10
	gone "$of"
}

@test "an initiator publishes a segment only when it is given a name, or rdma is meant" {
	start meta te-http-meta --listen=127.0.0.1:0 --ready-file="$T/meta.json"
	wait_file "$T/meta.json"
	export MC_METADATA_SERVER
	MC_METADATA_SERVER=$(jq -r '.metadata_server // .url // .urls[0] // empty' "$T/meta.json")
	key() { curl -sf "$MC_METADATA_SERVER?key=mooncake%2Fram%2F$1" >/dev/null; }
	target a -n served
	start bench te-bench --segment-id=served -n initiator --duration=60
	until_ok 10 key initiator
	kill -INT "$(pid_of bench)"
	ends bench 0 5
	run ! key initiator
	start watch te-meta -v watch mooncake/rpc_meta/
	wait_line 'from now on' "$T/watch.err"
	# Neither serves here: the target is near enough for shm. The second must be reachable for rdma.
	run -1 te-bench --segment-id=served --require-transport=tcp
	run -1 te-bench --segment-id=served --require-transport=rdma --verify --operation=write
	wait_line '^delete mooncake/rpc_meta/.*\.[0-9]+$' "$T/watch.out"
	kill -INT "$(pid_of watch)"
	ends watch 0 5
	name="$(hostname)\.[0-9]+"
	[ "$(grep -cE "^put +mooncake/rpc_meta/$name " "$T/watch.out")" = 1 ]
	[ "$(grep -cE "^put +mooncake/rpc_meta/$name\.verify " "$T/watch.out")" = 1 ]
	[ "$(grep -cE "^delete +mooncake/rpc_meta/$name" "$T/watch.out")" = 2 ]
	# --self over a store leaves nothing there either.
	run -0 te-bench --self -m "$MC_METADATA_SERVER" --requests=100 --protocol=tcp
	stop a
	run curl -sf "$MC_METADATA_SERVER?prefix=mooncake"
	refute_output --partial te-bench-self
}

@test "three segments in one run, each its share" {
	target a --pattern
	names=$SEGMENT
	target b --pattern
	names+=,$SEGMENT
	target c --pattern
	names+=,$SEGMENT
	run -0 --separate-stderr te-bench --segment-id="$names" --json --operation=mixed --verify --block-size=4K --requests=3000 --threads=2
	check_json '.cases[0] | .errors == 0 and .requests == 3000 and .verify.mismatches == 0 and .segments == 3'
	check_json '.cases[0].path | length == 3 and all(.bytes > 0)'
	run -0 te-bench --segment-id="$SEGMENT,$SEGMENT" --json --operation=write --verify --requests=300
	check_json '.cases[0] | .segments == 1 and .verify.mismatches == 0'
}

@test "standard output that is full is a failure" {
	run -1 --separate-stderr bash -c 'te-bench --self --requests=10 >/dev/full'
	[[ $stderr == *"cannot write"* ]]
	run -1 --separate-stderr bash -c 'te-bench --self --requests=10 --json >/dev/full'
}
