#!/bin/sh
# pool.t - endpoints come and go: a full pool, lost links, engines that open towards each other; no queue pair is left behind.
. "$(dirname "$0")/lib/guest.sh"
. "$here/lib/steps.sh"

# all_qps: of both ends of rail 0.
all_qps() { echo "$(qp_count rxa0) $(qp_count rxb0)"; }
qps_are() { [ "$(all_qps)" = "$1" ] || { all_qps && return 1; }; }

ok 'two rails come up' rails_up
is 'no queue pairs' "$(all_qps)" '0 0'

# ---- more targets than endpoints -------------------------------------------------------------------------------------

segments=
for i in 1 2 3 4; do
	ok "target $i" target t$i --protocol=rdma --device-name=rxb0 --buffer=cpu:0:2M --pattern
	segments="$segments $SEGMENT"
done
export MC_MAX_EP_PER_CTX=2
SEGMENT=$(echo "${segments# }" | tr ' ' ,)
for operation in read write; do
	ok "all four at once: $operation" bench four --protocol=rdma --device-name=rxa0 --verify --operation=$operation \
		--block-size=65537 --batch-size=4 --requests=64
	is "all four at once: $operation: errors, mismatches" "$(figure four errors) $(figure four mismatches)" '0 0'
done
rounds=25
[ -z "$ALL" ] || rounds=200
steps rxa0
# shellcheck disable=SC2086 # words
ok 'four targets in turn, two endpoints: data is right' step rotate 65537 4 $segments
ok 'queue pairs settle' within 5 qps_are '4 4'
first=$(total evictions)
# shellcheck disable=SC2086
ok "$rounds rounds more: data is right" step rotate 65537 $rounds $segments
ok 'queue pairs settle at the same' within 5 qps_are '4 4'
near 'evictions are counted' $(($(total evictions) - first)) $((2 * rounds)) $((5 * rounds))
is 'no transfer failed' "$(total failed)" 0
ok 'the initiator ends' steps_end
ok 'and so do its queue pairs, at both sides' within 5 qps_are '0 0'
unset MC_MAX_EP_PER_CTX
for i in 1 2 3 4; do ok "target $i ends" stop t$i; done

# ---- a link that is lost with a live peer ----------------------------------------------------------------------------

export MC_TRANSFER_TIMEOUT=3
ok 'te-target serves' target t --protocol=rdma --device-name=rxb0 --buffer=cpu:0:2M
steps rxa0
for how in near far loss; do
	ok "$how: write" step write "$SEGMENT" 65537
	is "$how: queue pairs" "$(all_qps)" '2 2'
	rail_cut $how 0
	not_ok "$how: cut, a write fails" step write "$SEGMENT" 65537
	ok "$how: which names the path" said 'rxa0 to rxb0'
	rail_mend 0
	ok "$how: queue pairs are gone at both sides" within 5 qps_are '0 0'
	ok "$how: the next write connects again" step write "$SEGMENT" 65537
	ok "$how: and reads find it" step check "$SEGMENT" 65537
	is "$how: queue pairs are back" "$(all_qps)" '2 2'
done
ok 'the initiator ends' steps_end
ok 'te-target ends' stop t

# ---- towards each other ----------------------------------------------------------------------------------------------

rounds=8
[ -z "$ALL" ] || rounds=100
ok "two engines open towards each other, $rounds times" "$BUILD/progs/meet" rxa0 rxb0 $rounds
is 'no queue pair is left' "$(qp_count rxa0 rxa1 rxb0 rxb1)" 0
done_testing
