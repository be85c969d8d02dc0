#!/bin/sh
# fatal.t - a NIC that has failed is opened anew.
. "$(dirname "$0")/lib/guest.sh"
rails_up
ok 'a device that fails in the middle of transfers' "$BUILD/progs/fatal" rxa0,rxa1 rxb0,rxb1
is 'no queue pair is left at rxa0' "$(qp_count rxa0)" 0
is 'nor at rxb0' "$(qp_count rxb0)" 0
done_testing
