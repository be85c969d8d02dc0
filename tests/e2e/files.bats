# files.bats - te-bench on segments of files: every byte across every border, and what goes wrong with files.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers

# Three files whose lengths fit to nothing.
setup() {
	te_setup_files
	head -c 3145729 /dev/zero >"$F/a"
	head -c 513 /dev/zero >"$F/b"
	head -c 2100007 /dev/zero >"$F/c"
}
teardown() { te_teardown; }

files() { te-register nvmeof disk0 "$F/a" "$F/b" "$F/c" >/dev/null; }
on() { run -0 --separate-stderr te-bench --segment-id=nvmeof/disk0 --json "$@"; }
verified() { check_json '.cases | all(.errors == 0 and .verify.mismatches == 0 and .verify.checked_bytes == .bytes)'; }

whole() { # whole KIND: registered in that store, filled, read, written
	store "$1"
	files
	on --pattern --verify --block-size=4095 --bytes=6M
	verified
	check_json '.cases[0].path | length == 3 and all(.transport == "nvmeof" and .local == "io_uring, O_DIRECT")'
	check_json '.cases[0] | .bytes == ([.path[].bytes] | add)'
	check_json "[.cases[0].path[].remote] == [\"a\", \"b\", \"c\" | \"nvmeof/disk0 ($F/\" + . + \")\"]"
	run -0 --separate-stderr te-bench --segment-id=disk0 --json --operation=write --verify --block-size=64K --bytes=6M
	verified
	assert_equal "$stderr" ''
}
@test "http: filled, read and written, all bytes right" { whole http; }
@test "redis: filled, read and written, all bytes right" { whole redis; }
@test "etcd: filled, read and written, all bytes right" { whole etcd; }

@test "blocks of any size, across all borders, by one thread and several" {
	store http
	files
	for op in read write mixed bidir; do
		on --pattern=7 --verify=7 --operation=$op --block-size=511,513,4095,4097 --threads=1,2 --requests=4000 --batch-size=64
		verified
		on --pattern=7 --verify=7 --operation=$op --block-size=1048577 --requests=20 --threads=1,2 --batch-size=4
		verified
	done
	# Every byte by itself, where that does not take for ever.
	truncate -s 600 "$F/a"
	truncate -s 1 "$F/b"
	truncate -s 700 "$F/c"
	te-register nvmeof disk0 "$F/a" "$F/b" "$F/c" >/dev/null
	for op in read write; do
		on --pattern --verify --operation=$op --block-size=1,2,3,600,601,602,1301 --bytes=1301
		verified
		check_json '.cases | length == 7 and all(.bytes == 1301)'
		check_json '[.cases[0].path[].bytes] == [600, 1, 700]'
	done
	usage=$(te-bench --segment-id=disk0 --block-size=1302 2>&1) && return 1
	[[ $usage == *"'disk0' has 1301 bytes"* ]]
}

@test "--pattern fills files, READs are compared with it, and WRITEs undo it" {
	store http
	files
	on --pattern --verify --bytes=5M
	on --verify --bytes=5M # and it stays
	run -1 --separate-stderr te-bench --segment-id=disk0 --verify=2 --bytes=5M --batch-size=1
	[[ $stderr == *"segment 'disk0', offset 0 (byte 0 of '$F/a')"*foreign*"path nvmeof"* ]]
	[[ $stderr == *'were the files filled (te-bench --pattern=2)'* ]]
	on --operation=write --verify --block-size=4K --bytes=4K
	run -1 --separate-stderr te-bench --segment-id=disk0 --verify --bytes=4K --block-size=4K
	[[ $stderr == *stale*'not written since?'* ]]
	target r -n memory
	fails "'memory'*te-target --pattern" te-bench --segment-id=memory --pattern --requests=1
	usage '--pattern needs' te-bench --self --pattern
}

@test "a byte changed behind te's back is found where it is" {
	store http
	files
	on --pattern --requests=1
	printf '\000\000' | dd of="$F/c" bs=1 seek=1000 conv=notrunc status=none
	run -1 --separate-stderr te-bench --segment-id=disk0 --verify --bytes=5M --block-size=4K --json
	check_json '.cases[0] | .verify.mismatches == 1 and .errors == 0'
	[[ $stderr =~ "offset "314724[2-3]" (byte 100"[0-1]" of '$F/c')" ]]
}

@test "transports: nvmeof is one of them, and no other takes files" {
	store http
	files
	on --protocol=nvmeof --require-transport=nvmeof --requests=10
	check_json '.cases[0].path[0].transport == "nvmeof"'
	for p in tcp shm; do fails "'disk0'" te-bench --segment-id=disk0 --protocol=$p --requests=1; done
	fails 'by nvmeof, not by the required tcp' te-bench --segment-id=disk0 --require-transport=tcp --requests=1
	target r -n memory
	fails "'memory'*nvmeof" te-bench --segment-id=memory --protocol=nvmeof --requests=1
	fails 'by shm, not by the required nvmeof' te-bench --segment-id=memory --require-transport=nvmeof --requests=1
	usage '--self excludes --protocol=nvmeof' te-bench --self --protocol=nvmeof
	# One of each in one run; and what forces a transport is about memory.
	run -0 --separate-stderr te-bench --segment-id=memory,disk0 --json --operation=write --verify --requests=400
	verified
	check_json '[.cases[0].path[].transport] | unique == ["nvmeof", "shm"]'
	MC_FORCE_TCP=1 on --requests=10
}

@test "one line for what cannot be opened" {
	store http
	files
	fails "no segment 'nvmeof/none' in $MC_METADATA_SERVER" te-bench --segment-id=nvmeof/none --requests=1
	fails "no segment 'none' *nvmeof/none" te-bench --segment-id=none --requests=1
	fails "'nvmeof/disk0': segments of files need a metadata store" te-bench -m P2PHANDSHAKE --segment-id=nvmeof/disk0 --requests=1
	te-register ram --protocol=tcp later >/dev/null
	fails "segment 'later' has no buffers" te-bench --segment-id=later --requests=1
	te-register -n elsewhere nvmeof there "$F/a" >/dev/null
	fails "'there'*file '$F/a' has no path on this host*te-mount" te-bench --segment-id=there --requests=1
	# Some files are good; the run ends before it begins all the same.
	mv "$F/c" "$F/d"
	fails "'disk0'*'$F/c': No such file" te-bench --segment-id=disk0 --requests=1
	cp "$F/d" "$F/c"
	echo >>"$F/c"
	fails "'$F/c' has 2100008 bytes, but 2100007 were registered" te-bench --segment-id=disk0 --requests=1
}

@test "a thousand files" {
	store http
	mkdir "$F/many"
	for i in {1..1000}; do echo "$i" >"$F/many/$i"; done
	te-register nvmeof many "$F"/many/* >/dev/null
	ulimit -Sn 256
	run -0 --separate-stderr te-bench --segment-id=many --json --pattern --verify --block-size=229 --bytes=3893
	verified
	check_json '.cases[0].path | length == 1000 and (map(.bytes) | add) == 3893'
	run -0 --separate-stderr te-bench --segment-id=many --json --operation=write --verify --block-size=97 --requests=100
	verified
	assert_equal "$stderr" ''
}

# A run that is cut off in the middle, as `$@` does it, names the file.
cut_off() { # cut_off WORD COMMAND...
	local word=$1
	shift
	store http
	files
	start bench te-bench --segment-id=disk0 --duration=60 --warmup=0 --interval=0.1 --block-size=64K --batch-size=8 --json
	wait_line '[1-9][0-9]* requests/s' "$T/bench.err"
	"$@"
	ends bench 1 20
	grep -q "segment 'disk0': .*'$F/c'.*$word" "$T/bench.err" || { cat "$T/bench.err"; return 1; }
	check_json '.cases[0] | .errors > 0 and .requests > 0' "$T/bench.out"
}
@test "a file that is cut in the middle of a run" { cut_off 'has 1000 bytes' truncate -s 1000 "$F/c"; }
@test "a file that is removed in the middle of a run" { cut_off 'removed or replaced\|No such file' rm "$F/c"; }
@test "a file that is replaced in the middle of a run" {
	cp "$F/a" "$F/x"
	cut_off 'has 3145729 bytes' mv "$F/x" "$F/c"
}

@test "a file that can only be read is read, and not written" {
	[ "$(id -u)" = 0 ] || skip 'needs root for a mount of its own'
	store http
	files
	on --pattern --verify --requests=1
	run -0 --separate-stderr unshare -m sh -c "mount --bind '$F/c' '$F/c' && mount -o remount,ro,bind '$F/c' &&
		te-bench --segment-id=disk0 --verify --bytes=5M --json"
	verified
	run -1 --separate-stderr unshare -m sh -c "mount --bind '$F/c' '$F/c' && mount -o remount,ro,bind '$F/c' &&
		te-bench --segment-id=disk0 --operation=write --block-size=64K --bytes=6M --json"
	[[ $stderr == *"'$F/c' is read-only"* ]]
	[ "$(wc -l <<<"$stderr")" = 1 ]
}

@test "files in memory, with O_DIRECT or without, as path says" {
	[ "$(id -u)" = 0 ] || skip 'needs root for a mount of its own'
	store http
	mkdir "$T/ram"
	run -0 --separate-stderr unshare -m sh -c "mount -t tmpfs tmpfs '$T/ram' && head -c 1000001 /dev/zero >'$T/ram/f' &&
		te-register nvmeof ram0 '$T/ram/f' >/dev/null &&
		te-bench -q --segment-id=ram0 --pattern --verify --bytes=1M --block-size=4095,4096 --json"
	verified
	check_json '.cases | all(.path[0].local | test("^io_uring, (O_DIRECT|page cache \\(O_DIRECT refused\\))$"))'
}

@test "without io_uring threads serve, path says so, and there is no baseline" {
	store http
	files
	ASAN_OPTIONS=detect_leaks=0 run -0 --separate-stderr strace -f -qq -o "$T/trace" -e inject=io_uring_setup:error=EPERM -e trace=io_uring_setup,pwritev2 \
		te-bench --segment-id=disk0 --operation=write --verify --sync --block-size=4095 --requests=100 --json --baseline
	verified
	check_json '.cases[0].path[0].local == "threads, O_DIRECT" and .environment.tunables.MC_TE_FILE_SYNC == "1"'
	check_json '.cases[0].baseline == null'
	[[ $stderr == *'no raw limit'*io_uring* ]]
	# --sync is what the kernel is asked for.
	[ "$(grep -c 'pwritev2.*RWF_DSYNC' "$T/trace")" -ge 100 ]
	run ! grep 'pwritev2.*, 0)' "$T/trace"
	MC_TE_FILE_SYNC=1 on --requests=1
	check_json '.environment.tunables.MC_TE_FILE_SYNC == "1"'
	on --requests=1
	check_json '.environment.tunables.MC_TE_FILE_SYNC == null'
}

@test "--baseline on files: all operations, and it leaves alone what READs are compared with" {
	store http
	files
	for op in read write mixed bidir; do
		on --pattern --verify --operation=$op --baseline --block-size=4K --batch-size=16 --threads=2 --requests=400
		verified
		check_json '.cases[0].baseline | .bytes_per_second > 1e5 and .ratio > 0.01 and .spread[0] <= .spread[1]'
		[ "$stderr" = '' ]
	done
	on --baseline --block-size=4095,5M --requests=10 --batch-size=2
	check_json '.cases | all(.baseline == null and .errors == 0)'
	[ "$(grep -c 'no raw limit' <<<"$stderr")" = 1 ]
}

@test "a host finds the files by its own name, and publishes nothing" {
	store http
	te-register -n node1 nvmeof disk0 "$F/a" "$F/b" "$F/c" >/dev/null
	mkdir "$T/mnt"
	for f in a b c; do
		cp "$F/$f" "$T/mnt/$f"
		mounted disk0 "$F/$f" node2 "$T/mnt/$f"
	done
	for n in node1 node1:15123 node2 node2:15123; do
		on -n "$n" --pattern --operation=write --verify --bytes=5M
		verified
		case $n in node1*) at=$F ;; *) at=$T/mnt ;; esac
		check_json "[.cases[0].path[].remote] | all(test(\"\\\\($at/.\\\\)\$\"))"
		[ "$(te-meta ls)" = mooncake/nvmeof/disk0 ]
	done
	run ! cmp -s "$F/a" "$T/mnt/a"
	fails 'has no path on this host' te-bench --segment-id=disk0 -n node3 --requests=1
	# Beside a target of that name too.
	target r -n node2
	on -n node2 --operation=write --verify --bytes=1M
	verified
}
