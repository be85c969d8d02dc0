# cluster.bats - a cluster on each kind of store: data moves, nothing stale stays, whoever dies is replaced.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers

setup() { te_setup; }
teardown() { te_teardown; }

NAME=alpha
RAM=mooncake/ram/$NAME
RPC=mooncake/rpc_meta/$NAME

absent() { [ "$(te-meta get "$1" 2>&1 >/dev/null | wc -l)" -ge 1 ] && ! te-meta get "$1" >/dev/null 2>&1; }
no_key() { absent $RAM && absent $RPC; }
present() { te-meta get $RAM >/dev/null && te-meta get $RPC >/dev/null; }
can_list() { [ "$1" != foreign ]; }

# published TARGET: the store has that target's buffers, no others, and its port.
published() {
	local theirs ours
	theirs=$(te-meta get $RAM | jq -c '[.buffers[] | [.addr, .length]] | sort')
	ours=$(jq -c '[.buffers[] | [.addr, .length]] | sort' "$T/$1.json")
	echo "published $theirs, has $ours"
	[ "$theirs" = "$ours" ]
	[ "$(te-meta get $RPC | jq .rpc_port)" = "$(ready "$1" .rpc_port)" ]
}

moves_data() { # moves_data KIND
	local p
	[ "$1" = p2p ] || store "$1"
	if [ "$1" = p2p ]; then target a --pattern -n "127.0.0.1:$(free_port)"; else target a --pattern -n $NAME; fi
	for p in tcp shm auto; do
		bench --protocol=$p --segment-id="$SEGMENT" --operation=read --verify
		check_json '.cases[0].verify | .checked_bytes == 256 * 16384 and .mismatches == 0'
	done
	for p in tcp shm auto; do
		bench --protocol=$p --segment-id="$SEGMENT" --operation=write --verify
	done
	[ "$1" = p2p ] || published a
	stop a
	[ "$1" = p2p ] && return
	no_key
	! can_list "$1" || [ -z "$(te-meta ls)" ]
}
@test "p2p: verified data" { moves_data p2p; }
@test "http: verified data, and SIGTERM leaves no key" { moves_data http; }
@test "redis: verified data, and SIGTERM leaves no key" { moves_data redis; }
@test "etcd: verified data, and SIGTERM leaves no key" { moves_data etcd; }
@test "foreign http: verified data, and SIGTERM leaves no key" { moves_data foreign; }

shows() { # shows KIND
	store "$1"
	target a -n $NAME
	run -0 --separate-stderr te-meta ls
	[ "$output" = "$RAM"$'\n'"$RPC" ]
	run -0 --separate-stderr te-meta show $NAME
	[[ $output == *$NAME* && $output == *tcp* ]]
	run -0 --separate-stderr te-meta show $NAME --json
	check_json 'type == "object"'
	te-meta dump >"$T/dump"
	start watch te-meta watch mooncake/
	# It watches from some moment on: what is put until then it may miss.
	until_ok 10 put_seen
	te-meta del mooncake/ram/probe
	until_ok 10 seen 2 probe
	stop a
	until_ok 10 seen 1 $NAME
	[ -z "$(te-meta ls)" ]
	te-meta load <"$T/dump" || te-meta load "$T/dump"
	[ "$(te-meta ls)" = "$RAM"$'\n'"$RPC" ]
	[ "$(te-meta dump)" = "$(cat "$T/dump")" ]
	# Nobody lives there any more.
	run te-meta gc
	[[ $output == *$NAME* ]]
	te-meta gc --delete
	[ -z "$(te-meta ls)" ]
}
seen() { [ "$(grep -c "$2" "$T/watch.out")" -ge "$1" ]; }
put_seen() {
	te-meta put mooncake/ram/probe "$EPOCHREALTIME"
	grep -q mooncake/ram/probe "$T/watch.out"
}
@test "http: te-meta ls, show, watch, dump, load, gc" { shows http; }
@test "redis: te-meta ls, show, watch, dump, load, gc" { shows redis; }
@test "etcd: te-meta ls, show, watch, dump, load, gc" { shows etcd; }

# one_error WORDS...: fails with one line on stderr and nothing on stdout.
one_error() {
	run --separate-stderr "$@"
	echo "$*: $status: $stderr"
	[ "$status" = 1 ] || [ "$status" = 2 ]
	[ -z "$output" ]
	[ "$(wc -l <<<"$stderr")" = 1 ]
	[[ $stderr == te-meta:* ]]
}
@test "foreign http: get, put, del, show work; what it cannot do is one clear error each" {
	store foreign
	target a -n $NAME
	run -0 te-meta show $NAME
	te-meta put mooncake/x value
	[ "$(te-meta get mooncake/x)" = value ]
	te-meta del mooncake/x
	absent mooncake/x
	one_error te-meta ls
	one_error timeout 5 te-meta watch mooncake/
	one_error te-meta gc
	one_error te-meta dump
	one_error te-meta put --ttl=5 mooncake/x value
	one_error te-meta put --if-absent mooncake/x value
	one_error te-meta put --if-match=abc mooncake/x value
	absent mooncake/x
}
@test "p2p: show asks the owner; what needs a store says so" {
	target a -n "127.0.0.1:$(free_port)"
	run -0 te-meta show "$SEGMENT"
	[[ $output == *"$SEGMENT"* && $output == *tcp* ]]
	one_error te-meta ls
	one_error te-meta get $RAM
	one_error te-meta put $RAM x
	one_error timeout 5 te-meta watch mooncake/
}

dies_and_returns() { # dies_and_returns KIND
	store "$1"
	export MC_TE_TTL_SECONDS=2
	target a -n $NAME
	murder a
	present # its ghost
	target b -n $NAME
	bench --protocol=tcp --segment-id=$NAME --operation=write --verify
	published b
	# Kept alive beyond its time to live.
	sleep 3
	published b
	if can_list "$1"; then
		murder b
		until_ok 6 no_key
		[ -z "$(te-meta ls)" ]
	else
		stop b
		no_key
	fi
}
@test "http: kill -9, restart, kill -9: usable at once, then no ghost" { dies_and_returns http; }
@test "redis: kill -9, restart, kill -9: usable at once, then no ghost" { dies_and_returns redis; }
@test "etcd: kill -9, restart, kill -9: usable at once, then no ghost" { dies_and_returns etcd; }
@test "foreign http: kill -9, restart: usable at once" { dies_and_returns foreign; }
@test "p2p: kill -9, restart on the same port: usable at once" {
	port=$(free_port)
	target a -n "127.0.0.1:$port"
	bench --protocol=tcp --segment-id="127.0.0.1:$port"
	murder a
	target b -n "127.0.0.1:$port"
	[ "$SEGMENT" = "127.0.0.1:$port" ]
	bench --protocol=tcp --segment-id="127.0.0.1:$port" --operation=write --verify
}

@test "entries that live for a second do not lapse" {
	store http
	# One line may be a machine that was busy for two thirds of a second; it was one a beat.
	MC_TE_TTL_SECONDS=1 run -0 --separate-stderr te-target -n $NAME --buffer-size=1M --max-duration=4s
	[ "$(grep -c 'is gone' <<<"$stderr")" -lt 3 ] || { echo "$stderr"; return 1; }
}

refills() { # refills KIND
	store "$1"
	target a -n $NAME
	store_restart_empty "$1"
	until_ok 10 present
	published a
	bench --segment-id=$NAME --operation=write --verify
	stop a
	no_key
}
@test "http: a store that comes back empty is filled again within 10 s" { refills http; }
@test "redis: a store that comes back empty is filled again within 10 s" { refills redis; }
@test "etcd: a store that comes back empty is filled again within 10 s" { refills etcd; }
@test "foreign http: a store that comes back empty is filled again within 10 s" { refills foreign; }

twice() { # twice KIND
	store "$1"
	target a -n $NAME
	run -1 --separate-stderr timeout 10 te-target -n $NAME --buffer-size=1M
	[[ $stderr == *"name in use by"* && $stderr == *":$(ready a .rpc_port)"* ]]
	published a
	bench --segment-id=$NAME --operation=write --verify
	stop a
	no_key
}
@test "http: the second target of a name exits 1 and names the owner" { twice http; }
@test "redis: the second target of a name exits 1 and names the owner" { twice redis; }
@test "etcd: the second target of a name exits 1 and names the owner" { twice etcd; }
@test "foreign http: the second target of a name exits 1 and names the owner" { twice foreign; }
@test "p2p: the second target of a port gets another, with a warning that names both; none in legacy mode" {
	port=$(free_port)
	target a -n "127.0.0.1:$port"
	target b -n "127.0.0.1:$port"
	[ "$SEGMENT" != "127.0.0.1:$port" ]
	grep -q "$port.*$(ready b .rpc_port)" "$T/b.err"
	MC_LEGACY_RPC_PORT_BINDING=1 run -1 --separate-stderr timeout 10 te-target -n "127.0.0.1:$port" --buffer-size=1M
	[[ $stderr == *"$port"* ]]
	bench --segment-id="127.0.0.1:$port"
	bench --segment-id="$SEGMENT"
}

@test "an initiator finds a target again that was restarted on another port" {
	store http
	target a -n $NAME --protocol=tcp
	mkfifo "$T/stdin"
	"$PROGS/reopen" "$MC_METADATA_SERVER" $NAME tcp <"$T/stdin" >"$T/reopen.out" 2>"$T/reopen.err" 3>&- &
	echo $! | tee "$T/reopen.pid" >>"$T/pids"
	exec 7>"$T/stdin"
	wait_line '^# restart it' "$T/reopen.out"
	murder a
	target b -n $NAME --protocol=tcp
	echo >&7
	exec 7>&-
	ends reopen 0 || { cat "$T/reopen.out"; return 1; }
}

@test "clusters of different ids on one store do not see each other" {
	store http
	MC_METADATA_CLUSTER_ID=prod target a -n $NAME --pattern=1
	MC_METADATA_CLUSTER_ID=dev target b -n $NAME --pattern=2
	target c -n a/b
	run -0 te-meta get mooncake/prod/ram/$NAME
	run -0 te-meta get mooncake/dev/rpc_meta/$NAME
	run -0 te-meta get mooncake/a/b
	MC_METADATA_CLUSTER_ID=prod bench --segment-id=$NAME --verify=1
	MC_METADATA_CLUSTER_ID=dev bench --segment-id=$NAME --verify=2
	bench --segment-id=a/b
	run -1 te-bench --segment-id=$NAME --duration=1
	[ "$(MC_METADATA_CLUSTER_ID=dev te-meta ls)" = mooncake/dev/ram/$NAME$'\n'mooncake/dev/rpc_meta/$NAME ]
}
