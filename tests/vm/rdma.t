#!/bin/sh
# rdma.t - te-target and te-bench over rdma: every byte is verified; sizes, rails, stores, GIDs, and what set-up says when
# it fails.
. "$(dirname "$0")/lib/guest.sh"

A=--device-name=rxa0,rxa1
B=--device-name=rxb0,rxb1
HTTP=http://$LOCAL:18080/metadata
REDIS=redis://$LOCAL:16379

# all NAME MEMBER: the values in that run's results, each once, on one line.
all() { json "$T/$1.json" "$2" | sort -u | tr '\n' ' ' | sed 's/ $//'; }
# sum NAME MEMBER
sum() { json "$T/$1.json" "$2" | awk '{ n += $1 } END { print n + 0 }'; }
# verified TEXT NAME BYTES [OPTION...]: a run over rdma, without error, retry or mismatch, that has compared BYTES.
verified() {
	text=$1 name=$2 bytes=$3
	shift 3
	ok "$text" bench "$name" --protocol=rdma --verify "$@"
	is "$text: no error, retry, mismatch" "$(sum "$name" errors) $(sum "$name" retries) $(sum "$name" mismatches)" '0 0 0'
	is "$text: all bytes compared" "$(sum "$name" checked_bytes)" "$bytes"
	is "$text: over rdma" "$(all "$name" transport)" rdma
}
# refused TEXT WORDS COMMAND...: it fails with status 1 (of usage: 2), and says each of the words on one line; that line
# is all it says.
refused() {
	text=$1 words=$2
	shift 2
	"$@" >"$T/refused.out" 2>"$T/refused.err" </dev/null
	near "$text: exit status" $? 1 2
	said=$(cat "$T/refused.err")
	is "$text: one line" "$(wc -l <"$T/refused.err")" 1
	for word in $words; do
		case $said in *"$word"*) ;; *) fail "$text: names $word" "$said" && return ;; esac
	done
	pass "$text: names $words"
}
# The GID that a segment has published for a device.
published_gid() { # published_gid STORE SEGMENT DEVICE
	te-meta --metadata-server="$1" get "mooncake/ram/$2" >"$T/descriptor" || return
	tr '{' '\n' <"$T/descriptor" | grep "\"$3\"" | grep -o '"gid": *"[^"]*"' | head -n 1
}

ok 'two rails come up' rails_up

# ---- sizes, one rail and two -----------------------------------------------------------------------------------------

large=24
[ -z "$ALL" ] || large=100
ok 'te-target serves rdma' target t --protocol=rdma $B --buffer=cpu:0:$((large + 4))M --pattern
# READs first: they compare with the pattern that the target began with.
for operation in read write; do
	for devices in rxa0 rxa1 rxa0,rxa1; do
		way="$operation by $devices"
		[ -n "$ALL" ] || [ $devices != rxa1 ] || continue
		verified "$way, 1 and 65537 bytes, batches of 1 and 128" small $((2 * 128 * 65538)) \
			--operation=$operation --device-name=$devices --block-size=1,65537 --batch-size=1,128 --requests=128
		verified "$way, $large MiB at once" large $((large << 20)) \
			--operation=$operation --device-name=$devices --block-size=${large}M --batch-size=1 --requests=1
		is "$way: from these NICs" "$(all large local)" "$(echo $devices | tr , ' ')"
	done
	is "$operation by two: NIC to NIC" "$(all large remote)" "$SEGMENT (rxb0) $SEGMENT (rxb1)"
	near "$operation by two: slices of 64 KiB" "$(sum large slices)" $((large * 16)) $((large * 16))
done
ok 'it ends' stop t
is 'no queue pair is left' "$(qp_count rxa0 rxa1 rxb0 rxb1)" 0

# ---- stores ----------------------------------------------------------------------------------------------------------

rm -f "$T/http.json"
start http te-http-meta --listen=$LOCAL:18080 --ready-file="$T/http.json"
ok 'te-http-meta starts' within 5 test -s "$T/http.json"
start redis redis-server --bind $LOCAL --port 16379 --save '' --appendonly no
ok 'redis-server starts' within 15 te-meta --metadata-server=$REDIS ping
for store in $HTTP $REDIS; do
	ok "$store: te-target starts" target s --metadata-server="$store" --local-server-name=served --protocol=rdma $B \
		--buffer=cpu:0:2M --pattern
	verified "$store: READ and WRITE" s $((32 * 65537)) --metadata-server="$store" $A --operation=mixed \
		--block-size=65537 --batch-size=16 --requests=32
	ok "$store: te-target ends" stop s
	is "$store: nothing is left" "$(te-meta --metadata-server="$store" ls)" ''
done
stop redis KILL

# ---- GIDs ------------------------------------------------------------------------------------------------------------

for family in v4 v6; do
	case $family in v4) prefix=00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:02 ;; v6) prefix=fd:00: ;; esac
	MC_GID_INDEX=$(gid_index rxb0 $family)
	export MC_GID_INDEX
	ok "GID of IP$family: te-target starts" target g --metadata-server=$HTTP --local-server-name=gids --protocol=rdma \
		--device-name=rxb0 --buffer=cpu:0:2M --pattern
	published=$(published_gid $HTTP gids rxb0)
	case $published in
	*\"$prefix*) pass "GID of IP$family: it is published" ;;
	*) fail "GID of IP$family: it is published" "$published; $(cat "$T/descriptor")" ;;
	esac
	MC_GID_INDEX=$(gid_index rxa0 $family)
	verified "GID of IP$family: READ and WRITE" g $((32 * 65537)) --metadata-server=$HTTP --device-name=rxa0 \
		--operation=mixed --block-size=65537 --batch-size=16 --requests=32
	unset MC_GID_INDEX
	ok "GID of IP$family: te-target ends" stop g
done
stop http

# ---- set-up that fails -----------------------------------------------------------------------------------------------

serve() { te-target --protocol=rdma --local-server-name=$LOCAL --buffer=cpu:0:1M "$@"; }
table='fe80::ff:fe00:2 ::ffff:10.0.0.2'
export MC_GID_INDEX=77
refused 'wrong MC_GID_INDEX' "rxb0 port 1 77 MC_GID_INDEX $table fd00::2" serve --device-name=rxb0
unset MC_GID_INDEX
refused 'missing device' 'mlx5_7 rxb0' serve --device-name=rxb0,mlx5_7
rail_cut near 0
refused 'port down at start' "rxb0 port 1 DOWN GID $table" serve --device-name=rxb0
SEGMENT=$LOCAL:15999
refused 'port down at start of te-bench' 'rxa0 port 1 DOWN GID' te-bench --segment-id=$SEGMENT --protocol=rdma \
	--device-name=rxa0 --requests=1
ok 'one port down: the other NIC serves' target t --protocol=rdma $B --buffer=cpu:0:2M --pattern
verified 'one port down: read' down $((16 * 65537)) $A --block-size=65537 --batch-size=16 --requests=16
is 'one port down: by the other' "$(all down local)" rxa1
stop t
rail_mend 0

# ---- no RDMA at the initiator ----------------------------------------------------------------------------------------

ok 'te-target serves rdma, and tcp' target t --protocol=rdma $B --buffer=cpu:0:2M --pattern
fallback() { # fallback TEXT OPTION...
	text=$1
	shift
	ok "$text: served by tcp" bench tcp --verify --block-size=65537 --batch-size=16 --requests=16 "$@"
	is "$text: which the result says" "$(all tcp transport) $(sum tcp mismatches)" 'tcp 0'
	ok "$text: and a line" grep -q "rdma.*tcp serves" "$T/tcp.err"
	not_ok "$text: refused under --require-transport=rdma" bench tcp --requests=1 --require-transport=rdma "$@"
	ok "$text: which is the reason given" grep -q 'requ.*rdma' "$T/tcp.err"
}
fallback 'an initiator of --protocol=tcp' --protocol=tcp
export MC_FORCE_TCP=1
fallback 'an initiator under MC_FORCE_TCP'
unset MC_FORCE_TCP
stop t
export MC_FORCE_HCA=1
refused 'MC_FORCE_HCA without the device' 'MC_FORCE_HCA mlx5_7' te-bench --segment-id=$SEGMENT --device-name=mlx5_7 \
	--requests=1
unset MC_FORCE_HCA
is 'no queue pair is left' "$(qp_count rxa0 rxa1 rxb0 rxb1)" 0
done_testing
