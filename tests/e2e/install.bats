#!/usr/bin/env bats
# make install, and programs that are built against what it leaves.
bats_require_minimum_version 1.5.0
load ../lib/te

setup_file() {
	export ROOT=$BATS_FILE_TMPDIR/root
	[ "${O:-build}" = build ] || return 0
	make -s -C "$BATS_TEST_DIRNAME/../.." install PREFIX=/opt/te DESTDIR="$ROOT" >/dev/null
	cat >"$BATS_FILE_TMPDIR/prog.c" <<-'EOF'
		#include <stdio.h>
		#include <te.h>

		int main(void)
		{
			struct te_engine_options opt = { .metadata_server = "P2PHANDSHAKE", .initiator_only = true };
			struct te_err err = { 0 };
			struct te_engine *e;

			if (te_engine_open(&e, &opt, &err) < 0) {
				fprintf(stderr, "%s\n", err.msg);
				return 1;
			}
			te_engine_close(e);
			puts(te_version());
			return 0;
		}
	EOF
}
setup() {
	te_setup
	[ "$O" = build ] || skip 'what is installed is the plain build'
	export PKG_CONFIG_PATH=$ROOT/opt/te/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$ROOT
	cd "$BATS_TEST_TMPDIR"
}
teardown() { te_teardown; }

@test "everything is in its place" {
	cd "$ROOT/opt/te"
	for c in "$TOP/$O"/te-*; do
		c=${c##*/}
		[ -x "bin/$c" ]
		[ -s "share/man/man1/$c.1" ]
		[ -e "share/bash-completion/completions/$c" ]
		run -0 "bin/$c" --version
	done
	[ -s share/man/man7/te.7 ]
	[ -s share/man/man3/te_batch_submit.3 ]
	[ "$(readlink share/man/man3/te_batch_wait.3)" = te_batch_submit.3 ]
	[ -s lib/libte.a ]
	[ -s lib/libte.so ]
	[ "$(readlink lib/libte.so)" = libte.so.0 ]
	for h in "$TOP"/lib/include/*.h; do cmp "$h" "include/te/$(basename "$h")"; done
	# Nothing beside the prefix, and no path of the build.
	[ "$(ls "$ROOT")" = opt ]
	run -1 grep -l "$ROOT\|$TOP" lib/pkgconfig/te.pc
}

@test "libte.so exports what the headers declare, and nothing else" {
	nm -D --defined-only "$ROOT/opt/te/lib/libte.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
		sort >exported
	for h in "$ROOT"/opt/te/include/te/te*.h; do echo "#include \"$h\""; done |
		gcc -D_GNU_SOURCE -E -P -x c - | grep -oE '\bte_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u >declared
	[ -s declared ]
	run -0 diff declared exported
}

@test "each header stands alone, in C99" {
	for h in "$TOP"/lib/include/*.h; do
		h=$ROOT/opt/te/include/te/${h##*/}
		run -0 gcc -std=c99 -pedantic -Wall -Werror -fsyntax-only -x c "$h"
	done
}

@test "a C++ program builds and links" {
	printf '#include <te.h>\nint main() { return te_version()[0] == 0; }\n' >prog.cc
	# shellcheck disable=SC2046
	run -0 g++ -Wall -Werror -o prog prog.cc $(pkg-config --cflags --libs te)
	LD_LIBRARY_PATH=$ROOT/opt/te/lib run -0 ./prog
}

@test "a program builds and runs against the shared library" {
	# shellcheck disable=SC2046
	run -0 gcc -Wall -Werror -o prog "$BATS_FILE_TMPDIR/prog.c" $(pkg-config --cflags --libs te)
	LD_LIBRARY_PATH=$ROOT/opt/te/lib run -0 ./prog
	assert_output "$(cat "$TOP/VERSION")"
	run -0 ldd prog
	assert_output --partial libte.so.0
}

@test "a program builds and runs against the static library" {
	local libs
	libs=$(pkg-config --static --libs te)
	# shellcheck disable=SC2046,SC2086
	run -0 gcc -Wall -Werror -o prog "$BATS_FILE_TMPDIR/prog.c" $(pkg-config --cflags te) ${libs/-lte /-l:libte.a }
	run -0 ./prog
	assert_output "$(cat "$TOP/VERSION")"
	run -0 ldd prog
	refute_output --partial libte.so
}
