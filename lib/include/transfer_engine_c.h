/*
 * transfer_engine_c.h - the C interface of Mooncake's Transfer Engine, by libte.
 *
 * For programs that were written for that library: the same names, types and values. New programs want te.h.
 * Link with libtransfer_engine.a or libtransfer_engine.so, which need no libte beside them (pkg-config
 * transfer_engine names the system's libraries).
 *
 * Functions that return int: 0, or one of TE_CODE_* below. They may be called from several threads at once,
 * destroyTransferEngine() excepted. A handle or id that is stale or invented gives an error, never a crash. Strings are
 * copied. What an engine logs, and all tunables (MC_*): te(7).
 */
#ifndef TRANSFER_ENGINE_C_H
#define TRANSFER_ENGINE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define segment_handle_t int32_t
#define segment_id_t	 int32_t
#define batch_id_t	 uint64_t
#define LOCAL_SEGMENT	 (0)
#define INVALID_BATCH	 UINT64_MAX

#define OPCODE_READ  (0)
#define OPCODE_WRITE (1)

struct transfer_request {
	int opcode;		/* OPCODE_* */
	void *source;		/* local side of both, inside one registered buffer */
	segment_id_t target_id;
	uint64_t target_offset;	/* address in a RAM segment, offset in a segment of files */
	uint64_t length;	/* bytes */
};
typedef struct transfer_request transfer_request_t;

#define STATUS_WAITING	 (0)
#define STATUS_PENDING	 (1)	/* never seen */
#define STATUS_INVALID	 (2)	/* the target range is in no buffer */
#define STATUS_CANCELED	 (3)
#define STATUS_COMPLETED (4)
#define STATUS_TIMEOUT	 (5)
#define STATUS_FAILED	 (6)

struct transfer_status {
	int status;		/* STATUS_* */
	uint64_t transferred_bytes;	/* a lower bound */
};
typedef struct transfer_status transfer_status_t;

struct buffer_entry {
	void *addr;
	size_t length;
};
typedef struct buffer_entry buffer_entry_t;

struct notify_msg {
	char *name;
	char *msg;
};
typedef struct notify_msg notify_msg_t;

struct nic_load_stat {
	char device_name[64];
	uint64_t inflight_bytes;
	double ewma_bandwidth_bps;
};
typedef struct nic_load_stat nic_load_stat_t;

struct segment_desc {
	int type;
	union {
		struct {
			void *addr;
			uint64_t size;
			const char *location;
		} rdma;
		struct {
			const char *file_path;
			const char *subsystem_name;
			const char *proto;
			const char *ip;
			uint64_t port;
		} nvmeof;
	} desc_;
};
typedef struct segment_desc segment_desc_t;

typedef void *transfer_engine_t;
typedef void *transport_t;

/* What functions that return int give beside 0: the values of Mooncake's error.h. */
enum {
	TE_CODE_INVALID_ARGUMENT = -1,
	TE_CODE_TOO_MANY_REQUESTS = -2,		/* beyond the batch's capacity */
	TE_CODE_ADDRESS_NOT_REGISTERED = -3,
	TE_CODE_BATCH_BUSY = -4,
	TE_CODE_DEVICE_NOT_FOUND = -6,
	TE_CODE_ADDRESS_OVERLAPPED = -7,
	TE_CODE_DNS = -101,
	TE_CODE_SOCKET = -102,
	TE_CODE_MALFORMED_JSON = -103,
	TE_CODE_REJECT_HANDSHAKE = -104,
	TE_CODE_METADATA = -200,
	TE_CODE_ENDPOINT = -201,		/* anything else that failed on the way */
	TE_CODE_CONTEXT = -202,
	TE_CODE_TIMEOUT = -203,			/* te's own */
	TE_CODE_NUMA = -300,
	TE_CODE_CLOCK = -301,
	TE_CODE_MEMORY = -302,
	TE_CODE_NOT_IMPLEMENTED = -303,
};

/*
 * Join the cluster as segment local_server_name by the metadata store conn ("etcd://...", "redis://...", "http://...",
 * "P2PHANDSHAKE"; NULL or "": MC_METADATA_SERVER). ip_or_host_name and rpc_port are ignored, as they are by Mooncake: a
 * port in local_server_name is the RPC port. auto_discover: find the NICs and serve by rdma where there are any, else
 * tcp; without it installTransport() says by what. NULL on failure; why is in the log.
 */
transfer_engine_t createTransferEngine(const char *conn, const char *local_server_name,
				       const char *ip_or_host_name, uint64_t rpc_port,
				       int auto_discover);
/* Cancels what is in flight, takes our entries out of the store. No other call may run. */
void destroyTransferEngine(transfer_engine_t e);
/* Nothing to be done: an engine that needs the topology finds it. */
int discoverTopology(transfer_engine_t e);
/* "ip:rpc_port", cut to len bytes with their NUL. An IPv6 address stands in brackets. */
int getLocalIpAndPort(transfer_engine_t e, char *buf, size_t len);

/*
 * proto: "tcp", "rdma"; "nvmeof", "local" and "shm" are always there. args: NULL, or {priority matrix as JSON text, NULL}.
 * Installed already: the same pointer. Before the first openSegment() and allocateBatchID() only, where it changes
 * anything; buffers that are registered already stay so. NULL on failure; why is in the log.
 */
transport_t installTransport(transfer_engine_t e, const char *proto, void **args);
int uninstallTransport(transfer_engine_t e, const char *proto);

/* The id, >= 0, LOCAL_SEGMENT for our own name; negative on failure. Counted: close as often as opened. */
segment_id_t openSegment(transfer_engine_t e, const char *name);
/* Its descriptor is fetched again also when it is open already. */
segment_id_t openSegmentNoCache(transfer_engine_t e, const char *name);
/* Transfers in flight to it end first. */
int closeSegment(transfer_engine_t e, segment_id_t id);
int warmupEfaSegment(transfer_engine_t e, const char *name);
int removeLocalSegment(transfer_engine_t e, const char *name);
/* te's own, Mooncake has none: the buffers of an open segment that peers may use, in its own order. addr: where in the
   segment, for target_offset. Fills at most max (0: buffers may be NULL); how many there are, or TE_CODE_*. */
int getSegmentBuffers(transfer_engine_t e, segment_id_t id, buffer_entry_t *buffers, size_t max);
/* Fetch the descriptors of all open segments again. Never needed: it happens by itself. */
int syncSegmentCache(transfer_engine_t e);

/* location: "cpu:0", "*"; remote_accessible 0: a source only. */
int registerLocalMemory(transfer_engine_t e, void *addr, size_t length, const char *location,
			int remote_accessible);
/* addr: the start that was registered. Waits for transfers that use the buffer; TE_CODE_BATCH_BUSY after 5 s. */
int unregisterLocalMemory(transfer_engine_t e, void *addr);
/* All or none, one publication. */
int registerLocalMemoryBatch(transfer_engine_t e, buffer_entry_t *buffers, size_t n,
			     const char *location);
int unregisterLocalMemoryBatch(transfer_engine_t e, void **addrs, size_t n);

/* INVALID_BATCH on failure. */
batch_id_t allocateBatchID(transfer_engine_t e, size_t capacity);
/* All or none; again until the capacity is used. The requests are not needed after the call. */
int submitTransfer(transfer_engine_t e, batch_id_t batch, struct transfer_request *requests, size_t n);
/* The same, and msg goes to the target of the first request once all of the batch is COMPLETED. */
int submitTransferWithNotify(transfer_engine_t e, batch_id_t batch, struct transfer_request *requests,
			     size_t n, notify_msg_t msg);
int getTransferStatus(transfer_engine_t e, batch_id_t batch, size_t task,
		      struct transfer_status *status);
/* TE_CODE_BATCH_BUSY while anything is in flight, and only then. */
int freeBatchID(transfer_engine_t e, batch_id_t batch);

/* All that have arrived: a malloc'ed array of *n, NULL when there are none. */
notify_msg_t *getNotifsFromEngine(transfer_engine_t e, int *n);
int freeNotifsMsgBuf(notify_msg_t *msgs, int n);
/* Blocks until the peer has taken it. */
int genNotifyInEngine(transfer_engine_t e, uint64_t target_id, notify_msg_t msg);

/* *count is 0, as with Mooncake: te_engine_metrics() has such figures. */
int getNicLoadStats(transfer_engine_t e, nic_load_stat_t *stats, size_t *count);
/* On SIGINT, SIGTERM and exit() the engine's entries are taken out of the store; the signals end the process with 128 + their
   number. Takes both signals over. */
void enableGracefulShutdown(transfer_engine_t e);
/* The NICs and the priority matrix as text (json 0) or JSON. TE_CODE_INVALID_ARGUMENT when buf is too short: it holds what
   went in. */
int showLinks(transfer_engine_t e, char *buf, size_t len, int json);

#ifdef __cplusplus
}
#endif

#endif
