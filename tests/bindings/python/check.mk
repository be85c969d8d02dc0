# The Python module mooncake.engine, a C extension over te.h with libte inside: `make python`, and its tests.
PYTHON     ?= /usr/bin/python3
PY_SRC     := $(wildcard bindings/python/*.c)
PY_OBJ     := $(PY_SRC:%.c=$O/%.o)
PY_PACKAGE := $O/python/mooncake
PY_FILES   := $(patsubst bindings/python/%,$O/python/%,$(wildcard bindings/python/mooncake/*))
PY_TESTS   := $(sort $(wildcard tests/bindings/python/test_*.py))
# The stable ABI of 3.11: one file for it and all later ones.
PY_CFLAGS   = -DPy_LIMITED_API=0x030b0000 -isystem $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')
# A sanitizer's run-time comes before everything else of a process that was not built with it.
PY_PRELOAD  = $(if $(ASAN),$(shell $(CC) -print-file-name=libasan.so))$(if $(TSAN),$(shell $(CC) -print-file-name=libtsan.so))
PY_ENV      = $(if $(PY_PRELOAD),LD_PRELOAD=$(PY_PRELOAD) ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=die_after_fork=0) PYTHONPATH=$(CURDIR)/$O/python O=$O PATH=$(CURDIR)/$O:$$PATH

python: $(PY_PACKAGE)/engine.abi3.so $(PY_FILES)
$(PY_OBJ): ALL_CFLAGS += $(PY_CFLAGS)
$(PY_PACKAGE)/engine.abi3.so: $(PY_OBJ) $O/lib/compat/codes.o $O/libte.a bindings/python/engine.map
	@mkdir -p $(@D)
	$(Q_LD)$(CC) -shared $(ALL_CFLAGS) $(LDFLAGS) -Wl,--version-script=bindings/python/engine.map \
		-o $@ $(filter %.o %.a,$^) $(LIB_LIBS)
$(PY_FILES): $O/python/%: bindings/python/%
	@mkdir -p $(@D)
	@cp $< $@

# What the same costs in C.
$O/progs/sync_read: $O/tests/bindings/python/sync_read.o $O/libte.a
	@mkdir -p $(@D)
	$(Q_LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIB_LIBS)

check-python: all python $O/progs/sync_read
	$(PY_ENV) prove -f -o --timer -e '$(PYTHON) -B' $(or $(PYTEST),$(PY_TESTS))
check-bindings: check-python
# The examples, over rdma.
check-vm: python
.PHONY: python check-python check-bindings
