"""Types of mooncake.engine; help(mooncake.engine) says what the calls do."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Optional, SupportsIndex, Union

from typing_extensions import Buffer

__version__: str

Address = SupportsIndex
Memory = Union[Address, Buffer]

class TransferOpcode(IntEnum):
    READ = 0
    WRITE = 1
    Read = 0
    Write = 1

Read: TransferOpcode
Write: TransferOpcode

class TransferNotify:
    name: str
    msg: str
    def __init__(self, name: str = "", msg: str = "") -> None: ...

class TransferEngine:
    def __init__(self) -> None: ...
    def initialize(
        self, local_hostname: str, metadata_server: str, protocol: str, device_name: str
    ) -> int: ...
    def initialize_ext(
        self, local_hostname: str, metadata_server: str, protocol: str, device_name: str, metadata_type: str
    ) -> int: ...
    def get_rpc_port(self) -> int: ...
    def get_local_topology(self, device_name: Optional[str] = None) -> str: ...
    def allocate_managed_buffer(self, length: SupportsIndex) -> int: ...
    def free_managed_buffer(self, buffer_addr: Address, length: SupportsIndex) -> int: ...
    def get_first_buffer_address(self, segment_name: str) -> int: ...
    def transfer_sync_write(
        self,
        target_hostname: str,
        buffer: Memory,
        peer_buffer_address: Address,
        length: SupportsIndex,
        transport_hint: Any = None,
    ) -> int: ...
    def transfer_sync_read(
        self,
        target_hostname: str,
        buffer: Memory,
        peer_buffer_address: Address,
        length: SupportsIndex,
        transport_hint: Any = None,
    ) -> int: ...
    def transfer_sync(
        self,
        target_hostname: str,
        buffer: Memory,
        peer_buffer_address: Address,
        length: SupportsIndex,
        opcode: TransferOpcode,
        notify: Optional[TransferNotify] = None,
        transport_hint: Any = None,
    ) -> int: ...
    def transfer_submit_write(
        self,
        target_hostname: str,
        buffer: Memory,
        peer_buffer_address: Address,
        length: SupportsIndex,
        transport_hint: Any = None,
    ) -> int: ...
    def transfer_submit_read(
        self,
        target_hostname: str,
        buffer: Memory,
        peer_buffer_address: Address,
        length: SupportsIndex,
        transport_hint: Any = None,
    ) -> int: ...
    def transfer_check_status(self, batch_id: SupportsIndex) -> int: ...
    def batch_transfer_sync_write(
        self,
        target_hostname: str,
        buffers: Sequence[Memory],
        peer_buffer_addresses: Sequence[Address],
        lengths: Sequence[SupportsIndex],
        transport_hint: Any = None,
    ) -> int: ...
    def batch_transfer_sync_read(
        self,
        target_hostname: str,
        buffers: Sequence[Memory],
        peer_buffer_addresses: Sequence[Address],
        lengths: Sequence[SupportsIndex],
        transport_hint: Any = None,
    ) -> int: ...
    def batch_transfer_sync(
        self,
        target_hostname: str,
        buffers: Sequence[Memory],
        peer_buffer_addresses: Sequence[Address],
        lengths: Sequence[SupportsIndex],
        opcode: TransferOpcode,
        notify: Optional[TransferNotify] = None,
        transport_hint: Any = None,
    ) -> int: ...
    def batch_transfer_async_write(
        self,
        target_hostname: str,
        buffers: Sequence[Memory],
        peer_buffer_addresses: Sequence[Address],
        lengths: Sequence[SupportsIndex],
        transport_hint: Any = None,
    ) -> int: ...
    def batch_transfer_async_read(
        self,
        target_hostname: str,
        buffers: Sequence[Memory],
        peer_buffer_addresses: Sequence[Address],
        lengths: Sequence[SupportsIndex],
        transport_hint: Any = None,
    ) -> int: ...
    def batch_transfer_async(
        self,
        target_hostname: str,
        buffers: Sequence[Memory],
        peer_buffer_addresses: Sequence[Address],
        lengths: Sequence[SupportsIndex],
        opcode: TransferOpcode,
        notify: Optional[TransferNotify] = None,
        transport_hint: Any = None,
    ) -> int: ...
    def get_batch_transfer_status(self, batch_ids: Sequence[SupportsIndex]) -> int: ...
    def write_bytes_to_buffer(self, dest_address: Address, src_ptr: Buffer, length: SupportsIndex) -> int: ...
    def read_bytes_from_buffer(self, source_address: Address, length: SupportsIndex) -> bytes: ...
    def register_memory(
        self, buffer_addr: Address, capacity: SupportsIndex, location: Optional[str] = "*"
    ) -> int: ...
    def unregister_memory(self, buffer_addr: Address) -> int: ...
    def batch_register_memory(
        self,
        buffer_addresses: Sequence[Address],
        capacities: Sequence[SupportsIndex],
        location: Optional[str] = "*",
    ) -> int: ...
    def batch_unregister_memory(self, buffer_addresses: Sequence[Address]) -> int: ...
    def register(
        self, buffer: Memory, length: Optional[SupportsIndex] = None, location: Optional[str] = "*"
    ) -> int: ...
    def deregister(self, buffer: Memory) -> int: ...
    def get_notifies(self) -> list[TransferNotify]: ...
    def send_probe(self, peer_server_name: str) -> int: ...
