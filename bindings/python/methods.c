/* methods.c - the methods of TransferEngine, and what help() says about them. */
#include "binding.h"

/* Laid out by hand: text, one method a paragraph. */
/* clang-format off */

const char module_doc[] =
	"Move bytes between the memory of processes, here and on other hosts: te's engine under the\n"
	"names of Mooncake's Python interface.\n"
	"\n"
	"    from mooncake.engine import TransferEngine\n"
	"    engine = TransferEngine()\n"
	"    engine.initialize('10.0.0.1:12345', 'etcd://10.0.0.9:2379', 'rdma', '')\n"
	"\n"
	"Addresses are integers, lengths are bytes. Calls that return int return 0 (or what they\n"
	"document) when they succeed and a negative code when they fail; why is in the log (standard\n"
	"error, or MC_LOG_DIR). The codes: -1 wrong argument, -3 not registered memory, -4 in use,\n"
	"-6 no such device, -7 overlaps registered memory, -101 host name, -102 the peer does not\n"
	"answer, -200 metadata, -203 timed out, -302 out of memory, -303 not in this build, -201 any\n"
	"other. An argument of a wrong type raises TypeError.";

const char engine_doc[] =
	"TransferEngine()\n--\n\n"
	"One segment of the cluster: memory that is registered here can be read and written by\n"
	"peers, and this engine reads and writes theirs. Starts with initialize(); ends when the\n"
	"object is let go, or with the interpreter: what is in flight is cancelled, and the segment\n"
	"leaves the metadata store.\n"
	"\n"
	"All methods may be called from several threads at once, and let other threads run while\n"
	"they wait. A child of fork() cannot use its parent's engine: it gets errors.";

const char notify_doc[] = "TransferNotify(name='', msg='')\n--\n\n"
			  "A message to the owner of a segment: see transfer_sync() and get_notifies().";

/* How C spells a function that takes arguments by position and keyword. */
#define FAST(name, function, doc) \
	{ name, (PyCFunction)(void (*)(void))function, METH_FASTCALL | METH_KEYWORDS, doc }

PyMethodDef engine_methods[] = {
FAST("initialize", engine_initialize,
"initialize($self, local_hostname, metadata_server, protocol, device_name)\n--\n\n"
"Join the cluster.\n"
"\n"
"local_hostname: the name of the segment, which peers use; a port in it is the RPC port\n"
"    ('10.0.0.1:12345'). '' is the host name.\n"
"metadata_server: 'etcd://host:2379' (also without the scheme), 'redis://host:6379',\n"
"    'http://host:8080/metadata', or 'P2PHANDSHAKE' where there is none and names are addresses.\n"
"    '' is MC_METADATA_SERVER.\n"
"protocol: 'tcp', 'rdma' (fails where there is no RDMA device), '' or 'auto' for the best.\n"
"    Peers on the same host are reached through shared memory; 'shm' and 'local' use only that.\n"
"device_name: for rdma, a comma list of devices; '' is all.\n"
"\n"
"Returns 0, or a negative code; it may then be called again. MC_* variables are read now.\n"
"Blocks for the store, at most some seconds."),
FAST("initialize_ext", engine_initialize_ext,
"initialize_ext($self, local_hostname, metadata_server, protocol, device_name, metadata_type)\n--\n\n"
"As initialize(), for a metadata_server without a scheme.\n"
"\n"
"metadata_type: 'etcd', 'redis', 'http', or 'p2p', for which metadata_server means nothing.\n"
"\n"
"Returns 0, or a negative code."),
{ "get_rpc_port", engine_get_rpc_port, METH_NOARGS,
"get_rpc_port($self)\n--\n\n"
"The port on which peers' handshakes arrive; negative before initialize()." },
FAST("get_local_topology", engine_get_local_topology,
"get_local_topology($self, device_name=None)\n--\n\n"
"Which RDMA devices are near which memory of this host: the priority matrix as JSON text.\n"
"Needs no initialize().\n"
"\n"
"device_name: only these devices, a comma list.\n"
"\n"
"Raises RuntimeError, for a malformed MC_CUSTOM_TOPO_JSON."),

FAST("allocate_managed_buffer", managed_alloc,
"allocate_managed_buffer($self, length)\n--\n\n"
"Memory that is registered already, peers may read and write it: a block of a buddy allocator,\n"
"aligned to its pages (4 KiB), of at least length bytes; more than 16 MiB has memory of its own.\n"
"Transfers between processes of one host copy it once instead of twice.\n"
"\n"
"Returns the address; 0 when there is no memory, or length is 0."),
FAST("free_managed_buffer", managed_free,
"free_managed_buffer($self, buffer_addr, length)\n--\n\n"
"Give back what allocate_managed_buffer(length) returned. No transfer may use it any more.\n"
"\n"
"Returns 0; negative and nothing happens when it is free already, when the length is another\n"
"(-1), or when the address is not from there (-3)."),
FAST("get_first_buffer_address", segment_first_buffer,
"get_first_buffer_address($self, segment_name)\n--\n\n"
"Where the first memory lies that the owner of a segment has registered, as published now: what\n"
"peer_buffer_address wants. Blocks for the store.\n"
"\n"
"Returns the address; 0 when the segment is not known, or has nothing registered."),

FAST("transfer_sync_write", transfer_sync_write,
"transfer_sync_write($self, target_hostname, buffer, peer_buffer_address, length, transport_hint=None)\n--\n\n"
"Write length bytes of buffer to a peer's memory, and wait.\n"
"\n"
"target_hostname: the name of the segment, looked up once.\n"
"buffer: an address in registered or managed memory; or an object with the buffer protocol\n"
"    (bytes, bytearray, memoryview, a numpy array), which need not be registered.\n"
"peer_buffer_address: in one buffer that the peer has registered.\n"
"length: bytes.\n"
"transport_hint: accepted, means nothing.\n"
"\n"
"Returns 0 once the bytes are in the peer's memory. Negative: -3 buffer or peer_buffer_address is\n"
"not registered, -203 nothing moved for MC_TRANSFER_TIMEOUT seconds (30), -102 or -201 the peer\n"
"cannot be reached, -200 no such segment; the memory is then not used any more. Ctrl-C cancels."),
FAST("transfer_sync_read", transfer_sync_read,
"transfer_sync_read($self, target_hostname, buffer, peer_buffer_address, length, transport_hint=None)\n--\n\n"
"Read length bytes of a peer's memory into buffer, and wait. As transfer_sync_write(), but an\n"
"object must be writable, else TypeError. After a failure what is in buffer is not defined."),
FAST("transfer_sync", transfer_sync,
"transfer_sync($self, target_hostname, buffer, peer_buffer_address, length, opcode, notify=None,\n"
"              transport_hint=None)\n--\n\n"
"transfer_sync_read() or transfer_sync_write(), as opcode says: TransferOpcode.READ or .WRITE.\n"
"\n"
"notify: a TransferNotify that the peer gets once the transfer has succeeded."),
FAST("transfer_submit_write", transfer_submit_write,
"transfer_submit_write($self, target_hostname, buffer, peer_buffer_address, length, transport_hint=None)\n--\n\n"
"Start what transfer_sync_write() does, and return at once. An object given as buffer is kept,\n"
"and must not change, until transfer_check_status() has told the end. Blocks only where the\n"
"segment has not been looked up yet.\n"
"\n"
"Returns an id, >= 1, for transfer_check_status(); a negative code when nothing was started."),
FAST("transfer_submit_read", transfer_submit_read,
"transfer_submit_read($self, target_hostname, buffer, peer_buffer_address, length, transport_hint=None)\n--\n\n"
"Start what transfer_sync_read() does, and return at once. The bytes are in buffer when\n"
"transfer_check_status() has returned 1.\n"
"\n"
"Returns an id, >= 1; a negative code when nothing was started."),
FAST("transfer_check_status", flight_check,
"transfer_check_status($self, batch_id)\n--\n\n"
"How is a transfer that was submitted? Does not block.\n"
"\n"
"Returns 1 it has succeeded, 0 it is running, -1 it has failed, -2 it has timed out. What has\n"
"ended is told once: the id is unknown afterwards, and gives -1."),

FAST("batch_transfer_sync_write", batch_sync_write,
"batch_transfer_sync_write($self, target_hostname, buffers, peer_buffer_addresses, lengths,\n"
"                          transport_hint=None)\n--\n\n"
"transfer_sync_write() of several at once: three lists of the same length.\n"
"\n"
"Returns 0 when all have succeeded; a negative code when one has not, or the lists differ (-1)."),
FAST("batch_transfer_sync_read", batch_sync_read,
"batch_transfer_sync_read($self, target_hostname, buffers, peer_buffer_addresses, lengths,\n"
"                         transport_hint=None)\n--\n\n"
"transfer_sync_read() of several at once: see batch_transfer_sync_write()."),
FAST("batch_transfer_sync", batch_sync,
"batch_transfer_sync($self, target_hostname, buffers, peer_buffer_addresses, lengths, opcode,\n"
"                    notify=None, transport_hint=None)\n--\n\n"
"transfer_sync() of several at once. notify is sent once all have succeeded."),
FAST("batch_transfer_async_write", batch_async_write,
"batch_transfer_async_write($self, target_hostname, buffers, peer_buffer_addresses, lengths,\n"
"                           transport_hint=None)\n--\n\n"
"Start several writes, and return at once.\n"
"\n"
"Returns an id, >= 1, for get_batch_transfer_status() or transfer_check_status(); 0 (as Mooncake\n"
"does here) when nothing was started."),
FAST("batch_transfer_async_read", batch_async_read,
"batch_transfer_async_read($self, target_hostname, buffers, peer_buffer_addresses, lengths,\n"
"                          transport_hint=None)\n--\n\n"
"Start several reads: see batch_transfer_async_write()."),
FAST("batch_transfer_async", batch_async,
"batch_transfer_async($self, target_hostname, buffers, peer_buffer_addresses, lengths, opcode,\n"
"                     notify=None, transport_hint=None)\n--\n\n"
"Start several transfers in the direction of opcode: see batch_transfer_async_write()."),
FAST("get_batch_transfer_status", flight_wait,
"get_batch_transfer_status($self, batch_ids)\n--\n\n"
"Wait until all of a list of ids have ended. They are unknown afterwards.\n"
"\n"
"Returns 0 when all have succeeded, -1 when one has failed, timed out, or is unknown. An unknown\n"
"one ends the wait: the ids after it stay as they are."),

FAST("write_bytes_to_buffer", managed_write,
"write_bytes_to_buffer($self, dest_address, src_ptr, length)\n--\n\n"
"Copy the first length bytes of src_ptr (bytes, or another buffer) to an address of this process.\n"
"\n"
"Returns 0; negative when src_ptr is shorter (-1), or there is no writable memory (-3)."),
FAST("read_bytes_from_buffer", managed_read,
"read_bytes_from_buffer($self, source_address, length)\n--\n\n"
"length bytes from an address of this process, as bytes.\n"
"\n"
"Raises ValueError when there is no memory."),

FAST("register_memory", memory_register,
"register_memory($self, buffer_addr, capacity, location='*')\n--\n\n"
"Let transfers use [buffer_addr, buffer_addr + capacity), and peers read and write it. The memory\n"
"must stay until unregister_memory(). Blocks until the store has it.\n"
"\n"
"location: 'cpu:N' for NUMA node N, '*' to find out.\n"
"\n"
"Returns 0. Negative: -1 no bytes, -3 no such memory, -7 overlaps registered memory, -303 GPU\n"
"memory, -200 the store."),
FAST("unregister_memory", memory_unregister,
"unregister_memory($self, buffer_addr)\n--\n\n"
"The end of register_memory(): waits for transfers that use the memory.\n"
"\n"
"Returns 0; -3 when it is not the start of registered memory, -4 when transfers use it still\n"
"after 5 s."),
FAST("batch_register_memory", memory_register_batch,
"batch_register_memory($self, buffer_addresses, capacities, location='*')\n--\n\n"
"register_memory() of several, all or none, told to the store once."),
FAST("batch_unregister_memory", memory_unregister_batch,
"batch_unregister_memory($self, buffer_addresses)\n--\n\n"
"unregister_memory() of each. Returns 0, or the code of the first that failed."),
FAST("register", memory_register_buffer,
"register($self, buffer, length=None, location='*')\n--\n\n"
"register_memory() of an address and length; or of an object with the buffer protocol, all of it\n"
"or its first length bytes, which is kept until deregister(). Peers cannot reach a read-only\n"
"object: it is a source only.\n"
"\n"
"Returns 0, or a negative code as register_memory()."),
FAST("deregister", memory_deregister_buffer,
"deregister($self, buffer)\n--\n\n"
"The end of register(): by address, or by the object. Returns 0; -3 when it was not registered."),

{ "get_notifies", notify_get, METH_NOARGS,
"get_notifies($self)\n--\n\n"
"The messages of peers that have arrived since the last call: a list of TransferNotify, oldest\n"
"first. At most 4096 wait; more are lost." },
FAST("send_probe", notify_probe,
"send_probe($self, peer_server_name)\n--\n\n"
"Is the owner of a segment alive? Blocks for the store, and until it answers, at most 5 s each.\n"
"\n"
"Returns 0; -102 when it does not answer, -200 when there is no such segment."),
{ NULL, NULL, 0, NULL },
};
/* clang-format on */
