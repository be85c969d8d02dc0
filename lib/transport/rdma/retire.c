/* retire.c - the end of endpoints: out of the pool, QPs to ERR, and destroyed once their work is
 * back. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "transport/rdma/rdma.h"

/* ---- retiring ----------------------------------------------------------------------------- */

/* Peers with WRITEs that may still be on their way; each once. Others wait without a farewell. */
struct writers {
	struct rdma_peer *peer[RDMA_WRITERS];
	size_t n;
};

static void add_writer(struct writers *w, const struct te_slice *s)
{
	struct rdma_peer *p = ((struct rdma_rail *)(uintptr_t)s->scratch)->peer;
	size_t k = 0;

	if (s->op != TE_WRITE)
		return;
	while (k < w->n && w->peer[k] != p)
		k++;
	if (k < w->n)
		return;
	if (w->n == ARRAY_SIZE(w->peer)) {
		rdma_fence(p);
		return;
	}
	w->peer[w->n++] = p;
	atomic_fetch_add(&p->jobs, 1);
}

/* What is in flight stays where it is under the locks of the completion queues. */
static void find_writers(struct rdma_ep *ep, struct writers *w)
{
	struct rdma_ctx *c = ep->ctx;

	for (unsigned i = 0; i < c->ncqs; i++)
		pthread_mutex_lock(&c->cqs[i].lock);
	for (unsigned i = 0; i < ep->nqp; i++) {
		const struct rdma_qp *qp = &ep->qps[i];

		for (uint32_t at = atomic_load(&qp->done); at != atomic_load(&qp->posted); at++) {
			const struct rdma_wr *wr = &qp->ring[at % (uint32_t)c->max_wr];

			if (wr->kind == WR_SLICE)
				add_writer(w, wr->slice);
		}
	}
	for (unsigned i = 0; i < c->ncqs; i++)
		pthread_mutex_unlock(&c->cqs[i].lock);
}

static void queue_retired(struct rdma_ep *ep)
{
	struct rdma *t = ep->ctx->t;

	atomic_fetch_add(&ep->refs, 1);
	pthread_mutex_lock(&t->retired_lock);
	ep->retired_at = te_now();
	ep->next_retired = t->retired;
	t->retired = ep;
	pthread_mutex_unlock(&t->retired_lock);
	atomic_fetch_add(&t->retires, 1);
	eventfd_write(t->reaper.wake, 1);
}

static void to_err(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	if (ibv_modify_qp(qp, &a, IBV_QP_STATE))
		te_warn("QP %#x cannot be moved to ERR: %s", qp->qp_num, strerror(errno));
}

/* ep->lock held: nothing is posted from here on. */
static void silence(struct rdma_ep *ep, const struct te_err *why)
{
	ep->why = *why;
	atomic_store(&ep->state, EP_RETIRED);
	for (unsigned i = 0; i < ep->nqp; i++)
		if (ep->was_rts)
			to_err(ep->qps[i].qp);
	pthread_cond_broadcast(&ep->changed);
}

void rdma_ep_retire(struct rdma_ep *ep, const struct te_err *why, const struct te_slice *ill)
{
	struct rdma_ctx *c = ep->ctx;
	struct writers w = { 0 };
	bool was_in, tell;

	pthread_mutex_lock(&ep->lock);
	for (; ill; ill = ill->next)
		if (atomic_load(&ill->conn) == ep)
			add_writer(&w, ill);
	if (atomic_load(&ep->state) == EP_RETIRED) {
		pthread_mutex_unlock(&ep->lock);
		/* By another thread, after these had been taken: it saw no WRITE of theirs. */
		if (w.n)
			rdma_bye(ep, w.peer, w.n);
		return;
	}
	find_writers(ep, &w);
	silence(ep, why);
	tell = ep->te && (ep->was_rts || ep->asked);
	pthread_mutex_unlock(&ep->lock);

	pthread_mutex_lock(&c->lock);
	was_in = ep->node.in;
	te_pool_remove(&c->pool, &ep->node);
	pthread_mutex_unlock(&c->lock);
	te_info("endpoint retired: %s", why->msg);
	/* Before the reaper may have it: a farewell names its QPs. */
	if (tell || w.n)
		rdma_bye(ep, w.peer, w.n);
	queue_retired(ep);
	if (was_in)
		rdma_ep_put(ep);
	rdma_janitor_wake(c->t);
}

/* ---- reaping ------------------------------------------------------------------------------ */

/* Nothing in flight: the QPs are idle. Else after RDMA_FLUSH_S they are destroyed all the same,
   which makes the memory quiet, and what is left in the completion queue is taken before the
   endpoint goes. */
static void reap(struct rdma_ep *ep)
{
	unsigned lost = atomic_load(&ep->work);

	for (unsigned i = 0; i < ep->nqp; i++) {
		if (ibv_destroy_qp(ep->qps[i].qp))
			te_warn("%s: a QP cannot be destroyed: %s", ep->ctx->path, strerror(errno));
		ep->qps[i].qp = NULL;
	}
	if (lost) {
		rdma_drain(ep->ctx);
		te_error("%s to %s: %u requests never came back", ep->ctx->path, ep->path,
			 atomic_load(&ep->work));
		rdma_ep_return_lost(ep);
	}
}

bool rdma_ep_reap(struct rdma *t, bool force)
{
	struct rdma_ep *list, *keep = NULL;
	bool some;

	pthread_mutex_lock(&t->retired_lock);
	list = t->retired;
	t->retired = NULL;
	pthread_mutex_unlock(&t->retired_lock);
	while (list) {
		struct rdma_ep *ep = list;
		uint64_t age = te_now() - ep->retired_at;

		list = ep->next_retired;
		if (atomic_load(&ep->work) && !force && age < RDMA_FLUSH_S * TE_NSEC_PER_SEC) {
			ep->next_retired = keep;
			keep = ep;
			continue;
		}
		reap(ep);
		rdma_ep_put(ep);
	}
	pthread_mutex_lock(&t->retired_lock);
	while (keep) {
		struct rdma_ep *next = keep->next_retired;

		keep->next_retired = t->retired;
		t->retired = keep;
		keep = next;
	}
	some = t->retired;
	pthread_mutex_unlock(&t->retired_lock);
	return some;
}

/* A thread of its own: the kernel keeps who destroys a QP until the last packet of that is gone,
 * which with soft-RoCE takes a second where packets wait for a neighbour that does not answer. */
static void *reaper(void *arg)
{
	struct rdma *t = arg;
	struct pollfd fd = { .fd = t->reaper.wake, .events = POLLIN };
	bool some = false;
	eventfd_t count;

	while (!atomic_load(&t->reaper.stop)) {
		poll(&fd, 1, some ? RDMA_TICK_MS : -1);
		eventfd_read(t->reaper.wake, &count);
		some = rdma_ep_reap(t, false);
	}
	return NULL;
}

int rdma_reaper_start(struct rdma *t, struct te_err *err)
{
	return rdma_thread_start(t, &t->reaper, "te-rdma-reap", reaper, err);
}
