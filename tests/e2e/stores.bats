# stores.bats - what te_meta.h promises, on each real store.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers

setup() { te_setup; }
teardown() { te_teardown; }

absent() {
	local rc=0
	te-meta get "$1" >/dev/null 2>"$T/absent" || rc=$?
	[ $rc = 1 ] && grep -q 'no such key' "$T/absent"
}
conflict() { # conflict COMMAND...: exit 1, and the message says why
	run -1 --separate-stderr "$@"
	[[ $stderr == *"exists already"* || $stderr == *"not the one with tag"* || $stderr == *"meanwhile"* ]]
}

# ---- values and keys ----

round_trip() { # round_trip FILE
	te-meta put mooncake/value - <"$1"
	te-meta get mooncake/value | cmp - "$1"
}
values() {
	store "$1"
	: >"$T/empty"
	printf '\n' >"$T/newline"
	printf 'a\0\0b\r\n\377\376' >"$T/binary"
	printf '{"name":"\303\251"}\n' >"$T/json"
	head -c 300000 /dev/urandom >"$T/big"
	for f in empty newline binary json big; do round_trip "$T/$f"; done
	te-meta put mooncake/word 'two words'
	[ "$(te-meta get mooncake/word)" = 'two words' ]
	# Overwriting rpc_meta with another value is nothing special.
	te-meta put mooncake/rpc_meta/n '{"ip_or_host_name":"h","rpc_port":1}'
	te-meta put mooncake/rpc_meta/n '{"ip_or_host_name":"h","rpc_port":2}'
	[ "$(te-meta get mooncake/rpc_meta/n | jq .rpc_port)" = 2 ]
	te-meta del mooncake/word mooncake/never-there
	absent mooncake/word
}
@test "http: values come back byte for byte" { values http; }
@test "redis: values come back byte for byte" { values redis; }
@test "etcd: values come back byte for byte" { values etcd; }
@test "foreign http: values come back byte for byte" { values foreign; }

keys() {
	local k
	store "$1"
	printf '%s\n' 'mooncake/a%2Fb' 'mooncake/a*b' 'mooncake/a/b' 'mooncake/a[b]' 'mooncake/a\b' 'mooncake/a b' 'mooncake/a?b&c=d#e' \
		'mooncake/ram/[::1]:1' 'mooncake/é' 'other/x' >"$T/keys"
	while read -r k; do te-meta put "$k" "value of $k"; done <"$T/keys"
	while read -r k; do [ "$(te-meta get "$k")" = "value of $k" ]; done <"$T/keys"
	if [ "$1" = foreign ]; then return; fi
	[ "$(te-meta ls)" = "$(LC_ALL=C sort "$T/keys" | grep -v ^other)" ]
	[ "$(te-meta ls other/)" = other/x ]
	[ "$(te-meta ls mooncake/a'*')" = 'mooncake/a*b' ]
	[ "$(te-meta ls mooncake/a[)" = 'mooncake/a[b]' ]
	[ "$(te-meta ls 'mooncake/a\')" = 'mooncake/a\b' ]
	[ "$(te-meta ls '' | wc -l)" = "$(wc -l <"$T/keys")" ]
	run -0 te-meta ls mooncake/nothing
	[ -z "$output" ]
}
@test "http: keys of any kind, listed by prefix" { keys http; }
@test "redis: keys of any kind, listed by prefix" { keys redis; }
@test "etcd: keys of any kind, listed by prefix" { keys etcd; }
@test "foreign http: keys of any kind" { keys foreign; }

many() { # more than one page of etcd's and redis' answers
	store "$1" "${@:2}"
	seq -f '{"key":"mooncake/many/%05g","value":"x"}' 1 2100 >"$T/dump"
	te-meta load "$T/dump"
	[ "$(te-meta ls mooncake/many/)" = "$(seq -f 'mooncake/many/%05g' 1 2100)" ]
}
@test "http: 2,100 keys" { many http; }
@test "redis: 2,100 keys" { many redis; }
@test "etcd: 2,100 keys" { many etcd; }

clusters() {
	store "$1"
	export MC_METADATA_CLUSTER_ID=prod
	te-meta put mooncake/prod/ram/a x
	te-meta put mooncake/ram/b x
	[ "$(te-meta ls)" = mooncake/prod/ram/a ]
}
@test "redis: MC_METADATA_CLUSTER_ID is the default prefix" { clusters redis; }

# ---- compare and swap ----

swaps() {
	local tag
	store "$1"
	te-meta put --if-absent mooncake/k one
	conflict te-meta put --if-absent mooncake/k two
	tag=$(te-meta get --tag mooncake/k)
	te-meta put --if-match="$tag" mooncake/k two
	conflict te-meta put --if-match="$tag" mooncake/k three
	[ "$(te-meta get mooncake/k)" = two ]
	[ "$(te-meta get --json mooncake/k | jq -r .tag)" = "$(te-meta get --tag mooncake/k)" ]
	conflict te-meta del --if-match="$tag" mooncake/k
	te-meta del --if-match="$(te-meta get --tag mooncake/k)" mooncake/k
	absent mooncake/k
	# A key that is gone is a conflict too.
	conflict te-meta put --if-match="$tag" mooncake/k four
	absent mooncake/k
	# What put says is the tag of what it put.
	tag=$(te-meta put --json mooncake/k five | jq -r .tag)
	te-meta put --if-match="$tag" mooncake/k six
}
@test "http: compare and swap" { swaps http; }
@test "redis: compare and swap" { swaps redis; }
@test "etcd: compare and swap" { swaps etcd; }

counts() {
	store "$1"
	run -0 "$PROGS/meta" cas "$MC_METADATA_SERVER"
	[ "$(grep -c '^ok' <<<"$output")" = 2 ]
}
@test "http: six threads on one handle lose no compare-and-swap" { counts http; }
@test "redis: six threads on one handle lose no compare-and-swap" { counts redis; }
@test "etcd: six threads on one handle lose no compare-and-swap" { counts etcd; }

# ---- time to live ----

expires() {
	store "$1"
	te-meta put --ttl=1 mooncake/short x
	te-meta put --ttl=1 mooncake/kept x
	te-meta put mooncake/kept y # without a TTL from now on
	te-meta put --ttl=1 --if-absent mooncake/swapped x
	te-meta put --ttl=600 --if-match="$(te-meta get --tag mooncake/swapped)" mooncake/swapped y
	[ "$(te-meta get mooncake/short)" = x ]
	until_ok 8 absent mooncake/short
	[ "$(te-meta get mooncake/kept)" = y ]
	[ "$(te-meta get mooncake/swapped)" = y ]
	[ "$(te-meta ls)" = mooncake/kept$'\n'mooncake/swapped ]
}
@test "http: keys go away after their time" { expires http; }
@test "redis: keys go away after their time" { expires redis; }
@test "etcd: keys go away after their time" { expires etcd; }

# ---- watching ----

watching() { # watching [OPTION...]: te-meta watch runs as "watch" and receives
	start watch te-meta -v watch "$@"
	wait_line 'from now on' "$T/watch.err"
}
sees() { until_ok 10 grep -qxE "$1" "$T/watch.out" || { cat "$T/watch.out" "$T/watch.err"; return 1; }; }

watches() {
	store "$@"
	te-meta put mooncake/before x
	te-meta put mooncake/goes x
	watching mooncake/
	te-meta put mooncake/a one
	sees 'put    mooncake/a 3 bytes'
	te-meta put other/x x
	te-meta put mooncake/a three
	sees 'put    mooncake/a 5 bytes'
	te-meta put --ttl=1 mooncake/short x
	sees 'put    mooncake/short 1 bytes'
	te-meta del mooncake/goes
	sees 'delete mooncake/goes'
	sees 'delete mooncake/short'
	refute_line_in watch.out 'other|before'
	kill -INT "$(pid_of watch)"
	ends watch 0 2
}
refute_line_in() { ! grep -E "$2" "$T/$1"; }
@test "http: watch" { watches http; }
@test "redis: watch by polling" { watches redis; }
@test "redis: watch by keyspace events" {
	watches redis --notify-keyspace-events KEA
	te-meta ping --json | jq -e .can.watch
	[ "$(redis-cli -p "$STORE_PORT" config get notify-keyspace-events | tail -n 1)" = AKE ]
}
@test "redis: events that are gone after a restart are replaced by polling" {
	store redis --notify-keyspace-events KEA
	watching mooncake/
	STORE_OPTIONS=()
	store_stop
	store_start
	te-meta put mooncake/a one
	sees 'put    mooncake/a 3 bytes'
	te-meta put mooncake/a three
	sees 'put    mooncake/a 5 bytes'
}
@test "redis: its settings are left alone" {
	store redis
	te-meta ping --json | jq -e '.can.watch | not'
	[ -z "$(redis-cli -p "$STORE_PORT" config get notify-keyspace-events | tail -n 1)" ]
}
@test "etcd: watch" { watches etcd; }

watch_json() {
	store http
	start watch te-meta -v --json watch
	wait_line 'from now on' "$T/watch.err"
	printf 'a\0b' | te-meta put mooncake/a -
	te-meta del mooncake/a
	until_ok 5 grep -q delete "$T/watch.out"
	[ "$(cat "$T/watch.out")" = '{"type":"put","key":"mooncake/a","value_base64":"YQBi"}'$'\n''{"type":"delete","key":"mooncake/a"}' ]
	kill -TERM "$(pid_of watch)"
	ends watch 0 2
}
@test "watch --json is one document a line" { watch_json; }

# What happens while the store is away is reported when it is back.
survives() {
	store "$@"
	te-meta put mooncake/a one
	watching
	store_restart_empty "$1"
	sees 'delete mooncake/a'
	te-meta put mooncake/b one
	sees 'put    mooncake/b 3 bytes'
}
@test "http: watch survives a restart of the store" { survives http; }
@test "redis: polling watch survives a restart of the store" { survives redis; }
@test "redis: watch by events survives a restart of the store" { survives redis --notify-keyspace-events KEA; }
@test "etcd: watch survives a restart of the store" { survives etcd; }

@test "etcd: a history that was compacted away costs no change" {
	store etcd
	te-meta put mooncake/a one
	watching
	# It cannot see these: it is stopped, and its connection is cut meanwhile.
	kill -STOP "$(pid_of watch)"
	te-meta del mooncake/a
	te-meta put mooncake/b one
	ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$STORE_PORT" compaction \
		"$(ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$STORE_PORT" get x -w json | jq .header.revision)"
	store_stop
	store_start
	kill -CONT "$(pid_of watch)"
	sees 'delete mooncake/a'
	sees 'put    mooncake/b 3 bytes'
}

# ---- one handle over a restart ----

reconnects() {
	store "$1"
	mkfifo "$T/in"
	"$PROGS/meta" calls "$MC_METADATA_SERVER" <"$T/in" >"$T/out" 2>&1 3>&- &
	echo $! >>"$T/pids"
	exec 7>"$T/in"
	echo 'put mooncake/a one' >&7
	wait_line '^put done' "$T/out"
	store_stop
	echo 'get mooncake/a' >&7
	wait_line '^get cannot get' "$T/out"
	store_start
	echo 'put mooncake/a two' >&7
	echo 'get mooncake/a' >&7
	until_ok 5 grep -qx 'get two' "$T/out" || { cat "$T/out"; return 1; }
	exec 7>&-
}
@test "http: a handle outlives a restart of the store" { reconnects http; }
@test "redis: a handle outlives a restart of the store" { reconnects redis; }
@test "etcd: a handle outlives a restart of the store" { reconnects etcd; }

@test "etcd: a lease that is gone is replaced" {
	store etcd
	local ctl=(env ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$STORE_PORT") lease
	mkfifo "$T/in"
	"$PROGS/meta" calls "$MC_METADATA_SERVER" <"$T/in" >"$T/out" 2>&1 3>&- &
	echo $! >>"$T/pids"
	exec 7>"$T/in"
	printf '%s\n' 'ttl mooncake/a one' 'ttl mooncake/b one' 'get mooncake/b' >&7
	wait_line '^get one' "$T/out"
	# The handle keeps one for both.
	lease=$("${ctl[@]}" lease list | tail -n +2)
	[ "$(wc -w <<<"$lease")" = 1 ]
	"${ctl[@]}" lease revoke "$lease"
	[ -z "$(te-meta ls)" ]
	echo 'ttl mooncake/d one' >&7
	until_ok 5 te-meta get mooncake/d
	exec 7>&-
	[ "$(te-meta ls)" = mooncake/d ]
}

# ---- credentials ----

wrong() { # wrong SECRET COMMAND...: refused, and the secret is not in any output
	local secret=$1
	shift
	run -1 --separate-stderr "$@"
	echo "$stderr"
	[[ $stderr == te-meta:* ]]
	[[ $output$stderr != *$secret* ]]
}
@test "redis: a password" {
	store redis --requirepass s3cret
	wrong none te-meta ping
	[[ $stderr == *NOAUTH* ]]
	MC_REDIS_PASSWORD=wr0ng wrong wr0ng te-meta -vv get mooncake/a
	wrong wr0ng te-meta -vv -m "redis://:wr0ng@127.0.0.1:$STORE_PORT" put mooncake/a x
	MC_REDIS_PASSWORD=s3cret te-meta put mooncake/a x
	[ "$(te-meta -m "redis://:s3cret@127.0.0.1:$STORE_PORT" get mooncake/a)" = x ]
	# Who it was is not told either, and not lost.
	run -0 te-meta -m "redis://:s3cret@127.0.0.1:$STORE_PORT" ping
	[[ $output == "redis://127.0.0.1:$STORE_PORT "* ]]
}
@test "redis: a user, and a database of its own" {
	store redis
	redis-cli -p "$STORE_PORT" acl setuser anna on '>s3cret' '~*' '+@all' >/dev/null
	export MC_REDIS_USERNAME=anna
	MC_REDIS_PASSWORD=wr0ng wrong wr0ng te-meta ping
	[[ $stderr == *WRONGPASS* ]]
	export MC_REDIS_PASSWORD=s3cret
	MC_REDIS_DB_INDEX=3 te-meta put mooncake/a x
	absent mooncake/a
	[ "$(te-meta -m "redis://127.0.0.1:$STORE_PORT/3" ls)" = mooncake/a ]
	MC_REDIS_DB_INDEX=200 run -1 --separate-stderr te-meta ls
	[[ $stderr == *"database 200"* ]]
}
@test "etcd: user and password" {
	store etcd
	local ctl=(env ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$STORE_PORT")
	"${ctl[@]}" user add root:s3cret >/dev/null
	"${ctl[@]}" user grant-role root root >/dev/null
	# A name without need for it: some set it everywhere.
	MC_TE_ETCD_USERNAME=root MC_TE_ETCD_PASSWORD=s3cret te-meta put mooncake/a x
	"${ctl[@]}" auth enable >/dev/null
	wrong none te-meta ping
	export MC_TE_ETCD_USERNAME=root
	MC_TE_ETCD_PASSWORD=wr0ng wrong wr0ng te-meta -vv get mooncake/a
	[[ $stderr == *"authentication failed"* ]]
	MC_TE_ETCD_PASSWORD=s3cret te-meta put --ttl=600 mooncake/b x
	unset MC_TE_ETCD_USERNAME
	[ "$(te-meta -m "etcd://root:s3cret@127.0.0.1:$STORE_PORT" ls)" = mooncake/a$'\n'mooncake/b ]
}
@test "http: a token" {
	echo s3cret >"$T/token"
	store http --token-file="$T/token"
	wrong none te-meta ping
	MC_TE_HTTP_TOKEN=wr0ng wrong wr0ng te-meta -vv get mooncake/a
	[[ $stderr == *401* ]]
	MC_TE_HTTP_TOKEN=wr0ng wrong wr0ng te-meta -vv ls
	export MC_TE_HTTP_TOKEN=s3cret
	te-meta put mooncake/a x
	[ "$(te-meta ls)" = mooncake/a ]
}

# ---- servers that are away, silent or strange ----

@test "etcd: the first endpoint that serves is used" {
	store etcd
	start deaf "$BATS_TEST_DIRNAME/../lib/deaf.py" accepts
	start hole "$BATS_TEST_DIRNAME/../lib/deaf.py" blackhole
	wait_file "$T/deaf.out"
	wait_file "$T/hole.out"
	MC_METADATA_SERVER="etcd://127.0.0.1:1;127.0.0.1:$(cat "$T/deaf.out"), 127.0.0.1:$(cat "$T/hole.out"),127.0.0.1:$STORE_PORT"
	began=$(now_ms)
	te-meta put mooncake/a x
	[ "$(te-meta get mooncake/a)" = x ]
	[ $(($(now_ms) - began)) -lt 11000 ]
	# A compare-and-swap may have been done by who does not answer: it is not made twice.
	run -1 --separate-stderr te-meta -m "etcd://127.0.0.1:$(cat "$T/deaf.out"),127.0.0.1:$STORE_PORT" put --if-absent mooncake/b x
	te-meta -m "etcd://127.0.0.1:1,127.0.0.1:$STORE_PORT" put --if-absent mooncake/c x
}

silent() { # silent VERB ARGUMENT...
	local began took uri
	for uri in "http://127.0.0.1:$port/metadata" "redis://127.0.0.1:$port" "etcd://127.0.0.1:$port"; do
		began=$(now_ms)
		run -1 --separate-stderr te-meta -m "$uri" "$@"
		took=$(($(now_ms) - began))
		echo "$uri $1: $took ms: $stderr"
		[ $took -lt $((3000 * SLOW)) ]
		[ "$(wc -l <<<"$stderr")" = 1 ]
		[[ $stderr == *"127.0.0.1:$port"* ]]
	done
}
never_answers() { # never_answers HOW
	start deaf "$BATS_TEST_DIRNAME/../lib/deaf.py" "$1"
	wait_file "$T/deaf.out"
	port=$(cat "$T/deaf.out")
	export MC_TRANSFER_TIMEOUT=0.5
	silent get mooncake/a
	silent put mooncake/a x
	silent put --ttl=5 mooncake/a x
	silent put --if-match=1 mooncake/a x
	silent del mooncake/a
	silent ls
	silent watch
	silent ping
	silent gc
}
@test "a store that accepts and never answers: every verb ends in time" { never_answers accepts; }
@test "a store behind a black hole: every verb ends in time" { never_answers blackhole; }

canned() { # canned BYTES: a server on $port
	printf "$1" >"$T/answer"
	start canned "$BATS_TEST_DIRNAME/../lib/canned.py" "$T/answer"
	wait_file "$T/canned.out"
	port=$(cat "$T/canned.out")
}
strange() { # strange URI WORD: each verb fails with one line, which has the word
	local v
	for v in "get mooncake/a" "put mooncake/a x" "ls" "watch" "ping"; do
		# shellcheck disable=SC2086
		run --separate-stderr timeout 20 te-meta -m "$1" $v
		echo "$v: $status $stderr"
		[ "$status" = 1 ] || [ "$v" = ping ] || [ "${3:-}" = "$v" ]
		[ "$(wc -l <<<"$stderr")" -le 1 ]
		[ "$status" = 0 ] || [[ $stderr == *"$2"* ]]
	done
}
http_reply() { printf 'HTTP/1.1 %s\\r\\nTE-Meta: 1\\r\\nContent-Length: %d\\r\\n\\r\\n%s' "$1" ${#2} "$2"; }

@test "redis: what is no redis" {
	canned 'HTTP/1.1 400 Bad Request\r\n\r\n'
	strange "redis://127.0.0.1:$port" "no redis server"
}
@test "redis: an array of two thousand million" {
	canned '*2000000000\r\n'
	strange "redis://127.0.0.1:$port" "127.0.0.1:$port"
}
@test "redis: a string that is announced and never comes" {
	canned '$2000000000\r\nabc'
	strange "redis://127.0.0.1:$port" "127.0.0.1:$port"
}
@test "etcd: what is no etcd" {
	canned "$(http_reply '404 Not Found' 'page not found')"
	strange "etcd://127.0.0.1:$port" "no etcd v3 gateway: it answered 404 page not found"
}
@test "etcd: answers of wrong types" {
	canned "$(http_reply '200 OK' '{"kvs":[[]],"header":7,"result":[],"more":true}')"
	run -1 --separate-stderr timeout 20 te-meta -m "etcd://127.0.0.1:$port" put --ttl=5 mooncake/a x
	[[ $stderr == *lease* ]]
	timeout 20 te-meta -m "etcd://127.0.0.1:$port" get mooncake/a || true
	rc=0
	timeout 20 te-meta -m "etcd://127.0.0.1:$port" ls || rc=$?
	[ $rc -le 1 ]
}
@test "http: lists and events of wrong types" {
	for body in '[]' '{"keys":7}' '{"keys":[7]}' 'null' '{"revision":1,"events":7}' '{"revision":-1}' 'x'; do
		canned "$(http_reply '200 OK' "$body")"
		run -1 --separate-stderr timeout 20 te-meta -m "http://127.0.0.1:$port" ls
		[ "$(wc -l <<<"$stderr")" = 1 ]
		run -1 --separate-stderr timeout 20 te-meta -m "http://127.0.0.1:$port" watch
	done
}
@test "http: the server's own words are in the message" {
	canned "$(http_reply '500 Internal Server Error' 'the disk is full')"
	run -1 --separate-stderr te-meta -m "http://127.0.0.1:$port" put mooncake/a x
	[[ $stderr == *"500 the disk is full"* ]]
}
@test "http: redirections are not followed" {
	store http
	canned "HTTP/1.1 302 Found\\r\\nLocation: $MC_METADATA_SERVER?key=a\\r\\nContent-Length: 0\\r\\n\\r\\n"
	te-meta put a x
	run -1 --separate-stderr te-meta -m "http://127.0.0.1:$port" get a
	[[ $stderr == *302* ]]
}

@test "proxies of the environment are used only on request, and -v says so" {
	store http
	export http_proxy=http://127.0.0.1:1 no_proxy=
	te-meta put mooncake/a x
	run -0 --separate-stderr te-meta -v get mooncake/a
	[[ $stderr == *"proxies named by the environment are ignored"* ]]
	MC_TE_USE_PROXY=1 run -1 --separate-stderr te-meta get mooncake/a
	[[ $stderr == *"port 1 "* ]]
}

@test "foreign http: a restarted engine may replace its rpc_meta, and only then something is deleted" {
	store foreign
	te-meta put mooncake/rpc_meta/a '{"rpc_port":1}'
	te-meta put mooncake/rpc_meta/a '{"rpc_port":1}'
	run ! grep -q DELETE "$T/store.err"
	te-meta put mooncake/rpc_meta/a '{"rpc_port":2}'
	grep -q DELETE "$T/store.err"
	[ "$(te-meta get mooncake/rpc_meta/a)" = '{"rpc_port":2}' ]
}

@test "https: a certificate that nobody signed is refused" {
	command -v openssl >/dev/null || skip "no openssl to make a certificate"
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$T/key" -out "$T/cert" -days 2 -subj /CN=127.0.0.1 \
		-addext subjectAltName=IP:127.0.0.1 2>/dev/null
	start store te-http-meta --listen=127.0.0.1:0 --tls-cert="$T/cert" --tls-key="$T/key" --ready-file="$T/ready"
	wait_file "$T/ready"
	url=$(grep -oE 'https://[^"]*/metadata' "$T/ready")
	run -1 --separate-stderr te-meta -m "$url" ping
	[[ $stderr == *certificate* ]]
	CURL_CA_BUNDLE=$T/cert run te-meta -m "$url" ping
	echo "$output"
}
