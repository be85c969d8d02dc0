#!/bin/sh
# commands.t - te-target and te-bench over rdma: what they say, publish and refuse. Speed and faults are tested elsewhere.
. "$(dirname "$0")/lib/guest.sh"

has() { grep -qE -- "$2" "$T/$1" || { cat "$T/$1" && return 1; }; }
says() { # says TEXT COMMAND...: it fails, and says so on one line
	says_text=$1
	shift
	if "$@" >"$T/said.out" 2>"$T/said"; then return 1; fi
	[ "$(wc -l <"$T/said")" = 1 ] && has said "$says_text"
}
sum() { json "$T/$1.json" "$2" | awk '{ s += $1 } END { printf "%.0f\n", s }'; }
by_rdma() { # by_rdma NAME OPTION...: bench at end a
	rdma_name=$1
	shift
	bench "$rdma_name" --protocol=rdma --device-name=rxa0,rxa1 --local-server-name=$LOCAL "$@"
}

ok 'rails' rails_up
ok 'te-target serves rdma' target t --protocol=rdma --device-name=rxb0,rxb1 --buffer=cpu:0:32M --pattern
is 'its document says so' "$(json "$T/t.json" protocol)" rdma
is 'and where the buffer is' "$(json "$T/t.json" location | sort -u)" cpu:0
ok 'people see its NICs' has t.out 'nics +rxb0 +GID ([0-9a-f]{2}:){15}[0-9a-f]{2}'
ok 'and all of them' has t.out '^ +rxb1 +GID '

ok 'a verified read, with --baseline' by_rdma read --operation=read --verify --baseline --block-size=64K --requests=200
is 'there is no baseline' "$(json "$T/read.json" baseline)" null
ok 'which is said' has read.err 'no raw limit is measured for rdma.*ib_read_bw'
is 'bytes of all paths are those of the requests' "$(sum read bytes)" $((2 * 200 * 65536))

ok 'a verified write' by_rdma write --operation=write --verify --block-size=1M --batch-size=4 --requests=24
is 'no mismatch' "$(figure write mismatches)" 0
is 'all bytes were compared' "$(figure write checked_bytes)" $((24 << 20))
is 'every path is one of rdma' "$(json "$T/write.json" transport | sort -u)" rdma
ok 'from NIC to NIC' has write.json '"local": *"[^"]*rxa[01]"'
near 'more than one' "$(json "$T/write.json" transport | wc -l)" 2 4

ok 'text has a line for each path' sh -c "te-bench --protocol=rdma --device-name=rxa0,rxa1 -n $LOCAL --segment-id=$SEGMENT \
	--requests=200 >$T/text"
ok 'that names both NICs' has text 'rdma: .*rxa[01].* -> .*rxb[01].*, [0-9]+ slices, [0-9]+ bytes'
ok 'the last line is that of the seed' has text '^Test completed: duration .* GB/s$'

MC_LOG_RDMA_SLICE_AFFINITY=1
export MC_LOG_RDMA_SLICE_AFFINITY
ok 'slices can be logged' by_rdma slices --verbose --requests=10
ok 'with both NICs' has slices.err 'slice: READ of 65536 bytes at 0x[0-9a-f]+, .*@rxa[01] to .*@rxb[01]'
unset MC_LOG_RDMA_SLICE_AFFINITY

MC_FORCE_HCA=1
export MC_FORCE_HCA
ok 'MC_FORCE_HCA is enough' bench forced --requests=10 --local-server-name=$LOCAL
is 'to go by rdma' "$(figure forced transport)" rdma
unset MC_FORCE_HCA
ok 'the best path on one host is shm' bench auto --requests=10
is 'which it is' "$(figure auto transport)" shm
ok 'rdma can be required' says 'reached by shm, not by the required rdma' te-bench --segment-id="$SEGMENT" --require-transport=rdma

ok '--self over rdma' sh -c "te-bench --self --protocol=rdma --operation=write --verify --requests=50 --json >$T/self.json"
is 'is verified too' "$(figure self mismatches)" 0

ok 'an unknown NIC: those there are' says "rxa7.*rxa0, rxa1, rxb0, rxb1" te-bench --segment-id="$SEGMENT" --protocol=rdma --device-name=rxa7
ok 'the same in a target' says "rxa7.*rxa0, rxa1, rxb0, rxb1" te-target --protocol=rdma --device-name=rxa7 --buffer-size=1M
ok 'a GID index beyond the table: the table' says 'rxb0.*port 1.*MC_GID_INDEX.*GID table: .*10\.0\.0\.2' \
	env MC_GID_INDEX=99 te-target --protocol=rdma --device-name=rxb0 --buffer-size=1M
ok 'and under auto, which would do without' says 'MC_GID_INDEX.*GID table' \
	env MC_GID_INDEX=99 te-target --device-name=rxb0 --buffer-size=1M
ok 'no such port' says 'rxb0.*port 2.*MC_IB_PORT' env MC_IB_PORT=2 te-target --protocol=rdma --device-name=rxb0 --buffer-size=1M
ok 'a matrix that is none' says 'matrix' te-target --protocol=rdma --nic-priority-matrix='{"cpu:0":5}' --buffer-size=1M
rail_cut far 1
ok 'a port that is down' says 'rxb1.*port 1 is DOWN' te-target --protocol=rdma --device-name=rxb1 --buffer-size=1M
ok 'the rail comes back' rail_mend 1
ok 'te-target ends' stop t
done_testing
