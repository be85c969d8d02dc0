/*
 * transport.h - what a transport must do: carry slices to a peer, and serve peers.
 *
 * One file or folder a transport, one const ops table in each, all listed in transport.c. Only the engine
 * calls these, from many threads at once; a transport knows neither engine nor store nor other transports.
 *
 * Ownership: a slice belongs to the engine (it lies in the batch) and is lent to the transport from submit
 * until it comes back through the sink, exactly once. Nothing is allocated or locked for a slice.
 */
#ifndef TE_TRANSPORT_H
#define TE_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/rpc.h"
#include "te.h"
#include "transport/region.h"

struct te_peer;
struct te_task;
struct te_topo_wish;

/* One piece of a request. */
struct te_slice {
	struct te_slice *next;		/* owner's: list given to submit or to the sink, transport's queue between */
	_Atomic(struct te_peer *) peer;	/* set by the engine before submit */
	void *local;
	uint64_t remote;		/* address in the target */
	uint64_t len;			/* > 0 */
	struct te_region *region;	/* holds all of local */
	uint64_t deadline;		/* te_now() scale: must have come back by then, -ETIMEDOUT */
	const _Atomic bool *cancelled;	/* once true, a slice that has not begun comes back with -ECANCELED */
	uint8_t op;			/* enum te_op */
	uint8_t attempt;		/* 0 at first */
	int32_t status;			/* set before it comes back: 0 or negative errno */

	/* The engine's. */
	struct te_task *task;
	_Atomic bool lent;		/* between submit and sink */

	/* The transport's own while it has the slice. */
	_Atomic(void *) conn;
	uint64_t scratch;
};

/* Where finished slices go: a chain by next, any mix of batches. why (NULL when all are well) says why those
   with status != 0 failed: names address and stage; the engine adds the peer's name. Never called with a lock
   of the transport held that submit or help would take. */
struct te_sink {
	void (*done)(struct te_sink *sink, struct te_slice *list, const struct te_err *why);
	/* The time of a slice is up, but its memory is still in use: its task ends as TIMEOUT now, the slice comes back
	   through done() later. May be called with a lock of the transport held. */
	void (*expired)(struct te_sink *sink, struct te_slice *s, const struct te_err *why);
};

/* What transports may ask of the store and say to it. Each call blocks, bounded; never with a lock of the
   transport held. */
struct te_directory {
	/* Where the handshake port of segment (or host:port) `server` is. */
	int (*address)(struct te_directory *d, const char *server, char *host, size_t size, unsigned *port,
		       struct te_err *err);
	int (*descriptor)(struct te_directory *d, const char *server, struct te_desc **out,
			  struct te_err *err);
	/* What describe() says has changed: publish it soon. Does not block. */
	void (*changed)(struct te_directory *d);
	/* The descriptor of an open segment may have changed: fetch it soon (ops->update). Does not block. */
	void (*refresh)(struct te_directory *d, const char *segment);
};

/* What an engine gives each of its transports. Borrowed until close. */
struct te_transport_env {
	const struct te_conf *conf;
	const char *name;		/* of our segment */
	const struct te_topo_wish *wish;	/* rdma: which NICs */
	struct te_directory *directory;
	struct te_regions *regions;	/* what may be served */
	struct te_sink *sink;
	bool serve;			/* false: initiator only */
	const char *token;		/* this engine's random token, as published */
	_Atomic uint64_t *served_requests, *served_bytes, *refused, *retries;	/* counters of the engine */
};

/* How to reach a segment; strings are borrowed for the call of peer_open. */
struct te_peer_info {
	const char *name;		/* segment */
	const char *host;		/* where it listens; NULL for our own segment */
	const struct te_desc *desc;
};

/* First member of every transport's peer. The engine frees it by peer_close once no slice is in flight and
   no batch that ever used it is left. */
struct te_peer {
	const struct te_transport_ops *ops;
	struct te_transport *transport;
	_Atomic uint32_t refs;		/* the engine's */
	char segment[128];		/* the engine's: name of the segment, which may be closed before us */
	struct te_peer *all_next;	/* the engine's */
	_Atomic uint64_t piece;		/* set by the transport, may change: longer requests are cut into pieces of so many
					   bytes (tcp: 1 MiB, so that they spread over connections); 0: never cut */
	uint64_t fragment;		/* a last piece of at most so many bytes joins the one before */
	_Atomic uint64_t slices, bytes, retries;	/* finished well; updated once a burst, by the transport (retries: engine) */
	char local[96], remote[256];	/* for struct te_path; local may change while connecting: racy reads are harmless
					   only under the engine's care, so set both in peer_open and leave them */
};

struct te_transport_ops {
	const char *name;		/* "local", "shm", "tcp", "rdma", "nvmeof" */

	/* Required. Sets ops and env of *out. Threads start lazily, at the first peer or listener (rdma's at once). */
	int (*open)(const struct te_transport_env *env, struct te_transport **out, struct te_err *err);
	/* Required. All peers closed. Stops serving: after it no region is referenced. */
	void (*close)(struct te_transport *t);
	/* Optional: start serving; called once, when env->serve. */
	int (*listen)(struct te_transport *t, struct te_err *err);
	/* Optional: add ports, control page, NICs ... to our descriptor. */
	void (*describe)(struct te_transport *t, struct te_desc *desc);
	/* Optional: append the buffers of a region to our descriptor in this transport's form. 1: done; 0: the common
	   form will do; -ENOMEM. */
	int (*describe_region)(struct te_transport *t, const struct te_region *r, struct te_desc *desc);
	/*
	 * Optional: a handshake (types 0 and 0x10) from whoever connects, hostile. malloc'ed JSON, or NULL: no reply.
	 * May block, bounded. Several threads at once.
	 */
	char *(*handshake)(struct te_transport *t, enum te_rpc_type type, const char *body, size_t len);

	/* Optional: a region comes. Runs before it can be used. */
	int (*reg)(struct te_transport *t, struct te_region *r, struct te_err *err);
	/* Optional: it goes. Makes it unreachable to peers and waits for those that use it until `until`: 0, or -EBUSY
	   with the region reachable as before. Our own transfers may still use it. */
	int (*unreg)(struct te_transport *t, struct te_region *r, uint64_t until);
	/* Optional: it has gone, nobody can find it and no transfer uses it any more (or reg failed). */
	void (*forget)(struct te_transport *t, struct te_region *r);

	/*
	 * Required. Can we reach this segment this way? May block (bounded). -EOPNOTSUPP with a reason: not this way,
	 * the engine tries the next transport (and logs the reason); other errors: the peer is broken.
	 */
	int (*peer_open)(struct te_transport *t, const struct te_peer_info *info, struct te_peer **out,
			 struct te_err *err);
	void (*peer_close)(struct te_peer *p);
	/* Optional: the descriptor was fetched again, and is still of the same engine. */
	void (*update)(struct te_peer *p, const struct te_desc *desc);
	/* Optional: does this peer cover [addr, addr+len) by what it knows better than the descriptor (shm: the control
	   page)? 1 yes, 0 no. Without it the descriptor decides. */
	int (*covers)(struct te_peer *p, uint64_t addr, uint64_t len);
	/* Required. Takes the whole chain (all for this peer). Never blocks. Slices may come back before it returns. */
	void (*submit)(struct te_peer *p, struct te_slice *list);
	/*
	 * Optional. The caller waits for `s` (lent to this transport, or just come back) and offers its thread: drive its
	 * connection until *pending reaches 0, or s is no longer ours, or the moment `until`. *pending is the futex word
	 * of the batch. Returns at once when another thread is at it already.
	 */
	void (*help)(struct te_peer *p, struct te_slice *s, const _Atomic uint32_t *pending, uint64_t until);
	/* Optional. The peer's address may have changed or it is gone: fail what is queued or in flight now. */
	void (*abort)(struct te_peer *p, int status, const struct te_err *why);
	/* Optional: counters for people and Prometheus, through cb. */
	void (*counters)(struct te_transport *t, void *arg,
			 void (*cb)(void *arg, const char *name, const char *help, bool gauge, uint64_t value));
	/* Optional, for a peer with more than one way: the i-th; its transport, local, remote (without the segment's
	   name), slices, bytes and retries are set. false: there is none. */
	bool (*path)(struct te_peer *p, size_t i, struct te_path *out);
};

/* First member of every transport's own struct. */
struct te_transport {
	const struct te_transport_ops *ops;
	const struct te_transport_env *env;
};

extern const struct te_transport_ops te_transport_local, te_transport_shm, te_transport_rdma, te_transport_tcp,
	te_transport_nvmeof;

/* Built-in transports, best first, NULL-terminated. */
extern const struct te_transport_ops *const te_transports[];

#endif
