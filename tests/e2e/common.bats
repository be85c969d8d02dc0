#!/usr/bin/env bats
# What holds for every command.
bats_require_minimum_version 1.5.0
load ../lib/te

setup() {
	te_setup
	commands=("$TOP/$O"/te-*)
	commands=("${commands[@]##*/}")
	[ "${#commands[@]}" -gt 0 ]
}
teardown() { te_teardown; }

one_line() { [ "$(wc -l <<<"$stderr")" = 1 ] || { echo "more than one line: $stderr"; return 1; }; }

@test "--help goes to standard output, exit 0" {
	for c in "${commands[@]}"; do
		for o in --help -h --usage; do
			run -0 --separate-stderr "$c" $o
			assert_regex "$output" "^Usage: $c"
			assert_equal "$stderr" ''
		done
	done
}

@test "--version names stores and transports" {
	for c in "${commands[@]}"; do
		run -0 "$c" --version
		assert_line -n 0 "$c (te) $(cat "$TOP/VERSION")"
		assert_output --partial 'P2PHANDSHAKE'
		assert_output --partial 'tcp'
	done
}

@test "a wrong option is one line on standard error, exit 2" {
	for c in "${commands[@]}"; do
		for o in --no-such-option --no_such_option=1 -Z --json=1 --metadata-server; do
			run -2 --separate-stderr "$c" $o
			assert_equal "$output" ''
			one_line
			assert_regex "$stderr" "^$c: .*; try $c --help\$"
		done
	done
}

@test "options may be abbreviated, and written with underscores" {
	for c in "${commands[@]}"; do
		run -0 "$c" --local_server_name=a_b --metadata_server x_y --env --json
		run -0 "$c" --hel
	done
}

@test "a full disk is noticed" {
	for c in "${commands[@]}"; do
		for o in --help --version --env '--env --json'; do
			# shellcheck disable=SC2016,SC2086
			run -1 --separate-stderr bash -c '"$@" >/dev/full' _ "$c" $o
			assert_regex "$stderr" "^$c: cannot write"
		done
	done
}

@test "--env lists the tunables, their origin and what this build does not use" {
	export MC_TRANSFER_TIMEOUT=7 MC_REDIS_PASSWORD=hush
	for c in "${commands[@]}"; do
		run -0 --separate-stderr "$c" --env
		assert_regex "$output" 'MC_TRANSFER_TIMEOUT +7 +environment'
		assert_regex "$output" 'MC_RETRY_CNT +9 +default +1\.\.127'
		assert_regex "$output" 'MC_TCP_SLICE_SIZE .*not used by this build'
		assert_regex "$output" 'MC_REDIS_PASSWORD +\(set\)'
		refute_regex "$output$stderr" hush
		assert_equal "$stderr" ''
		run -0 --separate-stderr "$c" --env -j
		check_json '.tunables | map(select(.name == "MC_TRANSFER_TIMEOUT"))[0] | .value == "7" and .origin == "environment"'
		check_json '[.tunables[].name] | length == (unique | length)'
	done
}

@test "--env works when variables are wrong, and warns of them" {
	export MC_RETRY_CNT=999 MC_TRANSFER_TIMEOUT=soon MC_LOG_LEVEL=LOUD
	for c in "${commands[@]}"; do
		run -0 --separate-stderr "$c" --env --json
		check_json '.tunables | map(select(.name == "MC_RETRY_CNT"))[0] | .value == "9" and (.origin | startswith("invalid"))'
		assert_regex "$stderr" "MC_RETRY_CNT.*999.*1\.\.127"
		assert_regex "$stderr" "MC_TRANSFER_TIMEOUT"
	done
}

# completes EXPECTED WORD...: the last word is the one at the cursor.
completes() {
	COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2)) COMPREPLY=()
	_te "$2"
	assert_equal "${COMPREPLY[*]}" "$1"
}

@test "completion offers every option of --help" {
	source "$TOP/completions/te.bash"
	for c in "${commands[@]}"; do
		COMP_WORDS=("$c" --) COMP_CWORD=1 COMPREPLY=()
		_te "$c"
		for o in $("$c" --help | grep -oE '(^|[ ,])--[a-z][a-z0-9-]*' | grep -o -- '--.*'); do
			[[ " ${COMPREPLY[*]} " =~ " $o"[=\ ] ]] || { echo "$c: $o is not offered"; return 1; }
		done
		[ "${#COMPREPLY[@]}" -gt 5 ]
		complete -p "$c"
	done
	completes tcp te-target --protocol = t
	completes tcp te-target --protocol t
	completes 'GB GiB Gb' te-bench --report-unit = G
	completes '' te-bench --nic-priority-matrix = ''
	completes 'svg dot ascii' te-topo draw --format = ''
	completes rdma te-bench --require-transport r
	completes 'pick path' te-topo p
	# Files, not verbs; a switch takes nothing.
	completes '' te-topo -i ''
	completes '' te-meta -m ''
	completes nics te-topo -j ni
	# An option that another one's text mentions is offered once.
	completes --duration= te-bench --dur
	completes --mode= te-bench --mo
	completes --addr= te-http-meta --ad
	completes --block_size= te-bench --block_
	completes 'ram remove' te-register --json r
	completes get te-meta --json -m http://127.0.0.1:8080/metadata ge
	completes '' te-meta get g
}

@test "the manual pages have every option, and te(7) every tunable" {
	cd "$TOP"
	run -0 scripts/check-docs
}

@test "manual pages are well formed" {
	for page in "$TOP"/man/*.scd; do
		run -0 "${SCDOC:-scdoc}" <"$page"
		[ -n "$output" ]
	done
	for c in "${commands[@]}"; do
		for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' ENVIRONMENT FILES EXAMPLES 'SEE ALSO'; do
			grep -qx "# $section" "$TOP/man/$c.1.scd" || { echo "$c(1) lacks $section"; return 1; }
		done
	done
}
