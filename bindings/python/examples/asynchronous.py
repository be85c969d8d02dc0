"""A transfer that is submitted and polled: the second example of the Python document."""

import os

from mooncake.engine import TransferEngine

LOCAL = os.environ.get("LOCAL", "127.0.0.1:12345")
TARGET = os.environ.get("TARGET", "127.0.0.1:12346")
METADATA = os.environ.get("METADATA", "127.0.0.1:2379")
PROTOCOL = os.environ.get("PROTOCOL", "rdma")

engine = TransferEngine()
ret = engine.initialize(LOCAL, METADATA, PROTOCOL, "")
if ret != 0:
    raise RuntimeError(f"Initialization failed with code {ret}")
data_len = 1024 * 1024
local_addr = engine.allocate_managed_buffer(data_len)
engine.write_bytes_to_buffer(local_addr, b"\xa5" * data_len, data_len)
remote_addr = engine.get_first_buffer_address(TARGET)

# Submit asynchronous write
batch_id = engine.transfer_submit_write(
    target_hostname=TARGET,
    buffer=local_addr,
    peer_buffer_address=remote_addr,
    length=data_len
)

if batch_id < 0:
    print(f"Failed to submit transfer with code {batch_id}")
else:
    # Poll for completion
    while True:
        status = engine.transfer_check_status(batch_id)
        if status == 1:
            print("Transfer completed successfully")
            break
        elif status == -1:
            print("Transfer failed")
            break
        elif status == -2:
            print("Transfer timed out")
            break
        # Transfer still in progress, continue polling
        import time
        time.sleep(0.001)  # Small delay to avoid busy waiting
