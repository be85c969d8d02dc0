"""Basic set-up and a transfer: the first example of the Python document.

The target is another process, a te-target say:
    te-target --metadata-server=etcd://127.0.0.1:2379 --local-server-name=127.0.0.1:12346 --protocol=rdma
"""

import os

import numpy as np

from mooncake.engine import TransferEngine

LOCAL = os.environ.get("LOCAL", "127.0.0.1:12345")
TARGET = os.environ.get("TARGET", "127.0.0.1:12346")
METADATA = os.environ.get("METADATA", "127.0.0.1:2379")
PROTOCOL = os.environ.get("PROTOCOL", "rdma")

# Create transfer engine instance
engine = TransferEngine()

# Initialize with basic configuration
ret = engine.initialize(
    local_hostname=LOCAL,
    metadata_server=METADATA,
    protocol=PROTOCOL,
    device_name=""
)

if ret != 0:
    raise RuntimeError(f"Initialization failed with code {ret}")

# Allocate and initialize client buffer (1MB)
client_buffer = np.ones(1024 * 1024, dtype=np.uint8)  # Fill with ones
buffer_data = client_buffer.ctypes.data
buffer_data_len = client_buffer.nbytes

# Prepare data
data = b"Hello, Transfer Engine!"
data_len = len(data)

engine.register(buffer_data, buffer_data_len)

# Where the target's memory is: its metadata say so. Other programs send the address themselves.
remote_addr = engine.get_first_buffer_address(TARGET)

# Transfer data to remote node
ret = engine.transfer_sync_write(
    target_hostname=TARGET,
    buffer=data,
    peer_buffer_address=remote_addr,
    length=data_len
)

if ret == 0:
    print("Data transfer completed successfully")
else:
    print(f"Data transfer failed with code {ret}")

engine.deregister(data)
