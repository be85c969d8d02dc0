"""Configuration by environment variables: the fourth example of the Python document."""

import os

from mooncake.engine import TransferEngine

LOCAL = os.environ.get("LOCAL", "192.168.1.101:12345")
METADATA = os.environ.get("METADATA", "192.168.1.100:2379")
PROTOCOL = os.environ.get("PROTOCOL", "rdma")
DEVICES = os.environ.get("DEVICES", "mlx5_0,mlx5_1")

# Set environment variables: they are read by initialize()
os.environ["MC_TRANSFER_TIMEOUT"] = "60"  # 60 seconds
os.environ["MC_METADATA_SERVER"] = f"etcd://{METADATA}"
os.environ["MC_TE_METRIC"] = "1"  # report metrics

# Create and initialize the transfer engine
engine = TransferEngine()
ret = engine.initialize(
    local_hostname=LOCAL,
    metadata_server=METADATA,
    protocol=PROTOCOL,
    device_name=DEVICES  # which RDMA devices
)
print(f"initialize: {ret}")
