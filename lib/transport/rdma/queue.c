/* queue.c - slices that no rail has yet: given to rails as these have room, taken back when a rail
 * is lost, and on their way to the sink. */
#include <errno.h>
#include <string.h>

#include "transport/rdma/rdma.h"

enum { GRACE_S = 5 }; /* without any rail, before slices fail; or MC_TRANSFER_TIMEOUT / 4 */

/* ---- slices on their way to the sink ------------------------------------------------------ */

void rdma_done_init(struct rdma_done *d)
{
	memset(d, 0, sizeof(*d));
	d->well_end = &d->well;
	d->ill_end = &d->ill;
}

void rdma_done_add(struct rdma_done *d, struct te_slice *s, int status, const struct te_err *why)
{
	struct te_slice ***end = status ? &d->ill_end : &d->well_end;

	s->next = NULL;
	s->status = status;
	atomic_store_explicit(&s->conn, NULL, memory_order_relaxed);
	**end = s;
	*end = &s->next;
	if (status && why && !d->why.code)
		d->why = *why;
}

void rdma_done_deliver(struct rdma *t, struct rdma_done *d)
{
	struct te_sink *sink = t->base.env->sink;

	if (d->well)
		sink->done(sink, d->well, NULL);
	if (d->ill)
		sink->done(sink, d->ill, d->why.code ? &d->why : NULL);
	rdma_done_init(d);
}

/* ---- the queue: peer->lock held ----------------------------------------------------------- */

static void push(struct rdma_peer *p, struct te_slice *s)
{
	s->next = NULL;
	*p->queue_end = s;
	p->queue_end = &s->next;
	p->queued += s->len;
}

static void push_front(struct rdma_peer *p, struct te_slice *s)
{
	s->next = p->queue;
	p->queue = s;
	if (!s->next)
		p->queue_end = &s->next;
	p->queued += s->len;
}

static struct te_slice *pop(struct rdma_peer *p)
{
	struct te_slice *s = p->queue;

	p->queue = s->next;
	if (!p->queue)
		p->queue_end = &p->queue;
	p->queued -= s->len;
	s->next = NULL;
	return s;
}

/* Must not, or need not, be sent any more? */
static int verdict(const struct rdma_peer *p, const struct te_slice *s, uint64_t now)
{
	if (p->abort_status)
		return p->abort_status;
	if (atomic_load_explicit(s->cancelled, memory_order_relaxed))
		return -ECANCELED;
	return now >= s->deadline ? -ETIMEDOUT : 0;
}

static void why_of(const struct rdma_peer *p, int status, struct te_err *why)
{
	char rails[420];

	if (p->abort_status)
		*why = p->abort_why;
	else if (status == -ECANCELED)
		te_fail(why, status, "cancelled");
	else if (p->stuck_since)
		rdma_rails_why(p, why);
	else {
		rdma_rails_say(p, rails, sizeof(rails));
		te_fail(why, status, "not done within its time: %s", rails);
	}
}

void rdma_again(struct rdma_peer *p, struct te_slice *list, struct rdma_done *done)
{
	int64_t tries = p->t->base.env->conf->retry_cnt;
	uint64_t now = te_now();

	for (struct te_slice *s = list, *next; s; s = next) {
		struct rdma_rail *r = (struct rdma_rail *)(uintptr_t)s->scratch;
		int status = verdict(p, s, now);
		struct te_err why;

		next = s->next;
		if (status) {
			why_of(p, status, &why);
			rdma_done_add(done, s, status, &why);
		} else if (s->status == -EREMOTEIO || s->attempt + 1 >= tries) {
			/* Other keys, or another descriptor: that is the engine's to find out. */
			te_fail(&why, s->status, "%s to %s: %s", r->ctx->path, r->path,
				r->why.code		  ? r->why.msg
				: s->status == -EREMOTEIO ? "the peer's NIC refuses the range"
							  : "failed too often");
			rdma_done_add(done, s, s->status, &why);
		} else {
			s->attempt++;
			atomic_fetch_add_explicit(&r->retries, 1, memory_order_relaxed);
			atomic_fetch_add_explicit(p->t->base.env->retries, 1, memory_order_relaxed);
			atomic_store_explicit(&s->conn, NULL, memory_order_relaxed);
			push_front(p, s);
		}
	}
}

void rdma_fail_queue(struct rdma_peer *p, int status, const struct te_err *why,
		     struct rdma_done *done)
{
	while (p->queue)
		rdma_done_add(done, pop(p), status, why);
}

/* ---- pumping ------------------------------------------------------------------------------ */

static void too_many_pieces(const struct rdma_rail *r, struct te_slice *s, struct rdma_done *done)
{
	struct te_err why;

	te_fail(&why, -EMSGSIZE,
		"a slice of %llu bytes is in too many registered pieces for %s to %s (a smaller "
		"MC_SLICE_SIZE, a larger MC_MAX_MR_SIZE or MC_MAX_WR would help)",
		(unsigned long long)s->len, r->ctx->path, r->path);
	rdma_done_add(done, s, -EMSGSIZE, &why);
}

/* Gives each rail what it was chosen for. What it could not take goes back; true: some rail has
 * just been lost, maybe since it was chosen: then it has no endpoint any more. */
static bool post_chains(struct rdma_peer *p, struct rdma_done *done)
{
	bool lost = false;

	for (struct rdma_rail *r = p->rails; r; r = r->next) {
		struct te_slice *rest;

		if (!r->chain)
			continue;
		rest = r->ep ? rdma_post(r->ep, r, r->chain) : r->chain;
		lost |= rest && (!r->ep || atomic_load(&r->ep->state) != EP_READY);
		while (rest) {
			struct te_slice *next = rest->next;

			if (rest->status == -EMSGSIZE)
				too_many_pieces(r, rest, done);
			else
				push_front(p, rest);
			rest = next;
		}
		r->chain = NULL;
		r->nchain = 0;
		r->chain_bytes = 0;
	}
	return lost;
}

/* MC_LOG_RDMA_SLICE_AFFINITY */
static void log_slice(const struct rdma_rail *r, const struct te_slice *s)
{
	te_info("slice: %s of %llu bytes at %#llx, %s to %s", s->op == TE_READ ? "READ" : "WRITE",
		(unsigned long long)s->len, (unsigned long long)s->remote, r->ctx->path, r->path);
}

static void chain(struct rdma_rail *r, struct te_slice *s)
{
	if (r->peer->t->base.env->conf->log_slice_affinity)
		log_slice(r, s);
	if (!r->chain)
		r->chain_end = &r->chain;
	*r->chain_end = s;
	r->chain_end = &s->next;
	r->nchain++;
	r->chain_bytes += s->len;
}

static bool hopeless(const struct rdma_peer *p)
{
	for (const struct rdma_rail *r = p->rails; r; r = r->next)
		if (r->listed && !(atomic_load(&r->ctx->active) && r->hopeless))
			return false;
	return true;
}

/* No rail, and none is being made: give up at once when the peer is gone, else when it has lasted.
 */
static void stuck(struct rdma_peer *p, struct rdma_done *done)
{
	uint64_t grace = MIN(GRACE_S * TE_NSEC_PER_SEC,
			     (uint64_t)(p->t->base.env->conf->transfer_timeout_s / 4 * 1e9));
	struct te_err why;

	if (!p->stuck_since)
		p->stuck_since = p->now;
	if (!hopeless(p) && p->now - p->stuck_since < grace)
		return;
	rdma_rails_why(p, &why);
	rdma_fail_queue(p, why.code, &why, done);
}

/* A range that no buffer of the peer holds; the engine fetches the descriptor again. */
static void unknown_range(struct te_slice *s, struct rdma_done *done)
{
	struct te_err why;

	te_fail(&why, -EREMOTEIO, "%#llx+%llu is in no buffer that the peer offers to our NICs",
		(unsigned long long)s->remote, (unsigned long long)s->len);
	rdma_done_add(done, s, -EREMOTEIO, &why);
}

/* One pass over the queue, as far as rails have room. */
static void distribute(struct rdma_peer *p, struct rdma_done *done)
{
	while (p->queue) {
		int status = verdict(p, p->queue, p->now);
		struct rdma_rail *r;
		struct te_err why;
		bool wait;

		if (status) {
			why_of(p, status, &why);
			rdma_done_add(done, pop(p), status, &why);
			continue;
		}
		r = rdma_choose(p, p->queue, &wait);
		if (!r && !rdma_range(p->table, p->queue->remote)) {
			unknown_range(pop(p), done);
			continue;
		}
		if (!r) {
			if (!wait)
				stuck(p, done);
			break;
		}
		p->stuck_since = 0;
		chain(r, pop(p));
	}
}

void rdma_pump(struct rdma_peer *p, struct rdma_done *done)
{
	p->now = te_now();
	p->last_region = NULL;
	for (int i = 0; i < 3 && p->queue; i++) {
		distribute(p, done);
		if (!post_chains(p, done))
			break;
	}
	if (p->queue)
		rdma_janitor_wake(p->t);
}

void rdma_submit(struct te_peer *base, struct te_slice *list)
{
	struct rdma_peer *p = container_of(base, struct rdma_peer, base);
	struct rdma_done done;

	rdma_done_init(&done);
	pthread_mutex_lock(&p->lock);
	for (struct te_slice *next; list; list = next) {
		next = list->next;
		push(p, list);
	}
	rdma_pump(p, &done);
	pthread_mutex_unlock(&p->lock);
	rdma_done_deliver(p->t, &done);
}
