# The C++ interface of Mooncake, header only over libtransfer_engine.
check-bindings: check-cpp
check-cpp: all
	$(BINDING_TESTS) tests/bindings/cpp.bats
.PHONY: check-cpp
