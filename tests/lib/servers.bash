# servers.bash - real metadata stores, started by the test that uses them. Load it behind te.bash.
#
#	store KIND [OPTION...]       start it, wait until it serves, export MC_METADATA_SERVER
#	store_restart_empty KIND     kill it and start it again on the same port with nothing in it
#	store_stop, store_start      the two halves, keeping what the store keeps on disk
# KIND: http (te-http-meta), redis, etcd, foreign (an http server with GET, PUT and DELETE only).
# The process is "store" for te.bash; OPTIONs go to the server. One store a test.

store() {
	STORE_KIND=$1
	shift
	STORE_OPTIONS=("$@")
	STORE_PORT=$(free_port)
	STORE_DIR=$T/store.d
	mkdir -p "$STORE_DIR"
	store_start
	case $STORE_KIND in
	http | foreign) MC_METADATA_SERVER=http://127.0.0.1:$STORE_PORT/metadata ;;
	*) MC_METADATA_SERVER=$STORE_KIND://127.0.0.1:$STORE_PORT ;;
	esac
	export MC_METADATA_SERVER
}

store_start() {
	"store_start_$STORE_KIND" "${STORE_OPTIONS[@]}"
	until_ok 20 "store_serves_$STORE_KIND" || { cat "$T/store.err" "$T/store.out"; return 1; }
}

store_stop() { murder store; }

store_restart_empty() {
	store_stop
	rm -rf "$STORE_DIR"
	mkdir -p "$STORE_DIR"
	store_start
}

store_start_http() { start store te-http-meta --listen=127.0.0.1:"$STORE_PORT" "$@"; }
store_serves_http() { curl -sf -o /dev/null "http://127.0.0.1:$STORE_PORT/health"; }

store_start_foreign() { start store "$TOP/tests/lib/foreign-http-meta.py" "$STORE_PORT" "$@"; }
store_serves_foreign() { grep -q ready "$T/store.out"; }

store_start_redis() {
	start store redis-server --bind 127.0.0.1 --port "$STORE_PORT" --save '' --appendonly no --dir "$STORE_DIR" "$@"
}
# With a password too: then it says NOAUTH.
store_serves_redis() { redis-cli -p "$STORE_PORT" ping | grep -qE 'PONG|NOAUTH'; }

store_start_etcd() {
	local peer
	peer=$(free_port)
	start store etcd --data-dir "$STORE_DIR/etcd" --log-level error \
		--listen-client-urls "http://127.0.0.1:$STORE_PORT" --advertise-client-urls "http://127.0.0.1:$STORE_PORT" \
		--listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
		--initial-cluster "default=http://127.0.0.1:$peer" "$@"
}
store_serves_etcd() { curl -sf "http://127.0.0.1:$STORE_PORT/health" | grep -q true; }

# mounted NAME FILE HOST PATH: in segment nvmeof/NAME, as te-mount on HOST does it.
mounted() {
	te-meta get "mooncake/nvmeof/$1" | jq -c --arg f "$2" --arg h "$3" --arg p "$4" \
		'(.buffers[] | select(.file_path == $f) | .local_path_map)[$h] = $p' | te-meta put "mooncake/nvmeof/$1"
}
