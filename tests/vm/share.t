#!/bin/sh
# share.t - one request uses both rails, each by what it can: figures of slowed rails, which do not depend on the machine.
. "$(dirname "$0")/lib/guest.sh"
. "$here/lib/steps.sh"

mib=24
[ -z "$ALL" ] || mib=100
# A rail of N Mbit/s carries N * 123250 bytes of payload a second: 4096 of each 4154.
PER_MBIT=123250

# timed WHAT DEVICES: ms of one WRITE by these NICs, in $MS. A smaller one first: connections are made, and their speed is known.
timed() {
	steps "$2"
	ok "$1: a small WRITE" step write "$SEGMENT" 2097152
	from0=$(rail_bytes 0) from1=$(rail_bytes 1)
	ok "$1: $mib MiB" step write "$SEGMENT" $((mib << 20))
	took=$MS bytes0=$(($(rail_bytes 0) - from0)) bytes1=$(($(rail_bytes 1) - from1))
	ok "$1: the data is right" step check "$SEGMENT" 2097152
	ok "$1: end" steps_end
	diag "$1: $took ms, $bytes0 and $bytes1 bytes on the rails"
}

ok 'two rails come up' rails_up
rail_slow 0 40mbit
rail_slow 1 40mbit
ok 'te-target serves' target t --protocol=rdma --device-name=rxb0,rxb1 --buffer=cpu:0:${mib}M
timed 'one rail of 40 Mbit/s' rxa0
one=$took
near 'MB/s of one' "$(awk "BEGIN { print ($mib * 1048576) / $one / 1000 }")" 4.4 5.0
timed 'two rails of 40 Mbit/s' rxa0,rxa1
near 'time over two / time over one' "$(awk "BEGIN { print $took / $one }")" 0.4 0.55

rail_slow 1 10mbit
timed 'a rail of 40 Mbit/s and one of 10' rxa0,rxa1
near 'share of the slow one' "$(awk "BEGIN { print $bytes1 / ($bytes0 + $bytes1) }")" 0.15 0.25
near 'of the sum of both' "$(awk "BEGIN { print $mib * 1048576 / $took * 1000 / (50 * $PER_MBIT) }")" 0.9 1.05
ok 'te-target ends' stop t
for rail in $RAILS; do rail_fast "$rail"; done
done_testing
