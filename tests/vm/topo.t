#!/bin/sh
# topo.t - te-topo on a host with RDMA devices: does it say what the devices say, and what te-target publishes?
. "$(dirname "$0")/lib/guest.sh"

# nics: ask te-topo; a line for each member of each device, for nic. nic DEVICE MEMBER: what it said.
nics() {
	te-topo nics --json >"$T/nics.json" 2>"$T/nics.err" &&
		jq -r '.nics[] | .name as $n | . + (.gid // {} | del(.gid)) | to_entries[] | "\($n) \(.key) \(.value)"' \
			"$T/nics.json" >"$T/nics"
}
nic() { sed -n "s/^$1 $2 //p" "$T/nics"; }
# devinfo DEVICE FIELD: ibv_devinfo's word for it. devinfo_gid DEVICE INDEX: of "GID[  1]: fd00::1, RoCE v2"
devinfo() { sed -n "s/^[[:space:]]*$2:[[:space:]]*\([^[:space:]]*\).*/\1/p" "$T/$1.info"; }
devinfo_gid() { sed -n "s/^.*GID\[ *$2\]:[[:space:]]*\([^,[:space:]]*\).*/\1/p" "$T/$1.info"; }
same() { cmp "$@"; }

ok 'two rails come up' rails_up
ok 'te-topo looks at them' te-topo --json
te-topo --json >"$T/host.json"
is 'it has a row for each node, with all devices' \
	"$(jq -c 'to_entries | map(.key, (.value | add | sort))' "$T/host.json")" '["cpu:0",["rxa0","rxa1","rxb0","rxb1"]]'
is 'devices that sit nowhere are near the only package' "$(jq -c '."cpu:0"[1]' "$T/host.json")" '[]'

ok 'te-topo asks the ports' nics
for device in rxa0 rxb1; do
	ibv_devinfo -v -d $device >"$T/$device.info"
	is "$device: state" "PORT_$(nic $device state)" "$(devinfo $device state)"
	is "$device: MTU" "$(nic $device mtu)" "$(devinfo $device active_mtu)"
	is "$device: largest MTU" "$(nic $device max_mtu)" "$(devinfo $device max_mtu)"
	is "$device: link layer" "$(nic $device link_layer)" "$(devinfo $device link_layer)"
	is "$device: GID" "$(nic $device address)" "$(devinfo_gid $device "$(nic $device index)")"
	is "$device: usable" "$(nic $device usable)" true
done
is 'a routable IPv6 GID comes before a private IPv4 one' "$(nic rxa0 index)" "$(gid_index rxa0 v6)"
is 'and the reason says so' "$(nic rxa0 why | sed 's/best of .*/best/')" 'RoCE v2, routable, netdev a0 (rank 1, best'
is 'its interface' "$(nic rxa0 netdev)" a0

v4=$(gid_index rxa0 v4)
export MC_GID_INDEX="$v4"
ok 'with MC_GID_INDEX' nics
is 'that GID is the one' "$(nic rxa0 address)" '::ffff:10.0.0.1'
is 'because of it' "$(nic rxa0 why)" 'RoCE v2, private IPv4, netdev a0 (rank 3, index set by MC_GID_INDEX)'
export MC_GID_INDEX=200
ok 'with one that is not there' nics
is 'the device is not usable' "$(nic rxa0 usable)" false
ok 'the reason names device, port and index, and shows the table' \
	grep -q "device 'rxa0' port 1 has no GID 200 (MC_GID_INDEX); GID table: 0 fe80::[^;]* RoCE v2 (a0); 1 " "$T/nics.json"
unset MC_GID_INDEX
export MC_IB_PORT=3
nics
is 'a port that is not there' "$(nic rxb0 why)" "device 'rxb0' has no port 3 (MC_IB_PORT), only 1"
unset MC_IB_PORT

rail_cut far 1
nics
is 'a port that is down' "$(nic rxb1 state)" DOWN
ok 'is of no use, and the reason says so' \
	eval 'nic rxb1 why | grep -q "device .rxb1. port 1 is DOWN, not ACTIVE"'
is 'it stays in the matrix' "$(te-topo --json)" "$(cat "$T/host.json")"
rail_mend 1

is 'MC_TE_FILTERS' "$(MC_TE_FILTERS=rxa0,rxa1 te-topo --json)" '{"cpu:0":[["rxa0","rxa1"],[]]}'
te-topo draw >"$T/x.svg"
ok 'a picture has state and speed' grep -q '>rxa0  ACTIVE  [0-9.]* Gb/s<' "$T/x.svg"

ok 'te-target starts' target t --protocol=rdma --buffer=cpu:0:1M
ok 'what it publishes is the matrix of te-topo' eval "te-topo --json --segment=$SEGMENT | same - $T/host.json"
ok 'no difference to this host' te-topo diff host "$SEGMENT"
te-topo nics --segment="$SEGMENT" --json | jq -c '[.nics[] | [.name, .gid.gid]]' >"$T/published"
nics
ok 'GIDs that it publishes are those that te-topo names' \
	eval "jq -c '[.nics[] | [.name, .gid.gid]]' $T/nics.json | same - $T/published"
te-topo path cpu:0 "$SEGMENT" --json >"$T/path.json"
is 'pairs that are used first lie within a subnet' \
	"$(jq -c '[.paths[].pairs[] | select(.first) | .same_subnet] | unique' "$T/path.json")" '[true]'
is 'rails among them' \
	"$(jq -c '[.paths[].pairs[] | select(.first and .local == "rxa1") | .remote]' "$T/path.json")" '["rxa1","rxb1"]'
ok 'te-target ends' stop t
done_testing
