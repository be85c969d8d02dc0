#!/bin/sh
# register.t - te-register ram on a host with NICs: it writes what an engine there will publish.
. "$(dirname "$0")/lib/guest.sh"

has() { grep -qE -- "$2" "$T/$1" || { cat "$T/$1" && return 1; }; }
lacks() { ! grep -E -- "$2" "$T/$1"; }
part() { te-meta get mooncake/ram/n | grep -oE "\"$1\":($2)"; } # part MEMBER REGEX
nics() { part devices '\[[^]]*\]' && part priority_matrix '\{[^}]*\}'; }

ok 'rails' rails_up
MC_METADATA_SERVER=http://127.0.0.1:8080/metadata
export MC_METADATA_SERVER
start store te-http-meta --listen=127.0.0.1:8080
ok 'a store' within 20 te-meta ping

not_ok 'an unknown NIC is refused' te-register ram --device-name=rxa7 n
ok 'registered' te-register ram --device-name=rxb0,rxb1 n
ok 'te-meta show has both NICs' sh -c "te-meta show n >$T/shown"
ok 'with their GIDs' has shown 'device +rxb1, lid 0, gid ([0-9a-f]{2}:){15}[0-9a-f]{2}'
ok 'and nothing to say against it' lacks shown note
before=$(nics)
is 'NICs are those named' "$(part devices '\[[^]]*\]' | grep -oE 'rx[ab][0-9]' | sort -u | tr '\n' ' ')" 'rxb0 rxb1 '
ok 'the same again' sh -c "te-register ram --device-name=rxb0,rxb1 n >$T/again"
ok 'is no change' has again 'registered already'

ok 'an engine takes the name' target n --protocol=rdma --device-name=rxb0,rxb1 --buffer=cpu:0:8M -n n
is 'with the NICs and the matrix that were registered' "$(nics)" "$before"
not_ok 'which is not registered again' te-register ram --device-name=rxb0,rxb1 n
ok 'and ends' stop n
is 'nothing is left' "$(te-meta ls)" ''

ok 'auto without a list: all NICs' te-register ram n
is 'of them' "$(part devices '\[[^]]*\]' | grep -oE 'rx[ab][0-9]' | sort -u | tr '\n' ' ')" 'rxa0 rxa1 rxb0 rxb1 '
ok 'one NIC in a matrix' te-register ram --protocol=rdma --nic-priority-matrix='{"cpu:0":[["rxa1"],[]]}' n
is 'is the only one' "$(part devices '\[[^]]*\]' | grep -oE 'rx[ab][0-9]' | sort -u)" rxa1
ok 'tcp has none' te-register ram --protocol=tcp n
is 'at all' "$(nics)" ''
done_testing
