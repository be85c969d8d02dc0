# Every language with every other.
check-bindings: check-cross
check-cross: all python
	$(BINDING_TESTS) tests/bindings/cross.bats
.PHONY: check-cross
