# meta.bats - te-meta's verbs as a user sees them. What each store does is in stores.bats.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers

setup() { te_setup; }
teardown() { te_teardown; }

DESC='{"buffers":[{"addr":4096,"length":1048576,"name":"n"}],"name":"n","protocol":"tcp","tcp_data_port":15329,"tcp_proto_version":2,"timestamp":"2026-11-29 23:12:23.964523"}'

@test "control characters of others reach neither lines nor terminals" {
	local nasty=$'mooncake/rpc_meta/x\e[31m\nmooncake/ram/forged\u009b'
	store http
	te-meta put "$nasty" '{"ip_or_host_name":"a\nb","rpc_port":1}'
	run -0 te-meta ls
	assert_output 'mooncake/rpc_meta/x?[31m?mooncake/ram/forged??'
	run -0 te-meta ls --json
	assert_equal "$(jq -r '.keys[0]' <<<"$output")" "$nasty"
	run -0 --separate-stderr te-meta gc
	assert_line --index 0 --partial 'x?[31m?mooncake/ram/forged??  a?b:1  dead'
	te-meta put mooncake/ram/y '{"name":"y","protocol":"p\nq\u001b"}'
	run -1 --separate-stderr te-meta show y
	assert_equal "$stderr" "te-meta: 'mooncake/ram/y': unknown protocol 'p?q?'"
}

@test "usage errors" {
	export MC_METADATA_SERVER=http://127.0.0.1:1
	usage 'no verb' te-meta
	usage "unknown verb 'frob'" te-meta frob
	usage 'get KEY' te-meta get
	usage 'get KEY' te-meta get a b
	usage 'put KEY' te-meta put
	usage 'del KEY' te-meta del
	usage 'show SEGMENT' te-meta show
	usage 'te-meta ping' te-meta ping x
	usage "'ls' does not take --ttl" te-meta ls --ttl=5
	usage "'get' does not take --if-match" te-meta get --if-match=x k
	usage "'put' does not take --tag" te-meta put --tag k v
	usage "'ls' does not take --delete" te-meta ls --delete
	usage 'exclude each other' te-meta put --if-absent --if-match=x k v
	usage 'takes one key' te-meta del --if-match=x k l
	usage "not '0'" te-meta put --ttl=0 k v
	usage "not 'x'" te-meta put --ttl=x k v
	usage 'not empty' te-meta show //
}

@test "an address that is none is a usage error" {
	usage "unknown metadata scheme 'zk': this build has etcd://, http://, https://, redis:// and P2PHANDSHAKE" te-meta -m zk://h:1 ls
	usage 'hiredis' te-meta -m rediss://h:1 ls
	usage 'HOST:PORT' te-meta -m redis://h:x ls
}

@test "without a store: exit 2 and the reason; only show asks a peer" {
	local v
	for v in 'get k' 'put k v' 'del k' ls watch dump load gc ping; do
		# shellcheck disable=SC2086
		usage 'no metadata server' te-meta $v
		# shellcheck disable=SC2086
		usage 'no metadata server' te-meta -m P2PHANDSHAKE $v
	done
	run -1 --separate-stderr te-meta show 127.0.0.1:1
	[[ $stderr == *127.0.0.1:1* ]]
}

@test "a bare host:port is etcd, an http address without a path gets /metadata" {
	run -1 --separate-stderr te-meta -m 127.0.0.1:1 ls
	[[ $stderr == *"from"*127.0.0.1:1* || $stderr == *"of 127.0.0.1:1"* ]]
	store http
	te-meta -m "http://127.0.0.1:$STORE_PORT" put mooncake/a x
	te-meta -m "http://127.0.0.1:$STORE_PORT/" get mooncake/a
	[ "$(te-meta get mooncake/a)" = x ]
}

@test "put: from the command line and from standard input" {
	store http
	te-meta put mooncake/a 'v -'
	[ "$(te-meta get mooncake/a)" = 'v -' ]
	echo one | te-meta put mooncake/a
	[ "$(te-meta get mooncake/a)" = one ]
	echo two | te-meta put mooncake/a -
	[ "$(te-meta get mooncake/a)" = two ]
	te-meta put mooncake/a ''
	run -0 te-meta get mooncake/a
	[ -z "$output" ]
	run -0 --separate-stderr te-meta put mooncake/a -- --ttl
	[ -z "$output$stderr" ]
	[ "$(te-meta get mooncake/a)" = --ttl ]
}

@test "get of nothing, del of nothing, ls of nothing" {
	store http
	run -1 --separate-stderr te-meta get mooncake/a
	[ "$stderr" = "te-meta: cannot get 'mooncake/a' from $MC_METADATA_SERVER: no such key" ]
	run -0 --separate-stderr te-meta del mooncake/a
	[ -z "$output$stderr" ]
	run -0 --separate-stderr te-meta ls
	[ -z "$output$stderr" ]
	run -0 --separate-stderr te-meta ls --json
	[ "$output" = '{"keys":[]}' ]
	run -1 --separate-stderr te-meta get ''
	[[ $stderr == *empty* ]]
}

@test "--json of get, put, del, ping" {
	store http
	run -0 te-meta --json put mooncake/a '{"x":1}'
	check_json '.key == "mooncake/a" and (.tag | length) > 0'
	run -0 te-meta --json get mooncake/a
	check_json '.value == "{\"x\":1}" and .tag != ""'
	printf '\377\0' | te-meta put mooncake/b -
	run -0 te-meta --json get mooncake/b
	check_json '.value_base64 == "/wA=" and (has("value") | not)'
	run -0 te-meta --json get --tag mooncake/b
	check_json 'keys == ["key", "tag"]'
	run -0 te-meta --json del mooncake/a mooncake/b
	check_json '.deleted == ["mooncake/a", "mooncake/b"]'
	run -0 te-meta --json ping
	check_json '.store == "http" and .can == {list: true, watch: true, ttl: true, compare_and_swap: true} and .seconds < 5'
	run -0 te-meta ping
	[[ $output == *"answers in"*"compare and swap" ]]
}

@test "dump and load: every byte comes back, on another kind of store too" {
	store http
	te-meta put mooncake/ram/n "$DESC"
	head -c 5000 /dev/urandom | te-meta put mooncake/binary -
	printf 'é\n\t"\\' | te-meta put mooncake/text -
	te-meta put other/x y
	te-meta dump >"$T/dump"
	[ "$(jq -r .key "$T/dump")" = mooncake/binary$'\n'mooncake/ram/n$'\n'mooncake/text ]
	[ "$(te-meta dump other/ | jq -r .value)" = y ]
	te-meta get mooncake/binary >"$T/binary"
	store_restart_empty http
	run -0 te-meta load "$T/dump"
	[ "$output" = '3 entries loaded, 0 failed' ]
	te-meta dump | cmp - "$T/dump"
	te-meta get mooncake/binary | cmp - "$T/binary"
	store_stop
	store redis
	te-meta load <"$T/dump"
	te-meta dump | cmp - "$T/dump"
}

@test "load: all lines or nothing" {
	local line
	store http
	for line in 'x' '7' '[]' '{"key":"k"}' '{"value":"v"}' '{"key":"","value":"v"}' '{"key":"k","value":7}' \
		'{"key":"k","value_base64":"*"}' '{"key":"k","value":"v","value_base64":"dg=="}'; do
		printf '%s\n\n%s\n' '{"key":"mooncake/a","value":"x"}' "$line" >"$T/dump"
		run -1 --separate-stderr te-meta load "$T/dump"
		[[ $stderr == "te-meta: $T/dump, line 3: "* ]]
		[ -z "$(te-meta ls)" ]
	done
	run -1 --separate-stderr te-meta load "$T/none"
	[[ $stderr == *"$T/none"* ]]
	run -0 te-meta load /dev/null
}

@test "load: what the store refuses is named, the rest is put" {
	store http
	te-meta put mooncake/b old
	printf '{"key":"mooncake/%s","value":"new"}\n' a b c >"$T/dump"
	run -1 --separate-stderr te-meta load --if-absent --json "$T/dump"
	[ "$output" = '{"loaded":2,"failed":1}' ]
	[ "$(wc -l <<<"$stderr")" = 1 ]
	[[ $stderr == *"'mooncake/b'"* ]]
	[ "$(te-meta get mooncake/b)" = old ]
}

@test "show: a descriptor for people and as JSON" {
	store http
	te-meta put mooncake/ram/n "$DESC"
	run -0 te-meta show n
	[[ $output == *"protocol     tcp"* && $output == *"owner        unknown"* && $output == *"port 15329"* && $output == *0x000000001000* ]]
	te-meta put mooncake/rpc_meta/n '{"ip_or_host_name":"127.0.0.1","rpc_port":1}'
	run -0 te-meta show n
	[[ $output == *"127.0.0.1:1, does not answer: "*refused* ]]
	run -0 te-meta show --json n
	check_json '.alive == false and .rpc_meta.rpc_port == 1 and .descriptor.buffers[0].addr == 4096 and .key == "mooncake/ram/n"'
	run -0 te-meta show --json /n
	check_json '.segment == "n"'
}

@test "show: what others would stumble over, and what nobody can read" {
	store http
	te-meta put mooncake/ram/seed '{"server_name":"seed","protocol":"tcp","buffers":[{"name":"n","addr":"0x1000","length":4096}]}'
	run -0 te-meta show seed
	[[ $output == *note* ]]
	te-meta put mooncake/ram/bad '{"name":"bad","protocol":"tcp","buffers":7}'
	run -1 --separate-stderr te-meta show bad
	[[ $stderr == "te-meta: 'mooncake/ram/bad': "*buffers* ]]
	run -1 --separate-stderr te-meta show nobody
	[[ $stderr == *"mooncake/ram/nobody"*"no such key"* ]]
}

@test "show and gc: a target that lives, one that was killed, and one whose port is another's" {
	store http
	target a -n alive
	target b -n dead
	run -0 te-meta show alive
	[[ $output == *", answers"* ]]
	run -0 te-meta show --json alive
	check_json '.alive and .reason == null and (.descriptor.buffers | length) >= 1'
	murder b
	te-meta get mooncake/rpc_meta/alive | te-meta put mooncake/rpc_meta/moved -
	te-meta put mooncake/ram/moved "$DESC"
	te-meta put mooncake/ram/known '{"name":"known","protocol":"tcp","buffers":[]}' # registered, and has no owner yet
	run -0 --separate-stderr te-meta gc
	echo "$output"
	[[ $output == *"dead  127.0.0.1:"*refused* ]]
	[[ $output == *"moved  127.0.0.1:"*"belongs to 'alive' now"* ]]
	[[ $output != *ram/alive* && $output != *ram/known* ]]
	[ "$(te-meta ls | wc -l)" = 7 ]
	run -0 --separate-stderr te-meta gc --delete --json
	check_json '.asked == 3 and ([.found[] | select(.deleted)] | length) == 2 and ([.found[].segment] | sort) == ["dead", "moved"]'
	[ "$(te-meta ls)" = mooncake/ram/alive$'\n'mooncake/ram/known$'\n'mooncake/rpc_meta/alive ]
	stop a
}

@test "gc: whoever is stopped or busy is left alone" {
	store http
	start deaf "$BATS_TEST_DIRNAME/../lib/deaf.py" accepts
	wait_file "$T/deaf.out"
	te-meta put mooncake/rpc_meta/busy "{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":$(cat "$T/deaf.out")}"
	run -0 --separate-stderr te-meta gc --delete
	[[ $output == *"unclear: no reply from"* ]]
	[ "$(te-meta ls)" = mooncake/rpc_meta/busy ]
}

@test "gc: a host that does not exist is dead" {
	getent hosts localhost >/dev/null || skip "no name resolution"
	store http
	te-meta put mooncake/rpc_meta/n '{"ip_or_host_name":"no host at all","rpc_port":7}'
	run -0 --separate-stderr te-meta gc --delete
	[[ $output == *deleted* ]]
}

@test "gc: whoever hangs up without a word is left alone" {
	store http
	: >"$T/nothing"
	start mute "$BATS_TEST_DIRNAME/../lib/canned.py" "$T/nothing"
	wait_file "$T/mute.out"
	te-meta put mooncake/rpc_meta/old "{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":$(cat "$T/mute.out")}"
	run -0 --separate-stderr te-meta gc --delete
	[[ $output == *"old  127.0.0.1:$(cat "$T/mute.out")  unclear: "* ]]
	[ "$(te-meta ls)" = mooncake/rpc_meta/old ]
}

@test "gc: entries that are none are named and left alone" {
	store http
	te-meta put mooncake/rpc_meta/odd 'no JSON'
	run -0 --separate-stderr te-meta gc --delete
	[[ $stderr == *"'mooncake/rpc_meta/odd' is left alone: "* ]]
	[ "$(te-meta ls)" = mooncake/rpc_meta/odd ]
}

@test "gc: forty owners behind a black hole take a few seconds, not forty" {
	local i
	store http
	start hole "$BATS_TEST_DIRNAME/../lib/deaf.py" blackhole
	wait_file "$T/hole.out"
	for i in {1..40}; do
		echo "{\"key\":\"mooncake/rpc_meta/n$i\",\"value\":\"{\\\"ip_or_host_name\\\":\\\"127.0.0.1\\\",\\\"rpc_port\\\":$(cat "$T/hole.out")}\"}"
	done | te-meta load
	began=$(now_ms)
	run -0 --separate-stderr te-meta gc --delete --json
	[ $(($(now_ms) - began)) -lt $((6000 * SLOW)) ]
	check_json '[.found[] | select(.deleted)] | length == 40'
	[ -z "$(te-meta ls)" ]
}

@test "a full disk and a closed pipe are noticed" {
	store http
	te-meta put mooncake/a x
	local v
	for v in 'get mooncake/a' ls dump ping 'show a' '--json ls'; do
		[ "$v" != 'show a' ] || te-meta put mooncake/ram/a "$DESC"
		# shellcheck disable=SC2086
		run -1 --separate-stderr bash -c '"$@" >/dev/full' _ te-meta $v
		[[ $stderr == *"cannot write"* ]]
	done
	start watch bash -c 'te-meta -v watch >/dev/full'
	wait_line 'from now on' "$T/watch.err"
	te-meta put mooncake/c x
	ends watch 1
	grep -q 'cannot write' "$T/watch.err"
}

@test "no leak, and no descriptor left open in what te-meta starts" {
	command -v valgrind >/dev/null || skip "no valgrind"
	case $O in *asan | *tsan) skip "a sanitizer is in it already" ;; esac
	store redis
	local v
	for v in 'put mooncake/ram/n -' 'get mooncake/ram/n' ls 'show n' dump gc ping 'del mooncake/ram/n' 'get nothing'; do
		# shellcheck disable=SC2086
		run valgrind -q --leak-check=full --errors-for-leak-kinds=definite,indirect --error-exitcode=9 te-meta $v <<<"$DESC"
		echo "$v: $output"
		[ "$status" != 9 ]
	done
}
