#!/bin/sh
# compat.t - Mooncake's C names over rdma: an engine that is open by tcp, with memory registered, gets the transport installed.
. "$(dirname "$0")/lib/guest.sh"
rails_up
two() { MC_FORCE_HCA=1 MC_LOG_LEVEL=INFO "$BUILD/progs/two" P2PHANDSHAKE "$@" >"$T/two.out" 2>"$T/two.err"; }
installed() { MC_LOG_LEVEL=INFO "$BUILD/progs/two" P2PHANDSHAKE rdma >"$T/two.out" 2>"$T/two.err"; }
why() { grep -E '^not ok|error|warning' "$T/two.out" "$T/two.err" | sed 's/^/# /'; }
ok 'two engines, rdma from the beginning' two rdma || why
ok 'bytes go by rdma' grep -q 'is reached by rdma' "$T/two.err"
ok 'two engines, rdma installed behind tcp' installed || why
is 'which opens both engines again' "$(grep -c 'RPC port' "$T/two.err")" 4
is 'no queue pair is left' "$(qp_count rxa0) $(qp_count rxb0)" '0 0'
done_testing
