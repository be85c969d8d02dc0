#!/usr/bin/env bats
# rust.bats - crate transfer-engine: its own tests with each store, a stranger's program, the bench. Without network, and with
# Debian's own toolchain where there is another.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers
load lib

setup_file() {
	local json
	export TOP
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	export CARGO=${CARGO:-/usr/bin/cargo} RUSTC=${RUSTC:-/usr/bin/rustc} RUSTDOC=${RUSTDOC:-/usr/bin/rustdoc}
	export CARGO_TARGET_DIR=$TOP/build/rust CARGO_NET_OFFLINE=true RUSTFLAGS='-D warnings' CRATE=$TOP/bindings/rust
	cd "$CRATE"
	json=$("$CARGO" test --locked --all-targets --no-run --message-format=json)
	jq -r 'select(.target.name == "engine" and .executable).executable' <<<"$json" >"$BATS_FILE_TMPDIR/tests"
	"$CARGO" build --locked --release --example bench
	cd "$TOP/tests/bindings/rust"
	"$CARGO" build --locked --release
}
setup() {
	te_setup
	export MC_FORCE_TCP=1 TE_BUILD=$TOP/$O
	PEER=$TOP/build/rust/release/peer BENCH=$TOP/build/rust/release/examples/bench
}
teardown() { te_teardown; }

@test "the examples of its documentation" {
	cd "$CRATE"
	run -0 "$CARGO" test --locked --doc
	assert_output --partial '2 passed'
}

@test "every function of the C header is declared, and no other" {
	declared "$TOP/lib/include/transfer_engine_c.h" >"$T/header"
	sed -n 's/^ *pub fn \([A-Za-z]*\).*/\1/p' "$CRATE/src/ffi.rs" | sort >"$T/crate"
	run -0 diff "$T/header" "$T/crate"
}

@test "a library elsewhere is found by TE_LIB_DIR" {
	install_root
	cd "$CRATE"
	TE_LIB_DIR=$PREFIX/lib CARGO_TARGET_DIR=$T/target run -0 "$CARGO" build --locked --example bench
	run -0 ldd "$T/target/debug/examples/bench"
	assert_output --partial "$PREFIX/lib/libtransfer_engine.so.0"
}

own_tests() {
	conn "$1"
	export TE_TEST_CONN=$MC_METADATA_SERVER
	run -0 timeout 60 "$(cat "$BATS_FILE_TMPDIR/tests")"
	assert_line --partial '9 passed; 0 failed; 0 ignored'
}
@test "its own tests, P2P" { own_tests p2p; }
@test "its own tests, http" { own_tests http; }
@test "its own tests, redis" { own_tests redis; }
@test "its own tests, etcd" { own_tests etcd; }

@test "a te-target and te-bench, P2P" { peer_and_te_target p2p "$PEER"; }
@test "a te-target and te-bench, http" { peer_and_te_target http "$PEER"; }
@test "a te-target and te-bench, redis" { peer_and_te_target redis "$PEER"; }
@test "a te-target and te-bench, etcd" { peer_and_te_target etcd "$PEER"; }

@test "the bench, against itself and against te-target" { bench_sample "$BENCH" 143; }
@test "the bench: wrong usage, and a target that is not there" { bench_sample_wrong "$BENCH"; }
