# Rust, by FFI over libtransfer_engine.
check-bindings: check-rust
check-rust: all
	$(BINDING_TESTS) tests/bindings/rust.bats
.PHONY: check-rust
