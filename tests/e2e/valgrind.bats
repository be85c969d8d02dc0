# valgrind.bats - a short te-bench, its target and the C programs lose no memory.
bats_require_minimum_version 1.5.0
load ../lib/te

setup() {
	te_setup
	[ "$SLOW" = 1 ] || skip "valgrind does not run sanitizer builds"
	SLOW=5
	# Children too, one report a process.
	VG=(valgrind --leak-check=full "--show-leak-kinds=definite,indirect,possible" --num-callers=20
		--trace-children=yes --log-file="$T/vg.%p")
}
teardown() { te_teardown; }


# clean: every report says: no error, nothing lost.
clean() {
	local f
	compgen -G "$T/vg.*" >/dev/null
	for f in "$T"/vg.*; do
		grep -q 'ERROR SUMMARY: 0 errors' "$f" || { cat "$f"; return 1; }
	done
}

@test "te-bench --self" {
	for p in tcp shm; do
		run -0 --separate-stderr "${VG[@]}" te-bench --self --protocol=$p --json --buffer-size=1M --block-size=4K --batch-size=16 \
			--requests=160 --operation=write --verify
		check_json '.cases[0].errors == 0'
	done
	clean
}

@test "te-target and te-bench through a store" {
	start meta "${VG[@]}" te-http-meta --listen=127.0.0.1:0 --ready-file="$T/meta.json"
	wait_file "$T/meta.json"
	export MC_METADATA_SERVER
	MC_METADATA_SERVER=$(jq -r '.metadata_server // .url // .urls[0] // empty' "$T/meta.json")
	start a "${VG[@]}" te-target --ready-file="$T/a.json" --buffer-size=1M -n vg
	wait_ready a
	run -0 --separate-stderr "${VG[@]}" te-bench --segment-id=vg --json --buffer-size=1M --block-size=4K --batch-size=16 --requests=160
	run -0 "${VG[@]}" te-meta show vg
	stop a
	stop meta
	clean
}

@test "an initiator whose target is refused, and usage errors" {
	run -1 "${VG[@]}" te-bench --segment-id="127.0.0.1:$(free_port)" --duration=1
	run -2 "${VG[@]}" te-bench --segment-id=x --operation=erase
	clean
}
