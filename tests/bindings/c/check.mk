# The C interface of Mooncake, over libtransfer_engine.
check-bindings: check-c
check-c: all
	$(BINDING_TESTS) tests/bindings/c.bats
# For the guest, where these names meet rdma.
progs: $O/progs/two
$O/progs/two: tests/bindings/c/two.c tests/bindings/c/tap.h lib/include/transfer_engine_c.h $O/libtransfer_engine.a
	@mkdir -p $(@D)
	$(Q_LD)$(CC) -std=gnu11 -Wall -Wextra $(SAN) $(CFLAGS) -Ilib/include -o $@ $< $O/libtransfer_engine.a $(LIB_LIBS)
.PHONY: check-c
