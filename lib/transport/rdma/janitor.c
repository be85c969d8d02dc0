/* janitor.c - what happens by itself: endpoints that stall or are never finished, peers that wait
 * or have gone. Deadlines depend on it: whatever may block is some other thread's. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "transport/rdma/rdma.h"

enum {
	IDLE_S = 30,	    /* after which an endpoint proves that its peer still lives */
	TELL_MAX = 64,	    /* peers with failures that one tick tells */
	BATCH = 16,	    /* endpoints that one tick gives up */
	SLOWEST_NS = 1000,  /* a byte, of a NIC that may be the slowest: 1 MB/s */
	RATE_MIN = 4 << 20, /* bytes a second that are expected of a NIC that was never measured */
};

/* ---- endpoints ---------------------------------------------------------------------------- */

/* How long a QP may be silent: a NIC with much to send at a low speed takes its time. */
static uint64_t patience(const struct rdma_ctx *c)
{
	uint64_t rate = atomic_load(&c->rate);
	uint64_t ns = (uint64_t)RDMA_STALL_MS * TE_NSEC_PER_MSEC, most;
	uint64_t longest = (c->t->slice + c->t->fragment) * SLOWEST_NS;

	/* One request alone may take so long that nothing else can be seen to end. */
	most = MAX((uint64_t)RDMA_STALL_MAX_MS * TE_NSEC_PER_MSEC, longest);
	ns = MAX(ns, longest);
	if (!rate)
		rate = RATE_MIN;
	ns = MAX(ns, (uint64_t)((double)atomic_load(&c->meter.inflight) / (double)rate * 4e9));
	return MIN(ns, most);
}

/* Is the time up of what comes back next? Entries stay where they are under the completion queue's
 * lock. */
static bool is_overdue(struct rdma_qp *qp, uint64_t now)
{
	uint32_t size = (uint32_t)qp->ep->ctx->max_wr, at;
	bool late = false;

	if (pthread_mutex_trylock(&qp->cq->lock))
		return false; /* something is coming */
	for (at = atomic_load(&qp->done); at != atomic_load(&qp->posted); at++)
		if (qp->ring[at % size].kind == WR_SLICE) {
			late = now > qp->ring[at % size].slice->deadline;
			break;
		}
	pthread_mutex_unlock(&qp->cq->lock);
	return late;
}

static const char *ailing(struct rdma_ep *ep, uint64_t now, uint64_t silence)
{
	if (atomic_load(&ep->state) == EP_WAIT_ACK)
		return now - ep->since > RDMA_ACK_S * TE_NSEC_PER_SEC
			       ? "the peer never said that it is ready"
			       : NULL;
	for (unsigned i = 0; i < ep->nqp; i++) {
		struct rdma_qp *qp = &ep->qps[i];
		uint64_t progress = atomic_load(&qp->progress);

		if (atomic_load(&qp->posted) == atomic_load(&qp->done) || now < progress)
			continue;
		if (now - progress > silence)
			return "nothing has come back for too long";
		if (now - progress > (uint64_t)RDMA_TICK_MS * TE_NSEC_PER_MSEC &&
		    is_overdue(qp, now))
			return "nothing has come back in time";
	}
	return NULL;
}

/* Those to give up, referenced; true: there are some to look after. */
static bool examine(struct rdma_ctx *c, struct rdma_ep **bad, const char **why, size_t *nbad)
{
	uint64_t now = te_now(), silence = patience(c);
	bool busy = false;

	pthread_mutex_lock(&c->lock);
	for (struct te_pool_node *n = te_pool_first(&c->pool); n && *nbad < BATCH;
	     n = te_pool_next(n)) {
		struct rdma_ep *ep = container_of(n, struct rdma_ep, node);
		const char *text;

		if (!atomic_load(&ep->work) && atomic_load(&ep->state) != EP_WAIT_ACK)
			continue;
		busy = true;
		text = ailing(ep, now, silence);
		if (!text)
			continue;
		atomic_fetch_add(&ep->refs, 1);
		why[*nbad] = text;
		bad[(*nbad)++] = ep;
	}
	pthread_mutex_unlock(&c->lock);
	return busy;
}

static bool tend_endpoints(struct rdma_ctx *c)
{
	struct rdma_ep *bad[BATCH];
	const char *text[BATCH];
	size_t n = 0;
	bool busy = examine(c, bad, text, &n);

	for (size_t i = 0; i < n; i++) {
		struct te_err why;

		te_fail(&why, -EHOSTUNREACH, "%s to %s: %s", c->path, bad[i]->path, text[i]);
		rdma_ep_retire(bad[i], &why, NULL);
		rdma_ep_put(bad[i]);
	}
	/* Completions of what was retired must not wait for somebody to look. */
	if (n)
		rdma_poll(c);
	return busy;
}

static bool is_idle(const struct rdma_ep *ep, uint64_t now)
{
	uint64_t last = ep->since;

	if (atomic_load(&ep->state) != EP_READY || atomic_load(&ep->work))
		return false;
	for (unsigned i = 0; i < ep->nqp; i++)
		last = MAX(last, atomic_load(&ep->qps[i].progress));
	return now - last >= IDLE_S * TE_NSEC_PER_SEC;
}

/* Idle endpoints, referenced; how many. */
static size_t find_idle(struct rdma_ctx *c, struct rdma_ep **idle, size_t max)
{
	uint64_t now = te_now();
	size_t n = 0;

	pthread_mutex_lock(&c->lock);
	for (struct te_pool_node *p = te_pool_first(&c->pool); p && n < max; p = te_pool_next(p)) {
		struct rdma_ep *ep = container_of(p, struct rdma_ep, node);

		if (!is_idle(ep, now))
			continue;
		atomic_fetch_add(&ep->refs, 1);
		idle[n++] = ep;
	}
	pthread_mutex_unlock(&c->lock);
	return n;
}

/* A peer that was killed says no farewell: an empty request finds out, or the endpoint would be
 * kept for ever. */
static void probe_idle(struct rdma_ctx *c)
{
	struct rdma_ep *idle[BATCH];
	bool room = true;
	size_t n;

	do {
		n = find_idle(c, idle, BATCH);
		for (size_t i = 0; i < n; i++) {
			room &= !rdma_post_probe(idle[i], NULL, 0);
			rdma_ep_put(idle[i]);
		}
	} while (n == BATCH && room);
}

/* How long nobody need look; -1: there is no endpoint. */
static int tend_idle(struct rdma *t, uint64_t *last)
{
	bool due = te_now() - *last >= IDLE_S * TE_NSEC_PER_SEC, any = false;

	for (size_t i = 0; i < t->nctx; i++) {
		struct rdma_ctx *c = t->ctx[i];

		if (!c)
			continue;
		if (due && atomic_load(&c->active))
			probe_idle(c);
		any |= atomic_load(&c->eps) > 0;
	}
	if (due)
		*last = te_now();
	return any ? IDLE_S * 1000 : -1;
}

/* ---- peers -------------------------------------------------------------------------------- */

/* As far as the first peer with something to tell, which is told by itself: each error names its
 * own paths. true: there may be more. */
static bool tick_peers(struct rdma *t, struct rdma_done *done, bool *busy)
{
	pthread_mutex_lock(&t->peers_lock);
	for (struct rdma_peer *p = t->peers; p && !done->ill; p = p->next)
		*busy |= rdma_peer_tick(p, done);
	pthread_mutex_unlock(&t->peers_lock);
	return done->ill;
}

static void free_peers(struct rdma *t)
{
	struct rdma_peer *over = NULL;

	pthread_mutex_lock(&t->peers_lock);
	for (struct rdma_peer **at = &t->peers, *p; (p = *at);) {
		if (!rdma_peer_over(p)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		p->next = over;
		over = p;
	}
	pthread_mutex_unlock(&t->peers_lock);
	while (over) {
		struct rdma_peer *next = over->next;

		rdma_peer_free(over);
		over = next;
	}
}

static bool tend_peers(struct rdma *t)
{
	bool busy = false, more = true;

	for (int i = 0; i < TELL_MAX && more; i++) {
		struct rdma_done done;

		rdma_done_init(&done);
		more = tick_peers(t, &done, &busy);
		rdma_done_deliver(t, &done);
	}
	free_peers(t);
	return busy | more;
}

/* ---- the thread --------------------------------------------------------------------------- */

/* A peer whose NIC was down lists it again one day: while there is work, it is worth a look. */
static void ask_for_news(struct rdma *t)
{
	char names[BATCH][sizeof(((struct te_peer *)0)->segment)];
	size_t n = 0;

	pthread_mutex_lock(&t->peers_lock);
	for (struct rdma_peer *p = t->peers; p && n < BATCH; p = p->next)
		n += rdma_peer_curious(p, names[n]);
	pthread_mutex_unlock(&t->peers_lock);
	while (n-- > 0)
		t->base.env->directory->refresh(t->base.env->directory, names[n]);
}

/* true: look again soon. */
static bool tick(struct rdma *t)
{
	bool busy = false;

	for (size_t i = 0; i < t->nctx; i++)
		if (t->ctx[i])
			busy |= tend_endpoints(t->ctx[i]);
	busy |= tend_peers(t);
	if (busy)
		ask_for_news(t);
	return busy;
}

static void wait_for(struct rdma *t, int ms)
{
	struct pollfd fd = { .fd = t->janitor.wake, .events = POLLIN };
	eventfd_t count;

	poll(&fd, 1, ms);
	atomic_store(&t->asleep, false);
	eventfd_read(t->janitor.wake, &count);
}

static void *janitor(void *arg)
{
	struct rdma *t = arg;
	uint64_t idled = te_now();

	while (!atomic_load(&t->janitor.stop)) {
		bool busy = tick(t);
		int rest = tend_idle(t, &idled);

		if (!busy) { /* whoever brings work from now on wakes us */
			atomic_store(&t->asleep, true);
			busy = tick(t);
		}
		wait_for(t, busy ? RDMA_TICK_MS : rest);
	}
	return NULL;
}

void rdma_janitor_wake(struct rdma *t)
{
	if (atomic_load(&t->asleep) && atomic_exchange(&t->asleep, false))
		eventfd_write(t->janitor.wake, 1);
}

int rdma_janitor_start(struct rdma *t, struct te_err *err)
{
	return rdma_thread_start(t, &t->janitor, "te-rdma-keep", janitor, err);
}
