/*
 * rdma.h - the structs of the transport rdma, shared by the files of this folder only.
 *
 *	transport -> contexts (one a NIC: rdma_ctx) -> endpoints (one a peer's NIC: rdma_ep) -> queue pairs (rdma_qp)
 *	          -> peers (one a segment: rdma_peer) -> rails (one a pair of NICs: rdma_rail), which use endpoints
 *
 * Locks, outer first: the gate, a NIC's look at its port, peers_lock, a peer's lock, an endpoint's, a context's; a completion
 * queue's alone, or inside an endpoint's (a context's holder only tries it). QPs are made and destroyed, NICs asked, and the
 * network waited for, under none of them but the first two.
 *
 * Slices are bound late: they wait in their peer's queue until a rail has room for them, so that rails share the work
 * by what they really move.
 */
#ifndef TE_RDMA_RDMA_H
#define TE_RDMA_RDMA_H

#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/util.h"
#include "host/nic.h"
#include "segment/matrix.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"
#include "te_segment.h"
#include "transport/rdma/pool.h"
#include "transport/rdma/shake.h"
#include "transport/rdma/table.h"
#include "transport/transport.h"

enum {
	RDMA_POST = 32,		/* work requests of one ibv_post_send */
	RDMA_POLL = 32,		/* completions of one ibv_poll_cq */
	RDMA_DEVICES = 64,	/* NICs of a peer that are used */
	RDMA_WRITERS = 8,	/* peers that wait for one farewell */
	RDMA_PARTS = 4,		/* work requests, or scatter entries, of one slice at most */
	RDMA_RETRY = 6,		/* retry_cnt of a QP: soft-RoCE takes 7 for ever */
	RDMA_STALL_MS = 500,	/* a QP that has work and completes nothing for so long is given up */
	RDMA_STALL_MAX_MS = 5000,	/* the same, where the NIC has much to send at a low speed */
	RDMA_PROBE_MS = 1000,	/* for the first, empty request of a new connection */
	RDMA_ACK_S = 10,	/* for the peer's ready-ack */
	RDMA_FLUSH_S = 30,	/* for a retired endpoint's work to come back */
	RDMA_BYE_MS = 1000,	/* to tell a peer that an endpoint is retired */
	RDMA_TICK_MS = 100,	/* between two looks at what is in flight */
};

struct rdma;
struct rdma_ctx;
struct rdma_ep;
struct rdma_peer;
struct rdma_rail;

/* ---- registered memory: mr.c ---- */

/* A region on every NIC, in pieces of at most max_mr_size. */
struct rdma_keys {
	uint64_t addr, piece;		/* bytes of each piece but the last */
	size_t npieces, nctx;
	struct ibv_mr *mr[];		/* [piece * nctx + ctx]; NULL where the NIC has gone */
};
int rdma_reg(struct te_transport *t, struct te_region *r, struct te_err *err);
void rdma_forget(struct te_transport *t, struct te_region *r);
/* All regions, on a NIC that is closed or was opened anew. t->gate held for writing. */
void rdma_keys_drop(struct rdma_ctx *c);
int rdma_keys_add(struct rdma_ctx *c, struct te_err *err);
static inline const struct ibv_mr *rdma_mr(const struct rdma_keys *k, uint64_t addr, unsigned ctx)
{
	return k->mr[(addr - k->addr) / k->piece * k->nctx + ctx];
}

/* Bytes under way, and how fast they move while there are any. */
struct rdma_meter {
	_Atomic uint64_t inflight;	/* posted and not back */
	_Atomic uint64_t since, moved;	/* of the measurement */
};
static inline void rdma_meter_post(struct rdma_meter *m, uint64_t bytes, uint64_t now)
{
	if (atomic_fetch_add_explicit(&m->inflight, bytes, memory_order_relaxed))
		return;
	atomic_store_explicit(&m->since, now, memory_order_relaxed);
	atomic_store_explicit(&m->moved, 0, memory_order_relaxed);
}
/* Bytes that arrived. The rate since the last measurement, bytes a second; 0: that was too short ago. */
uint64_t rdma_meter_moved(struct rdma_meter *m, uint64_t bytes, uint64_t now);

/* ---- a NIC: ctx.c, cq.c ---- */

struct rdma_cq {
	struct rdma_ctx *ctx;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	pthread_mutex_t lock;		/* who polls */
	_Atomic int room;		/* completions that may still be asked for; never overrun */
	_Atomic uint32_t posts;		/* counted before each post, read after each poll: orders what the
					   poster wrote before what the poller reads, where tools can see it */
	int size;			/* room of an idle one */
	_Atomic bool armed;		/* the next completion wakes the poller */
	_Atomic uint32_t helpers;	/* threads that poll instead of the poller */
	_Atomic uint64_t unacked;
};

/* A thread that sleeps until completions come: for every step-th completion queue from first on. */
struct rdma_poller {
	struct rdma_ctx *ctx;
	unsigned first, step;
	int node;			/* of the NIC */
	struct pollfd *fds;		/* the thread's: the NIC's stop, and its channels */
	pthread_t thread;
};

struct rdma_ctx {
	struct rdma *t;			/* constant after open, from here ... */
	unsigned index;
	char name[TE_NIC_NAME], path[TE_SHAKE_PATH];	/* device; its NIC path */
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct rdma_cq *cqs;
	unsigned ncqs;
	int max_wr, max_sge, max_cqe, rd_atomic, init_rd_atomic;
	uint64_t max_msg, max_mr;
	unsigned nqp;			/* of an endpoint; ... to here */
	_Atomic int max_inline;

	_Atomic bool active;
	_Atomic bool broken;		/* the device has failed: it is opened anew once its endpoints are gone */
	_Atomic bool ended;		/* the engine is closing */
	_Atomic unsigned eps;		/* endpoints that exist */
	struct rdma_meter meter;
	_Atomic uint64_t rate;		/* bytes a second that completed lately; 0 unknown */
	_Atomic unsigned next_cq;

	struct rdma_poller *pollers;
	unsigned npollers;
	int stop;			/* eventfd */

	pthread_mutex_t looking;	/* at the port, which may take long; for writing `port` both locks are held */
	uint64_t tried[TE_NIC_GIDS / 64];	/* GIDs that failed; looking */

	pthread_mutex_t lock;		/* everything below */
	struct te_nic_port port;
	char why[256];			/* why it is not active */
	struct te_pool pool;
};

/* Opens NIC `name`; a port that is down gives an inactive context. */
int rdma_ctx_open(struct rdma *t, unsigned index, const char *name, struct rdma_ctx **out,
		  struct te_err *err);
int rdma_ctx_start(struct rdma_ctx *c, struct te_err *err);
/* Retires all its endpoints; nothing new begins. */
void rdma_ctx_end(struct rdma_ctx *c);
/* The device has failed for good; watcher only: rdma_ctx_reopen() is tried until it works. */
void rdma_ctx_fatal(struct rdma_ctx *c, const char *event);
bool rdma_ctx_reopen(struct rdma_ctx *c);
void rdma_ctx_close(struct rdma_ctx *c);
/* Looks at port and GID again; true when what we publish has changed. */
bool rdma_ctx_refresh(struct rdma_ctx *c);
/* Out of use until rdma_ctx_refresh() finds it well; why: a sentence that names it. */
void rdma_ctx_down(struct rdma_ctx *c, const char *why);
/* A copy of c->why. c->lock not held. */
void rdma_ctx_why(struct rdma_ctx *c, char *why, size_t size);
/* The GID in use failed: takes another one. false: there is none left to try. */
bool rdma_ctx_next_gid(struct rdma_ctx *c);

/* Completions that are there now; how many. */
unsigned rdma_poll(struct rdma_ctx *c);
/* Until there is none, whoever else polls. */
void rdma_drain(struct rdma_ctx *c);
void *rdma_poller_main(void *poller);
void rdma_help(struct te_peer *p, struct te_slice *s, const _Atomic uint32_t *pending, uint64_t until);

/* ---- endpoints: ep.c, post.c, retire.c ---- */

enum rdma_ep_state {
	EP_NEW,		/* its QPs exist */
	EP_CONNECTING,	/* the handshake is under way */
	EP_WAIT_ACK,	/* connected by the peer, whose ready-ack is awaited */
	EP_READY,
	EP_RETIRED,	/* out of the pool, QPs in ERR */
};

enum rdma_wr_kind { WR_PART, WR_SLICE, WR_PROBE };

struct rdma_wr {			/* one posted work request; its address is the wr_id */
	struct rdma_qp *qp;
	struct te_slice *slice;		/* WR_SLICE: ends with this one */
	enum rdma_wr_kind kind;
};

struct rdma_qp {
	struct rdma_ep *ep;
	struct ibv_qp *qp;		/* NULL once it is destroyed */
	uint32_t num;
	struct rdma_cq *cq;
	struct rdma_wr *ring;
	_Atomic uint32_t posted;	/* under ep->lock */
	_Atomic uint32_t done;		/* under cq->lock */
	uint32_t max_inline;
	_Atomic uint64_t progress;	/* when something was last posted to the empty QP, or completed */
};

struct rdma_ep {
	struct te_pool_node node;	/* key: the peer's NIC path */
	struct rdma_ctx *ctx;
	char path[TE_SHAKE_PATH];
	_Atomic uint32_t refs;		/* the pool (then the reaper), rails, callers inside */
	_Atomic uint32_t work;		/* requests posted and not back */
	struct rdma_ep *next_retired;	/* the reaper's */
	uint64_t retired_at;

	pthread_mutex_t lock;		/* everything below, and posting */
	pthread_cond_t changed;
	_Atomic int state;		/* enum rdma_ep_state; read without lock */
	bool te;			/* the peer is te: tell it when we retire this */
	bool was_rts;
	bool asked;			/* the peer was, and may have its half */
	_Atomic uint64_t since;		/* of EP_WAIT_ACK */
	uint32_t peer_qp[TE_SHAKE_QPS];
	unsigned npeer_qp;
	struct te_err why;		/* of EP_RETIRED */
	char host[256];			/* where its handshakes went; "": look it up */
	unsigned port;
	_Atomic int probe;		/* 1: asked, 0: it came back well, else negative errno */
	unsigned next_qp;
	unsigned nqp;
	struct rdma_qp qps[];
};

/* The endpoint for the peer's NIC path, found or made, with a reference; it may be in any state. Blocks. */
int rdma_ep_get(struct rdma_ctx *c, const char *path, struct rdma_ep **out, struct te_err *err);
/* The same, only if it is there; NULL. */
struct rdma_ep *rdma_ep_find(struct rdma_ctx *c, const char *path);
void rdma_ep_put(struct rdma_ep *ep);
/* RESET to RTS with what the peer said. ep->lock held. */
int rdma_ep_setup(struct rdma_ep *ep, const struct te_shake *peer, struct te_err *err);
/* Was it set up with these QPs of the peer? ep->lock held. */
bool rdma_ep_is_with(const struct rdma_ep *ep, const struct te_shake *peer);
/* What we say of it in a handshake. */
void rdma_ep_shake(struct rdma_ep *ep, struct te_shake *out);
/* Out of the pool and into ERR, unless it is so already; its work comes back flushed. ill: slices of its that have come
   back already. */
void rdma_ep_retire(struct rdma_ep *ep, const struct te_err *why, const struct te_slice *ill);
/* Its QPs are destroyed and it has work all the same: that comes back now. */
void rdma_ep_return_lost(struct rdma_ep *ep);
/* Destroys those that have nothing in flight any more, force: all. May take a second for each. true: some are left. */
bool rdma_ep_reap(struct rdma *t, bool force);
/* t->reaper, which does so. Once it is stopped, what is left is the caller's to reap. */
int rdma_reaper_start(struct rdma *t, struct te_err *err);

/* Posts as many of the chain as there is room for; returns the rest. 0 slices posted and rest: no room, or not
   ready, or, with status -EMSGSIZE in the first one, it is in more pieces than there ever is room for. */
struct te_slice *rdma_post(struct rdma_ep *ep, struct rdma_rail *rail, struct te_slice *chain);
unsigned rdma_post_room(struct rdma_ep *ep);
/* An empty WRITE, whose end shows in ep->probe. */
int rdma_post_probe(struct rdma_ep *ep, const struct rdma_range *to, unsigned device);

/* ---- peers: peer.c, queue.c, rail.c, connect.c ---- */

enum rdma_rail_state { RAIL_IDLE, RAIL_CONNECTING, RAIL_READY, RAIL_PAUSED };

/* A pair of a NIC here and one of the peer's. Lives as long as its peer. */
struct rdma_rail {
	struct rdma_peer *peer;
	struct rdma_ctx *ctx;
	struct rdma_rail *next;		/* peer->rails */
	char remote[TE_NIC_NAME];	/* the peer's NIC */
	char path[TE_SHAKE_PATH];	/* its path */
	struct rdma_meter meter;
	_Atomic uint64_t slices, bytes;
	_Atomic uint64_t retries;	/* slices that it failed and that were tried again */
	_Atomic uint64_t rate, peak;	/* bytes a second, mean and best of late; 0: not measured yet */

	/* peer->lock */
	union ibv_gid gid;
	unsigned lid;
	unsigned device;		/* index in the descriptor, for rkeys */
	bool listed;			/* the descriptor names it */
	bool near;			/* same subnet */
	bool full;			/* it has a window of work; until a quarter of it is done */
	enum rdma_rail_state state;
	struct rdma_ep *ep;
	uint64_t paused_until, failed_since;	/* 0: well */
	uint64_t tried;			/* when it was last connected */
	uint64_t turn;			/* the peer's, when a slice last took it */
	bool at_work, has_thread;	/* the connector; has_thread: to be joined */
	pthread_t connector;
	bool hopeless;			/* the failure was not of the link: the peer refused, or is gone */
	struct te_err why;
	struct te_slice *chain, **chain_end;	/* to be posted by this pump */
	unsigned nchain;
	uint64_t chain_bytes;
};

/* The rails for memory near one row here and one there, best class first. */
struct rdma_plan {
	struct rdma_rail **rails;
	uint8_t *class;
	size_t n;
};

struct rdma_peer {
	struct te_peer base;
	struct rdma *t;
	struct rdma_peer *next;		/* t->peers */
	char server[128];		/* in NIC paths: the segment, or its rdma_server_name */

	pthread_mutex_t lock;		/* everything below */
	struct rdma_table *table;
	struct rdma_rail *rails;
	struct rdma_plan *plans;	/* [own row * (peer's rows + 1) + peer's row] */
	size_t nplans, plan_stride;
	struct te_slice *queue, **queue_end;
	uint64_t queued;		/* bytes */
	uint64_t stuck_since;		/* no rail is usable since; 0 */
	uint64_t turn;			/* slices that found a rail */
	uint64_t now;			/* of this pump */
	const struct te_region *last_region;	/* whose row in our matrix is last_row; forgotten at each pump */
	size_t last_row;
	bool closing;
	bool te;			/* the peer is te, by its descriptor */
	bool degraded;			/* some NIC of the peer is not listed now: look again from time to time */
	uint64_t asked;			/* when we last did */
	unsigned connectors;		/* threads */
	_Atomic unsigned jobs;		/* farewells that hold back ... */
	_Atomic uint64_t fence_until;	/* or, where one could not be sent, this time ... */
	struct te_slice *fenced, **fenced_end;	/* ... WRITEs that were tried again */
	int abort_status;
	struct te_err abort_why;
};

struct rdma_done {			/* slices on their way to the sink */
	struct te_slice *well, **well_end, *ill, **ill_end;
	struct te_err why;
};
void rdma_done_init(struct rdma_done *d);
void rdma_done_add(struct rdma_done *d, struct te_slice *s, int status, const struct te_err *why);
/* With no lock held. */
void rdma_done_deliver(struct rdma *t, struct rdma_done *d);

int rdma_peer_open(struct te_transport *t, const struct te_peer_info *info, struct te_peer **out,
		   struct te_err *err);
void rdma_peer_close(struct te_peer *p);
void rdma_peer_update(struct te_peer *p, const struct te_desc *desc);
void rdma_submit(struct te_peer *p, struct te_slice *list);
void rdma_abort(struct te_peer *p, int status, const struct te_err *why);
bool rdma_path(struct te_peer *p, size_t i, struct te_path *out);
/* peer->lock held: all that no rail has. */
void rdma_fail_queue(struct rdma_peer *p, int status, const struct te_err *why,
		     struct rdma_done *done);
/* peer->lock held: give the queue to rails that have room. */
void rdma_pump(struct rdma_peer *p, struct rdma_done *done);
/* peer->lock held: slices that came back ill; some go to the queue again. */
void rdma_again(struct rdma_peer *p, struct te_slice *list, struct rdma_done *done);
/* Must WRITEs that were tried again wait still? */
bool rdma_is_fenced(const struct rdma_peer *p);
/* There is no farewell for WRITEs of p that were in flight: those that are tried again wait as long as for one. */
void rdma_fence(struct rdma_peer *p);
/* A farewell that a job stood for is over: WRITEs that waited for the last of them complete. No lock held; p may be gone
   afterwards. */
void rdma_unfence(struct rdma_peer *p);
/* Janitor: deadlines, aborted and stuck slices. true: something is left to look at. */
bool rdma_peer_tick(struct rdma_peer *p, struct rdma_done *done);
/* Janitor: time to fetch the descriptor again? segment (128 bytes) receives its name. */
bool rdma_peer_curious(struct rdma_peer *p, char *segment);
/* Janitor: closed, and nobody is at work for it any more? */
bool rdma_peer_over(struct rdma_peer *p);
/* Until its connectors are through with their last attempts. */
void rdma_peer_join(struct rdma_peer *p);
void rdma_peer_free(struct rdma_peer *p);
/* Our NIC c has changed: rails and plans of p follow. */
void rdma_peer_replan(struct rdma_peer *p, const struct rdma_ctx *c);

/* peer->lock held, rail.c. The rail for the slice, NULL: none now. *wait: one may come. */
struct rdma_rail *rdma_choose(struct rdma_peer *p, const struct te_slice *s, bool *wait);
/* Forgets the plans: rails, matrices or GIDs have changed. */
int rdma_plan_rails(struct rdma_peer *p, struct te_err *err);
/* The plan for a row here and one there, nrows: none. NULL: out of memory. */
const struct rdma_plan *rdma_plan(struct rdma_peer *p, size_t own, size_t theirs);
void rdma_plan_clear(struct rdma_peer *p);
void rdma_rail_failed(struct rdma_rail *r, const struct te_err *why, bool hopeless);
/* Lets go of an endpoint that was retired. */
void rdma_rail_look(struct rdma_rail *r);
void rdma_rail_moved(struct rdma_rail *r, uint64_t bytes, uint64_t now);
/* What each rail says, for the error of a slice that found none. */
void rdma_rails_why(const struct rdma_peer *p, struct te_err *err);
/* The same as a text, of pairs that were needed. */
void rdma_rails_say(const struct rdma_peer *p, char *text, size_t size);

/* peer->lock held: rails in RAIL_CONNECTING are connected, each by a thread of its own. */
void rdma_connect(struct rdma_peer *p);

/* ---- handshakes: accept.c ---- */

char *rdma_handshake(struct te_transport *t, enum te_rpc_type type, const char *body, size_t len);

/* ---- threads: rdma.c; nics.c, janitor.c, bye.c ---- */

/* One that sleeps on an eventfd, until it is stopped. */
struct rdma_thread {
	pthread_t id;
	bool running;
	_Atomic bool stop;
	int wake;			/* eventfd, of the transport's whole life: others write to it */
};
int rdma_thread_start(struct rdma *t, struct rdma_thread *thread, const char *name, void *(*run)(void *t),
		      struct te_err *err);
void rdma_thread_stop(struct rdma_thread *thread);

/* Takes events of NICs, and looks at those that are down. */
int rdma_nics_start(struct rdma *t, struct te_err *err);
void rdma_nics_stop(struct rdma *t);

int rdma_janitor_start(struct rdma *t, struct te_err *err);
/* Until all farewells are said. */
void rdma_byes_wait(struct rdma *t);
/* There is something to look after: work in flight, a peer. Cheap when it is awake already. */
void rdma_janitor_wake(struct rdma *t);
/* ep was retired: tells a te peer so, in a thread of its own, then calls rdma_unfence() for each of peers (one job each,
   counted by the caller: those with WRITEs that were in flight). */
void rdma_bye(struct rdma_ep *ep, struct rdma_peer *const *peers, size_t npeers);

/* ---- the transport: rdma.c ---- */

struct rdma {
	struct te_transport base;
	char server[128];		/* ours in NIC paths */
	struct te_matrix *matrix;	/* with all of ctx */
	struct rdma_ctx **ctx;		/* by index in matrix->names; NULL: cannot be opened */
	size_t nctx;
	uint64_t slice, fragment;
	pthread_rwlock_t gate;		/* for writing: a NIC is opened anew. Outermost; not held for posting: there are no endpoints then */

	pthread_mutex_t peers_lock;
	struct rdma_peer *peers;

	struct rdma_thread watcher;	/* nics.c; woken to look at a NIC that went down */
	struct pollfd *nic_fds;		/* the watcher's: its eventfd, and each NIC's events */

	struct rdma_thread janitor;
	_Atomic bool asleep;		/* the janitor */

	struct rdma_thread reaper;	/* retire.c */
	pthread_mutex_t retired_lock;
	struct rdma_ep *retired;

	pthread_mutex_t bye_lock;
	pthread_cond_t bye_cond;	/* byes became 0 */
	unsigned byes;			/* threads */

	_Atomic uint64_t evictions, connects, retires;
};

static inline struct rdma *rdma_of(struct te_transport *t)
{
	return container_of(t, struct rdma, base);
}

#endif
