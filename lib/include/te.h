/*
 * te.h - move bytes between segments: memory or files, here or on other hosts.
 *
 * Functions return 0, a count or an id, else a negative errno; those that can fail for a reason
 * worth reading take a struct te_err *, which may be NULL. All calls on one engine may come from
 * several threads at once unless a comment says otherwise. libte installs no signal handler,
 * changes no limit, never exits and never prints (its log excepted). te(7) explains segments,
 * buffers and batches.
 */
#ifndef TE_H
#define TE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"
#include "te_meta.h"
#include "te_segment.h"

#ifdef __cplusplus
extern "C" {
#endif

struct te_engine;

/* libte's version, "0.1.0". */
const char *te_version(void);

/* ---- engine ------------------------------------------------------------------------------- */

struct te_engine_options {
	const char *metadata_server;	/* as te_meta_open(); NULL or "": MC_METADATA_SERVER */
	const char *local_server_name;	/* NULL or "": the host name. A port in it is the RPC port */
	const char *protocol;		/* what we serve: "auto" (NULL too), "tcp", "rdma" */
	const char *transport;		/* only this one for our requests: "local", "shm", "rdma", "tcp", "nvmeof"; NULL: the best */
	const char *device_name;	/* rdma: comma list of NICs */
	const char *nic_priority_matrix;	/* rdma: JSON text */
	bool auto_discovery;
	unsigned rpc_port;		/* tried first, before the name's; 0: no wish */
	bool initiator_only;		/* publish nothing and serve nobody; no rdma then, which both sides must be found for */
	const struct te_conf *conf;	/* NULL: te_conf_read() */
};

/*
 * Join the cluster as segment `local_server_name`. Strings are copied. Blocks for the store.
 * -EADDRINUSE: the name's owner is alive ("name in use by HOST:PORT"), or the port is taken under
 * MC_LEGACY_RPC_PORT_BINDING. -ENOTSUP: a forced transport that this build has not.
 */
int te_engine_open(struct te_engine **out, const struct te_engine_options *opt, struct te_err *err);
/* May an engine have it as its local_server_name? Not "", ":", "a:b:c", "a:0" and the like (-EINVAL of te_engine_open()). */
bool te_server_name_ok(const char *name);
/* Cancels what is in flight, takes our entries out of the store, joins all threads. No other call
   may run or follow. Buffers still registered are unregistered. Where the kernel does not end what it was asked
   to do with files, within MC_TRANSFER_TIMEOUT + 5 s: the log says so, the engine's memory and threads stay, and
   the buffers of those transfers must not be used again. */
void te_engine_close(struct te_engine *e);

struct te_engine_info {
	const char *name;		/* segment name; in P2P mode the real host:port. Valid until close */
	const char *host;		/* address that peers connect to */
	unsigned rpc_port;		/* 0 with initiator_only */
	unsigned tcp_data_port;
	const char *metadata_server;	/* without credentials */
	const char *protocol;		/* what is published */
};
void te_engine_info(const struct te_engine *e, struct te_engine_info *out);
/* Our own descriptor as published, malloc'ed JSON. */
char *te_engine_describe(struct te_engine *e);

/* ---- memory ------------------------------------------------------------------------------- */

enum te_alloc_flags { TE_ALLOC_HUGEPAGES = 1 << 0 };
/*
 * Zeroed memory on NUMA node `node` (-1: any) that processes of this host can map: transfers to
 * it need one copy, not two. Not registered yet. -ENOMEM names what was missing (huge pages).
 */
int te_alloc(struct te_engine *e, size_t len, int node, unsigned flags, void **out, struct te_err *err);
/* addr must come from te_alloc() and be unregistered. */
int te_free(struct te_engine *e, void *addr);

struct te_buffer {
	void *addr;
	size_t len;			/* bytes */
	const char *location;		/* "cpu:N", "cuda:N", "*" or NULL: found out from the pages */
	bool remote;			/* may peers read and write it? else a source only, not published */
};

/*
 * Let transfers use [addr, addr+len). The memory stays the caller's and must outlive the
 * registration. -EINVAL: zero length or wrapping. -EEXIST: overlaps a registered buffer.
 * -ENOTSUP: GPU memory, which this build cannot move. Blocks until the store has the new descriptor.
 */
int te_register(struct te_engine *e, void *addr, size_t len, const char *location, bool remote,
		struct te_err *err);
/* All or none, one publication. */
int te_register_batch(struct te_engine *e, const struct te_buffer *b, size_t n, struct te_err *err);
/*
 * addr: the start that was registered, else -ENOENT. Waits up to 5 s for transfers that use the
 * buffer (ours and peers'), then -EBUSY with the buffer still registered. After 0 nobody touches
 * the memory again.
 */
int te_unregister(struct te_engine *e, void *addr, struct te_err *err);
int te_unregister_batch(struct te_engine *e, void *const *addrs, size_t n, struct te_err *err);

/* ---- segments ----------------------------------------------------------------------------- */

enum { TE_LOCAL_SEGMENT = 0 };	/* our own */

/* Id >= 0 of the segment `name` (0 for our own name). The same name gives the same id, counted:
   close as often as opened. Blocks for the store. "nvmeof/NAME" is a segment of files; so is NAME where no RAM
   segment has that name. Its files are looked for here by our own server name, then the host name, in local_path_map;
   those that will not do fail when they are used, but one at least must be good. -ENOENT: the store has no such
   segment, or its files are not here. -ESTALE: they have another length than was registered. */
int32_t te_segment_open(struct te_engine *e, const char *name, struct te_err *err);
/* Waits for transfers in flight to it, until 5 s after the last of their time-outs. -EBADF: unknown or stale id.
   -EBUSY: it is closed, but the kernel has not ended all that it was asked to do with files of it. */
int te_segment_close(struct te_engine *e, int32_t id);
/* Fetch the descriptor again now. It is also fetched again by itself when a transfer fails or an
   address is unknown. */
int te_segment_refresh(struct te_engine *e, int32_t id, struct te_err *err);
/* A copy of the descriptor in use: te_desc_free(). */
int te_segment_desc(struct te_engine *e, int32_t id, struct te_desc **out, struct te_err *err);
/* The transport that requests to it take now: "local", "shm", "rdma", "tcp", "nvmeof"; NULL for an unknown id. */
const char *te_segment_transport(struct te_engine *e, int32_t id);

/* ---- transfers ---------------------------------------------------------------------------- */

enum te_op { TE_READ, TE_WRITE };

struct te_request {
	enum te_op op;
	void *source;			/* local side of both READ and WRITE, inside one registered buffer */
	int32_t target;			/* segment id */
	uint64_t offset;		/* RAM segment: address. Segment of files: byte of the files one behind the other */
	uint64_t length;		/* bytes; 0 completes at once */
};

/* Values as in Mooncake's TaskStatus. */
enum te_state {
	TE_WAITING = 0, TE_PENDING = 1, TE_INVALID = 2, TE_CANCELED = 3, TE_COMPLETED = 4,
	TE_TIMEOUT = 5, TE_FAILED = 6,
};

struct te_status {
	enum te_state state;
	int error;			/* negative errno once it has ended other than COMPLETED */
	uint64_t transferred;		/* bytes; a lower bound */
	uint64_t latency_ns;		/* submit to end; 0 before */
};

/* A generation-checked id: stale or invented ones give -EBADF from every call, never a crash. */
enum { TE_INVALID_BATCH = 0 };
int te_batch_alloc(struct te_engine *e, size_t capacity, uint64_t *id, struct te_err *err);
/*
 * All of req is taken, or none. Never waits for the network. May be called again until capacity
 * is used; task numbers go on. COMPLETED of a WRITE means: applied in the target's memory. To a file: seen by
 * whoever reads it here, and durable only under conf->file_sync. To a file TIMEOUT may mean that the kernel still
 * has the request and its memory, for as long as it tries to reach the disk: te_batch_drain() says.
 * -EBADF unknown batch or segment; -ENOSPC beyond capacity; -EFAULT source not in one registered
 * buffer; -EINVAL a length that wraps. A target range that is not registered ends INVALID later.
 */
int te_batch_submit(struct te_engine *e, uint64_t id, const struct te_request *req, size_t n,
		    struct te_err *err);
/* The same, and once every task of this batch so far is COMPLETED, (name, msg) is sent to the target
   of req[0] as a notification. Strings are copied. n == 0: -EINVAL. */
int te_batch_submit_notify(struct te_engine *e, uint64_t id, const struct te_request *req, size_t n,
			   const char *name, const char *msg, struct te_err *err);
int te_batch_status(struct te_engine *e, uint64_t id, size_t task, struct te_status *out);
/* The same for n tasks from `first` on, cheaper: how many there were, or -EBADF. */
int te_batch_statuses(struct te_engine *e, uint64_t id, size_t first, size_t n,
		      struct te_status *out);
/* Why task ended badly: names peer, address and stage. -ENODATA when it did not. */
int te_batch_error(struct te_engine *e, uint64_t id, size_t task, struct te_err *out);
/* 0 when every task has ended, well or badly (the count of those that ended badly goes to *failed,
   which may be NULL), else -ETIMEDOUT. timeout_ms < 0: until they end, which is bounded. */
int te_batch_wait(struct te_engine *e, uint64_t id, int timeout_ms, size_t *failed);
/* Tasks that have not ended become CANCELED. Their memory may still be in use: te_batch_drain(). */
int te_batch_cancel(struct te_engine *e, uint64_t id);
/* 0 when no transport touches the memory of this batch any more, else -ETIMEDOUT. */
int te_batch_drain(struct te_engine *e, uint64_t id, int timeout_ms);
/* -EBUSY while anything is in flight (te_batch_drain() would wait): never once all tasks have been seen to end by
   themselves. */
int te_batch_free(struct te_engine *e, uint64_t id);
/* An eventfd that becomes readable when every task so far has ended. Owned by the batch. */
int te_batch_eventfd(struct te_engine *e, uint64_t id);
/* An eventfd that becomes readable whenever a batch ends. Owned by the engine. */
int te_engine_eventfd(struct te_engine *e);

/* ---- notifications and probes ------------------------------------------------------------- */

struct te_notify {
	char *name, *msg;
};
/* Blocks until the peer has taken it or the time-out. */
int te_notify_send(struct te_engine *e, int32_t segment, const char *name, const char *msg,
		   struct te_err *err);
/* Takes all that have arrived: a count >= 0 and a malloc'ed array (te_notify_free()). *dropped (may be
   NULL): how many were lost since open because the queue (4096) was full. */
int te_notify_recv(struct te_engine *e, struct te_notify **out, uint64_t *dropped);
void te_notify_free(struct te_notify *list, size_t n);

/* Is the owner of segment `name` alive? Looks its address up, then asks its handshake port. */
int te_probe(struct te_engine *e, const char *name, struct te_err *err);
/* The same for a known address; host may be an IPv6 literal. name_out (256 bytes, may be NULL)
   receives the segment name of a te peer, "" of another. */
int te_probe_address(const struct te_conf *conf, const char *host, unsigned port, char *name_out,
		     struct te_err *err);

/* ---- what happened ------------------------------------------------------------------------ */

struct te_path {			/* one way that bytes went */
	char transport[16];
	char local[96], remote[352];	/* "127.0.0.1:41232", "NAME (127.0.0.1:15012)"; nvmeof: "io_uring, O_DIRECT", "NAME (/mnt/f)" */
	uint64_t slices, bytes, retries;	/* retries: slices that failed here and were tried again */
};
/* Fills at most max; returns how many there are. Counters only grow. */
int te_engine_paths(struct te_engine *e, struct te_path *out, size_t max);

struct te_totals {			/* since open */
	uint64_t requests, bytes, failed, retries, refreshes, notifications, served_requests, served_bytes,
		refused, publications, batches;
};
void te_engine_totals(struct te_engine *e, struct te_totals *out);
/* Prometheus text format, malloc'ed. */
char *te_engine_metrics(struct te_engine *e);

#ifdef __cplusplus
}
#endif

#endif
