#!/usr/bin/env bats
# cpp.bats - the C++ interface: it builds as programs build it, and does what its documents say.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers
load lib

setup_file() {
	local p flags
	install_root
	read -ra flags < <(pkg-config --cflags --libs transfer_engine)
	for p in calls peer; do
		g++ -std=c++11 -O2 -g -Wall -Wextra -pedantic -Werror $(san_flags) -o "$BATS_FILE_TMPDIR/$p" \
			"$BATS_TEST_DIRNAME/cpp/$p.cpp" "${flags[@]}" -Wl,-rpath,"$PREFIX/lib"
	done
}
setup() {
	te_setup
	export MC_FORCE_TCP=1
	P=$BATS_FILE_TMPDIR
}
teardown() { te_teardown; }

@test "no warning from g++ and clang++, C++11 to C++20" {
	for cxx in g++ clang++; do
		for std in 11 14 17 20; do
			run -0 $cxx -std=c++$std -Wall -Wextra -Wshadow -Wold-style-cast -pedantic -Werror -I"$PREFIX/include/te" \
				-fsyntax-only "$BATS_TEST_DIRNAME/cpp/peer.cpp"
		done
	done
}

@test "the header alone, and in two files of one program" {
	cd "$T"
	echo '#include <transfer_engine.h>' >a.cpp
	printf '#include "transfer_engine.h"\nint main() { TransferEngine e; return e.freeBatchID(1) != -1; }\n' >b.cpp
	# shellcheck disable=SC2046
	run -0 g++ -std=c++11 -Werror $(san_flags) -o ab a.cpp b.cpp $(pkg-config --cflags --libs transfer_engine) \
		-Wl,-rpath,"$PREFIX/lib"
	run -0 ./ab
}

@test "every method, P2P" { tap "$P/calls" P2PHANDSHAKE; }
@test "every method, http" {
	conn http
	tap "$P/calls" "$MC_METADATA_SERVER"
	run -0 te-meta ls
	assert_output ''
}

@test "a te-target and te-bench, P2P" { peer_and_te_target p2p "$P/peer"; }
@test "a te-target and te-bench, http" { peer_and_te_target http "$P/peer"; }
@test "a te-target and te-bench, redis" { peer_and_te_target redis "$P/peer"; }
@test "a te-target and te-bench, etcd" { peer_and_te_target etcd "$P/peer"; }
