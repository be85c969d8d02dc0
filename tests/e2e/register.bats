# register.bats - te-register: segments of files and of memory in the store, before anybody serves them.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers

setup() {
	te_setup_files
	truncate -s 8192 "$F/a"
	truncate -s 4097 "$F/b"
	truncate -s 512 "$F/c"
}
teardown() { te_teardown; }

raw() { te-meta get "mooncake/$1"; }
value() { raw "nvmeof/$1" | jq -c "$2"; }
seed() { te-meta put "mooncake/nvmeof/$1" "$2"; }

@test "usage errors" {
	export MC_METADATA_SERVER=http://127.0.0.1:1
	usage 'no verb' te-register
	usage "unknown verb 'frob'" te-register frob
	usage 'nvmeof NAME FILE...' te-register nvmeof
	usage 'nvmeof NAME FILE...' te-register nvmeof disk0
	usage 'ram NAME' te-register ram
	usage 'ram NAME' te-register ram a b
	usage 'te-register list' te-register list x
	usage 'show NAME' te-register show
	usage 'remove NAME' te-register remove a b
	usage "'ram' does not take --replace" te-register ram --replace n
	usage "'show' does not take --dry-run" te-register show --dry-run n
	usage "'nvmeof' does not take --force" te-register nvmeof --force n "$F/a"
	usage "'nvmeof' does not take --protocol" te-register nvmeof --protocol=tcp n "$F/a"
	usage "'list' does not take --device-name" te-register list --device-name=x
	usage "'list' does not take --nic-priority-matrix" te-register list --nic_priority_matrix=x
	usage "not 'udp'" te-register ram --protocol=udp n
	usage 'not empty' te-register ram //
	usage 'not empty' te-register nvmeof nvmeof/ "$F/a"
	usage 'not empty' te-register show ram/
	usage "no '/'" te-register ram a/b
	usage 'not the key of a segment of files' te-register nvmeof mooncake/ram/x "$F/a"
	usage 'UTF-8' te-register nvmeof $'\377' "$F/a"
	usage 'UTF-8' te-register nvmeof -n $'\377' n "$F/a"
	for n in a:b:c : '[' a:0; do
		usage 'host:port' te-register nvmeof -n "$n" n "$F/a"
		usage 'host:port' te-register ram "$n"
	done
	# te-bench and others take lists of names.
	for n in a,b $'a\nb' $'a\x7f'; do
		usage 'no comma nor control character' te-register nvmeof "$n" "$F/a"
		usage 'no comma nor control character' te-register ram "$n"
	done
}

@test "without a store: exit 2 and the reason" {
	local v
	for v in 'nvmeof n /etc/passwd' 'ram n' list 'show n' 'remove n'; do
		# shellcheck disable=SC2086
		usage 'no metadata server' te-register $v
		# shellcheck disable=SC2086
		usage 'no metadata server' te-register -m P2PHANDSHAKE $v
	done
	usage 'unknown metadata scheme' te-register -m zk://h:1 list
}

@test "a store that is away is one error" {
	local v
	for v in "nvmeof n $F/a" 'ram n' list 'show n' 'remove n'; do
		# shellcheck disable=SC2086
		fails 127.0.0.1:1 te-register -m http://127.0.0.1:1 $v
	done
}

# The document of Mooncake's design, member by member, and nothing more.
form() {
	store "$1"
	te-register nvmeof -n node1 disk0 "$F/a" "$F/b" >/dev/null
	raw nvmeof/disk0 >"$T/value"
	printf '%s' "{\"buffers\":[{\"file_path\":\"$F/a\",\"length\":8192,\"local_path_map\":{\"node1\":\"$F/a\"}},{\"file_path\":\"$F/b\",\"length\":4097,\"local_path_map\":{\"node1\":\"$F/b\"}}],\"protocol\":\"nvmeof\",\"server_name\":\"node1\"}$2" >"$T/expected"
	cmp "$T/value" "$T/expected"
}
@test "http: what is written has the seed's form" { form http ''; }
@test "redis: what is written has the seed's form, and the newline of Mooncake's engines" { form redis $'\n'; }
@test "etcd: what is written has the seed's form, and the newline of Mooncake's engines" { form etcd $'\n'; }

@test "the host name is the default, the cluster's id is part of the key" {
	store http
	export MC_METADATA_CLUSTER_ID=blue
	te-register nvmeof disk0 "$F/a" >/dev/null
	[ "$(te-meta get mooncake/blue/nvmeof/disk0 | jq -r .server_name)" = "$(hostname)" ]
	[ "$(te-meta get mooncake/blue/nvmeof/disk0 | jq -r '.buffers[0].local_path_map | keys[0]')" = "$(hostname)" ]
	usage 'not the key of a segment' te-register nvmeof mooncake/blue/x/disk0 "$F/a"
	te-register list | grep -q '^nvmeof/disk0 '
}

@test "names: NAME, nvmeof/NAME and the whole key are one" {
	local n
	store http
	for n in disk0 nvmeof/disk0 /nvmeof/disk0 mooncake/nvmeof/disk0; do
		run -0 te-register --json nvmeof "$n" "$F/a"
		check_json '.key == "mooncake/nvmeof/disk0" and .segment == "nvmeof/disk0"'
		run -0 te-register --json show "$n"
		check_json '.key == "mooncake/nvmeof/disk0" and .kind == "nvmeof" and .bytes == 8192'
	done
	[ "$(te-meta ls)" = mooncake/nvmeof/disk0 ]
	te-register nvmeof 'pool 1/é' "$F/a" >/dev/null
	te-register show 'nvmeof/pool 1/é' >/dev/null
	te-register show 'pool 1/é' | grep -qx 'key          mooncake/nvmeof/pool 1/é'
}

@test "paths: absolute, links kept, tidy" {
	store http
	ln -s "$F/a" "$F/link"
	mkdir "$T/deep" "$F/..x"
	ln -s "$F" "$T/deep/srv"
	cp "$F/c" "$F/..x/d"
	cd "$F"
	te-register nvmeof disk0 ./link .//b >/dev/null
	[ "$(value disk0 '[.buffers[].file_path]')" = "[\"$F/link\",\"$F/b\"]" ]
	te-register nvmeof disk1 "$T/deep/srv/a" "$T/deep/srv/../srv/b" ..x/d >/dev/null
	[ "$(value disk1 '[.buffers[].file_path]')" = "[\"$T/deep/srv/a\",\"$F/b\",\"$F/..x/d\"]" ]
}

@test "files that will not do: a line for each, and nothing is written" {
	store http
	: >"$F/empty"
	mkfifo "$F/pipe"
	ln "$F/a" "$F/hard"
	fails "'$F/nope': No such file" te-register nvmeof d "$F/a" "$F/nope"
	fails "'$F': it is a directory" te-register nvmeof d "$F"
	fails "'$F/empty': it is empty" te-register nvmeof d "$F/empty"
	fails "'$F/pipe': it is a pipe" te-register nvmeof d "$F/pipe"
	fails "'/dev/null': it is a character device" te-register nvmeof d /dev/null
	fails 'No such file' te-register nvmeof d ''
	fails 'UTF-8' te-register nvmeof d "$F/"$'\377'
	fails "'$F/a' twice" te-register nvmeof d "$F/a" "$F/a"
	fails "'$F/hard' twice: '$F/a' is the same file" te-register nvmeof d "$F/a" "$F/hard"
	run -1 --separate-stderr te-register nvmeof d "$F/a" "$F/nope" "$F/empty"
	[ "$(wc -l <<<"$stderr")" = 2 ]
	[ -z "$(te-meta ls)" ]
	te-register nvmeof d "$F/a" >/dev/null
	fails "'$F/a' in segment" te-register nvmeof d "$F/hard"
}

@test "a file that cannot be read is said" {
	store http
	let_nobody_in
	as_nobody te-register nvmeof d "$F/b" >/dev/null
	chmod 0 "$F/a"
	fails "'$F/a': Permission denied" as_nobody te-register nvmeof d "$F/a"
}

@test "a block device has the length of the device" {
	local dev
	[ "$(id -u)" = 0 ] || skip 'loop devices need root'
	truncate -s 3M "$T/image"
	dev=$(losetup -f --show "$T/image") || skip 'no loop device here'
	mknod "$T/node" b "$((16#$(stat -c %t "$dev")))" "$((16#$(stat -c %T "$dev")))"
	store http
	run -0 te-register --json nvmeof d "$dev"
	check_json '.bytes == 3145728'
	run -1 --separate-stderr te-register nvmeof e "$dev" "$T/node"
	losetup -d "$dev"
	[[ $stderr == *'is the same file' ]]
}

again() {
	store "$1"
	te-register nvmeof -n node1 disk0 "$F/a" "$F/b" >/dev/null
	mounted disk0 "$F/a" node2 /mnt/a
	mounted disk0 "$F/b" node3 /mnt/b
	raw nvmeof/disk0 | jq -S . >"$T/before"
	run -0 --separate-stderr te-register --json nvmeof -n node1 disk0 "$F/b" "$F/a"
	check_json '(.changed | not)'
	[ -z "$stderr" ]
	raw nvmeof/disk0 | jq -S . | diff "$T/before" -
	run -0 te-register --json nvmeof -n node1 disk0 "$F/c" "$F/a"
	check_json '.changed and .bytes == 12801'
	[ "$(value disk0 '[.buffers[].file_path]')" = "[\"$F/a\",\"$F/b\",\"$F/c\"]" ]
	[ "$(value disk0 '[.buffers[].local_path_map | keys]')" = '[["node1","node2"],["node1","node3"],["node1"]]' ]
	[ "$(value disk0 '.buffers[0].local_path_map.node2')" = '"/mnt/a"' ]
	# The length again, and others' paths still there.
	truncate -s 16384 "$F/a"
	run -0 --separate-stderr te-register --json nvmeof -n node1 disk0 "$F/a"
	check_json '.changed and .bytes == 20993'
	[[ $stderr == *"'$F/a' had 8192 bytes, and has 16384 now: what is behind it in the segment moves" ]]
	[ "$(value disk0 '.buffers[0] | [.length, (.local_path_map | keys)]')" = '[16384,["node1","node2"]]' ]
}
@test "http: a second run adds, and loses nothing of others" { again http; }
@test "redis: a second run adds, and loses nothing of others" { again redis; }
@test "etcd: a second run adds, and loses nothing of others" { again etcd; }

@test "the last file may grow without a word of moving; -q says nothing" {
	store http
	te-register nvmeof disk0 "$F/a" "$F/b" >/dev/null
	truncate -s 1M "$F/b"
	run -0 --separate-stderr te-register nvmeof disk0 "$F/b"
	[[ $stderr == *'1048576 now' ]]
	truncate -s 2M "$F/b"
	run -0 --separate-stderr te-register -q nvmeof disk0 "$F/b"
	[ -z "$stderr" ]
}

@test "another server is refused, --replace starts over and keeps the paths of others" {
	store http
	te-register nvmeof -n node1 disk0 "$F/a" "$F/b" >/dev/null
	mounted disk0 "$F/a" node2 /mnt/a
	mounted disk0 "$F/b" node2 /mnt/b
	raw nvmeof/disk0 >"$T/before"
	fails "has files of 'node1'" te-register nvmeof -n node9 disk0 "$F/c"
	raw nvmeof/disk0 | cmp - "$T/before"
	run -0 --separate-stderr te-register nvmeof -n node1 --replace disk0 "$F/c" "$F/a"
	[[ $stderr == *"'$F/b' is no part of the segment any more; node2 has it at '/mnt/b'" ]]
	[ "$(value disk0 '[.buffers[] | [.file_path, .local_path_map]]')" = \
		"[[\"$F/c\",{\"node1\":\"$F/c\"}],[\"$F/a\",{\"node1\":\"$F/a\",\"node2\":\"/mnt/a\"}]]" ]
	# node1's own path would lead to node1's own file; node2's is kept.
	run -0 --separate-stderr te-register nvmeof -n node9 --replace disk0 "$F/a"
	[[ $stderr == *"the segment was of 'node1'"* ]]
	[ "$(value disk0 '[.server_name, .buffers]')" = \
		"[\"node9\",[{\"file_path\":\"$F/a\",\"length\":8192,\"local_path_map\":{\"node2\":\"/mnt/a\",\"node9\":\"$F/a\"}}]]" ]
}

@test "--dry-run changes nothing" {
	store http
	run -0 te-register --json --dry-run nvmeof -n node1 disk0 "$F/a"
	check_json '.changed and .dry_run and .bytes == 8192'
	run -0 te-register --json --dry-run ram --protocol=tcp n
	check_json '.changed and .dry_run'
	[ -z "$(te-meta ls)" ]
	te-register nvmeof -n node1 disk0 "$F/a" >/dev/null
	raw nvmeof/disk0 >"$T/before"
	run -0 te-register --dry-run nvmeof -n node1 disk0 "$F/b"
	[[ $output == *'would be registered'* ]]
	run -0 te-register --dry-run remove -n node1 disk0
	[ "$output" = 'would remove mooncake/nvmeof/disk0' ]
	raw nvmeof/disk0 | cmp - "$T/before"
	fails 'No such file' te-register --dry-run nvmeof disk1 "$F/nope"
	fails 'no segment' te-register --dry-run remove disk1
}

# What register.py and mount.py write: members in their own order, blanks, a path map of others.
@test "entries of the original scripts are read and kept" {
	store etcd
	seed old "{\"server_name\": \"$(hostname)\", \"protocol\": \"nvmeof\", \"buffers\": [{\"length\": 8192, \"file_path\": \"$F/a\", \"local_path_map\": {}}, {\"length\": 7, \"file_path\": \"/gone\", \"local_path_map\": {\"node02\": \"/mnt/transfer_engine/node02/nvme1\"}}]}"
	run -0 te-register show old
	[[ $output == *'files        2, 8199 bytes'* && $output == *'    node02: /mnt/transfer_engine/node02/nvme1'* ]]
	te-register nvmeof old "$F/a" "$F/b" >/dev/null
	[ "$(value old '[.buffers[] | [.file_path, .length, (.local_path_map | keys)]]')" = \
		"[[\"$F/a\",8192,[\"$(hostname)\"]],[\"/gone\",7,[\"node02\"]],[\"$F/b\",4097,[\"$(hostname)\"]]]" ]
}

@test "what is no descriptor is named and left alone, until --replace" {
	local v
	store http
	for v in 'no JSON' null '[]' '{"protocol":"nvmeof","buffers":7}' '{"protocol":"nvmeof","buffers":[{"length":-1,"file_path":"/a"}]}' \
		'{"protocol":"tcp","name":"bad","buffers":[]}' '{"protocol":"nvmeof","buffers":[{"length":9e18,"file_path":"/a"}]}' \
		'{"protocol":"nvmeof","buffers":[{"length":9223372036854775807,"file_path":"/a"},{"length":9223372036854775807,"file_path":"/b"}]}'; do
		seed bad "$v"
		fails mooncake/nvmeof/bad te-register nvmeof bad "$F/a"
		[ "$(raw nvmeof/bad)" = "$v" ]
	done
	seed big '{"protocol":"nvmeof","buffers":[{"length":9223372036854775807,"file_path":"/a"}]}'
	fails '2^63' te-register nvmeof big "$F/a"
	te-register nvmeof --replace bad "$F/a" >/dev/null
	[ "$(value bad '.buffers | length')" = 1 ]
}

# All at once, each with a file of its own: nobody's is lost.
crowd() {
	local i
	add() { te-register nvmeof -n node1 disk0 "$F/f$1"; }
	store "$1"
	for i in {1..32}; do truncate -s "$((i * 512))" "$F/f$i"; done
	te-register nvmeof -n node1 disk0 "$F/a" >/dev/null
	at_once 32 add
	[ "$(value disk0 '[.buffers[].file_path] | length')" = 33 ]
	[ "$(value disk0 '[.buffers[].file_path] | unique | length')" = 33 ]
	[ "$(value disk0 '[.buffers[].length] | add')" = $((8192 + 512 * 32 * 33 / 2)) ]
}
@test "http: 32 at the same moment" { crowd http; }
@test "redis: 32 at the same moment" { crowd redis; }
@test "etcd: 32 at the same moment" { crowd etcd; }

# And with names of their own: one entry each, and then one list of all.
@test "32 hosts at the same moment, each its own segment" {
	add() { te-register nvmeof -n "node$1" "disk$1" "$F/a"; }
	store http
	at_once 32 add
	run -0 te-register --json list
	check_json '(.segments | length) == 32 and ([.segments[].server_name] | unique | length) == 32'
}

@test "an http server without compare-and-swap: warned of, read back, no list" {
	store foreign
	run -0 --separate-stderr te-register nvmeof -n node1 disk0 "$F/a"
	[[ $stderr == *'has no compare-and-swap'* && $(wc -l <<<"$stderr") = 1 ]]
	run -0 --separate-stderr te-register -q --json nvmeof -n node1 disk0 "$F/b"
	[ -z "$stderr" ]
	check_json '.changed and .bytes == 12289'
	# Nothing to do: nothing to warn of.
	run -0 --separate-stderr te-register nvmeof -n node1 disk0 "$F/b"
	[ -z "$stderr" ]
	[ "$(value disk0 '.buffers | length')" = 2 ]
	# PUT once for each change, and each was read back.
	[ "$(grep -c '"PUT' "$T/store.err")" = 2 ]
	fails 'cannot list' te-register list
	run -0 te-register remove -n node1 disk0
	fails "no segment 'disk0'" te-register remove disk0
}

@test "a change that somebody wrote over is made again" {
	store foreign 2
	te-register -q nvmeof -n node1 disk0 "$F/a" >/dev/null
	[ "$(grep -c '"PUT' "$T/store.err")" = 3 ]
	[ "$(value disk0 '.buffers | length')" = 1 ]
}

@test "others who are always faster: one error, after ten seconds" {
	local began
	echo '{"protocol":"nvmeof","server_name":"node1","buffers":[]}' >"$T/value"
	start quarrel "$TOP/tests/lib/quarrel.py" "$T/value"
	wait_file "$T/quarrel.out"
	began=$(now_ms)
	fails "cannot change 'mooncake/nvmeof/disk0'" te-register -m "http://127.0.0.1:$(cat "$T/quarrel.out")" nvmeof -n node1 disk0 "$F/a"
	[[ $stderr == *'others changed it each time ('* ]]
	[ $(($(now_ms) - began)) -ge 10000 ]
	[ $(($(now_ms) - began)) -lt $((14000 * SLOW)) ]
	# Not as fast as it could: pauses grow.
	[ "$(grep -c '"PUT' "$T/quarrel.err")" -lt 400 ]
}

@test "list: segments of files and of memory, alive or not, and what cannot be read" {
	store http
	run -0 --separate-stderr te-register list
	[ -z "$output$stderr" ]
	run -0 te-register list --json
	[ "$output" = '{"segments":[]}' ]
	te-register nvmeof -n node1 disk0 "$F/a" "$F/b" >/dev/null
	mounted disk0 "$F/b" node2 /mnt/b
	te-register ram --protocol=tcp later >/dev/null
	target alive -n alive --buffer-size=4M
	te-meta put mooncake/other x
	run -0 te-register list
	echo "$output"
	assert_line --regexp '^SEGMENT +KIND +SERVER +BUFFERS +BYTES +HOSTS$'
	assert_line --regexp '^nvmeof/disk0 +nvmeof +node1 +2 +12\.3 kB +node1,node2$'
	assert_line --regexp '^later +ram +later +0 +0 B$'
	assert_line --regexp '^alive +ram +alive +1 +4\.19 MB$'
	[ "${#lines[@]}" = 4 ]
	seed bad '{"protocol":'
	run -1 --separate-stderr te-register list --json
	check_json '[.segments[] | select(.error)] | length == 1 and .[0].segment == "nvmeof/bad" and .[0].buffers == null'
	check_json '.segments | map(.segment) == ["nvmeof/bad", "nvmeof/disk0", "alive", "later"]'
	[[ $stderr == *"'mooncake/nvmeof/bad'"* ]]
	stop alive
}

@test "control characters of others reach neither lines nor terminals" {
	store http
	seed x $'{"protocol":"nvmeof","server_name":"a\\u001b[31m","buffers":[{"length":1,"file_path":"/f\\n/g","local_path_map":{"h\\u0007":"/p\\u009b"}}]}'
	run -0 te-register show x
	assert_line 'server       a?[31m'
	assert_line --partial '/f?/g'
	assert_line '    h?: /p??'
	run -0 te-register list
	assert_line --partial 'a?[31m'
	run -0 te-register show x --json
	check_json '.descriptor.buffers[0].file_path == "/f\n/g"'
}

@test "show: both kinds, and which one when there are two" {
	store http
	fails "no segment 'n' in $MC_METADATA_SERVER" te-register show n
	fails "no segment 'nvmeof/n'" te-register show nvmeof/n
	te-register ram --protocol=tcp n >/dev/null
	run -0 te-register show --json n
	check_json '.kind == "ram" and .segment == "n" and .bytes == 0 and .descriptor.protocol == "tcp" and .descriptor.buffers == []'
	te-register nvmeof n "$F/a" >/dev/null
	fails 'say ram/n or nvmeof/n' te-register show n
	fails 'say ram/n or nvmeof/n' te-register remove n
	run -0 te-register show --json ram/n
	check_json '.kind == "ram"'
	run -0 te-register show --json mooncake/nvmeof/n
	check_json '.kind == "nvmeof"'
	te-register remove ram/n
	run -0 te-register show --json n
	check_json '.kind == "nvmeof"'
}

@test "remove: what it may, and it says what it did" {
	store http
	te-register nvmeof -n node1 disk0 "$F/a" >/dev/null
	fails "has files of 'node1', and this is 'node9'" te-register remove -n node9 disk0
	mounted disk0 "$F/a" node2 /mnt/a
	fails "'nvmeof/disk0' is mounted on node2" te-register remove -n node1 disk0
	run -0 --separate-stderr te-register remove --force --json disk0
	[ "$output" = '{"removed":["mooncake/nvmeof/disk0"],"dry_run":false}' ]
	te-register nvmeof -n node1 disk0 "$F/a" >/dev/null
	run -0 te-register remove -n node1 nvmeof/disk0
	[ "$output" = 'removed mooncake/nvmeof/disk0' ]
	seed bad 'no JSON'
	fails 'not removed without --force' te-register remove bad
	te-register remove --force bad
	te-meta put mooncake/ram/x '{"name":"x","protocol":"tcp","buffers":[{"name":"x","addr":4096,"length":4096}]}'
	fails 'nobody has published where its owner listens' te-register remove x
	fails 'nobody has published where its owner listens' te-register ram --protocol=tcp x
	te-register remove --force x
	[ -z "$(te-meta ls)" ]
	[ -e "$F/a" ]
}

@test "ram: an entry without buffers that is clean, the same again is no change" {
	store http
	run -0 te-register --json ram --protocol=tcp n
	check_json '.changed and .descriptor == {buffers: [], name: "n", protocol: "tcp", server_name: "n", tcp_data_port: 0, tcp_proto_version: 2, timestamp: .descriptor.timestamp}'
	raw ram/n >"$T/before"
	run -0 te-register --json ram --protocol=tcp n
	check_json '(.changed | not)'
	raw ram/n | cmp - "$T/before"
	run -0 --separate-stderr te-meta show n
	[[ $output != *note* && $output == *'buffers      0, 0 bytes'* ]]
	run -0 te-meta show --json n
	check_json '.notes == [] and .alive == null'
	run -0 te-meta gc
	run -1 --separate-stderr te-bench --segment-id=n --requests=1
	[ "$(wc -l <<<"$stderr")" -le 2 ]
}

takeover() { # takeover STORE: an engine takes the entry over, and removes it at its end
	store "$1"
	te-register ram --protocol=tcp n >/dev/null
	target n -n n --buffer-size=4M
	run -0 te-register --json show n
	check_json '.bytes == 4194304'
	fails "'n' is in use by 127.0.0.1:" te-register ram --protocol=tcp n
	fails "'n' is in use by 127.0.0.1:" te-register remove --force n
	bench --segment-id=n
	stop n
	[ -z "$(te-meta ls)" ]
}
@test "http: an engine takes a registered name over and removes it" { takeover http; }
@test "redis: an engine takes a registered name over and removes it" { takeover redis; }
@test "etcd: an engine takes a registered name over and removes it" { takeover etcd; }
@test "an http server without TTL: an engine takes a registered name over and removes it" {
	store foreign
	te-register -q ram --protocol=tcp n >/dev/null
	target n -n n --buffer-size=4M
	fails "'n' is in use by 127.0.0.1:" te-register ram --protocol=tcp n
	stop n
	run -1 te-meta get mooncake/ram/n
}

@test "a registered name has no time to live, and none of a dead engine before it" {
	store redis
	export MC_TE_TTL_SECONDS=60
	target n -n n --buffer-size=4M
	murder n
	[ "$(redis-cli -p "$STORE_PORT" ttl mooncake/ram/n)" -gt 0 ]
	te-register ram --protocol=tcp n >/dev/null
	[ "$(te-meta ls)" = mooncake/ram/n ]
	[ "$(redis-cli -p "$STORE_PORT" ttl mooncake/ram/n)" = -1 ]
	run -0 te-meta show n
	[[ $output != *note* ]]
}

@test "what a dead engine has left is removed, whoever does not answer is left alone" {
	store http
	target n -n n --buffer-size=4M
	murder n
	run -0 te-register remove n
	assert_line 'removed mooncake/ram/n'
	assert_line 'removed mooncake/rpc_meta/n'
	[ -z "$(te-meta ls)" ]
	start deaf "$BATS_TEST_DIRNAME/../lib/deaf.py" accepts
	wait_file "$T/deaf.out"
	te-register ram --protocol=tcp busy >/dev/null
	te-meta put mooncake/rpc_meta/busy "{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":$(cat "$T/deaf.out")}"
	fails "'busy' may be in use by 127.0.0.1:" te-register remove --force busy
	fails "'busy' may be in use by 127.0.0.1:" te-register ram --protocol=tcp busy
	te-meta put mooncake/rpc_meta/busy 'no JSON'
	fails "cannot tell who owns segment 'busy'" te-register ram --protocol=tcp busy
	te-meta ls | grep -qx mooncake/ram/busy
}

@test "ram: NICs that are not here are an error, and with tcp they are ignored" {
	[ ! -d /sys/class/infiniband ] || [ -z "$(ls /sys/class/infiniband)" ] || skip 'this host has RDMA devices'
	store http
	fails 'no RDMA device' te-register ram --protocol=rdma n
	fails 'mlx5_0' te-register ram --protocol=rdma --device-name=mlx5_0 n
	fails 'no RDMA here for --device-name' te-register ram --device-name=mlx5_0 n
	fails "'$F/none'" te-register ram --nic-priority-matrix="$F/none" n
	fails matrix te-register ram --nic-priority-matrix='{"cpu:0":7}' n
	[ -z "$(te-meta ls)" ]
	te-register ram --protocol=tcp --device-name=mlx5_0 n >/dev/null
	te-register ram m >/dev/null
	[ "$(raw ram/m | jq -r .protocol)" = tcp ]
}

@test "ram: an engine on this host does not keep it from registering" {
	store http
	export MC_LEGACY_RPC_PORT_BINDING=1
	target n -n 127.0.0.1:"$(free_port)" --buffer-size=4M
	te-register ram --protocol=tcp m >/dev/null
	te-register ram --protocol=tcp o:12001 >/dev/null
	[ "$(te-register --json list | jq '.segments | length')" = 3 ]
}

@test "a full disk is noticed" {
	store http
	te-register nvmeof d "$F/a" >/dev/null
	local v
	for v in "nvmeof d $F/a" 'ram n --protocol=tcp' list 'show d' '--json list'; do
		# shellcheck disable=SC2086
		run -1 --separate-stderr bash -c '"$@" >/dev/full' _ te-register $v
		[[ $stderr == *"cannot write"* ]]
	done
}

@test "no leak" {
	command -v valgrind >/dev/null || skip "no valgrind"
	case $O in *asan | *tsan) skip "a sanitizer is in it already" ;; esac
	store redis
	local v
	for v in "nvmeof d $F/a $F/b" "nvmeof d $F/c" "nvmeof --replace -n x d $F/a" "nvmeof d $F/a $F/nope" 'ram --protocol=tcp n' list 'show d' 'show n' 'remove d' 'remove -n x d' 'remove n' 'remove n'; do
		# shellcheck disable=SC2086
		run valgrind -q --leak-check=full --errors-for-leak-kinds=definite,indirect --error-exitcode=9 te-register $v
		echo "$v: $output"
		[ "$status" != 9 ]
	done
}
