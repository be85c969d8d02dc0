#!/usr/bin/env bats
# c.bats - Mooncake's C interface: what is installed, what programs of it do, and what they cost.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers
load lib

# Everything that is ours in one empty folder: an archive and a header.
setup_file() {
	install_root
	local here=$BATS_TEST_DIRNAME/c c libs
	export ALONE=$BATS_FILE_TMPDIR/alone SHARED=$BATS_FILE_TMPDIR/shared
	mkdir "$ALONE" "$SHARED"
	cp "$PREFIX/lib/libtransfer_engine.a" "$PREFIX/include/te/transfer_engine_c.h" "$ALONE"
	cp "$PREFIX"/lib/libtransfer_engine.so* "$PREFIX/include/te/transfer_engine_c.h" "$SHARED"
	read -ra libs < <(PKG_CONFIG_SYSROOT_DIR='' pkg-config --static --define-variable=libdir="$ALONE" \
		--define-variable=includedir="$ALONE" --cflags --libs transfer_engine)
	for c in two often churn peer stalled misuse graceful; do
		gcc -std=gnu11 -O2 -g -Wall -Wextra -Werror $(san_flags) -o "$ALONE/$c" "$here/$c.c" "${libs[@]}"
	done
	gcc -std=gnu11 -O2 -Wall -Werror $(san_flags) -o "$ALONE/cost" "$here/cost.c" "${libs[@]}" -I"$PREFIX/include/te" \
		"$PREFIX/lib/libte.a" "${libs[@]}"
	gcc -std=gnu11 -O2 -Wall -Werror $(san_flags) -I"$SHARED" -o "$SHARED/two" "$here/two.c" "$SHARED/libtransfer_engine.so" \
		-Wl,-rpath,"$SHARED"
}
setup() {
	te_setup
	export MC_FORCE_TCP=1
}
teardown() { te_teardown; }

@test "sizes, offsets and values, in C and in C++" {
	run -0 gcc -std=c11 -pedantic -Wall -Wextra -Werror -I"$SHARED" -fsyntax-only "$BATS_TEST_DIRNAME/c/layout.c"
	run -0 g++ -std=c++11 -pedantic -Wall -Wextra -Werror -I"$SHARED" -fsyntax-only -x c++ "$BATS_TEST_DIRNAME/c/layout.c"
}

@test "the header stands alone, in C99 and in C++11" {
	run -0 gcc -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c "$SHARED/transfer_engine_c.h"
	run -0 g++ -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c++ "$SHARED/transfer_engine_c.h"
}

@test "archive and shared library export what the header declares, and nothing else" {
	declared "$SHARED/transfer_engine_c.h" >"$T/declared"
	[ "$(wc -l <"$T/declared")" = 28 ]
	nm -D --defined-only "$SHARED/libtransfer_engine.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$T/shared"
	run -0 diff "$T/declared" "$T/shared"
	nm -g --defined-only "$ALONE/libtransfer_engine.a" | awk 'NF == 3 { print $3 }' | sort >"$T/static"
	run -0 diff "$T/declared" "$T/static"
}

@test "nothing of ours is needed beside them" {
	run -0 ldd "$ALONE/two"
	refute_output --regexp 'libte\.|libtransfer_engine'
	run -0 ldd "$SHARED/two"
	assert_output --partial "$SHARED/libtransfer_engine.so.0"
	refute_output --partial libte.so
}

@test "two engines, by the shared library" {
	conn p2p
	tap "$SHARED/two" P2PHANDSHAKE
}
@test "two engines, P2P" { tap "$ALONE/two" P2PHANDSHAKE; }
@test "two engines, http" {
	conn http
	tap "$ALONE/two" "$MC_METADATA_SERVER"
}
@test "two engines, redis" {
	conn redis
	tap "$ALONE/two" "$MC_METADATA_SERVER"
}
@test "two engines, etcd" {
	conn etcd
	tap "$ALONE/two" "$MC_METADATA_SERVER"
}

@test "handles and ids, stale and invented, and wrong arguments" { tap "$ALONE/misuse" P2PHANDSHAKE; }

@test "engines that come and go under threads that call" { tap "$ALONE/churn" P2PHANDSHAKE; }

@test "no leak and no bad access, by valgrind" {
	case $O in *san) skip 'a sanitizer build looks for itself' ;; esac
	SLOW=5
	for p in two misuse; do
		tap valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite "$ALONE/$p" P2PHANDSHAKE
	done
}

@test "what has been seen to end can be freed at once" {
	# Two a processor, so that who counts is stopped in the middle now and then.
	for i in 1 2 3 4; do start often$i "$ALONE/often" P2PHANDSHAKE; done
	for i in 1 2 3 4; do ends often$i 0 60 || { cat "$T/often$i.out"; return 1; }; done
}

@test "in flight: a busy batch, closeSegment, destroyTransferEngine" {
	conn p2p
	target t --buffer-size=32M
	tap "$ALONE/stalled" P2PHANDSHAKE "$SEGMENT" "$PID"
}

graceful() {
	conn http
	start g "$ALONE/graceful" "$MC_METADATA_SERVER" "$1"
	wait_line ready "$T/g.out" || { cat "$T/g.err"; return 1; }
}
# Only the engine that did not ask for it is still in the store.
others_have_left() {
	run -0 te-meta ls
	refute_output --partial graceful
	assert_output --partial mooncake/ram/left
}
@test "a signal takes the entries of both engines out, and ends the process with 128 + its number" {
	graceful wait
	run -0 te-meta ls
	assert_output --partial mooncake/ram/graceful-2
	kill -TERM "$(pid_of g)"
	ends g 143
	others_have_left
}
@test "SIGINT too" {
	graceful wait
	kill -INT "$(pid_of g)"
	ends g 130
	others_have_left
}
@test "leaving main takes them out" {
	graceful exit
	ends g 0
	others_have_left
}
@test "a child's end is not its parent's" {
	export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 # in a child without its parent's threads everything looks lost
	graceful fork
	run -0 te-meta ls
	assert_output --partial mooncake/ram/graceful-1
	assert_output --partial mooncake/ram/graceful-2
	kill -TERM "$(pid_of g)"
	ends g 143
	others_have_left
}

@test "a te-target and te-bench, P2P" { peer_and_te_target p2p "$ALONE/peer"; }
@test "a te-target and te-bench, http" { peer_and_te_target http "$ALONE/peer"; }
@test "a te-target and te-bench, redis" { peer_and_te_target redis "$ALONE/peer"; }
@test "a te-target and te-bench, etcd" { peer_and_te_target etcd "$ALONE/peer"; }

@test "a call by its C name costs little more than that of te.h" {
	case $O in *san) skip 'sanitizers cost more' ;; esac
	tap "$ALONE/cost" 150
}
