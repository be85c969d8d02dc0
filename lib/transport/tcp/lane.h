/*
 * lane.h - one connection to a peer, with the slices that go over it.
 *
 * Any thread appends chains of slices. One thread at a time, the holder of `busy`, drives the lane:
 * it sends, receives, connects and hands finished slices to the sink. Who finds it busy sets
 * `knock` and leaves: the holder looks again before it goes. What a driver leaves behind is watched
 * by the I/O thread.
 */
#ifndef TE_TCP_LANE_H
#define TE_TCP_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/addr.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"

enum { TE_LANES_MAX = 16, TE_ADDRS_MAX = 8 };
/* Longer requests are cut, and their pieces go to the least loaded lanes. */
enum { TE_LANE_PIECE = 1 << 20 };

/* What a v1 peer does with a connection after one request: found out, since nothing tells. */
enum te_v1_style { TE_V1_UNKNOWN, TE_V1_KEEPS, TE_V1_ONE_SHOT };

enum te_lane_state {
	TE_LANE_IDLE,	 /* no socket */
	TE_LANE_NO_PORT, /* no socket because this host is out of ports: again in a moment */
	TE_LANE_CONNECTING,
	TE_LANE_OPEN,
	TE_LANE_CLOSING, /* one-shot: the peer is to close first, so that it has the TIME_WAIT */
};

struct te_chain {
	struct te_slice *first, **end;
};

struct te_tcp_peer;

struct te_lane {
	struct te_tcp_peer *peer;

	/* Any thread. */
	pthread_mutex_t lock;
	struct te_chain fresh; /* under lock: appended, not yet seen by a driver */
	struct te_chain doomed;	 /* under lock: was fresh when abort came */
	bool aborting;		 /* under lock */
	_Atomic uint64_t load; /* bytes lent to this lane */
	_Atomic unsigned
		pushes;	     /* chains ever appended: shows the I/O thread that something goes on */
	_Atomic bool busy;   /* somebody drives */
	_Atomic bool knock;  /* look again before you leave */
	_Atomic bool asleep; /* the driver sleeps in poll(): write to kick */
	_Atomic bool bounced; /* threads wait for slices of this lane without driving it */
	_Atomic bool helped; /* waiting threads drive: do not wake the I/O thread for each submit */
	_Atomic bool armed;  /* the I/O thread's epoll tells of the socket */
	int kick; /* eventfd, -1 until the first sleep; set before asleep */

	/* The driver's. */
	enum te_lane_state state;
	int fd;
	bool want_out;	      /* the socket did not take everything */
	struct te_chain todo; /* not sent; the first one may be in part (sent_off) */
	struct te_chain
		sent; /* waits for its reply; the first one's may be here in part (recv_off) */
	uint64_t sent_off, recv_off;
	unsigned flight;	/* slices in sent */
	uint64_t flight_bytes;	/* READ bytes in sent */
	uint64_t appetite;	/* bytes to ask for in one call */
	uint64_t part;		/* a status that has come in part */
	struct te_chain done;	/* finished well, not yet handed over */
	struct te_chain failed; /* the same, badly, all for the same reason */
	struct te_err why;

	enum te_v1_style style; /* the peer's when this connection was opened, or found out on it */
	uint64_t served;	/* requests answered on this connection */
	bool quiet;		/* no byte has come since there is work */
	bool resent; /* work was sent again after a kept connection died; no reply since */
	bool shut;   /* one-shot: we have closed our side to make the peer close */
	unsigned window,
		grown; /* slices in flight at most: halved when a connection ends under them */

	int addr_at;
	uint64_t connect_until; /* all addresses together; 0: no attempt runs */
	uint64_t attempt_until; /* this address's share */
	uint64_t moved;		/* a byte moved, or work came to an idle lane */
	uint64_t looked;	/* the clock was last looked at */
	uint64_t timer;		/* something is due; 0: nothing */
};

struct te_tcp_peer {
	struct te_peer base;
	struct te_tcp_peer *next, *next_removed; /* the I/O thread's lists */
	struct te_io *io;
	const struct te_transport_env *env;
	struct te_addr addrs[TE_ADDRS_MAX];
	int naddrs;
	bool v2;
	_Atomic int style; /* enum te_v1_style */
	unsigned nlanes;
	pthread_mutex_t abort_lock;
	struct te_err abort_why;
	struct te_lane lanes[TE_LANES_MAX];
};

/* ---- chains ---- */

static inline void te_chain_init(struct te_chain *c)
{
	c->first = NULL;
	c->end = &c->first;
}

static inline void te_chain_append(struct te_chain *c, struct te_slice *s)
{
	s->next = NULL;
	*c->end = s;
	c->end = &s->next;
}

static inline struct te_slice *te_chain_pop(struct te_chain *c)
{
	struct te_slice *s = c->first;

	c->first = s->next;
	if (!c->first)
		c->end = &c->first;
	s->next = NULL;
	return s;
}

/* Moves all of `from` behind `to`. */
static inline void te_chain_join(struct te_chain *to, struct te_chain *from)
{
	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	te_chain_init(from);
}

static inline bool te_lane_is_cancelled(const struct te_slice *s)
{
	return s->cancelled && atomic_load_explicit(s->cancelled, memory_order_relaxed);
}

/* ---- lane.c: its life ---- */

void te_lane_init(struct te_lane *l, struct te_tcp_peer *p);
void te_lane_clear(struct te_lane *l); /* no slices, nobody drives */
/* Take the chain (bytes: sum of its lengths). Does not drive. */
void te_lane_push(struct te_lane *l, struct te_chain *chain, uint64_t bytes);

/* Fail what it has so far; a driver must come by. */
void te_lane_abort(struct te_lane *l);

static inline bool te_lane_try(struct te_lane *l)
{
	if (atomic_exchange(&l->busy, true))
		return false;
	atomic_store_explicit(&l->armed, false, memory_order_relaxed);
	return true;
}
/* Who drives, or anybody who could not, has something for it. Pairs with te_lane_leave(). */
static inline void te_lane_knock(struct te_lane *l)
{
	atomic_store(&l->knock, true);
}

/* The driver's functions. */

/* Do what can be done without waiting; receive: look for replies too. True when something was done.
 */
bool te_lane_step(struct te_lane *l, bool receive);
/* The socket of a lane without work has something to say: notice its end. */
void te_lane_idle(struct te_lane *l);
/* Let time-outs happen. */
void te_lane_clock(struct te_lane *l, uint64_t now);
/* Stop driving. What is in flight is armed for the I/O thread now, or (lazy) when its next tick
   finds that nobody has come back. */
void te_lane_leave(struct te_lane *l, bool lazy);
/* What poll() should wait for. */
short te_lane_poll_events(const struct te_lane *l);
const char *te_lane_addr(const struct te_lane *l, char buf[TE_ADDR_TEXT]);

/* The reply to the first slice in flight is complete. */
void te_lane_answered(struct te_lane *l);
/* What a v1 peer does with connections. */
void te_lane_learn(struct te_lane *l, enum te_v1_style style);

/* ---- lost.c: when it ends ---- */

/* The connection is of no more use. Slices that may be sent again wait for the next one, the others
 * fail. */
void te_lane_lost(struct te_lane *l, int status, const char *why);
/* The peer refused the slice whose reply is due. */
void te_lane_refused(struct te_lane *l);
/* Fail one slice that is in no chain. why: without the address. */
void te_lane_fail(struct te_lane *l, struct te_slice *s, int status, const char *why);
/* Fail all. */
void te_lane_fail_all(struct te_lane *l, int status, const char *why);
void te_lane_close(struct te_lane *l, bool reset);
/* Hand over what has finished. */
void te_lane_flush(struct te_lane *l);
/* The connect attempt failed: the next address, or all fail. */
void te_lane_unreachable(struct te_lane *l, int status);
/* What fails by the clock. */
void te_lane_expire(struct te_lane *l, uint64_t now);

/* ---- xfer.c: bytes ---- */

/* Bytes moved? The connection may be lost after it. */
bool te_lane_send(struct te_lane *l);
bool te_lane_recv(struct te_lane *l);

#endif
