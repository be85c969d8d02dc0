#!/usr/bin/env bats
# go.bats - package transferengine: its own tests with each store, a stranger's program, the bench. Without network.
bats_require_minimum_version 1.5.0
load ../lib/te
load ../lib/servers
load lib

setup_file() {
	export TOP
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	export GOPROXY=off GOFLAGS='' GOWORK=off GOCACHE=$TOP/build/go-cache GO=${GO:-go}
	export PACKAGE=$TOP/bindings/go
	cd "$PACKAGE"
	"$GO" test -c -o "$BATS_FILE_TMPDIR/tests" .
	"$GO" build -o "$BATS_FILE_TMPDIR/bench" ./cmd/transfer-engine-bench
	cd "$TOP/tests/bindings/go"
	"$GO" build -o "$BATS_FILE_TMPDIR/peer" .
}
setup() {
	te_setup
	export MC_FORCE_TCP=1 TE_BUILD=$TOP/$O
	P=$BATS_FILE_TMPDIR
}
teardown() { te_teardown; }

@test "vet and gofmt have nothing to say" {
	cd "$PACKAGE"
	run -0 "$GO" vet ./...
	run -0 gofmt -l . "$TOP/tests/bindings/go"
	assert_output ''
}

@test "it builds against what is installed" {
	install_root
	cd "$PACKAGE"
	# Go's cache knows the package by its flags, but not by what pkg-config said: this flag, which does nothing, differs each time.
	run -0 "$GO" build -tags te_installed -gcflags="transferengine=-D=$PREFIX" -o "$T/bench" ./cmd/transfer-engine-bench
	LD_LIBRARY_PATH=$PREFIX/lib run -0 ldd "$T/bench"
	assert_output --partial "$PREFIX/lib/libtransfer_engine.so.0"
}

@test "every exported name has its comment" {
	cd "$PACKAGE"
	# shellcheck disable=SC2016 # awk's
	run -0 awk '/^(func (\([^)]*\) )?[A-Z]|type [A-Z]|var [A-Z])/ && before !~ /^\/\// { print FILENAME ": " $0; bad = 1 }
		{ before = $0 } END { exit bad }' doc.go engine.go errors.go memory.go transfer.go
}

own_tests() {
	conn "$1"
	export TE_TEST_CONN=$MC_METADATA_SERVER
	cd "$PACKAGE"
	GODEBUG=cgocheck=2 run -0 timeout 60 "$P/tests" -test.v
	refute_line --partial SKIP
	[ "$(grep -c '^--- PASS' <<<"$output")" -ge 8 ]
}
@test "its own tests, P2P" { own_tests p2p; }
@test "its own tests, http" { own_tests http; }
@test "its own tests, redis" { own_tests redis; }
@test "its own tests, etcd" { own_tests etcd; }

@test "a te-target and te-bench, P2P" { peer_and_te_target p2p "$P/peer"; }
@test "a te-target and te-bench, http" { peer_and_te_target http "$P/peer"; }
@test "a te-target and te-bench, redis" { peer_and_te_target redis "$P/peer"; }
@test "a te-target and te-bench, etcd" { peer_and_te_target etcd "$P/peer"; }

@test "the bench, against itself and against te-target" { bench_sample "$P/bench" 0; }
@test "the bench: wrong usage, and a target that is not there" { bench_sample_wrong "$P/bench"; }
