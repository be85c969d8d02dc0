#!/bin/sh
# rails.t - are the guest's rails what the other scripts take them for? No te here: rdma-core's ibv_rc_pingpong, perftest.
. "$(dirname "$0")/lib/guest.sh"
# shellcheck source=tests/vm/lib/perftest.sh
. "$here/lib/perftest.sh"

# pingpong RAIL v4|v6 BYTES TIMES: over that rail. Bounded: queue pairs of a cut rail may wait for ever.
pingpong() {
	serve ibv_rc_pingpong -d rxb"$1" -g "$(gid_index rxb"$1" "$2")" -s "$3" -n "$4" || return
	start client ibv_rc_pingpong -d rxa"$1" -g "$(gid_index rxa"$1" "$2")" -s "$3" -n "$4" $LOCAL
}
pingpong_ends() {
	pingpong "$@" && ended client 20 && pingpong_rc=$ENDED && ended server 20 && [ "$pingpong_rc$ENDED" = 00 ] && return
	cat "$T/client.err" "$T/server.err"
	return 1
}
moves() { # moves RAIL: bytes cross it right now
	moves_from=$(rail_bytes "$1") && within 20 moved "$1"
}
moved() { [ "$(rail_bytes "$1")" -gt $((moves_from + 100000)) ]; }
still() { # still RAIL: none of note does
	still_from=$(rail_bytes "$1") && sleep 0.5 && [ "$(rail_bytes "$1")" -lt $((still_from + 5000)) ]
}

ok 'two rails come up' rails_up
for rail in $RAILS; do
	for end in a b; do
		device=rx$end$rail
		ok "$device is active" port_active "$device"
		ok "$device has a GID of IPv4" gid_index "$device" v4
		ok "$device has a GID of IPv6" gid_index "$device" v6
		is "$device has no queue pairs" "$(qp_count "$device")" 0
	done
done

for rail in $RAILS; do
	other=$((1 - rail))
	for family in v4 v6; do
		before=$(rail_bytes "$rail") before_other=$(rail_bytes $other)
		ok "ping-pong over rail $rail, IP$family" pingpong_ends "$rail" $family 65536 10
		near 'its bytes cross that rail' $(($(rail_bytes "$rail") - before)) 1310720 1600000
		near 'none cross the other' $(($(rail_bytes $other) - before_other)) 0 10000
	done
done

cut_and_mend() { # cut_and_mend RAIL HOW
	pingpong "$1" v4 65536 100000
	ok "rail $1: bytes move" moves "$1"
	is 'the server has a queue pair' "$(qp_count rxb"$1")" 1
	ok "cut: $2" rail_cut "$2" "$1"
	ok 'they stop' still "$1"
	stop client KILL
	stop server KILL
	ok 'mended' rail_mend "$1"
	for family in v4 v6; do ok "ping-pong, IP$family" pingpong_ends "$1" $family 65536 4; done
}
for how in near far loss; do cut_and_mend 0 $how; done
[ -z "$ALL" ] || for how in near far loss; do cut_and_mend 1 $how; done
is 'no queue pair is left' "$(qp_count rxa0 rxb0 rxa1 rxb1)" 0

rail_slow 0 80mbit
# 4096 of each 4154 bytes are payload: 9.86, and less when the guest has to wait for a CPU of its host.
near 'MB/s of a rail slowed to 80 Mbit/s' "$(perftest_rate 0 write 65536 128 150)" 2 10.2
[ -z "$ALL" ] || near 'again, for longer, on a machine that does nothing else' "$(perftest_rate 0 write 65536 128 1000)" 9.4 9.95
rail_cut loss 0
rail_mend 0
ok 'a slow rail that is mended is slow' eval "tc qdisc show dev a0 | grep -q 'tbf.*rate 80Mbit'"
rail_fast 0
not_ok 'a fast one is not' eval "tc qdisc show dev a0 | grep -q tbf"
[ -z "$ALL" ] || near 'MB/s of a fast one, on such a machine' "$(perftest_rate 0 write 65536 128 1000)" 12 1000
done_testing
