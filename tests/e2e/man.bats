# man.bats - every example of the manual pages runs as it is printed.
#
# Each fenced block under EXAMPLES of man/*.scd is one script. It runs in an empty directory, in a network where all
# of 10.0.0.0/24 is this host. There are te-http-meta on 10.0.0.1:8080 (not for its own page), redis on 10.0.0.1:6379 and
# etcd on 10.0.0.1:2379, and in each of them a target named node1, filled by --pattern. A block that still runs after
# two seconds gets SIGINT, as by Ctrl-C, and must end well.
bats_require_minimum_version 1.5.0
load ../lib/te

setup() { te_setup; }
teardown() { te_teardown; }

# blocks PAGE: writes its example blocks to $T/1.sh, $T/2.sh, ...
blocks() {
	awk -v to="$T" '
	/^# / { on = $0 == "# EXAMPLES"; next }
	on && /^```/ { inside = !inside; if (inside) file = to "/" ++n ".sh"; next }
	on && inside { print >file }' "$TOP/man/$1.scd"
	[ -s "$T/1.sh" ]
}

# uses WORD: some block of the page has it.
uses() { grep -q -- "$1" "$T"/*.sh; }

inside() { # the other half of examples, in the namespace
	local f rc=0 store stores=()
	ip link set lo up
	ip addr add 10.0.0.1/24 dev lo
	if [ "$1" != te-http-meta.1 ]; then
		start meta te-http-meta --listen=:8080
		stores+=(http://10.0.0.1:8080/metadata)
	fi
	if uses redis; then
		start redis redis-server --bind 10.0.0.1 --protected-mode no --port 6379 --save '' --dir "$T"
		stores+=(redis://10.0.0.1:6379)
	fi
	if uses 2379; then
		start etcd etcd --data-dir "$T/etcd" --listen-client-urls http://10.0.0.1:2379 \
			--advertise-client-urls http://10.0.0.1:2379
		stores+=(etcd://10.0.0.1:2379)
	fi
	for store in "${stores[@]}"; do
		until_ok 20 te-meta -m "$store" ping
		target "node${#store}" -m "$store" -n node1 --pattern
	done
	for f in $(printf '%s\n' "$T"/*.sh | sort -V); do
		mkdir -p "$f.dir"
		cd "$f.dir" || return 1
		timeout --preserve-status -k 10 -s INT 2 bash -e "$f" >"$f.out" 2>"$f.err" </dev/null 3>&- &
		PID=$!
		wait $PID || { rc=$?; echo "example of $1 ended with $rc:"; cat "$f" "$f.err"; }
		kill -KILL -- -$PID 2>/dev/null
	done
	return $rc
}

examples() {
	blocks "$1"
	unset MC_TCP_BIND_ADDRESS
	export -f inside uses start target ready ready_or_gone wait_ready until_ok gone pid_of
	export T SLOW
	run unshare -n bash -c 'inside "$@"' - "$1"
	[ "$status" = 0 ] || { echo "$output"; return 1; }
}

@test "examples of te-target(1)" { examples te-target.1; }
@test "examples of te-bench(1)" { examples te-bench.1; }
@test "examples of te-meta(1)" { examples te-meta.1; }
@test "examples of te-topo(1)" { examples te-topo.1; }
@test "examples of te-register(1)" { examples te-register.1; }
@test "examples of te-mount(1)" { examples te-mount.1; }
@test "examples of te-http-meta(1)" { examples te-http-meta.1; }
@test "no page with examples is left out" {
	local page
	for page in "$TOP"/man/*.scd; do
		grep -q '^# EXAMPLES' "$page" || continue
		page=${page##*/}
		grep -qF "examples ${page%.scd};" "$BATS_TEST_FILENAME" || { echo "${page%.scd} is not run"; return 1; }
	done
}
