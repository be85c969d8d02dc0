# shellcheck shell=sh
# rails.sh - two rails of soft-RoCE devices, whose two ends are in this one guest and yet joined by wires.
#
# Rail N (0, 1) is a veth pair aN - bN of MTU 4200 with a device on each end, rxaN and rxbN; 10.N.0.1 and fd00:N::1 are at end a,
# ....2 at end b. The table of local addresses is asked after our own for what this host sends, or it would never leave it.
# End a is for the initiator, end b for the target: an end never talks to itself, nor to another rail.
#
# Ways to cut a rail, and what they look like from above:
#	near	end a goes down: both ports DOWN (b lost its carrier); a's routes and IPv6 addresses are gone, and the GIDs of
#		those; queue pairs of end a that send fail within 0.1 s (LOC_QP_OP_ERR)
#	far	end b goes down: the same the other way round; queue pairs of end a find out by time-out
#	loss	netem drops all packets, both ways: nobody notices but the time-out
# Linux takes retry_cnt 7 for "for ever" in soft-RoCE: with it a queue pair waits until the rail is mended.

RAILS='0 1'

# rails_up: make them, or mend those that an earlier script has left. Waits until all four ports are active.
rails_up() {
	if [ -d /sys/class/net/a0 ]; then
		for rail in $RAILS; do rail_fast "$rail" && rail_mend "$rail"; done
		return
	fi
	modprobe -a crc32_generic veth rdma_rxe ib_uverbs rdma_ucm sch_tbf sch_netem || return
	sysctl -qw net.ipv4.conf.all.accept_local=1 net.ipv4.conf.default.accept_local=1 net.ipv4.conf.all.rp_filter=0 \
		net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.all.arp_ignore=1 net.ipv6.conf.default.accept_dad=0
	for family in -4 -6; do
		ip $family -batch - <<-'IP'
			rule add pref 10 iif lo lookup 100
			rule add pref 200 lookup local
			rule del pref 0
		IP
	done
	for rail in $RAILS; do
		ip -batch - <<-IP
			link add a$rail mtu 4200 address 02:00:00:00:0$rail:01 type veth peer name b$rail mtu 4200 address 02:00:00:00:0$rail:02
			link set a$rail up
			link set b$rail up
		IP
		rdma link add rxa"$rail" type rxe netdev a"$rail" && rdma link add rxb"$rail" type rxe netdev b"$rail" || return
		rail_mend "$rail" || return
	done
}
# rails_down: take them away.
rails_down() {
	for rail in $RAILS; do ip link del a"$rail"; done
}

# rail_cut near|far|loss RAIL
rail_cut() {
	case $1 in
	near) ip link set a"$2" down ;;
	far) ip link set b"$2" down ;;
	loss) for end in a b; do tc qdisc replace dev $end"$2" root netem loss 100%; done ;;
	*) echo "rail_cut: '$1' is none of near, far, loss" && return 2 ;;
	esac
}

# rail_mend RAIL: undo each cut, routes and addresses too, and wait for the ports. The ends know each other then, as
# neighbours that have talked do: the reply of a veth comes before the kernel's address resolution waits for it, so
# that a queue pair that asks anew always waits for one second.
rail_mend() {
	ip -force -batch - <<-IP
		link set a$1 up
		link set b$1 up
		addr replace 10.$1.0.1/24 dev a$1
		addr replace 10.$1.0.2/24 dev b$1
		addr replace fd00:$1::1/64 dev a$1 nodad
		addr replace fd00:$1::2/64 dev b$1 nodad
		route replace 10.$1.0.2 dev a$1 src 10.$1.0.1 table 100
		route replace 10.$1.0.1 dev b$1 src 10.$1.0.2 table 100
		route replace fd00:$1::2 dev a$1 src fd00:$1::1 table 100
		route replace fd00:$1::1 dev b$1 src fd00:$1::2 table 100
		neigh replace 10.$1.0.2 dev a$1 lladdr 02:00:00:00:0$1:02 nud stale
		neigh replace 10.$1.0.1 dev b$1 lladdr 02:00:00:00:0$1:01 nud stale
		neigh replace fd00:$1::2 dev a$1 lladdr 02:00:00:00:0$1:02 nud stale
		neigh replace fd00:$1::1 dev b$1 lladdr 02:00:00:00:0$1:01 nud stale
	IP
	rail_shape "$1"
	within 15 port_active rxa"$1" && within 15 port_active rxb"$1"
}
port_active() {
	read -r port_state <"/sys/class/infiniband/$1/ports/1/state" && [ "$port_state" = '4: ACTIVE' ]
}

# rail_slow RAIL RATE: at most RATE (80mbit) each way. rail_fast RAIL: as fast as the guest can.
rail_slow() {
	echo "$2" >"/run/rail$1" && rail_shape "$1"
}
rail_fast() {
	rm -f "/run/rail$1" && rail_shape "$1"
}
# The bucket makes up for 13 ms at 80 Mbit/s in which the emulation was not running. The queue is longer than all that queue
# pairs may have in flight: a slow rail delays, it does not drop.
rail_shape() {
	for end in a b; do
		if [ -s "/run/rail$1" ]; then
			tc qdisc replace dev $end"$1" root tbf rate "$(cat "/run/rail$1")" burst 128kb limit 16mb
		elif tc qdisc show dev $end"$1" | grep -qE 'tbf|netem'; then
			tc qdisc del dev $end"$1" root
		fi
	done
}

# rail_bytes RAIL: bytes that have crossed it, both ways.
rail_bytes() {
	read -r rail_a <"/sys/class/net/a$1/statistics/rx_bytes"
	read -r rail_b <"/sys/class/net/b$1/statistics/rx_bytes"
	echo $((rail_a + rail_b))
}
# qp_count DEVICE...: queue pairs that programs have there (the device's own, number 1, apart).
qp_count() {
	for device; do rdma resource show qp link "$device"; done | grep -c 'type [RU][CD] ' || true
}
# gid_index DEVICE v4|v6: where its rail address is in the GID table. It moves: an IPv6 address that comes back has a new place.
gid_index() {
	case $2 in v4) gid_want='*:ffff:0a0?:*' ;; *) gid_want='fd00:*:000[12]' ;; esac
	gid_place=0
	while [ $gid_place -lt 64 ]; do
		read -r gid <"/sys/class/infiniband/$1/ports/1/gids/$gid_place"
		# shellcheck disable=SC2254 # a pattern
		case $gid in $gid_want) echo $gid_place && return 0 ;; esac
		gid_place=$((gid_place + 1))
	done
	return 1
}
