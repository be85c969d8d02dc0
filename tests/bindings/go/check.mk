# Go, by cgo over libtransfer_engine.
check-bindings: check-go
check-go: all
	$(BINDING_TESTS) tests/bindings/go.bats
.PHONY: check-go
