# mount.bats - te-mount where no NVMe-oF is needed: plain files and loop devices. The rest is in tests/vm.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers

setup() {
	te_setup_files
	truncate -s 8192 "$F/a" "$F/b" "$F/copy"
	truncate -s 512 "$F/short"
}
teardown() {
	[ -z "${LOOP-}" ] || losetup -d "$LOOP"
	te_teardown
}

registered() { te-register -q --local-server-name=storage nvmeof disk0 "$F/a" "$F/b" >/dev/null; }
# map FILE: who has it where.
map() { te-meta get mooncake/nvmeof/disk0 | jq -cS --arg f "$F/$1" '.buffers[] | select(.file_path == $f) | .local_path_map'; }

TARGET=(--connect --transport=tcp --traddr=127.0.0.1 --nqn=nqn.x)

@test "usage errors" {
	export MC_METADATA_SERVER=http://127.0.0.1:1
	usage 'NAME FILE_PATH LOCAL_PATH' te-mount
	usage 'NAME FILE_PATH LOCAL_PATH' te-mount a b
	usage 'NAME FILE_PATH LOCAL_PATH' te-mount a b c d
	usage 'status NAME' te-mount status
	usage 'status NAME' te-mount status a b
	usage '--unmount NAME' te-mount --unmount
	usage 'exclude each other' te-mount --unmount --connect a
	usage 'needs --transport, --traddr and --nqn' te-mount --connect a b c
	usage 'needs --transport, --traddr and --nqn' te-mount --connect --transport=tcp --traddr=1.2.3.4 a b c
	usage 'NAME FILE_PATH... MOUNT_POINT' te-mount "${TARGET[@]}" a b
	usage 'NAME --all MOUNT_POINT' te-mount "${TARGET[@]}" --all a
	usage '--all takes no FILE_PATH' te-mount "${TARGET[@]}" --all a b c
	usage 'for one FILE_PATH' te-mount "${TARGET[@]}" --path-in-fs=x a b c d
	usage "tcp or rdma, not 'fc'" te-mount --transport=fc a b c
	usage '--all is for --connect' te-mount --all a b c
	usage '--nsid is for --connect' te-mount --nsid=1 --unmount a
	usage '--read-only is for --connect' te-mount --read_only status a
	usage "--trsvcid takes a port, not 'x'" te-mount "${TARGET[@]}" --trsvcid=x a b c
	usage "--nsid takes a number, 1 or more, not '0'" te-mount "${TARGET[@]}" --nsid=0 a b c
	usage "--queue-size takes a number, 16 or more, not '4'" te-mount "${TARGET[@]}" --queue-size=4 a b c
	usage "--ctrl-loss-tmo takes seconds, 1 or more, not 'x'" te-mount "${TARGET[@]}" --ctrl-loss-tmo=x a b c
	usage "--timeout takes seconds, more than 0, not '0'" te-mount --timeout=0 a b c
	usage "'status' does not take --dry-run" te-mount --dry-run status a
	usage "'status' does not take --no-check" te-mount --no-check status a
	usage '--unmount does not take --no-check' te-mount --no-check --unmount a
	usage 'not empty' te-mount / b c
	usage 'not the key of a segment of files' te-mount mooncake/ram/x b c
	for n in a:b:c : '[' a:0; do
		usage "not a name" te-mount -n "$n" a b c
		usage "not a name" te-mount -n "$n" status a
		usage "not a name" te-mount -n "$n" --unmount a
	done
	usage 'at most 223 characters' te-mount --connect --transport=tcp --traddr=1.2.3.4 --nqn="$(printf 'x%.0s' {1..224})" a b c
}

@test "without a store: exit 2; with one that is away: exit 1" {
	local v
	for v in 'a b c' 'status a' '--unmount a' '--dry-run --connect --transport=tcp --traddr=h --nqn=n a b /c'; do
		# shellcheck disable=SC2086
		usage 'no metadata server' te-mount $v
		# shellcheck disable=SC2086
		fails 127.0.0.1:1 te-mount -m http://127.0.0.1:1 $v
	done
}

@test "an entry is added, kept, changed and taken back" {
	store http
	registered
	run -0 te-mount -n h1 disk0 "$F/a" "$F/copy"
	assert_output "publish     $F/a is $F/copy on h1"
	run -0 te-mount -n h1 nvmeof/disk0 "$F/a" "$F/copy"
	assert_output "keep        $F/a is $F/copy on h1"
	run -0 te-mount -n h1 mooncake/nvmeof/disk0 "$F/a" "$F/b"
	assert_output "publish     $F/a is $F/b on h1"
	assert_equal "$(map a)" "{\"h1\":\"$F/b\",\"storage\":\"$F/a\"}"
	assert_equal "$(map b)" "{\"storage\":\"$F/b\"}"
	te-register -n storage nvmeof disk0 "$F/a" "$F/b" >/dev/null
	assert_equal "$(map a)" "{\"h1\":\"$F/b\",\"storage\":\"$F/a\"}"
	run -0 te-mount -n h1 --unmount disk0
	assert_output "unpublish   $F/a is $F/b on h1"
	run -0 te-mount -n h1 --unmount disk0
	assert_output 'nothing to do: nvmeof/disk0 has nothing on h1'
	assert_equal "$(map a)" "{\"storage\":\"$F/a\"}"
}

@test "the host name is the default; a relative path is made absolute" {
	store http
	registered
	cd "$F"
	te-mount --no-check disk0 "$F/a" ../none/later
	assert_equal "$(map a | jq -r --arg h "$(hostname)" '.[$h]')" "$F/../none/later"
	te-mount disk0 "$F/a" .//copy
	assert_equal "$(map a | jq -r --arg h "$(hostname)" '.[$h]')" "$F/copy"
	run -1 te-mount --json status disk0
	check_json ".host == \"$(hostname)\" and [.buffers[].ok] == [true, false]"
	te-mount --unmount disk0
	assert_equal "$(map a)" "{\"storage\":\"$F/a\"}"
}

@test "files go one by one" {
	store http
	registered
	te-mount -n h1 disk0 "$F/a" "$F/copy"
	te-mount -n h1 disk0 "$F/b" "$F/copy"
	te-mount -n h1 --unmount disk0 "$F/a"
	assert_equal "$(map a)" "{\"storage\":\"$F/a\"}"
	assert_equal "$(map b)" "{\"h1\":\"$F/copy\",\"storage\":\"$F/b\"}"
	fails "no file '/x'; it has $F/a, $F/b" te-mount -n h1 --unmount disk0 /x
}

@test "what cannot be published" {
	store http
	registered
	fails "no segment 'nvmeof/disk9' in $MC_METADATA_SERVER" te-mount disk9 "$F/a" "$F/a"
	fails "no segment 'nvmeof/disk9'" te-mount status disk9
	fails "no segment 'nvmeof/disk9'" te-mount --unmount disk9
	fails "has no file '/x'; it has $F/a, $F/b" te-mount disk0 /x "$F/a"
	fails "no file '$F/none'" te-mount disk0 "$F/a" "$F/none"
	fails "'$F/short' has 512 bytes, '$F/a' was registered with 8192" te-mount disk0 "$F/a" "$F/short"
	fails 'neither a regular file nor a block device' te-mount disk0 "$F/a" "$F"
	mkfifo "$F/fifo"
	fails 'neither a regular file nor a block device' te-mount disk0 "$F/a" "$F/fifo"
	fails 'not UTF-8' te-mount --no-check disk0 "$F/a" $'/\377'
	te-meta put mooncake/nvmeof/tcp '{"name":"x","protocol":"tcp","buffers":[]}'
	fails "no segment of files" te-mount tcp "$F/a" "$F/a"
	te-meta put mooncake/nvmeof/bad '{'
	fails "'mooncake/nvmeof/bad'" te-mount bad "$F/a" "$F/a"
	assert_equal "$(map a)" "{\"storage\":\"$F/a\"}"
}

@test "--no-check and --dry-run" {
	store http
	registered
	run -0 te-mount -n h1 --dry-run disk0 "$F/a" "$F/copy"
	assert_output "would publish     $F/a is $F/copy on h1"
	fails 'has 512 bytes' te-mount -n h1 --dry-run disk0 "$F/a" "$F/short"
	assert_equal "$(map a)" "{\"storage\":\"$F/a\"}"
	te-mount -n h1 --no-check disk0 "$F/a" /not/here/yet
	assert_equal "$(map a)" "{\"h1\":\"/not/here/yet\",\"storage\":\"$F/a\"}"
	run -0 te-mount -n h1 --dry-run --unmount disk0
	assert_output "would unpublish   $F/a is /not/here/yet on h1"
	assert_equal "$(map a)" "{\"h1\":\"/not/here/yet\",\"storage\":\"$F/a\"}"
}

@test "--connect --dry-run: the steps" {
	store http
	registered
	run -0 te-mount -n h1 --dry-run "${TARGET[@]}" --timeout=9 disk0 "$F/b" "$T/mnt"
	assert_output "would discover    nqn.x at tcp 127.0.0.1, port 4420
would connect     nqn.x at tcp 127.0.0.1, port 4420
would find        its block device, in 9 s at most
would mount       it at $(realpath "$T")/mnt
would check       $F/b below $(realpath "$T")/mnt: 8192 bytes
would publish     $F/b for h1"
	[ ! -e "$T/mnt" ]
	run -0 te-mount -n h1 --json --dry-run "${TARGET[@]}" --read-only --all disk0 "$T/mnt"
	check_json '.dry_run and .segment == "nvmeof/disk0" and .host == "h1" and ([.steps[].action] ==
		["discover", "connect", "find", "mount", "check", "publish", "check", "publish"])'
	fails "no file '/x'; it has" te-mount --dry-run "${TARGET[@]}" disk0 /x "$T/mnt"
	fails "'mnt' is no absolute path" te-mount --dry-run "${TARGET[@]}" --all disk0 mnt
}

@test "status: well, and all that can be wrong" {
	store http
	registered
	te-mount -n h1 disk0 "$F/a" "$F/copy"
	te-mount -n h1 --no-check disk0 "$F/b" "$F/none"
	run -1 te-mount -n h1 status disk0
	assert_line "  here        $F/copy"
	assert_line "  wrong       no file '$F/none'"
	run -1 te-mount -n h1 --json status disk0
	check_json '.ok == false and (.buffers | map(.ok)) == [true, false] and .server_name == "storage"'
	check_json ".buffers[0] | .local_path == \"$F/copy\" and .readable and .exists and .length == 8192 and .local_length == 8192 and
		.problem == null and (.mount.file_system | length > 0)"
	check_json '.buffers[1] | .exists == false and .local_length == null'
	truncate -s 100 "$F/copy"
	run -1 te-mount -n h1 --json status disk0
	check_json '.buffers[0].problem == "it has 100 bytes, not 8192"'
	run -1 te-mount -n h2 --json status disk0
	check_json '[.buffers[].problem] == ["not on this host: no entry for '\''h2'\''", "not on this host: no entry for '\''h2'\''"]'
	run -0 te-mount -n storage --json status disk0
	check_json '.ok and ([.buffers[].problem] == [null, null])'
}

@test "status: many files at once, one of them unreadable for this user" {
	store http
	local i files=()
	for i in {1..70}; do
		truncate -s $((i * 512)) "$F/f$i"
		files+=("$F/f$i")
	done
	te-register nvmeof -n h1 disk0 "${files[@]}" >/dev/null
	run -0 te-mount -n h1 --json status disk0
	check_json '(.buffers | length) == 70 and ([.buffers[].local_length] == [range(1; 71) * 512])'
	[ "$(id -u)" = 0 ] || return 0
	let_nobody_in
	chmod 600 "$F/f7"
	run -1 as_nobody te-mount -n h1 --json status disk0
	check_json '[.buffers[] | select(.ok | not) | .problem] == ["cannot read it: Permission denied"]'
}

@test "status: a mount that does not answer costs its time once, for all its files" {
	[ "$(id -u)" = 0 ] || skip 'only root may mount and freeze'
	mkdir "$T/fs"
	truncate -s 32M "$T/image"
	mkfs.ext4 -q "$T/image" || skip 'no mkfs.ext4'
	mount -o loop "$T/image" "$T/fs" || skip 'no loop device here'
	store http
	truncate -s 512 "$T/fs/f"{1..100}
	te-register -q nvmeof disk0 "$T/fs/f"{1..100} "$F/a" >/dev/null
	fsfreeze --freeze "$T/fs"
	SECONDS=0
	run te-mount --timeout=1 --json status disk0
	fsfreeze --unfreeze "$T/fs"
	umount -l "$T/fs"
	[ "$SECONDS" -lt 3 ]
	[ "$status" = 1 ]
	check_json '[.buffers[] | select(.readable)] | length == 1'
	check_json '[.buffers[] | select(tostring | contains("another file of"))] | length == 68'
}

@test "not root: said before anything is done; what needs none works" {
	[ "$(id -u)" = 0 ] || skip 'runs as another user from the beginning'
	store http
	registered
	let_nobody_in
	run -1 --separate-stderr as_nobody te-mount "${TARGET[@]}" disk0 "$F/a" "$T/mnt"
	[[ $stderr == *'needs root: connecting and mounting' ]]
	[ ! -e "$T/mnt" ]
	run -0 as_nobody te-mount --dry-run "${TARGET[@]}" disk0 "$F/a" "$T/mnt"
	run -0 as_nobody te-mount -n h1 disk0 "$F/a" "$F/copy"
	run -0 as_nobody te-mount -n h1 --unmount disk0
	assert_output "unpublish   $F/a is $F/copy on h1"
}

@test "a kernel without NVMe-oF is one clear error, and nothing is left" {
	[ "$(id -u)" = 0 ] || skip 'needs root'
	[ ! -e /dev/nvme-fabrics ] || skip 'this kernel has it'
	store http
	registered
	fails 'no /dev/nvme-fabrics: load the kernel'\''s module, modprobe nvme-tcp' te-mount "${TARGET[@]}" disk0 "$F/a" "$T/mnt"
	[ ! -e "$T/mnt" ]
	assert_equal "$(map a)" "{\"storage\":\"$F/a\"}"
}

@test "a loop device is as good as a file" {
	[ "$(id -u)" = 0 ] || skip 'needs root'
	LOOP=$(losetup --find --show "$F/copy") || { LOOP='' && skip 'no loop devices here'; }
	store http
	registered
	te-mount -n h1 disk0 "$F/a" "$LOOP"
	run -0 te-mount -n h1 disk0 "$F/b" "$LOOP"
	run -0 te-mount -n h1 --json status disk0
	check_json "[.buffers[] | [.local_path, .local_length, .readable]] == [[\"$LOOP\", 8192, true], [\"$LOOP\", 8192, true]]"
}

@test "hostile entries: no lines and no terminal codes of their own" {
	store http
	te-meta put mooncake/nvmeof/disk0 '{"server_name":"a\u001b[31m\nb","protocol":"nvmeof","buffers":[
		{"length":1,"file_path":"/x\ny","local_path_map":{"h1":"/p\u001b[31m\nq"}},
		{"length":4611686018427387904,"file_path":"../../etc/passwd","local_path_map":{"h1":""}}]}'
	run te-mount -n h1 status disk0
	[ "$status" = 1 ]
	[[ $output != *$'\e'* ]]
	assert_line 'registered    by a?[31m?b'
	assert_line '/x?y'
}

concurrent() { # concurrent KIND
	add() { te-mount -n "host$1" disk0 "$F/a" "$F/copy"; }
	take_back() { te-mount -n "host$1" --unmount disk0; }
	store "$1"
	registered
	at_once 32 add
	assert_equal "$(map a | jq length)" 33
	[ "$(map a | jq -r 'del(.storage) | [.[]] | unique[]')" = "$F/copy" ]
	te-register -n storage nvmeof disk0 "$F/a" "$F/b" >/dev/null
	assert_equal "$(map a | jq length)" 33
	at_once 32 take_back
	assert_equal "$(map a)" "{\"storage\":\"$F/a\"}"
}
@test "32 hosts at once: http" { concurrent http; }
@test "32 hosts at once: redis" { concurrent redis; }
@test "32 hosts at once: etcd" { concurrent etcd; }

@test "a store without compare-and-swap: done, with a warning" {
	store foreign
	te-meta put mooncake/nvmeof/disk0 "{\"server_name\":\"storage\",\"protocol\":\"nvmeof\",\"buffers\":[{\"length\":8192,\"file_path\":\"$F/a\",\"local_path_map\":{}}]}"
	run -0 --separate-stderr te-mount -n h1 disk0 "$F/a" "$F/copy"
	[[ $stderr == *'no compare-and-swap'* ]]
	assert_equal "$(map a)" "{\"h1\":\"$F/copy\"}"
}
