"""te's Python binding under Mooncake's names: see mooncake.engine."""
