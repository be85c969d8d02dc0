/* engine.h - the structs of an engine, shared by the files of this folder only. */
#ifndef TE_ENGINE_H
#define TE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/hist.h"
#include "base/util.h"
#include "host/topo.h"
#include "te.h"
#include "transport/transport.h"

enum {
	TE_MAX_TRANSPORTS = 8,
	TE_MAX_SEGMENTS = 1 << 16,
	TE_NOTIFY_QUEUE = 4096,
	TE_CLOSE_S = 5, /* beyond the last time-out, until what is still out is left to the kernel */
};

/* A registered target range of a descriptor; sorted by addr in te_seg.ranges. */
struct te_range {
	uint64_t addr, len;
};

/* A segment that was opened. Lives from te_segment_open to te_segment_close. */
struct te_seg {
	struct te_engine *e; /* constant from here ... */
	int32_t id;
	char *name;	/* ... to here */
	unsigned opens; /* e->segs_lock */
	_Atomic uint32_t
		inflight; /* slices lent or parked for it: te_seg_hold(), te_seg_release() */
	_Atomic uint64_t latest;  /* deadline of those */
	struct te_seg *next_left; /* e->left */

	pthread_rwlock_t lock; /* everything below */
	struct te_desc *desc;
	struct te_range *ranges;
	size_t nranges;
	struct te_peer *peer; /* one reference */
	char host[256];	      /* that the peer was opened with */

	pthread_mutex_t park_lock;  /* everything below */
	pthread_cond_t parked_cond; /* a refresh ended */
	struct te_slice *parked;    /* wait for a refresh */
	struct te_err park_why;	    /* why the first of them failed; code 0: unknown address */
	bool refreshing;
	bool has_thread; /* refresher must be joined */
	pthread_t refresher;
};

struct te_task {
	struct te_slice slice; /* the first piece */
	struct te_slice *more; /* the other pieces, an array */
	uint32_t nmore;
	_Atomic uint32_t left; /* pieces that are not back */
	_Atomic int state;     /* enum te_state */
	int error;	       /* written before state leaves TE_WAITING */
	struct te_err *why;    /* same; NULL or malloc'ed */
	struct te_batch *batch;
	struct te_seg *seg;
	struct te_region *region;	   /* a reference until all pieces are back */
	uint64_t length, submitted, ended; /* ns */
	_Atomic uint64_t transferred;
	_Atomic bool stopped; /* what slice.cancelled points to */
};

struct te_pieces { /* memory for the further pieces of one submit */
	struct te_pieces *next;
	struct te_slice slice[];
};

struct te_batch {
	struct te_engine *e;
	uint64_t id;
	size_t capacity;
	_Atomic uint32_t refs;	  /* slot, callers inside, completions running */
	_Atomic uint32_t pending; /* tasks that have not ended; futex word */
	_Atomic uint32_t
		inflight; /* slices that are not back; futex word; goes down before pending */
	_Atomic uint32_t sleepers; /* threads in futex waits on either */
	_Atomic uint32_t nfailed;
	_Atomic int efd; /* -1 until asked for */

	pthread_mutex_t submit_lock; /* one submit at a time */
	_Atomic size_t n;	     /* tasks in use; read without lock */
	struct te_pieces *pieces;

	pthread_mutex_t lock;	/* everything below */
	struct te_peer **peers; /* referenced until free, so that help() may touch them */
	size_t npeers;
	char *notify_name, *notify_msg; /* sent when pending reaches 0 and none failed */
	int32_t notify_target;
	struct te_task tasks[];
};

struct te_batch_slot {
	struct te_batch *batch;
	uint64_t generation;
};

struct te_alloc_entry {
	struct te_alloc_entry *next;
	uint64_t addr, len;
	int fd;
};

struct te_courier;   /* notify.c */
struct te_guest;     /* guest.c */
struct te_path_sum { /* counters of peers that are gone */
	struct te_path_sum *next;
	struct te_path path;
};

struct te_engine {
	struct te_conf conf; /* constant after open, from here ... */
	struct te_meta *meta;
	bool p2p, initiator_only;
	char *name;
	char host[256]; /* where peers connect */
	unsigned rpc_port;
	const char *protocol;  /* that was asked for: "auto", "tcp", "rdma" */
	const char *published; /* that our descriptor says */
	char only[16];	      /* the one transport for our requests, "" for any */
	char token[40];
	char *key_rpc, *key_ram;
	struct te_transport *transports[TE_MAX_TRANSPORTS]; /* as in te_transports[]; NULL: not
							       open; ... to here */

	struct te_transport_env env;
	struct te_topo_wish wish; /* strings: the engine's own copies */
	struct te_directory directory;
	struct te_sink sink;
	struct te_regions *regions;
	struct te_daemon *daemon;
	pthread_mutex_t guests_lock;
	pthread_cond_t guests_gone;
	struct te_guest *guests; /* handshakes in line */
	unsigned guest_threads;
	_Atomic bool ready; /* descriptors are answered (P2P) */
	_Atomic bool closing;

	pthread_mutex_t memory_lock; /* te_alloc list, registration against registration */
	struct te_alloc_entry *allocs;

	pthread_mutex_t publish_lock;	     /* what is in the store */
	char *published_rpc, *published_ram; /* texts as put, NULL when not */
	bool told_foreign;
	_Atomic bool stale; /* what we publish has changed: the keeper puts it again */
	pthread_mutex_t news_lock;
	char *news[8]; /* segments that the keeper fetches again */
	pthread_t keeper;
	bool has_keeper;
	int keeper_fd; /* eventfd: wake up, look at closing */

	pthread_rwlock_t segs_lock; /* the table; each te_seg has its own */
	struct te_seg **segs;	    /* by index */
	uint16_t *seg_generation;
	size_t nsegs;
	struct te_seg *left; /* closed, but the kernel still has transfers of them */

	pthread_rwlock_t batches_lock;
	struct te_batch_slot *slots;
	size_t nslots;
	uint32_t *free_slots; /* stack */
	size_t nfree;

	pthread_mutex_t peers_lock;
	struct te_peer *all_peers; /* for the counters */
	struct te_path_sum *path_sums;

	_Atomic int efd;
	struct te_courier *courier;

	/* counters */
	_Atomic uint64_t served_requests, served_bytes, refused;
	_Atomic uint64_t requests, bytes, failed, retries, refreshes, notifications, publications,
		batches;
	struct te_hist latency;	 /* ns, requests that ended COMPLETED */
	struct te_totals logged; /* at the last te_stats_log(); the keeper's */
};

/* publish.c */
/* Our names, ports and keys; binds nothing. */
int te_publish_check_name(struct te_engine *e, struct te_err *err);
/* First publication; -EADDRINUSE when somebody else has the name. */
int te_publish_first(struct te_engine *e, struct te_err *err);
/* After a change of the regions. */
int te_publish_ram(struct te_engine *e, struct te_err *err);
int te_publish_start_keeper(struct te_engine *e, struct te_err *err);
/* Stops the keeper and takes our entries out. */
void te_publish_stop(struct te_engine *e);
/* Our descriptor now. */
struct te_desc *te_publish_desc(struct te_engine *e);
/* Publish our descriptor again soon. Does not block. */
void te_publish_soon(struct te_engine *e);
/* Fetch that of an open segment again soon. Does not block. */
void te_publish_fetch_soon(struct te_engine *e, const char *segment);

/* guest.c */
/* Answer a handshake of type 0 or 0x10 on a thread of its own: TE_DAEMON_LATER, or what to answer now. */
char *te_guest_handle(struct te_engine *e, enum te_rpc_type type, const char *body, size_t len,
		      uint64_t client);
/* Until the last of those threads is through. */
void te_guests_wait(struct te_engine *e);
/* d: the engine's own. */
void te_directory_init(struct te_directory *d);

/* memory.c */
void te_memory_unregister_all(struct te_engine *e);
void te_memory_clear(struct te_engine *e);

/* segment.c */
/* What rpc_meta says of segment `name`. */
int te_find_owner(struct te_engine *e, const char *name, struct te_rpc_meta *out,
		  struct te_err *err);
/* The descriptor and where its owner listens, as the store has them now. */
int te_seg_fetch(struct te_engine *e, const char *name, struct te_desc **desc,
		 struct te_rpc_meta *owner, struct te_err *err);
/* Fetch the descriptor again and put it in place, with another peer where the old one will not do.
 * Blocks. */
int te_seg_refresh(struct te_seg *seg, struct te_err *err);
/* The second half of it; takes d, also on failure. */
int te_seg_install(struct te_seg *seg, struct te_desc *d, const char *host, struct te_err *err);
/* A chain of slices that all go to seg. Never blocks for the network: those with an unknown address
   are parked. Their batches remember the peer. */
void te_seg_dispatch(struct te_seg *seg, struct te_slice *chain);
/* Park until a refresh has been done; why may be NULL (unknown address). */
void te_seg_park(struct te_seg *seg, struct te_slice *chain, const struct te_err *why);
/* Peer for planning (pieces), with a reference; NULL when there is none at the moment. */
struct te_peer *te_seg_peer(struct te_seg *seg);
/* Fail everything that is lent to its peer. */
void te_seg_abort(struct te_seg *seg, int status, const struct te_err *why);

/* segments.c */
int te_segs_init(struct te_engine *e, struct te_err *err);
void te_segs_clear(struct te_engine *e);
/* segs_lock held. NULL: unknown or stale. */
struct te_seg *te_seg_find(struct te_engine *e, int32_t id);
/* Slices for seg come into being and end; te_segment_close() waits for them. */
void te_seg_hold(struct te_seg *seg, uint32_t count, uint64_t deadline);
void te_seg_release(struct te_seg *seg, uint32_t count);

/* peer.c */
/* The best transport that reaches desc at host; what failed is in err. */
int te_peer_choose(struct te_engine *e, const char *name, const char *host,
		   const struct te_desc *desc, struct te_peer **out, struct te_err *err);
void te_peer_ref(struct te_peer *p);
void te_peer_put(struct te_engine *e, struct te_peer *p);

/* batch.c */
/* With a reference; NULL for a stale or invented id. */
struct te_batch *te_batch_get(struct te_engine *e, uint64_t id);
/* Once all transfers are back. false: some are not after their time-out, and nothing was freed: the kernel
   has requests for files that it does not end. */
bool te_batches_clear(struct te_engine *e);
void te_batch_ref(struct te_batch *b);
void te_batch_put(struct te_batch *b);
/* Remember that b used p (a reference is taken once). b->lock need not be held: it is taken. */
int te_batch_keep_peer(struct te_batch *b, struct te_peer *p);

/* task.c */
void te_task_done(struct te_sink *sink, struct te_slice *list, const struct te_err *why);
void te_task_expired(struct te_sink *sink, struct te_slice *s, const struct te_err *why);
/* Slices that never reached a transport, or whose retries are used up, end here. */
void te_task_finish(struct te_slice *list, const struct te_err *why);
/* End t if it has not ended; true if this call did it. */
bool te_task_end(struct te_task *t, enum te_state state, int error, const struct te_err *why,
		 uint64_t now);
/* `count` tasks of b have ended; wakes whoever waits when those were the last. */
void te_batch_ended(struct te_batch *b, uint32_t count);

/* notify.c */
int te_courier_start(struct te_engine *e, struct te_err *err);
/* Joins its thread; te_courier_free() comes once no batch can end any more. */
void te_courier_stop(struct te_engine *e);
void te_courier_free(struct te_engine *e);
bool te_notify_is_object(const char *body, size_t len);
/* Send later, from the courier's thread; takes name and msg. */
void te_courier_post(struct te_engine *e, int32_t target, char *name, char *msg);
/* From the daemon: one arrived. false: it was dropped or malformed. */
char *te_notify_handle(struct te_engine *e, const char *body, size_t len);
char *te_probe_handle(struct te_engine *e, const char *body, size_t len);

/* stats.c */
void te_stats_peer_gone(struct te_engine *e, struct te_peer *p);
void te_stats_log(struct te_engine *e);

#endif
