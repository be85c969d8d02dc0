#!/usr/bin/env bats
# man3.bats - the example program of each page of section 3 compiles without a warning, and does what the page says.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers

setup() { te_setup; }
teardown() { te_teardown; }

# example PAGE: its program, built, is $T/example.
example() {
	# shellcheck disable=SC2016 # awk's dollars
	awk '/^# / { on = $0 == "# EXAMPLE"; next }
		on && /^```/ { inside = !inside; next }
		on && inside { gsub(/\\\\/, "\\"); print }' "$TOP/man/$1.3.scd" >"$T/example.c"
	[ -s "$T/example.c" ]
	local san=
	case $O in *-asan) san=-fsanitize=address,undefined ;; *-tsan) san=-fsanitize=thread ;; esac
	run -0 gcc -std=gnu11 -Wall -Wextra -Werror $san -I"$TOP/lib/include" -o "$T/example" "$T/example.c" \
		"$TOP/$O/libte.so.0" -Wl,-rpath,"$TOP/$O"
}

@test "te_engine_open(3)" {
	example te_engine_open
	run -0 timeout 20 "$T/example" P2PHANDSHAKE 127.0.0.1
	assert_line --regexp '^127\.0\.0\.1:[0-9]+ at 127\.0\.0\.1 port [0-9]+, by tcp$'
	jq -e '.protocol == "tcp"' <<<"${lines[1]}"
	run -1 timeout 20 "$T/example" no://store
}
@test "te_register(3)" {
	example te_register
	run -0 timeout 20 "$T/example" P2PHANDSHAKE 127.0.0.1
	assert_output 'two buffers'
}
@test "te_segment_open(3)" {
	example te_segment_open
	store http
	target t --buffer-size=1M
	run -0 timeout 20 "$T/example" "$MC_METADATA_SERVER" "$SEGMENT"
	assert_line --regexp '^0x[0-9a-f]+ 1048576 bytes, by shm$'
	run -1 timeout 20 "$T/example" "$MC_METADATA_SERVER" nobody
}
@test "te_batch_submit(3)" {
	example te_batch_submit
	store http
	printf '\x5a' >"$T/t.mem"
	truncate -s 1M "$T/t.mem"
	target t --file="$T/t.mem"
	run -0 timeout 20 "$T/example" "$MC_METADATA_SERVER" "$SEGMENT"
	assert_output 'first byte 0x5a'
}
@test "te_notify_send(3)" {
	example te_notify_send
	run -0 timeout 20 "$T/example" P2PHANDSHAKE 127.0.0.1
	assert_output 'hello: to myself'
}

@test "no page is left out, and each says only what te.h has" {
	local page name
	for page in "$TOP"/man/*.3.scd; do
		name=$(basename "$page" .3.scd)
		grep -q "^	example $name$" "$BATS_TEST_FILENAME" || { echo "$name is not run"; return 1; }
		for name in $(sed -n '/^# NAME/{n;n;s/ - .*//;s/,//g;p}' "$page"); do
			grep -q "\b$name(" "$TOP/lib/include/te.h" || { echo "$page: te.h has no $name"; return 1; }
			grep -q "\b$name(" <(sed -n '/^# SYNOPSIS/,/^# DESC/p' "$page") || { echo "$page: no prototype of $name"; return 1; }
		done
	done
}
