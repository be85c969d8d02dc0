# shellcheck shell=sh
# guest.sh - what the guest's scripts share. Plain sh: a process costs 20 ms or more in an emulated guest.
#
#	#!/bin/sh
#	. "$(dirname "$0")/lib/guest.sh"
#	plan 2
#	rails_up
#	ok 'four devices' [ "$(qp_count rxa0)" = 1 ]
#	...
# tests/vm/run runs them; TOP, BUILD and ALL are set, the commands are found by PATH. Files of a script lie in $T.
here=$(dirname "$0")
T=$(mktemp -d)
# shellcheck source=tests/vm/lib/tap.sh
. "$here/lib/tap.sh"
# shellcheck source=tests/vm/lib/rails.sh
. "$here/lib/rails.sh"
# shellcheck source=tests/vm/lib/te.sh
. "$here/lib/te.sh"
# shellcheck source=tests/vm/lib/nvmet.sh
. "$here/lib/nvmet.sh"
