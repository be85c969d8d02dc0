#!/usr/bin/env bats
# te-http-meta: what clients of Mooncake and of te see, what survives, and what hostile clients cannot do.
bats_require_minimum_version 1.5.0
load ../lib/te

setup() {
	te_setup
	RAW=(/usr/bin/python3 "$TOP/tests/lib/http_raw.py")
}
teardown() { te_teardown; }

# serve [OPTION...]: a server; $URL of /metadata, $BASE, $PORT.
serve() {
	rm -f "$T/meta.json"
	start meta te-http-meta --listen=127.0.0.1:0 --ready-file="$T/meta.json" "$@"
	until_ok 10 ready_or_gone meta
	[ -s "$T/meta.json" ] || { cat "$T/meta.err"; return 1; }
	URL=$(ready meta .url)
	BASE=${URL%/metadata}
	PORT=${BASE##*:}
}
# http STATUS CURL-OPTION...: the request ends with that status; body in $output, header in $T/header.
http() {
	local want=$1
	shift
	run -0 curl -sS -m 20 -D "$T/header" -o "$T/body" -w '%{http_code}' "$@"
	assert_equal "$output" "$want"
	tr -d '\0' <"$T/body" >"$T/text"
	output=$(cat "$T/text")
	mapfile -t lines <"$T/text"
}
header() { sed -n "s/^$1: *//Ip" "$T/header" | tr -d '\r' | tail -n 1; }
put() { http 200 -X PUT --data-binary "$2" "$URL?key=$1" "${@:3}"; }
# puts PREFIX FILE COUNT: COUNT puts of FILE on one connection, keys PREFIX1, PREFIX2 ...
puts() {
	local i
	for i in $(seq "$3"); do
		printf 'url = "%s?key=%s"\nupload-file = "%s"\noutput = "/dev/null"\n' "$URL" "$1$i" "$2"
	done >"$T/puts"
	curl -sS -K "$T/puts"
}
revision() { curl -sS "$URL?watch=1" | jq .revision; }

@test "the life of a real engine: its requests, byte for byte" {
	local key='mooncake%2Fram%2F127.0.0.1%3A12345'
	serve
	printf 'PUT /metadata?key=mooncake%%2Frpc_meta%%2F127.0.0.1%%3A12345 HTTP/1.1\r\nHost: 127.0.0.1:18080\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: 48\r\n\r\n{"ip_or_host_name":"127.0.0.1","rpc_port":16888}' >"$T/request"
	run -0 "${RAW[@]}" send "$PORT" <"$T/request"
	assert_line --partial 'HTTP/1.1 200 OK'
	assert_line --partial 'Content-Type: application/json; charset=utf-8'
	assert_line --partial 'metadata updated'
	assert_line open # keep-alive
	http 404 "$URL?key=$key"
	assert_output 'metadata not found'
	put "$key" '{"buffers":[],"name":"127.0.0.1:12345","protocol":"tcp"}' -H 'Content-Type: application/json'
	assert_output 'metadata updated'
	put "$key" '{"buffers":[{"addr":140366316113920}],"name":"127.0.0.1:12345"}'
	http 200 "$URL?key=$key"
	assert_output '{"buffers":[{"addr":140366316113920}],"name":"127.0.0.1:12345"}'
	# A restarted engine writes another rpc_meta: never refused.
	put 'mooncake%2Frpc_meta%2F127.0.0.1%3A12345' '{"ip_or_host_name":"127.0.0.1","rpc_port":16889}'
	http 200 -X DELETE "$URL?key=mooncake%2Frpc_meta%2F127.0.0.1%3A12345"
	assert_output 'metadata deleted'
	http 200 -X DELETE "$URL?key=$key"
	http 200 -X DELETE "$URL?key=$key"
	assert_output 'metadata deleted'
}

@test "keys: decoding, order, limits" {
	local long
	serve
	put 'a%2Fb%20c%C3%A4%25' 1
	http 200 "$URL?key=a/b+c%c3%a4%25"
	assert_output 1
	long=$(printf 'k%.0s' $(seq 4096))
	put "$long" long
	http 200 "$URL?key=$long"
	# Percent-encoded throughout, as long as a key can be.
	http 200 "$URL?key=${long//k/%6b}"
	http 400 "$URL?key=${long}k"
	for q in '' '?' '?key' '?key=' '?KEY=a' '?key=%00' '?key=a%00b' '?key=%zz' '?key=%4' '?list=0' '?watch=2'; do
		http 400 "$URL$q"
		http 400 -X PUT -d x "$URL$q"
		http 400 -X DELETE "$URL$q"
		assert_equal "$(header TE-Meta)" 1
	done
	http 400 -X PUT -d x "$URL?key=%ff"
	assert_output 'key is not UTF-8'
	http 404 "$URL?key=%ff"
}

@test "methods, paths and replies" {
	serve
	for m in POST PATCH OPTIONS TRACE FOO; do
		http 405 -X $m "$URL?key=a"
		assert_equal "$(header Allow)" 'GET, PUT, DELETE'
	done
	http 405 -I "$URL?key=a"
	http 404 "$BASE/"
	http 404 "$BASE/metadata/"
	http 404 "$BASE/metadatax?key=a"
	http 200 "$BASE/health"
	assert_output OK
	http 200 -I "$BASE/health"
	http 405 -X PUT -d x "$BASE/health"
	http 200 "$BASE/metrics"
	assert_line 'te_http_meta_requests_total{method="other",status="405"} 5'
}

@test "values: any bytes, empty, large, --max-value" {
	serve --max-value=3M
	head -c 3145728 /dev/urandom >"$T/big"
	http 200 -T "$T/big" "$URL?key=big" # with Expect: 100-continue
	http 200 "$URL?key=big"
	cmp "$T/big" "$T/body"
	http 200 -T "$T/big" -H 'Transfer-Encoding: chunked' -H 'Expect:' "$URL?key=big"
	printf '\0\1\0' >"$T/small"
	http 200 -T "$T/small" "$URL?key=small"
	http 200 "$URL?key=small"
	cmp "$T/small" "$T/body"
	put empty ''
	http 200 "$URL?key=empty"
	[ ! -s "$T/body" ]
	echo >>"$T/big"
	http 413 -T "$T/big" "$URL?key=big"
	assert_equal "$(header TE-Meta)" 1
	http 413 -T "$T/big" -H 'Expect:' "$URL?key=big"
	http 413 -T "$T/big" -H 'Expect:' -H 'Transfer-Encoding: chunked' "$URL?key=big"
	http 200 "$URL?key=big"
	assert_equal "$(header Content-Length)" 3145728
}

@test "Expect: 100-continue costs no wait" {
	local before
	serve
	head -c 2000000 /dev/zero >"$T/big"
	before=$(now_ms)
	for _ in 1 2 3; do http 200 -T "$T/big" "$URL?key=big"; done
	[ $(($(now_ms) - before)) -lt $((2500 * SLOW)) ]
}

@test "tags: compare and swap" {
	local tag
	serve
	http 412 -X PUT -d 0 -H 'If-Match: "1"' "$URL?key=k"
	http 412 -X PUT -d 0 -H 'If-Match: *' "$URL?key=k"
	http 412 -X DELETE -H 'If-Match: "1"' "$URL?key=k"
	http 200 -X PUT -d 1 -H 'If-None-Match: *' "$URL?key=k"
	tag=$(header ETag)
	assert_regex "$tag" '^"[0-9a-f]+"$'
	http 412 -X PUT -d 2 -H 'If-None-Match: *' "$URL?key=k"
	http 400 -X PUT -d 2 -H 'If-None-Match: "x"' "$URL?key=k"
	http 200 "$URL?key=k"
	assert_output 1
	assert_equal "$(header ETag)" "$tag"
	http 200 -X PUT -d 2 -H "If-Match: $tag" "$URL?key=k"
	[ "$(header ETag)" != "$tag" ]
	http 412 -X PUT -d 3 -H "If-Match: $tag" "$URL?key=k"
	http 412 -X DELETE -H "If-Match: $tag" "$URL?key=k"
	http 200 "$URL?key=k"
	assert_output 2
	http 200 -X DELETE -H "If-Match: $(header ETag)" "$URL?key=k"
	http 404 "$URL?key=k"
}

@test "of many that put if absent at once, one wins" {
	serve --data="$T/kv.db"
	for i in 1 2 3 4 5 6 7 8; do
		curl -s -o "$T/out.$i" -w '%{http_code}\n' -X PUT -d $i -H 'If-None-Match: *' "$URL?key=k" >"$T/code.$i" &
	done
	wait %{2..9} 2>/dev/null || true
	until_ok 10 test "$(cat "$T"/code.* | wc -l)" = 8
	assert_equal "$(cat "$T"/code.* | sort | tr '\n' ' ')" '200 412 412 412 412 412 412 412 '
}

@test "lists are sorted bytewise and complete" {
	serve
	for k in b 'a%2F2' 'a%2F10' 'a' 'a%2F%C3%A4' 'a%20%22x%22'; do put "$k" 1; done
	http 200 "$URL?prefix=a%2F&list=1"
	check_json '.keys == ["a/10", "a/2", "a/ä"] and (.revision | type) == "number"'
	http 200 "$URL?prefix=&list=1"
	check_json '.keys == ["a", "a \"x\"", "a/10", "a/2", "a/ä", "b"]'
	http 200 "$URL?list=1&prefix=zz"
	check_json '.keys == []'
}

@test "TE-TTL: keys expire, a put renews or makes permanent" {
	serve
	for bad in 0 -1 1.5 x 99999999999; do http 400 -X PUT -d x -H "TE-TTL: $bad" "$URL?key=k"; done
	put gone 1 -H 'TE-TTL: 1'
	put kept 1 -H 'TE-TTL: 1'
	put kept 1
	put renewed 1 -H 'TE-TTL: 1'
	put renewed 1 -H 'TE-TTL: 100'
	until_ok 5 expired
	http 200 "$URL?prefix=&list=1"
	check_json '.keys == ["kept", "renewed"]'
}
expired() { [ "$(curl -s -o /dev/null -w '%{http_code}' "$URL?key=gone")" = 404 ]; }

# watch NAME SINCE [QUERY]: a long poll in the background, its reply in $T/NAME.out.
watch() { start "$1" curl -sS -m 70 "$URL?prefix=w%2F&watch=1&since=$2${3:-}"; }
watched() { wait_exit "$(pid_of "$1")" && output=$(cat "$T/$1.out"); }
watchers() { curl -s "$BASE/metrics" | grep -qx "te_http_meta_watchers $1"; }

@test "watch tells of puts, deletes and expiry, and how far it has come" {
	local rev
	serve
	http 200 "$URL?prefix=w%2F&watch=1"
	check_json '.events == []'
	rev=$(revision)
	watch one "$rev"
	until_ok 5 watchers 1
	put other x
	put 'w%2Fa' 'bytes'
	watched one
	check_json '.events == [{"type": "put", "key": "w/a", "value_base64": "Ynl0ZXM="}]'
	check_json ".revision > $rev"
	# What was missed comes at once.
	http 200 -X DELETE "$URL?key=w%2Fa"
	http 200 "$URL?prefix=w%2F&watch=1&since=$rev"
	check_json '[.events[].type] == ["put", "delete"] and .events[1].key == "w/a"'
	rev=$(jq .revision <<<"$output")
	assert_equal "$rev" "$(revision)"
	put 'w%2Ft' x -H 'TE-TTL: 1'
	rev=$(revision)
	watch two "$rev"
	watched two
	check_json '.events == [{"type": "delete", "key": "w/t"}]'
	# A heartbeat is no news.
	put 'w%2Fh' x -H 'TE-TTL: 50'
	rev=$(revision)
	watch three "$rev" '&timeout=1'
	put 'w%2Fh' x -H 'TE-TTL: 50'
	watched three
	check_json ".events == [] and .revision >= $rev"
}

@test "watch: time-out, bad parameters, revisions of another life" {
	local before rev
	serve
	rev=$(revision)
	before=$(now_ms)
	http 200 "$URL?prefix=w%2F&watch=1&since=$rev&timeout=1"
	check_json ".events == [] and .revision == $rev"
	[ $(($(now_ms) - before)) -ge 990 ]
	http 200 "$URL?watch=1&since=$rev&timeout=0"
	for q in 'since=x' 'since=-1' 'since=' "since=$rev&timeout=61" "since=$rev&timeout=x"; do
		http 400 "$URL?prefix=&watch=1&$q"
	done
	http 410 "$URL?prefix=&watch=1&since=0"
	http 410 "$URL?prefix=&watch=1&since=$((rev - 1))"
	http 410 "$URL?prefix=&watch=1&since=$((rev + 1))"
	stop meta
	serve
	http 410 "$URL?prefix=&watch=1&since=$rev"
}

@test "watch: many events come in pieces, none is lost" {
	local rev n=0
	serve
	rev=$(revision)
	puts w/ /dev/null 2500
	while [ $n -lt 2500 ]; do
		http 200 "$URL?prefix=w%2F&watch=1&since=$rev&timeout=1"
		check_json '.events | length > 0'
		n=$((n + $(jq '.events | length' <<<"$output")))
		rev=$(jq .revision <<<"$output")
	done
	assert_equal $n 2500
	assert_equal "$rev" "$(revision)"
}

@test "--token-file: needed for all but /health, never shown" {
	echo 'hush-hush' >"$T/token"
	serve --token-file="$T/token" -vv
	for h in 'X: y' 'Authorization: Bearer' 'Authorization: Bearer hush-hus' 'Authorization: Bearer hush-hush1' \
		'Authorization: Basic hush-hush' 'Authorization: Bearer hush-hush, x'; do
		for u in "$URL?key=k" "$URL?prefix=&list=1" "$BASE/metrics"; do
			http 401 -H "$h" "$u"
			assert_equal "$(header WWW-Authenticate)" Bearer
		done
		http 401 -H "$h" -X PUT -d x "$URL?key=k"
		http 200 -H "$h" "$BASE/health"
	done
	http 200 -H 'Authorization: Bearer hush-hush' -X PUT -d x "$URL?key=k"
	http 200 -H 'authorization: bearer hush-hush' "$URL?key=k"
	http 200 -H 'Authorization: Bearer hush-hush' "$BASE/metrics"
	# Refused before the body is read.
	head -c 2000000 /dev/zero >"$T/big"
	http 401 -T "$T/big" "$URL?key=k"
	run ! grep -c 'hush' "$T/meta.out" "$T/meta.err"
	[ -s "$T/meta.err" ] # -vv does log requests
	stop meta
	: >"$T/token"
	run -1 --separate-stderr te-http-meta --listen=127.0.0.1:0 --token-file="$T/token"
	assert_regex "$stderr" "'$T/token' is empty"
	printf 'two words' >"$T/token"
	run -1 te-http-meta --listen=127.0.0.1:0 --token-file="$T/token"
	run -1 --separate-stderr te-http-meta --listen=127.0.0.1:0 --token-file="$T/none"
	assert_regex "$stderr" "cannot open '$T/none': No such file"
}

@test "TLS" {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$T/key.pem" -out "$T/cert.pem" -days 2 -subj /CN=localhost \
		-addext subjectAltName=IP:127.0.0.1 2>/dev/null
	serve --tls-cert="$T/cert.pem" --tls-key="$T/key.pem"
	assert_regex "$URL" '^https://127.0.0.1:'
	http 200 --cacert "$T/cert.pem" -X PUT -d secret "$URL?key=k"
	http 200 --cacert "$T/cert.pem" "$URL?key=k"
	assert_output secret
	head -c 3000000 /dev/urandom >"$T/big"
	http 200 --cacert "$T/cert.pem" -T "$T/big" "$URL?key=big"
	http 200 --cacert "$T/cert.pem" "$URL?key=big"
	cmp "$T/big" "$T/body"
	http 200 --cacert "$T/cert.pem" "$URL?watch=1&since=$(jq .revision <(curl -s --cacert "$T/cert.pem" "$URL?watch=1"))&timeout=1"
	run -60 curl -sS "$URL?key=k"
	run ! curl -sS --cacert "$T/cert.pem" --tlsv1.1 --tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0 "$URL?key=k"
	run ! curl -sS "http://127.0.0.1:${URL##*:}"
	stop meta

	run -2 te-http-meta --tls-cert="$T/cert.pem"
	assert_output --partial '--tls-cert and --tls-key go together'
	run -1 --separate-stderr te-http-meta --listen=127.0.0.1:0 --tls-cert="$T/none" --tls-key="$T/key.pem"
	assert_regex "$stderr" "cannot open '$T/none'"
	echo nonsense >"$T/bad.pem"
	run -1 --separate-stderr te-http-meta --listen=127.0.0.1:0 --tls-cert="$T/bad.pem" --tls-key="$T/key.pem"
	assert_equal "$(wc -l <<<"$stderr")" 1
}

@test "--listen: all addresses, IPv6, several, --addr, a port that is taken" {
	local port
	start meta te-http-meta --listen=127.0.0.1:0 --addr=:0 --ready-file="$T/meta.json"
	wait_file "$T/meta.json"
	check_json '(.listen | length) == 2 and (.url | startswith("http://127.0.0.1:"))' "$T/meta.json"
	refute grep -q loopback "$T/meta.err"
	for i in 0 1; do
		port=$(ready meta ".listen[$i] | split(\":\") | last")
		http 200 "http://127.0.0.1:$port/health"
	done
	if grep -q . /proc/net/if_inet6; then http 200 "http://[::1]:$port/health"; fi
	for l in "127.0.0.1:$port" ":$port"; do
		run -1 --separate-stderr te-http-meta --listen="$l"
		assert_equal "$stderr" "te-http-meta: cannot listen on '$l': Address already in use"
	done
	stop meta
	run -2 --separate-stderr te-http-meta --listen=127.0.0.1
	assert_regex "$stderr" "^te-http-meta: --listen: '127.0.0.1' is not ADDR:PORT; try "
	run -2 te-http-meta --listen=127.0.0.1:65536
	run -1 --separate-stderr te-http-meta --listen=192.0.2.1:0
	assert_regex "$stderr" "cannot listen on '192.0.2.1:0': Cannot assign"
}

@test "start: what is printed, and the ready file" {
	echo old >"$T/meta.json"
	serve
	assert_equal "$(cat "$T/meta.out")" "serving $URL"
	assert_regex "$(cat "$T/meta.err")" '^te-http-meta: listening on loopback only, other hosts cannot reach it'
	check_json ".listen == [\"127.0.0.1:$PORT\"] and .url == \"$URL\"" "$T/meta.json"
	stop meta
	[ ! -e "$T/meta.json" ]
	serve -q
	[ ! -s "$T/meta.out" ] && [ ! -s "$T/meta.err" ]
	stop meta
	serve --json
	check_json ".url == \"$URL\"" "$T/meta.out"
	stop meta
	run -1 --separate-stderr te-http-meta --listen=127.0.0.1:0 --ready-file="$T/no/such/dir"
	assert_regex "$stderr" "'$T/no/such/dir"
	run -1 --separate-stderr bash -c 'te-http-meta --listen=127.0.0.1:0 >/dev/full'
	assert_regex "$stderr" 'cannot write output'
	run -2 te-http-meta --max-value=1G
	run -2 te-http-meta argument
}

@test "SIGTERM and SIGINT end it at once, with watchers, idle and half done clients" {
	local before
	for s in TERM INT; do
		serve --data="$T/kv.db"
		start idle "${RAW[@]}" idle "$PORT" 50
		wait_line 'open 50' "$T/idle.out"
		watch one "$(revision)"
		until_ok 5 watchers 1
		before=$(now_ms)
		kill -$s "$(pid_of meta)"
		ends meta 0 5
		[ $(($(now_ms) - before)) -lt $((2000 * SLOW)) ]
		watched one
		check_json '.events == []'
		kill "$(pid_of idle)"
	done
}

@test "--data: kept over a restart, tags and revisions too" {
	local tag rev
	serve --data="$T/kv.db"
	put 'a%2F%C3%A4' one
	tag=$(header ETag)
	put b two
	put c three -H 'TE-TTL: 1000'
	put d four -H 'TE-TTL: 1'
	http 200 -X DELETE "$URL?key=b"
	rev=$(revision)
	stop meta
	[ ! -e "$T/kv.db-wal" ]
	until_ok 5 sqlite3_expired
	serve --data="$T/kv.db"
	http 200 "$URL?prefix=&list=1"
	check_json ".keys == [\"a/ä\", \"c\"] and .revision > $rev"
	http 200 "$URL?key=a%2F%C3%A4"
	assert_output one
	assert_equal "$(header ETag)" "$tag"
	http 412 -X PUT -d x -H 'If-None-Match: *' "$URL?key=a%2F%C3%A4"
	http 200 -X PUT -d x -H "If-Match: $tag" "$URL?key=a%2F%C3%A4"
	http 410 "$URL?watch=1&since=$((rev - 1))"
}
sqlite3_expired() {
	[ "$(sqlite3 "$T/kv.db" "SELECT count(*) FROM metadata
		WHERE key = 'd' AND expires_ms / 1000 >= CAST(strftime('%s', 'now') AS INTEGER)")" = 0 ]
}

@test "--data: what was acknowledged survives kill -9" {
	for round in 1 2 3; do
		serve --data="$T/kv.db"
		start putter "${RAW[@]}" put "$PORT" 16 "round$round"
		until_ok 20 enough_lines "$T/putter.out" $((200 * round))
		murder meta
		wait_exit "$(pid_of putter)"
	done
	cat "$T"/putter.out >>"$T/acked"
	serve --data="$T/kv.db"
	curl -s "$URL?prefix=round3&list=1" | jq -r '.keys[]' >"$T/have"
	[ "$(wc -l <"$T/acked")" -ge 600 ]
	run -0 comm -23 <(sort "$T/acked") <(sort "$T/have")
	assert_output ''
	# A value, not only the key.
	http 200 "$URL?key=round3/5/1"
	assert_output 1
}
enough_lines() { [ "$(wc -l <"$1")" -ge "$2" ]; }

@test "--data: a full disk refuses writes, serves reads, and heals" {
	local tag
	serve --data="$T/kv.db"
	put a before
	tag=$(header ETag)
	head -c 400000 /dev/urandom >"$T/big"
	prlimit --pid "$(pid_of meta)" --fsize=200000:
	http 507 -T "$T/big" "$URL?key=big"
	assert_output --partial "cannot write '$T/kv.db'"
	http 507 -T "$T/big" "$URL?key=a"
	assert_equal "$(grep -c "cannot write '$T/kv.db'" "$T/meta.err")" 1 # said once
	http 404 "$URL?key=big"
	http 200 "$URL?key=a"
	assert_output before
	assert_equal "$(header ETag)" "$tag"
	http 200 "$URL?prefix=&list=1"
	check_json '.keys == ["a"]'
	http 200 "$URL?watch=1&since=$(revision)&timeout=0"
	prlimit --pid "$(pid_of meta)" --fsize=unlimited:
	http 200 -T "$T/big" -H "If-Match: $tag" "$URL?key=a"
	http 200 -X PUT -d after "$URL?key=b"
	grep -q 'works again$' "$T/meta.err"
	murder meta
	serve --data="$T/kv.db"
	http 200 "$URL?prefix=&list=1"
	check_json '.keys == ["a", "b"]'
	http 200 "$URL?key=a"
	cmp "$T/big" "$T/body"
}

@test "--data: a damaged or foreign file, or one in use, is one clear error" {
	local fails=(run -1 --separate-stderr timeout 10 te-http-meta --listen=127.0.0.1:0)
	one_line() { assert_equal "$(wc -l <<<"$stderr")" 1 && assert_regex "$stderr" "^te-http-meta: cannot open '$T/$1': $2"; }
	head -c 10000 /dev/urandom >"$T/noise"
	"${fails[@]}" --data="$T/noise"
	one_line noise 'it is damaged or no file of te-http-meta'
	echo 'some text' >"$T/text"
	"${fails[@]}" --data="$T/text"
	one_line text 'it is damaged or no file of te-http-meta'
	assert_equal "$(cat "$T/text")" 'some text'
	sqlite3 "$T/foreign" 'CREATE TABLE t (x); INSERT INTO t VALUES (1)'
	"${fails[@]}" --data="$T/foreign"
	one_line foreign 'it is a database of another program'
	serve --data="$T/kv.db"
	for i in 1 2 3 4 5 6 7 8; do put "k$i" "$(head -c 3000 /dev/zero | tr '\0' x)"; done
	"${fails[@]}" --data="$T/kv.db"
	one_line kv.db 'another process uses it'
	stop meta
	sqlite3 "$T/kv.db" 'PRAGMA user_version = 9'
	"${fails[@]}" --data="$T/kv.db"
	one_line kv.db 'it is of version 9'
	sqlite3 "$T/kv.db" 'PRAGMA user_version = 1'
	cp "$T/kv.db" "$T/hole"
	dd if=/dev/urandom of="$T/hole" bs=4096 seek=3 count=2 conv=notrunc status=none
	"${fails[@]}" --data="$T/hole"
	assert_equal "$(wc -l <<<"$stderr")" 1
	assert_regex "$stderr" "'$T/hole': it is damaged"
	"${fails[@]}" --data="$T/no/dir/kv.db"
	one_line no/dir/kv.db 'unable to open database file: No such file'
	"${fails[@]}" --data="$T"
	assert_regex "$stderr" "cannot open '$T'"
}

@test "--data: no name is memory" {
	cd "$T"
	for name in :memory: 'file:kv.db?mode=memory'; do
		serve --data="$name"
		put k v
		murder meta
		[ -s "$name" ]
		serve --data="$name"
		http 200 "$URL?key=k"
		assert_output v
		stop meta
	done
	run -1 --separate-stderr te-http-meta --listen=127.0.0.1:0 --data=
	assert_regex "$stderr" "^te-http-meta: cannot open '': .*directory"
}

@test "metrics" {
	serve --data="$T/kv.db"
	put a 12345
	http 404 "$URL?key=b"
	http 413 -T /dev/null -H 'Content-Length: 99999999999' "$URL?key=x" || true
	watch one "$(revision)"
	until_ok 5 watchers 1
	http 200 "$BASE/metrics"
	assert_regex "$(header Content-Type)" '^text/plain; version=0.0.4'
	for l in 'te_http_meta_keys 1' 'te_http_meta_bytes 5' 'te_http_meta_commits_total 1' \
		'te_http_meta_requests_total{method="PUT",status="200"} 1' \
		'te_http_meta_requests_total{method="GET",status="404"} 1' \
		'# TYPE te_http_meta_requests_total counter' '# TYPE te_http_meta_connections gauge'; do
		assert_line "$l"
	done
}

@test "2000 idle and 200 dripping clients delay nobody" {
	serve
	prlimit --nofile=4096 true || skip 'the limit on file descriptors is below 4096'
	start idle prlimit --nofile=4096 "${RAW[@]}" idle "$PORT" 2000
	start drip "${RAW[@]}" drip "$PORT" 200
	wait_line 'open 2000' "$T/idle.out" 20
	wait_line 'open 200$' "$T/drip.out" 20
	for _ in 1 2 3 4 5; do
		run -0 curl -sS -o "$T/body" -w '%{time_total}' -X PUT -d v "$URL?key=k"
		jq -en "$output < 0.5 * $SLOW"
	done
	http 200 "$BASE/metrics"
	assert_regex "$output" 'te_http_meta_connections 220[1-9]'
	kill "$(pid_of idle)" "$(pid_of drip)"
}

@test "no file descriptors left: those connected are served, nothing spins, and it recovers" {
	local ticks
	prlimit --nofile=100:100 true || skip 'limits cannot be set'
	rm -f "$T/meta.json"
	start meta prlimit --nofile=100:100 te-http-meta --listen=127.0.0.1:0 --ready-file="$T/meta.json" --data="$T/kv.db"
	wait_file "$T/meta.json"
	URL=$(ready meta .url) BASE=${URL%/metadata}
	PORT=${BASE##*:}
	mkfifo "$T/go"
	# One client that is connected before the crowd, and asks after it came.
	/usr/bin/python3 -c '
import http.client, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
c.request("PUT", "/metadata?key=k", "v"); print(c.getresponse().read().decode(), flush=True)
open(sys.argv[2]).read()
c.request("GET", "/metadata?key=k"); print(c.getresponse().read().decode(), flush=True)
' "$PORT" "$T/go" >"$T/early.out" 3>&- &
	EARLY=$!
	wait_line 'metadata updated' "$T/early.out"
	start idle "${RAW[@]}" idle "$PORT" 150
	wait_line 'open 150' "$T/idle.out"
	ticks=$(cpu_ticks "$(pid_of meta)")
	echo >"$T/go"
	wait_line '^v$' "$T/early.out"
	run ! curl -s -m 1 "$BASE/health"
	[ $(($(cpu_ticks "$(pid_of meta)") - ticks)) -lt 30 ]
	kill "$(pid_of idle)"
	wait $EARLY
	until_ok 5 curl -sS -m 1 "$BASE/health"
}

@test "what is no proper HTTP is refused, and the server lives" {
	serve
	put k v
	# A body longer than Content-Length: the rest is no request.
	printf 'PUT /metadata?key=x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcdefgh\r\n\r\n' | run -0 "${RAW[@]}" send "$PORT"
	for text in 'GARBAGE\r\n\r\n' '\0\0\0\0\r\n\r\n' 'GET\r\n\r\n' 'GET /metadata?key=k HTTP/9.9\r\n\r\n' \
		'PUT /metadata?key=y HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n' \
		'PUT /metadata?key=y HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n' \
		'PUT /metadata?key=y HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n' \
		'GET /metadata?key=k HTTP/1.1\r\nno colon\r\n\r\n'; do
		# shellcheck disable=SC2059
		printf "$text" >"$T/request"
		run -0 "${RAW[@]}" send "$PORT" 0.2 <"$T/request"
		refute_output --partial 'metadata updated'
	done
	http 200 "$URL?key=x"
	assert_output abc
	http 404 "$URL?key=y"
	# Headers without end.
	/usr/bin/python3 -c 'print("GET /health HTTP/1.1\r\nX: " + "x" * 200000, end="\r\n\r\n")' >"$T/request"
	run -0 "${RAW[@]}" send "$PORT" <"$T/request"
	refute_output --partial '200 OK'
	/usr/bin/python3 -c 'print("GET /metadata?key=" + "x" * 200000 + " HTTP/1.1\r\nHost: x", end="\r\n\r\n")' >"$T/request"
	run -0 "${RAW[@]}" send "$PORT" <"$T/request"
	refute_output --partial '200 OK'
	http 200 "$URL?key=k"
	assert_output v
}

@test "memory stays flat" {
	local before
	serve
	for i in 1 2 3 4; do
		puts k /etc/services 1000
		[ "$i" != 1 ] || before=$(rss_anon_kb "$(pid_of meta)")
	done
	# The event log holds at most 64 MiB of old values.
	[ "$(rss_anon_kb "$(pid_of meta)")" -lt $((before + 100000 * SLOW)) ]
}
