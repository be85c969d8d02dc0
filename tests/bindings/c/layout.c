/* layout.c - every size and offset that programs and the bindings of other languages have compiled
 * in. Builds as C and as C++. */
#include <transfer_engine_c.h>

#ifdef __cplusplus
#define IS(what)   static_assert(what, #what)
#define SAME(a, b) static_assert(sizeof(a) == sizeof(b) && a(-1) == b(-1), #a)
#else
#define IS(what)   _Static_assert(what, #what)
#define SAME(a, b) _Static_assert(_Generic((a)0, b : 1, default : 0), #a)
#endif
#define FIELD(type, field, offset, size)                                                           \
	IS(offsetof(struct type, field) == (offset));                                              \
	IS(sizeof(((struct type *)0)->field) == (size))

SAME(segment_handle_t, int32_t);
SAME(segment_id_t, int32_t);
SAME(batch_id_t, uint64_t);
IS(LOCAL_SEGMENT == 0 && INVALID_BATCH == UINT64_MAX);
IS(OPCODE_READ == 0 && OPCODE_WRITE == 1);
IS(STATUS_WAITING == 0 && STATUS_PENDING == 1 && STATUS_INVALID == 2 && STATUS_CANCELED == 3);
IS(STATUS_COMPLETED == 4 && STATUS_TIMEOUT == 5 && STATUS_FAILED == 6);
IS(sizeof(transfer_engine_t) == sizeof(void *) && sizeof(transport_t) == sizeof(void *));

IS(sizeof(transfer_request_t) == 40);
FIELD(transfer_request, opcode, 0, 4);
FIELD(transfer_request, source, 8, 8);
FIELD(transfer_request, target_id, 16, 4);
FIELD(transfer_request, target_offset, 24, 8);
FIELD(transfer_request, length, 32, 8);

IS(sizeof(transfer_status_t) == 16);
FIELD(transfer_status, status, 0, 4);
FIELD(transfer_status, transferred_bytes, 8, 8);

IS(sizeof(buffer_entry_t) == 16);
FIELD(buffer_entry, addr, 0, 8);
FIELD(buffer_entry, length, 8, 8);

IS(sizeof(notify_msg_t) == 16);
FIELD(notify_msg, name, 0, 8);
FIELD(notify_msg, msg, 8, 8);

IS(sizeof(nic_load_stat_t) == 80);
FIELD(nic_load_stat, device_name, 0, 64);
FIELD(nic_load_stat, inflight_bytes, 64, 8);
FIELD(nic_load_stat, ewma_bandwidth_bps, 72, 8);

IS(sizeof(segment_desc_t) == 48);
FIELD(segment_desc, type, 0, 4);
FIELD(segment_desc, desc_, 8, 40);
FIELD(segment_desc, desc_.rdma.addr, 8, 8);
FIELD(segment_desc, desc_.rdma.size, 16, 8);
FIELD(segment_desc, desc_.rdma.location, 24, 8);
FIELD(segment_desc, desc_.nvmeof.file_path, 8, 8);
FIELD(segment_desc, desc_.nvmeof.subsystem_name, 16, 8);
FIELD(segment_desc, desc_.nvmeof.proto, 24, 8);
FIELD(segment_desc, desc_.nvmeof.ip, 32, 8);
FIELD(segment_desc, desc_.nvmeof.port, 40, 8);

/* The values of Mooncake's error.h. */
IS(TE_CODE_INVALID_ARGUMENT == -1 && TE_CODE_TOO_MANY_REQUESTS == -2);
IS(TE_CODE_ADDRESS_NOT_REGISTERED == -3 && TE_CODE_BATCH_BUSY == -4);
IS(TE_CODE_DEVICE_NOT_FOUND == -6 && TE_CODE_ADDRESS_OVERLAPPED == -7);
IS(TE_CODE_DNS == -101 && TE_CODE_SOCKET == -102 && TE_CODE_MALFORMED_JSON == -103);
IS(TE_CODE_REJECT_HANDSHAKE == -104 && TE_CODE_METADATA == -200 && TE_CODE_ENDPOINT == -201);
IS(TE_CODE_CONTEXT == -202 && TE_CODE_TIMEOUT == -203 && TE_CODE_NUMA == -300);
IS(TE_CODE_CLOCK == -301 && TE_CODE_MEMORY == -302 && TE_CODE_NOT_IMPLEMENTED == -303);
