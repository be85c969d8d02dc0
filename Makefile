# te: libte and the te-* commands. GNU make. `make V=1` shows the commands, `make help` the targets.
PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
DESTDIR    ?=
CC         ?= cc
PKG_CONFIG ?= pkg-config
OBJCOPY    ?= objcopy
CFLAGS     ?= -O2 -g
SCDOC      ?= scdoc
WERROR     ?= -Werror
VERSION    := $(shell cat VERSION)
SONAME     := libte.so.0
O          := build$(if $(ASAN),-asan)$(if $(TSAN),-tsan)

WARN := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wwrite-strings \
	-Wno-format-truncation $(WERROR)
SAN  := $(if $(ASAN),-fsanitize=address -fsanitize=undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer) \
	$(if $(TSAN),-fsanitize=thread -fno-omit-frame-pointer)

# Needed by libte, then by single commands.
PKGS     := jansson libcurl hiredis hwloc numa libibverbs liburing
CMD_PKGS := jansson libmicrohttpd sqlite3 libnvme mount blkid
# $(shell) once: pkg-config is slow.
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) $(CMD_PKGS))
LIB_LIBS   := $(shell $(PKG_CONFIG) --libs $(PKGS)) -pthread
CMD_LIBS   := $(shell $(PKG_CONFIG) --libs $(CMD_PKGS)) -lm

LIB_DIRS := base host segment meta transport engine
LIB_SRC  := $(wildcard $(LIB_DIRS:%=lib/%/*.c) $(LIB_DIRS:%=lib/%/*/*.c))
HEADERS  := $(wildcard lib/include/*.h)
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -DTE_VERSION='"$(VERSION)"' -Ilib/include -Ilib -fPIC -pthread \
	-fvisibility=default $(WARN) $(SAN) $(PKG_CFLAGS) $(CFLAGS)

# A command is cmd/te-NAME.c, or the folder cmd/te-NAME/ where one file would be too long.
CMDS     := $(sort $(patsubst cmd/%.c,%,$(wildcard cmd/te-*.c)) $(patsubst cmd/%/,%,$(wildcard cmd/te-*/)))
CMD_COMMON := $(filter-out cmd/te-%,$(wildcard cmd/*.c))
TESTS    := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
# Small programs over te.h that the e2e tests run.
PROGS    := $(patsubst tests/e2e/progs/%.c,progs/%,$(wildcard tests/e2e/progs/*.c))
MANS     := $(patsubst man/%.scd,%,$(wildcard man/*.scd))

all: $(CMDS:%=$O/%) $O/libte.a $O/$(SONAME) $O/libtransfer_engine.a $O/libtransfer_engine.so.0 $(MANS:%=$O/man/%)

help:
	@echo 'make | make check | check-unit | check-e2e | check-vm | check-bindings | lint | install PREFIX= DESTDIR= | clean; ASAN=1 or TSAN=1 build apart'

$O/libte.a: $(LIB_SRC:%.c=$O/%.o)
	$(Q_AR)rm -f $@ && $(AR) rcs $@ $^
# The same library under the names of Mooncake's: nothing of libte need be beside it. Its archive is one object without other
# names, which might be those of another library of the program (librdmacm).
COMPAT_SRC := $(wildcard lib/compat/*.c)
COMPAT_MAP := lib/compat/libtransfer_engine.map
$O/libtransfer_engine.a: $(LIB_SRC:%.c=$O/%.o) $(COMPAT_SRC:%.c=$O/%.o) $(COMPAT_MAP)
	$(Q_AR)sed -n '/^global:/,/^local:/{s/;/\n/g;p}' $(COMPAT_MAP) | sed 's/[ \t]//g; /:$$/d; /^$$/d' > $O/transfer_engine.names && \
		$(CC) -r -nostdlib -o $O/transfer_engine.o $(filter %.o,$^) && \
		$(OBJCOPY) --keep-global-symbols=$O/transfer_engine.names $O/transfer_engine.o && \
		rm -f $@ && $(AR) rcs $@ $O/transfer_engine.o
$O/libtransfer_engine.so.0: $(LIB_SRC:%.c=$O/%.o) $(COMPAT_SRC:%.c=$O/%.o) $(COMPAT_MAP)
	$(Q_LD)$(CC) -shared $(ALL_CFLAGS) $(LDFLAGS) -Wl,-soname,$(@F) -Wl,--version-script=$(COMPAT_MAP) \
		-o $@ $(filter %.o,$^) $(LIB_LIBS)
	@ln -sf $(@F) $O/libtransfer_engine.so
$O/$(SONAME): $(LIB_SRC:%.c=$O/%.o) lib/libte.map
	$(Q_LD)$(CC) -shared $(ALL_CFLAGS) $(LDFLAGS) -Wl,-soname,$(SONAME) -Wl,--version-script=lib/libte.map \
		-o $@ $(filter %.o,$^) $(LIB_LIBS)
	@ln -sf $(SONAME) $O/libte.so

cmd_objs = $(patsubst %.c,$O/%.o,$(wildcard cmd/$(1).c cmd/$(1)/*.c))
define CMD_RULE
$O/$(1): $(call cmd_objs,$(1)) $(CMD_COMMON:%.c=$O/%.o) $O/libte.a
	$$(Q_LD)$$(CC) $$(ALL_CFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(LIB_LIBS) $$(CMD_LIBS)
endef
$(foreach c,$(CMDS),$(eval $(call CMD_RULE,$c)))

# Unit tests may also look at what two commands share (cmd/*.c).
$(TESTS:%=$O/%): $O/%: $O/tests/unit/%.o $(CMD_COMMON:%.c=$O/%.o) $O/libte.a
	$(Q_LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIB_LIBS) $(CMD_LIBS)
$(PROGS:%=$O/%): $O/progs/%: $O/tests/e2e/progs/%.o $O/libte.a
	@mkdir -p $(@D)
	$(Q_LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIB_LIBS)
progs: $(PROGS:%=$O/%)
$O/test_http_meta: $O/cmd/te-http-meta/store.o $O/cmd/te-http-meta/events.o
# A libcufile of our own, for machines without GPU: FAKE in its name, host memory behind the same entry points.
$O/fake/libcufile.so.0: tests/unit/fake_cufile.c Makefile
	@mkdir -p $(@D)
	$(Q_LD)$(CC) -shared -fPIC -std=gnu11 -D_GNU_SOURCE $(WARN) $(CFLAGS) -Wl,-soname,$(@F) -o $@ $<
$O/test_cufile: | $O/fake/libcufile.so.0
# Compared with the map that real readers use.
$O/test_matrix: $O/tests/unit/real_map.o
$O/test_matrix: LIB_LIBS += -lstdc++
$O/%.o: %.cpp Makefile
	@mkdir -p $(@D)
	$(Q_CC)$(CXX) -fPIC $(SAN) $(CFLAGS) -MMD -MP -c -o $@ $<
$O/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q_CC)$(CC) $(ALL_CFLAGS) $(if $(filter cmd/% tests/%,$<),-Icmd) -MMD -MP -c -o $@ $<
$O/man/%: man/%.scd
	@mkdir -p $(@D)
	$(Q_MAN)$(SCDOC) < $< > $@

check: check-unit check-e2e
check-unit: all $(TESTS:%=$O/%)
	scripts/check-layers
	O=$O PATH=$(CURDIR)/$O:$$PATH prove -e '' $(sort $(TESTS:%=$O/%))
# Two that mostly wait may do so side by side; the others measure time.
E2E_PAIR = -j2 --rules='par=tests/e2e/{cluster,stores}.bats' --rules='seq=**'
check-e2e: all progs
	O=$O PATH=$(CURDIR)/$O:$$PATH prove -f -o --timer $(E2E_PAIR) -e bats $(or $(E2E),$(sort $(wildcard tests/e2e/*.bats)))
# The guest: all its scripts in one boot. VM='--all tests/vm/rails.t' for others; see tests/vm/run --help.
check-vm: all progs
	O=$O prove -v -e '' tests/vm/run $(if $(VM),:: $(VM))
# Each language has its part: check-c, check-cpp, ... in tests/bindings/LANGUAGE/check.mk.
check-bindings:
# Without the flags of this make: cargo would take its job server, which only a make gets.
BINDING_TESTS = env -u MAKEFLAGS -u MFLAGS O=$O PATH=$(CURDIR)/$O:$$PATH prove -f -o --timer -e bats
include $(wildcard tests/bindings/*/check.mk)
lint: all
	scripts/lint
# For tools that read the sources themselves.
compile-flags:
	@echo $(filter-out -W%,$(ALL_CFLAGS))

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/te $(DESTDIR)$(LIBDIR)/pkgconfig
	install $(CMDS:%=$O/%) $(DESTDIR)$(PREFIX)/bin
	install -m644 $(HEADERS) bindings/cpp/transfer_engine.h $(DESTDIR)$(PREFIX)/include/te
	install -m644 $O/libte.a $O/libtransfer_engine.a $(DESTDIR)$(LIBDIR)
	install $O/$(SONAME) $O/libtransfer_engine.so.0 $(DESTDIR)$(LIBDIR)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libte.so
	ln -sf libtransfer_engine.so.0 $(DESTDIR)$(LIBDIR)/libtransfer_engine.so
	for pc in te transfer_engine; do \
		sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(LIB_LIBS)|' \
			lib/$$pc.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/$$pc.pc; done
	for m in $(MANS); do install -D -m644 $O/man/$$m $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}/$$m; done
	for m in $(filter %.3,$(MANS)); do for f in $$(sed -n '/^# NAME/{n;n;s/ - .*//;s/,//g;p}' man/$$m.scd); do \
		[ $$f.3 = $$m ] || ln -sf $$m $(DESTDIR)$(PREFIX)/share/man/man3/$$f.3; done; done
	install -D -m644 completions/te.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/te
	for c in $(CMDS); do ln -sf te $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$c; done
clean:
	rm -rf build build-asan build-tsan
.PHONY: all progs help check check-unit check-e2e check-vm check-bindings lint install clean
.DELETE_ON_ERROR:
.SECONDARY:

ifndef V
Q_CC  = @echo "  CC   $@";
Q_LD  = @echo "  LD   $@";
Q_AR  = @echo "  AR   $@";
Q_MAN = @echo "  MAN  $@";
endif
-include $(shell find $O -name '*.d' 2>/dev/null)
