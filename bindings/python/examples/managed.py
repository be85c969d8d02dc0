"""Managed buffers: the third example of the Python document."""

import os

from mooncake.engine import TransferEngine

LOCAL = os.environ.get("LOCAL", "127.0.0.1:12345")
METADATA = os.environ.get("METADATA", "127.0.0.1:2379")
PROTOCOL = os.environ.get("PROTOCOL", "rdma")

engine = TransferEngine()
ret = engine.initialize(LOCAL, METADATA, PROTOCOL, "")
if ret != 0:
    raise RuntimeError(f"Initialization failed with code {ret}")

# Allocate managed buffer
buffer_size = 1024 * 1024  # 1MB
buffer_addr = engine.allocate_managed_buffer(buffer_size)

if buffer_addr == 0:
    print("Failed to allocate buffer")
else:
    # Use the buffer
    test_data = b"Test data for managed buffer"
    engine.write_bytes_to_buffer(buffer_addr, test_data, len(test_data))

    # Read back
    read_data = engine.read_bytes_from_buffer(buffer_addr, len(test_data))
    print(f"Read data: {read_data}")

    # Free the buffer when done
    engine.free_managed_buffer(buffer_addr, buffer_size)
