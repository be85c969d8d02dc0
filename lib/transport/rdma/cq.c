/* cq.c - completions: who polls for them, and what becomes of the slices. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>

#include "host/mem.h"
#include "transport/rdma/rdma.h"
#include "transport/spin.h"

#define MEASURE_NS (50 * (uint64_t)TE_NSEC_PER_MSEC)

/* What one poll found. Slices are handed on once the completion queue's lock is free. */
struct harvest {
	struct te_slice *well, **well_end;
	struct te_slice *ill, **ill_end;   /* status set */
	struct rdma_ep *failed[RDMA_POLL]; /* referenced; with the status that says why */
	enum ibv_wc_status status[RDMA_POLL];
	unsigned nfailed;
	uint64_t bytes;
};

/* ---- one completion ---- */

static int errno_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
		return -EREMOTEIO; /* its keys are not what they were */
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return -EHOSTUNREACH;
	case IBV_WC_WR_FLUSH_ERR:
		return -ECONNABORTED;
	default:
		return -EIO;
	}
}

static void take_slice(struct harvest *h, struct rdma_wr *wr, enum ibv_wc_status status)
{
	struct te_slice *s = wr->slice;

	s->next = NULL;
	s->status = status == IBV_WC_SUCCESS ? 0 : errno_of(status);
	h->bytes += s->len;
	if (!s->status) {
		*h->well_end = s;
		h->well_end = &s->next;
	} else {
		*h->ill_end = s;
		h->ill_end = &s->next;
	}
}

static void take_wr(struct harvest *h, struct rdma_wr *wr, enum ibv_wc_status status)
{
	if (wr->kind == WR_SLICE)
		take_slice(h, wr, status);
	else if (wr->kind == WR_PROBE)
		atomic_store(&wr->qp->ep->probe, status == IBV_WC_SUCCESS ? 0 : errno_of(status));
}

/* The first failure of an endpoint is the one that says why. */
static void note_failure(struct harvest *h, struct rdma_ep *ep, enum ibv_wc_status status)
{
	if (atomic_load(&ep->state) == EP_RETIRED)
		return;
	for (unsigned i = 0; i < h->nfailed; i++)
		if (h->failed[i] == ep)
			return;
	atomic_fetch_add(&ep->refs, 1);
	h->failed[h->nfailed] = ep;
	h->status[h->nfailed++] = status;
}

/* Requests of a QP end in order: what was posted before this one and not signalled ended well. */
static void take_completion(struct harvest *h, const struct ibv_wc *wc, uint64_t now)
{
	struct rdma_wr *wr = (struct rdma_wr *)(uintptr_t)wc->wr_id;
	struct rdma_qp *qp = wr->qp;
	uint32_t size = (uint32_t)qp->ep->ctx->max_wr;
	uint32_t done = atomic_load_explicit(&qp->done, memory_order_relaxed), at = done;
	bool last;

	do {
		struct rdma_wr *w = &qp->ring[at++ % size];

		last = w == wr;
		take_wr(h, w, last ? wc->status : IBV_WC_SUCCESS);
	} while (!last);
	if (wc->status != IBV_WC_SUCCESS)
		note_failure(h, qp->ep, wc->status);
	atomic_store_explicit(&qp->progress, now, memory_order_relaxed);
	atomic_fetch_add_explicit(&qp->cq->room, (int)(at - done), memory_order_relaxed);
	atomic_store_explicit(&qp->done, at, memory_order_release);
	/* The last touch: an endpoint without work may be freed. */
	atomic_fetch_sub_explicit(&qp->ep->work, at - done, memory_order_release);
}

/* ---- what follows ---- */

uint64_t rdma_meter_moved(struct rdma_meter *m, uint64_t bytes, uint64_t now)
{
	uint64_t since = atomic_load_explicit(&m->since, memory_order_relaxed);
	uint64_t moved = atomic_fetch_add_explicit(&m->moved, bytes, memory_order_relaxed) + bytes;

	if (now < since + MEASURE_NS)
		return 0;
	atomic_store_explicit(&m->since, now, memory_order_relaxed);
	atomic_store_explicit(&m->moved, 0, memory_order_relaxed);
	return (uint64_t)((double)moved * 1e9 / (double)(now - since));
}

static void measure(struct rdma_ctx *c, uint64_t bytes)
{
	uint64_t rate = rdma_meter_moved(&c->meter, bytes, te_now());

	if (rate)
		atomic_store_explicit(&c->rate, rate, memory_order_relaxed);
}

static struct rdma_peer *peer_of(const struct te_slice *s)
{
	return container_of(atomic_load_explicit(&s->peer, memory_order_relaxed), struct rdma_peer,
			    base);
}

/* One peer's slices out of a list, which loses them. */
static struct te_slice *split(struct te_slice **list, const struct rdma_peer *p)
{
	struct te_slice *mine = NULL, **end = &mine, **at = list;

	while (*at) {
		struct te_slice *s = *at;

		if (peer_of(s) != p) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		s->next = NULL;
		*end = s;
		end = &s->next;
	}
	return mine;
}

static void account(struct te_slice *s, uint64_t now)
{
	struct rdma_rail *r = (struct rdma_rail *)(uintptr_t)s->scratch;

	atomic_fetch_sub_explicit(&r->meter.inflight, s->len, memory_order_relaxed);
	if (s->status)
		return;
	atomic_fetch_add_explicit(&r->slices, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&r->bytes, s->len, memory_order_relaxed);
	rdma_rail_moved(r, s->len, now);
}

/* A WRITE that was tried again is complete once nothing of its first try can arrive any more. */
static void finish_well(struct rdma_peer *p, struct te_slice *list, struct rdma_done *done)
{
	for (struct te_slice *s = list, *next; s; s = next) {
		/* Only work that was done proves a rail: an empty probe passes where long packets
		 * do not. */
		((struct rdma_rail *)(uintptr_t)s->scratch)->failed_since = 0;
		next = s->next;
		s->next = NULL;
		if (s->attempt && s->op == TE_WRITE && rdma_is_fenced(p)) {
			*p->fenced_end = s;
			p->fenced_end = &s->next;
			rdma_janitor_wake(p->t);
		} else {
			rdma_done_add(done, s, 0, NULL);
		}
	}
}

static void fail_rails(const struct te_slice *ill)
{
	for (const struct te_slice *s = ill; s; s = s->next) {
		struct rdma_rail *r = (struct rdma_rail *)(uintptr_t)s->scratch;

		if (r->state == RAIL_READY && r->ep && atomic_load(&r->ep->state) == EP_RETIRED) {
			struct te_err why = r->ep->why;

			rdma_rail_failed(r, &why, false);
		}
	}
}

/* All of one peer's slices: count, requeue those that may try again, refill its rails. */
static void serve_peer(struct rdma_peer *p, struct te_slice *well, struct te_slice *ill,
		       struct rdma_done *done)
{
	uint64_t now = te_now();

	for (struct te_slice *s = well; s; s = s->next)
		account(s, now);
	for (struct te_slice *s = ill; s; s = s->next)
		account(s, now);
	pthread_mutex_lock(&p->lock);
	finish_well(p, well, done);
	if (ill) {
		fail_rails(ill);
		rdma_again(p, ill, done);
	}
	rdma_pump(p, done);
	pthread_mutex_unlock(&p->lock);
}

static void retire_failed(struct harvest *h)
{
	for (unsigned i = 0; i < h->nfailed; i++) {
		struct rdma_ep *ep = h->failed[i];
		struct te_err why;

		te_fail(&why, errno_of(h->status[i]), "%s to %s: %s", ep->ctx->path, ep->path,
			ibv_wc_status_str(h->status[i]));
		rdma_ep_retire(ep, &why, h->ill);
		rdma_ep_put(ep);
	}
}

/* A peer lives as long as one of its slices has not been delivered. */
static void hand_on(struct rdma_ctx *c, struct harvest *h)
{
	atomic_fetch_sub_explicit(&c->meter.inflight, h->bytes, memory_order_relaxed);
	measure(c, h->bytes);
	retire_failed(h);
	while (h->well || h->ill) {
		struct rdma_peer *p = peer_of(h->well ? h->well : h->ill);
		struct te_slice *well = split(&h->well, p), *ill = split(&h->ill, p);
		struct rdma_done done;

		rdma_done_init(&done);
		serve_peer(p, well, ill, &done);
		rdma_done_deliver(c->t, &done);
	}
}

void rdma_ep_return_lost(struct rdma_ep *ep)
{
	struct rdma_ctx *c = ep->ctx;
	struct harvest h = { 0 };

	h.well_end = &h.well;
	h.ill_end = &h.ill;
	for (unsigned i = 0; i < ep->nqp; i++) {
		struct rdma_qp *qp = &ep->qps[i];
		uint32_t done;

		pthread_mutex_lock(&qp->cq->lock);
		done = atomic_load(&qp->done);
		for (; done != atomic_load(&qp->posted); done++) {
			take_wr(&h, &qp->ring[done % (uint32_t)c->max_wr], IBV_WC_WR_FLUSH_ERR);
			atomic_fetch_add(&qp->cq->room, 1);
			atomic_fetch_sub(&ep->work, 1);
		}
		atomic_store(&qp->done, done);
		pthread_mutex_unlock(&qp->cq->lock);
	}
	hand_on(c, &h);
}

/* ---- polling ---- */

/* must: wait for whoever polls now. Between arming and sleeping nobody may be left out: what
   another thread has not seen yet would wake nobody. */
static unsigned poll_cq(struct rdma_cq *q, bool must)
{
	struct ibv_wc wc[RDMA_POLL];
	struct harvest h = { 0 };
	uint64_t now;
	int n;

	if (must)
		pthread_mutex_lock(&q->lock);
	else if (pthread_mutex_trylock(&q->lock))
		return 0;
	h.well_end = &h.well;
	h.ill_end = &h.ill;
	n = q->cq ? ibv_poll_cq(q->cq, RDMA_POLL, wc) : 0;
	(void)atomic_load_explicit(&q->posts, memory_order_acquire);
	now = n > 0 ? te_now() : 0;
	for (int i = 0; i < n; i++)
		take_completion(&h, &wc[i], now);
	pthread_mutex_unlock(&q->lock);
	if (n > 0)
		hand_on(q->ctx, &h);
	return n > 0 ? (unsigned)n : 0;
}

unsigned rdma_poll(struct rdma_ctx *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->ncqs; i++)
		n += poll_cq(&c->cqs[i], false);
	return n;
}

void rdma_drain(struct rdma_ctx *c)
{
	for (unsigned i = 0; i < c->ncqs; i++)
		while (poll_cq(&c->cqs[i], true))
			;
}

static void arm(struct rdma_cq *q)
{
	pthread_mutex_lock(&q->lock);
	atomic_store(&q->armed, true);
	if (q->cq && ibv_req_notify_cq(q->cq, 0))
		te_error("device '%s': its completion queue cannot be armed", q->ctx->name);
	pthread_mutex_unlock(&q->lock);
}

static void take_events(struct rdma_cq *q)
{
	struct ibv_cq *cq;
	void *arg;

	while (!ibv_get_cq_event(q->channel, &cq, &arg)) {
		atomic_store(&q->armed, false);
		/* Acknowledging costs a lock: some at once. */
		if (atomic_fetch_add(&q->unacked, 1) >= 63)
			ibv_ack_cq_events(q->cq, (unsigned)atomic_exchange(&q->unacked, 0));
	}
}

static unsigned poll_mine(const struct rdma_poller *p, bool must)
{
	unsigned n = 0;

	for (unsigned i = p->first; i < p->ctx->ncqs; i += p->step)
		n += poll_cq(&p->ctx->cqs[i], must);
	return n;
}

/* Until nothing has come for MC_TE_SPIN_US. */
static void poll_on(const struct rdma_poller *p)
{
	uint64_t budget = (uint64_t)p->ctx->t->base.env->conf->spin_us * 1000, last = te_now();
	bool spinning = false;

	for (;;) {
		if (poll_mine(p, false)) {
			last = te_now();
		} else {
			if (te_now() - last >= budget)
				break;
			if (!spinning && !(spinning = te_spin_begin()))
				break;
			sched_yield();
		}
	}
	if (spinning)
		te_spin_end();
}

/* Arms those that no helper polls: the last helper arms. */
static void arm_mine(const struct rdma_poller *p)
{
	for (unsigned i = p->first; i < p->ctx->ncqs; i += p->step)
		if (!atomic_load(&p->ctx->cqs[i].helpers))
			arm(&p->ctx->cqs[i]);
}

static void wait_for_events(const struct rdma_poller *p, struct pollfd *fds, nfds_t n)
{
	poll(fds, n, -1);
	for (unsigned i = p->first; i < p->ctx->ncqs; i += p->step)
		take_events(&p->ctx->cqs[i]);
}

static bool helped(const struct rdma_poller *p)
{
	for (unsigned i = p->first; i < p->ctx->ncqs; i += p->step)
		if (!atomic_load(&p->ctx->cqs[i].helpers))
			return false;
	return true;
}

/* Sleeps until a completion comes and nobody else is there for it. */
void *rdma_poller_main(void *arg)
{
	const struct rdma_poller *p = arg;
	struct pollfd *fds = p->fds;
	nfds_t n = 1;

	te_mem_run_near(p->node);
	fds[0] = (struct pollfd){ .fd = p->ctx->stop, .events = POLLIN };
	for (unsigned i = p->first; i < p->ctx->ncqs; i += p->step)
		fds[n++] = (struct pollfd){ .fd = p->ctx->cqs[i].channel->fd, .events = POLLIN };
	arm_mine(p);
	while (!(fds[0].revents & POLLIN)) {
		wait_for_events(p, fds, n);
		if (helped(p))
			continue;
		poll_on(p);
		arm_mine(p);
		/* What came before they were armed. */
		while (poll_mine(p, true))
			;
	}
	return NULL;
}

/* ---- threads that wait for a batch ---- */

static void join(struct rdma_ctx *c)
{
	for (unsigned i = 0; i < c->ncqs; i++)
		atomic_fetch_add(&c->cqs[i].helpers, 1);
}

static void leave(struct rdma_ctx *c)
{
	for (unsigned i = 0; i < c->ncqs; i++) {
		struct rdma_cq *q = &c->cqs[i];

		if (atomic_fetch_sub(&q->helpers, 1) != 1 || atomic_load(&q->armed))
			continue;
		arm(q);
		while (poll_cq(q, true))
			;
	}
}

static unsigned poll_all(struct rdma *t)
{
	unsigned n = 0;

	for (size_t i = 0; i < t->nctx; i++)
		if (t->ctx[i] &&
		    atomic_load_explicit(&t->ctx[i]->meter.inflight, memory_order_relaxed))
			n += rdma_poll(t->ctx[i]);
	return n;
}

void rdma_help(struct te_peer *base, struct te_slice *s, const _Atomic uint32_t *pending,
	       uint64_t until)
{
	struct rdma *t = container_of(base, struct rdma_peer, base)->t;
	uint64_t budget = (uint64_t)t->base.env->conf->spin_us * 1000, last = te_now(), now;

	(void)s;
	if (!te_spin_begin())
		return;
	for (size_t i = 0; i < t->nctx; i++)
		if (t->ctx[i])
			join(t->ctx[i]);
	do {
		now = te_now();
		if (poll_all(t))
			last = now;
		else
			sched_yield(); /* a software NIC needs this very processor */
	} while (atomic_load_explicit(pending, memory_order_acquire) && now < until &&
		 now - last < budget);
	for (size_t i = 0; i < t->nctx; i++)
		if (t->ctx[i])
			leave(t->ctx[i]);
	te_spin_end();
}
