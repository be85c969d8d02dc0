#!/usr/bin/env bats
# cross.bats - a peer in each language, as target and as initiator, with those of all others: 1 MiB there and back, every byte.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers
load lib

setup_file() {
	local flags here=$BATS_TEST_DIRNAME
	export TOP
	TOP=$(cd "$here/../.." && pwd)
	export B=$BATS_FILE_TMPDIR
	install_root
	read -ra flags < <(pkg-config --cflags --libs transfer_engine)
	flags+=("-Wl,-rpath,$PREFIX/lib")
	gcc -O2 $(san_flags) -o "$B/c" "$here/c/peer.c" "${flags[@]}"
	g++ -O2 $(san_flags) -o "$B/cpp" "$here/cpp/peer.cpp" "${flags[@]}"
	(cd "$here/go" && GOPROXY=off GOCACHE=$TOP/build/go-cache "${GO:-go}" build -o "$B/go" .)
	(cd "$here/rust" && RUSTC=${RUSTC:-/usr/bin/rustc} RUSTFLAGS='-D warnings' CARGO_NET_OFFLINE=true \
		"${CARGO:-/usr/bin/cargo}" build -q --locked --release --target-dir "$TOP/build/rust")
	cp "$TOP/build/rust/release/peer" "$B/rust"
	printf '#!/bin/sh\nPYTHONPATH=%s exec %s %s "$@"\n' "$TOP/$O/python" "${PYTHON:-/usr/bin/python3}" "$here/python/peer.py" >"$B/python"
	chmod +x "$B/python"
}
setup() {
	te_setup
	export MC_FORCE_TCP=1
}
teardown() { te_teardown; }

# with_all KIND LANGUAGE: its peer serves, those of all languages move.
with_all() {
	conn "$1"
	peer_target mine "$B/$2"
	for other in c cpp go rust python; do peer_moves "$B/$other"; done
	peer_ends mine
}

@test "to C, http" { with_all http c; }
@test "to C++, redis" { with_all redis cpp; }
@test "to Go, etcd" { with_all etcd go; }
@test "to Rust, P2P" { with_all p2p rust; }
@test "to Python, http" { with_all http python; }
@test "to Python, P2P" { with_all p2p python; }
