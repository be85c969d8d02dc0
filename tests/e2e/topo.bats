# topo.bats - te-topo, on machines that were made up (tests/topo) or recorded, and on this one.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers

setup() {
	te_setup
	cd "$TOP/tests/topo"
	RECORDED=$TOP/../shared/topologies
}
teardown() { te_teardown; }

matrix() { # matrix FILTER EXPECTED [OPTION...]: of the published matrix
	local filter=$1 want=$2
	shift 2
	run -0 --separate-stderr te-topo --json "$@"
	assert_equal "$(jq -c "$filter" <<<"$output")" "$want"
}

recorded() {
	[ -d "$RECORDED" ] || skip "no recorded machines in $RECORDED"
}

@test "usage errors" {
	usage "unknown verb 'frob'" te-topo frob
	usage 'usage: te-topo pick LOCATION' te-topo pick
	usage 'usage: te-topo pick LOCATION' te-topo pick a b
	usage 'usage: te-topo path LOCATION SEGMENT' te-topo path cpu:0
	usage 'usage: te-topo path' te-topo path a b c d
	usage 'usage: te-topo diff A B' te-topo diff host
	usage 'usage: te-topo draw' te-topo draw x
	usage "'show' does not take --peer" te-topo --peer=x
	usage "'show' does not take --format" te-topo show --format=svg
	usage "'diff' does not take --input" te-topo diff --input=x a b
	usage "'path' does not take --segment" te-topo path --segment=x a b
	usage "'draw' does not take --json" te-topo draw --json
	usage "not 'png'" te-topo draw --format=png
	usage 'exclude each other' te-topo --input=x --segment=y
}

@test "sources that are none" {
	fails "'nonsense' is neither a file nor an hwloc synthetic description" te-topo --input=nonsense
	fails "cannot read '/tmp'" te-topo --input=/tmp
	echo hello >"$T/text"
	fails 'neither hwloc XML nor a priority matrix' te-topo --input="$T/text"
	head -c 700 gpus.xml >"$T/cut.xml"
	fails 'hwloc' te-topo --input="$T/cut.xml"
	printf '{"cpu:0": [["a"], []],\n"cpu:1": [["a"] []]}' >"$T/bad.json"
	fails "line 2, column" te-topo --input="$T/bad.json"
	fails "row 'cpu:0'" te-topo --input=<(echo '{"cpu:0": [["a"]]}')
}

@test "this host: a row for each node, whether there are NICs or not" {
	run -0 --separate-stderr te-topo --json
	check_json 'type == "object" and has("cpu:0") and ([.[] | length == 2] | all)'
	if [ ! -d /sys/class/infiniband ]; then
		check_json '[.[][]] | add == []'
		run -0 te-topo
		assert_line 'no RDMA NIC'
		run -0 te-topo nics --json
		assert_output '{"nics":[]}'
		fails 'this host has no NIC for cpu:0' te-topo pick cpu:0
	fi
	run -0 te-topo draw --format=ascii
	assert_line --index 0 "$(hostname)"
}

@test "what --json prints is taken as MC_CUSTOM_TOPO_JSON, unchanged" {
	for source in gpus.xml node-a.xml 'pack:2 [numa] core:2 pu:1'; do
		te-topo --json --input="$source" >"$T/m.json"
		MC_CUSTOM_TOPO_JSON=$T/m.json te-topo --json >"$T/again.json"
		cmp "$T/m.json" "$T/again.json"
	done
}

@test "MC_CUSTOM_TOPO_JSON and MC_TE_FILTERS" {
	export MC_CUSTOM_TOPO_JSON=$T/m.json
	fails "MC_CUSTOM_TOPO_JSON: cannot read '$T/m.json': No such file" te-topo
	printf '{"cpu:0":\n[["a"],["b"]}' >"$T/m.json"
	fails "MC_CUSTOM_TOPO_JSON: '$T/m.json': invalid JSON at line 2, column 13" te-topo
	echo '{"cpu:0": [["mlx5_0"], ["mlx5_1"]], "cpu:1": [[], ["mlx5_1"]]}' >"$T/m.json"
	matrix . '{"cpu:0":[["mlx5_0"],["mlx5_1"]],"cpu:1":[[],["mlx5_1"]]}'
	run -0 te-topo pick cpu:0
	assert_output mlx5_0
	run -0 te-topo pick cpu:1
	assert_output mlx5_1
	run -0 te-topo nics --json
	check_json '[.nics[] | select(.name == "mlx5_0") | .present == false and .usable == false] == [true]'
	run -0 te-topo draw --format=ascii
	assert_line --regexp 'cpu:0 .*=> mlx5_0$'
	assert_line --regexp '^.-- cpu:1|cpu:1  [0-9.]* GB$'
	assert_line --regexp '^.-- mlx5_1  not here$'
	export MC_TE_FILTERS=' mlx5_1 , other'
	matrix . '{"cpu:0":[[],["mlx5_1"]],"cpu:1":[[],["mlx5_1"]]}'
	export MC_TE_FILTERS=other
	run -0 --separate-stderr te-topo --json
	assert_output '{"cpu:0":[[],[]],"cpu:1":[[],[]]}'
	[[ $stderr == *"MC_TE_FILTERS 'other' leaves no NIC of "* ]]
}

@test "made-up machines" {
	matrix . '{"cpu:0":[[],[]],"cpu:1":[[],[]]}' --input='pack:2 [numa] core:2 pu:1'
	matrix '."cpu:0"' '[["mlx5_0","mlx5_1"],[]]' --input=gpus.xml
	matrix '."cpu:8"' '[[],["mlx5_0","mlx5_1"]]' --input=gpus.xml
	matrix '."cuda:1"' '[["mlx5_0"],["mlx5_1"]]' --input=gpus.xml
	run -0 te-topo pick cpu:8 --input=gpus.xml
	assert_output $'mlx5_0\nmlx5_1'
	run -0 te-topo pick '*' --input=gpus.xml --json
	check_json '.location == "*" and .preferred == ["mlx5_0", "mlx5_1"] and .others == []'
	fails "no location 'cpu:1' in the matrix of gpus.xml; there: cpu:0, cpu:8, cuda:0, cuda:1" \
		te-topo pick cpu:1 --input=gpus.xml
	run -0 te-topo --input=gpus.xml
	assert_line --regexp '^mlx5_1 +1 +DOWN +- +- +- +0 +0000:31:00\.0$'
	assert_line --regexp '^cuda:1 +mlx5_0 +mlx5_1$'
	run -0 te-topo nics --input=gpus.xml --json
	check_json '.nics[0] | .name == "mlx5_0" and .state == "ACTIVE" and .numa_node == 0 and .pci == "0000:19:00.0" and .gid.address == "fe80::ff:fe00:9000" and .gbps == null'
}

@test "recorded: two NICs near each of Lassen's nodes, and near the GPUs of that socket" {
	recorded
	matrix 'keys - ["cpu:0","cpu:8","cuda:0","cuda:1","cuda:2","cuda:3"]' '[]' --input="$RECORDED/coral-lassen.xml"
	for l in cpu:0 cuda:0 cuda:1; do
		matrix ".\"$l\"" '[["mlx5_0","mlx5_1"],["mlx5_2","mlx5_3"]]' --input="$RECORDED/coral-lassen.xml"
	done
	for l in cpu:8 cuda:2 cuda:3; do
		matrix ".\"$l\"" '[["mlx5_2","mlx5_3"],["mlx5_0","mlx5_1"]]' --input="$RECORDED/coral-lassen.xml"
	done
}

@test "recorded: each GPU of JUWELS prefers the NIC behind its own switch" {
	recorded
	matrix '[to_entries[] | select(.key | startswith("cuda:")) | .key + " " + (.value[0] | join(" "))]' \
		'["cuda:0 mlx5_1","cuda:1 mlx5_0","cuda:2 mlx5_3","cuda:3 mlx5_2"]' --input="$RECORDED/topo.jwb0001.xml"
	matrix '[to_entries[] | select(.key | startswith("cpu:")) | .value[0] | join(" ")]' \
		'["mlx5_0 mlx5_1","mlx5_0","mlx5_0 mlx5_1","mlx5_1","mlx5_2 mlx5_3","mlx5_2","mlx5_2 mlx5_3","mlx5_3"]' \
		--input="$RECORDED/topo.jwb0001.xml"
}

@test "recorded: one NIC for two sockets" {
	recorded
	matrix . '{"cpu:0":[["mlx5_0"],[]],"cpu:1":[[],["mlx5_0"]],"cuda:0":[["mlx5_0"],[]],"cuda:1":[["mlx5_0"],[]]}' \
		--input="$RECORDED/cts1-pascal.xml"
	matrix . '{"cpu:0":[["mlx5_0"],[]],"cpu:1":[[],["mlx5_0"]]}' --input="$RECORDED/topo.dp-cn01.xml"
}

@test "the way of a transfer: from cpu:0 by mlx5_1 here to mlx5_3 there, at cpu:1" {
	run -0 te-topo path cpu:0 node-b cpu:1 --input=node-a.xml --peer=node-b.xml
	assert_line --index 0 'cpu:0 here -> cpu:1 of node-b'
	assert_line --index 1 --regexp '^  mlx5_1 -> mlx5_3  first  both preferred$'
	assert_line --index 2 --partial 'mlx5_1 -> mlx5_2  spare  mlx5_2 is not preferred for cpu:1 there'
	assert_line --index 4 --partial 'mlx5_2 -> mlx5_2  spare  neither is preferred'
	run -0 te-topo path cpu:0 node-b --input=node-a.xml --peer=node-b.xml --json
	check_json '.local_location == "cpu:0" and .segment == "node-b" and ([.paths[].remote_location] == ["cpu:0", "cpu:1"])'
	check_json '.paths[1].pairs | map(.local + ">" + .remote) == ["mlx5_1>mlx5_3", "mlx5_1>mlx5_2", "mlx5_2>mlx5_3", "mlx5_2>mlx5_2"]'
	check_json '.paths[1].pairs | map(.first) == [true, false, false, false]'
	check_json '.paths[1].pairs | map(.tier) == [0, 1, 1, 2]'
	MC_ENABLE_DEST_DEVICE_AFFINITY=1 run -0 te-topo path cpu:8 g cpu:0 --input=gpus.xml --peer=gpus.xml
	assert_line --index 1 --regexp 'mlx5_0 -> mlx5_0 .* same name$'
	assert_line --regexp '^  mlx5_1 -> mlx5_1 +unusable .*; mlx5_1 is DOWN here; mlx5_1 is DOWN there +same name$'
	fails "no location 'cpu:5' in the matrix of node-b" te-topo path cpu:0 node-b cpu:5 --input=node-a.xml --peer=node-b.xml
	fails 'the peer has no NIC' te-topo path cpu:0 x --input=node-a.xml --peer='numa:2 pu:1'
	fails 'there is none here' te-topo path cpu:0 x --input='numa:2 pu:1' --peer=node-b.xml
}

@test "segments" {
	store http
	fails "segment 'none'" te-topo --segment=none
	te-meta put mooncake/ram/seg "$(jq -nc --argjson m "$(te-topo --json --input=node-b.xml)" '
		{name: "seg", protocol: "rdma", buffers: [], priority_matrix: $m,
		 devices: [{name: "mlx5_3", lid: 0, gid: "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4c"}]}')"
	te-topo --json --segment=seg | cmp - <(te-topo --json --input=node-b.xml)
	run -0 te-topo path cpu:0 seg cpu:1 --input=node-a.xml
	assert_line --index 1 --partial 'mlx5_1 -> mlx5_3  first'
	assert_line --regexp 'mlx5_1 -> mlx5_2  unusable  .*; mlx5_2 is not among the published devices there$'
	run -0 te-topo nics --segment=seg --json
	check_json '.nics | map(.gid.address) == [null, "::ffff:192.168.3.76"]'
	run -0 te-topo diff seg node-b.xml
	assert_output ''
	run -0 te-topo diff segment:seg node-b.xml --json
	check_json '.same and .rows == []'
	te-meta put mooncake/ram/tcp '{"name":"tcp","protocol":"tcp","buffers":[]}'
	fails "segment 'tcp' publishes no priority matrix (its protocol is tcp)" te-topo --segment=tcp
	te-meta put mooncake/ram/bad '{"name":"bad","protocol":"rdma","priority_matrix":{"cpu:0":[["a\u001b"]]}}'
	fails "priority matrix of segment 'bad': row 'cpu:0' is not a pair" te-topo --segment=bad
	te-meta put mooncake/ram/odd '{"name":"odd","protocol":"rdma","priority_matrix":{"cpu:0":[["<a>\u001b\u00e9\""],[]]}}'
	run -0 te-topo --segment=odd
	refute_output --partial $'\e'
	te-topo draw --segment=odd >"$T/odd.svg"
	well_formed "$T/odd.svg"
	grep -q '&lt;a&gt;???&quot;' "$T/odd.svg"
}

@test "diff" {
	run -1 --separate-stderr te-topo diff node-a.xml node-b.xml
	assert_output - <<-'EOF'
		--- node-a.xml
		+++ node-b.xml
		- NIC mlx5_1
		+ NIC mlx5_3
		  location  preferred  others
		- cpu:0     mlx5_1     mlx5_2
		+ cpu:0     mlx5_2     mlx5_3
		- cpu:1     mlx5_2     mlx5_1
		+ cpu:1     mlx5_3     mlx5_2
	EOF
	assert_equal "$stderr" ''
	run -1 te-topo diff gpus.xml 'numa:1 pu:2' --json
	check_json '.same == false and .nics_only_a == ["mlx5_0", "mlx5_1"] and .nics_only_b == [] and ([.rows[].location] == ["cpu:0", "cpu:8", "cuda:0", "cuda:1"])'
	check_json '.rows[0].b == [[], []] and .rows[1].b == null'
	# The order in a list does not count, the list does.
	echo '{"cpu:0": [["a", "b"], ["c"]]}' >"$T/1.json"
	echo '{"cpu:0": [["b", "a"], ["c"]]}' >"$T/2.json"
	echo '{"cpu:0": [["b", "c"], ["a"]]}' >"$T/3.json"
	run -0 te-topo diff "$T/1.json" "$T/2.json"
	run -1 te-topo diff "$T/1.json" "$T/3.json"
	run -0 te-topo diff host host
	assert_output ''
}

well_formed() { python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$1"; }

# No text over other text, and each inside the picture and, if it is in a box, inside that; by the width of the type.
text_is_clear() {
	python3 - "$1" <<-'EOF'
		import sys, xml.etree.ElementTree as E
		svg = E.parse(sys.argv[1]).getroot()
		n = "{http://www.w3.org/2000/svg}"
		texts = []
		for t in svg.iter(n + "text"):
		    x, y = float(t.get("x")), float(t.get("y"))
		    texts.append((x, y - 11, x + 7.83 * len(t.text or ""), y + 3, t.text))
		assert texts
		w, h = float(svg.get("width")), float(svg.get("height"))
		boxes = [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in svg.iter(n + "rect") if r.get("x")]
		for a in texts:
		    assert a[0] >= 0 and a[1] >= 0 and a[2] <= w and a[3] <= h, ("outside", a)
		    for x, y, bw, bh in boxes:
		        if x <= a[0] <= x + bw and y <= a[1] <= y + bh:
		            assert a[2] <= x + bw and a[3] <= y + bh, ("wider than its box", a)
		for i, a in enumerate(texts):
		    for b in texts[i + 1:]:
		        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], ("overlap", a, b)
	EOF
}

@test "pictures" {
	te-topo --json --input=gpus.xml >"$T/gpus.json"
	sources=(gpus.xml node-a.xml 'pack:8 [numa] core:2 pu:1' 'numa:1 pu:1' "$T/gpus.json")
	[ ! -d "$RECORDED" ] || sources+=("$RECORDED"/*.xml)
	for source in "${sources[@]}"; do
		te-topo draw --input="$source" >"$T/x.svg"
		well_formed "$T/x.svg"
		text_is_clear "$T/x.svg"
	done
	te-topo draw --input=gpus.xml >"$T/x.svg"
	te-topo draw --input=gpus.xml --format=svg | cmp - "$T/x.svg"
	grep -q '>mlx5_1  DOWN<' "$T/x.svg"
	assert_equal "$(grep -c 'stroke-width="2.5".*fill="none"' "$T/x.svg")" 5 # four links, and one's detour
	run -0 te-topo draw --input=gpus.xml --format=ascii
	assert_output - <<-'EOF'
		node-g
		|-- package 0  2 CPUs  Made-up CPU
		|   `-- cpu:0  68.7 GB  => mlx5_0 mlx5_1
		|       |-- host bridge 0000:15
		|       |   `-- PCI bridge 0000:16:00.0
		|       |       |-- cuda:1  NVIDIA H200  0000:18:00.0  => mlx5_0
		|       |       `-- mlx5_0  ACTIVE
		|       `-- host bridge 0000:30
		|           `-- mlx5_1  DOWN
		`-- package 1  2 CPUs  Made-up CPU
		    `-- cpu:8  68.7 GB
		        `-- host bridge 0000:b0
		            `-- cuda:0  NVIDIA H200  0000:b1:00.0  => mlx5_1
	EOF
	te-topo draw --input=gpus.xml --format=dot >"$T/x.dot"
	assert_equal "$(grep -c 'penwidth' "$T/x.dot")" 4
	if command -v dot >/dev/null; then dot -Tsvg "$T/x.dot" >/dev/null; fi
}

@test "a full disk is noticed by each verb" {
	for verb in show nics 'pick cpu:0' 'path cpu:0 x --peer=node-b.xml' draw; do
		# shellcheck disable=SC2016,SC2086
		run -1 --separate-stderr bash -c '"$@" >/dev/full' _ te-topo $verb --input=node-a.xml
		assert_regex "$stderr" '^te-topo: cannot write'
	done
}
