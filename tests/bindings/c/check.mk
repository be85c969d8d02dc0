# The C interface of Mooncake, over libtransfer_engine.
check-bindings: check-c
check-c: all
	$(BINDING_TESTS) tests/bindings/c.bats
.PHONY: check-c
