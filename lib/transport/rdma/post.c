/* post.c - slices become work requests: one ibv_post_send for a chain, few of them signalled. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma/rdma.h"

enum { SIGNAL_BYTES = 256 << 10 }; /* a slow rail, too, is heard of before it is taken for dead */

/* Requests that are being built for one QP. */
struct burst {
	struct rdma_qp *qp;
	struct rdma_rail *rail;
	struct ibv_send_wr wr[RDMA_POST];
	struct ibv_sge sge[RDMA_POST][RDMA_PARTS];
	struct te_slice *slice[RDMA_POST]; /* that ends with it, NULL */
	unsigned n;
	uint64_t bytes;
};

static uint32_t qp_room(const struct rdma_qp *qp)
{
	uint32_t used = atomic_load_explicit(&qp->posted, memory_order_relaxed) -
			atomic_load_explicit(&qp->done, memory_order_acquire);

	return (uint32_t)qp->ep->ctx->max_wr - used;
}

unsigned rdma_post_room(struct rdma_ep *ep)
{
	unsigned room = 0;

	for (unsigned i = 0; i < ep->nqp; i++)
		room += qp_room(&ep->qps[i]);
	return room;
}

/* The QP with the most room; in turn where that is equal. */
static struct rdma_qp *best_qp(struct rdma_ep *ep)
{
	struct rdma_qp *best = NULL;
	uint32_t most = 0;

	for (unsigned i = 0; i < ep->nqp; i++) {
		struct rdma_qp *qp = &ep->qps[(ep->next_qp + i) % ep->nqp];
		uint32_t room = qp_room(qp);

		if (room > most) {
			most = room;
			best = qp;
		}
	}
	ep->next_qp = ep->next_qp + 1 < ep->nqp ? ep->next_qp + 1 : 0;
	return best;
}

/* ---- building ---- */

/* Scatter entries for [local, local+len): how many bytes of it fit. */
static uint64_t gather(struct burst *b, const struct rdma_keys *k, uint64_t local, uint64_t len)
{
	struct rdma_ctx *c = b->rail->ctx;
	struct ibv_send_wr *wr = &b->wr[b->n];
	int most = MIN(c->max_sge, RDMA_PARTS);
	uint64_t took = 0;

	wr->num_sge = 0;
	while (took < len && wr->num_sge < most) {
		uint64_t at = local + took, left = k->piece - (at - k->addr) % k->piece;
		const struct ibv_mr *mr = rdma_mr(k, at, c->index);
		struct ibv_sge *sge = &b->sge[b->n][wr->num_sge++];

		if (!mr) /* registered while the NIC was being opened anew */
			return 0;
		sge->addr = at;
		sge->length = (uint32_t)MIN(len - took, left);
		sge->lkey = mr->lkey;
		took += sge->length;
	}
	return took;
}

/* One request of the slice: as far as one buffer of the peer, the scatter entries and the NIC
 * allow. */
static uint64_t build_part(struct burst *b, const struct te_slice *s, uint64_t at)
{
	const struct rdma_rail *r = b->rail;
	const struct rdma_range *to = rdma_range(r->peer->table, s->remote + at);
	struct ibv_send_wr *wr = &b->wr[b->n];
	uint64_t len;

	if (!to)
		return 0;
	len = MIN(s->len - at, to->len - (s->remote + at - to->addr));
	memset(wr, 0, sizeof(*wr));
	wr->sg_list = b->sge[b->n];
	wr->opcode = s->op == TE_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	wr->wr.rdma.remote_addr = s->remote + at;
	wr->wr.rdma.rkey = to->rkey[r->device];
	len = gather(b, s->region->keys, (uint64_t)(uintptr_t)s->local + at,
		     MIN(len, r->ctx->max_msg));
	if (s->op == TE_WRITE && len <= b->qp->max_inline)
		wr->send_flags = IBV_SEND_INLINE;
	b->slice[b->n] = NULL;
	b->n++;
	return len;
}

/* All of a slice or nothing; false: it does not fit any more. */
static bool build_slice(struct burst *b, struct te_slice *s, unsigned room)
{
	unsigned before = b->n;
	uint64_t at = 0;

	while (at < s->len && b->n < room) {
		uint64_t len = build_part(b, s, at);

		if (!len)
			break;
		at += len;
	}
	if (at < s->len) {
		b->n = before;
		return false;
	}
	b->slice[b->n - 1] = s;
	b->bytes += s->len;
	return true;
}

/* ---- posting ---- */

static bool take_cq_room(struct rdma_cq *q, int n)
{
	if (atomic_fetch_sub(&q->room, n) >= n)
		return true;
	atomic_fetch_add(&q->room, n);
	return false;
}

/* Everything that a completion looks at, before it can come. */
static void enter(struct burst *b)
{
	struct rdma_qp *qp = b->qp;
	struct rdma_ctx *c = qp->ep->ctx;
	uint32_t posted = atomic_load_explicit(&qp->posted, memory_order_relaxed);
	uint64_t now = te_now(), silent = 0;

	for (unsigned i = 0; i < b->n; i++) {
		struct rdma_wr *w = &qp->ring[(posted + i) % (uint32_t)c->max_wr];

		w->qp = qp;
		w->slice = b->slice[i];
		w->kind = b->slice[i] ? WR_SLICE : WR_PART;
		b->wr[i].wr_id = (uint64_t)(uintptr_t)w;
		b->wr[i].next = i + 1 < b->n ? &b->wr[i + 1] : NULL;
		if (!b->slice[i])
			continue;
		silent += b->slice[i]->len;
		if (silent >= SIGNAL_BYTES) {
			b->wr[i].send_flags |= IBV_SEND_SIGNALED;
			silent = 0;
		}
		b->slice[i]->scratch = (uint64_t)(uintptr_t)b->rail;
		atomic_store_explicit(&b->slice[i]->conn, qp->ep, memory_order_relaxed);
	}
	b->wr[b->n - 1].send_flags |= IBV_SEND_SIGNALED;
	if (posted == atomic_load_explicit(&qp->done, memory_order_relaxed))
		atomic_store_explicit(&qp->progress, now, memory_order_relaxed);
	rdma_meter_post(&c->meter, b->bytes, now);
	rdma_meter_post(&b->rail->meter, b->bytes, now);
	atomic_fetch_add(&qp->ep->work, b->n);
	atomic_store(&qp->posted, posted + b->n);
}

/* The last `n` requests were not taken by the NIC. Those before stay, and the last of them may not
   be signalled: a request that was refused means a QP that is in error, and everything in it comes
   back flushed. */
static struct te_slice *back_out(struct burst *b, unsigned n)
{
	struct te_slice *list = NULL, **end = &list;
	uint64_t bytes = 0;

	for (unsigned i = b->n - n; i < b->n; i++)
		if (b->slice[i]) {
			bytes += b->slice[i]->len;
			atomic_store(&b->slice[i]->conn, NULL);
			*end = b->slice[i];
			end = &b->slice[i]->next;
		}
	*end = NULL;
	atomic_fetch_sub(&b->rail->ctx->meter.inflight, bytes);
	atomic_fetch_sub(&b->rail->meter.inflight, bytes);
	atomic_fetch_sub(&b->qp->ep->work, n);
	atomic_fetch_add(&b->qp->cq->room, (int)n);
	atomic_fetch_sub(&b->qp->posted, n);
	return list;
}

static struct te_slice *post_burst(struct burst *b, int *error)
{
	struct ibv_send_wr *bad = NULL;
	int r;

	enter(b);
	atomic_fetch_add_explicit(&b->qp->cq->posts, 1, memory_order_acq_rel);
	r = ibv_post_send(b->qp->qp, b->wr, &bad);
	if (!r)
		return NULL;
	*error = -abs(r);
	return back_out(b, bad ? (unsigned)(&b->wr[b->n] - bad) : b->n);
}

/* Builds and posts the first slices of the chain. */
static struct te_slice *post_some(struct rdma_qp *qp, struct rdma_rail *rail,
				  struct te_slice *chain, int *error)
{
	struct burst b = { .qp = qp, .rail = rail };
	int most = MIN(MIN(rail->ctx->max_wr, (int)RDMA_POST), qp->cq->size);
	int room = MIN(MIN((int)qp_room(qp), most), MAX(atomic_load(&qp->cq->room), 0));
	struct te_slice *rest = chain, *lost;

	while (rest && build_slice(&b, rest, (unsigned)room))
		rest = rest->next;
	if (!b.n && room == most)
		chain->status = -EMSGSIZE;
	if (!b.n || !take_cq_room(qp->cq, (int)b.n)) {
		*error = -EAGAIN;
		return chain;
	}
	lost = post_burst(&b, error);
	if (!lost)
		return rest;
	for (chain = lost; lost->next; lost = lost->next)
		;
	lost->next = rest;
	return chain;
}

struct te_slice *rdma_post(struct rdma_ep *ep, struct rdma_rail *rail, struct te_slice *chain)
{
	int error = 0;

	pthread_mutex_lock(&ep->lock);
	while (chain && !error && atomic_load(&ep->state) == EP_READY) {
		struct rdma_qp *qp = best_qp(ep);

		if (!qp)
			break;
		chain = post_some(qp, rail, chain, &error);
	}
	pthread_mutex_unlock(&ep->lock);
	if (error && error != -EAGAIN) {
		struct te_err why;

		te_fail(&why, error, "%s to %s: ibv_post_send: %s", ep->ctx->path, ep->path,
			strerror(-error));
		rdma_ep_retire(ep, &why, NULL);
	}
	rdma_janitor_wake(ep->ctx->t);
	return chain;
}

/* ep->lock held. */
static int post_empty(struct rdma_qp *qp, struct ibv_send_wr *wr)
{
	struct rdma_ep *ep = qp->ep;
	uint32_t posted = atomic_load(&qp->posted);
	struct rdma_wr *w = &qp->ring[posted % (uint32_t)ep->ctx->max_wr];
	struct ibv_send_wr *bad;
	int r;

	if (!qp_room(qp) || !take_cq_room(qp->cq, 1))
		return -EAGAIN;
	*w = (struct rdma_wr){ .qp = qp, .kind = WR_PROBE };
	wr->wr_id = (uint64_t)(uintptr_t)w;
	atomic_store(&ep->probe, 1);
	if (posted == atomic_load(&qp->done))
		atomic_store(&qp->progress, te_now());
	atomic_fetch_add(&ep->work, 1);
	atomic_store(&qp->posted, posted + 1);
	atomic_fetch_add_explicit(&qp->cq->posts, 1, memory_order_acq_rel);
	r = -abs(ibv_post_send(qp->qp, wr, &bad));
	if (r) {
		atomic_fetch_sub(&ep->work, 1);
		atomic_fetch_add(&qp->cq->room, 1);
		atomic_store(&qp->posted, posted);
	}
	return r;
}

int rdma_post_probe(struct rdma_ep *ep, const struct rdma_range *to, unsigned device)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	int r;

	if (to) {
		wr.wr.rdma.remote_addr = to->addr;
		wr.wr.rdma.rkey = to->rkey[device];
	}
	pthread_mutex_lock(&ep->lock);
	r = atomic_load(&ep->state) == EP_READY ? post_empty(&ep->qps[0], &wr) : -ENOTCONN;
	pthread_mutex_unlock(&ep->lock);
	return r;
}
