/* ep.c - endpoints: their queue pairs from birth to RTS, and the pool that holds them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma/rdma.h"

/* ---- queue pairs -------------------------------------------------------------------------- */

static struct ibv_qp *create_qp(struct rdma_ctx *c, struct rdma_cq *q, uint32_t *max_inline)
{
	struct ibv_qp_init_attr a = {
		.send_cq = q->cq,
		.recv_cq = q->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = (uint32_t)c->max_wr,
			 .max_recv_wr = 1, /* none is ever posted */
			 .max_send_sge = (uint32_t)c->max_sge,
			 .max_recv_sge = 1 },
	};

	/* No device attribute says how much goes inline: ask for less until it is granted. */
	for (;;) {
		int wanted = atomic_load(&c->max_inline);
		struct ibv_qp *qp;

		a.cap.max_inline_data = (uint32_t)wanted;
		qp = ibv_create_qp(c->pd, &a);
		*max_inline = a.cap.max_inline_data;
		if (qp || !wanted || (errno != EINVAL && errno != ENOMEM))
			return qp;
		atomic_store(&c->max_inline, wanted / 2);
	}
}

static int to_init(struct rdma_ctx *c, struct ibv_qp *qp)
{
	const struct te_conf *conf = c->t->base.env->conf;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = (uint16_t)conf->pkey_index,
		.port_num = (uint8_t)conf->ib_port,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* c->lock held: the smaller of port and MC_MTU. */
static unsigned own_mtu(const struct rdma_ctx *c)
{
	return (unsigned)MIN((int64_t)c->port.mtu, c->t->base.env->conf->mtu);
}

/* INTEROP 4.3. Ends that differ in path MTU take READs apart differently: soft-RoCE then delivers
   wrong bytes and says nothing. Between te engines both take the smaller one. */
static int to_rtr(struct rdma_ctx *c, struct ibv_qp *qp, uint32_t peer_qp,
		  const struct te_shake *peer, const union ibv_gid *gid)
{
	const struct te_conf *conf = c->t->base.env->conf;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.dest_qp_num = peer_qp,
		.rq_psn = 0,
		.max_dest_rd_atomic = (uint8_t)c->rd_atomic,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .dlid = (uint16_t)peer->lid,
			     .sl = conf->ib_sl < 0 ? 0 : (uint8_t)conf->ib_sl,
			     .port_num = (uint8_t)conf->ib_port,
			     .grh = { .dgid = *gid,
				      .hop_limit = 16,
				      .traffic_class =
					      conf->ib_tc < 0 ? 0 : (uint8_t)conf->ib_tc } },
	};
	unsigned mtu;

	pthread_mutex_lock(&c->lock);
	mtu = own_mtu(c);
	if (peer->mtu)
		mtu = MIN(mtu, peer->mtu);
	a.ah_attr.grh.sgid_index =
		c->port.chosen < 0 ? 0 : (uint8_t)c->port.gids[c->port.chosen].index;
	pthread_mutex_unlock(&c->lock);
	a.path_mtu = mtu >= 4096   ? IBV_MTU_4096
		     : mtu >= 2048 ? IBV_MTU_2048
		     : mtu >= 1024 ? IBV_MTU_1024
		     : mtu >= 512  ? IBV_MTU_512
				   : IBV_MTU_256;
	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct rdma_ctx *c, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = RDMA_RETRY,
		.rnr_retry = 7,
		.sq_psn = 0,
		.max_rd_atomic = (uint8_t)c->init_rd_atomic,
	};

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int setup_qp(struct rdma_ep *ep, unsigned i, const struct te_shake *peer,
		    const union ibv_gid *gid, struct te_err *err)
{
	struct ibv_qp *qp = ep->qps[i].qp;
	const char *step = "INIT";
	int r = to_init(ep->ctx, qp);

	if (!r) {
		step = "RTR";
		r = to_rtr(ep->ctx, qp, ep->peer_qp[i], peer, gid);
	}
	if (!r) {
		step = "RTS";
		r = to_rts(ep->ctx, qp);
	}
	if (!r)
		return 0;
	return te_fail(err, -abs(r), "%s: QP %#x to %s cannot be moved to %s: %s", ep->ctx->path,
		       qp->qp_num, ep->path, step, strerror(abs(r)));
}

int rdma_ep_setup(struct rdma_ep *ep, const struct te_shake *peer, struct te_err *err)
{
	union ibv_gid gid;
	int r = 0;

	if (peer->nqp != ep->nqp)
		return te_fail(err, -EPROTO,
			       "%s has %zu QPs an endpoint, %s has %u: MC_NUM_QP_PER_EP must be "
			       "the same on both sides",
			       ep->path, peer->nqp, ep->ctx->path, ep->nqp);
	if (!te_nic_gid_parse(peer->gid, &gid))
		return te_fail(err, -EPROTO, "%s has no valid GID: '%.60s'", ep->path, peer->gid);
	memcpy(ep->peer_qp, peer->qp, peer->nqp * sizeof(peer->qp[0]));
	ep->npeer_qp = ep->nqp;
	for (unsigned i = 0; i < ep->nqp && !r; i++)
		r = setup_qp(ep, i, peer, &gid, err);
	ep->was_rts = !r;
	ep->te = peer->te;
	return r;
}

bool rdma_ep_is_with(const struct rdma_ep *ep, const struct te_shake *peer)
{
	return peer->nqp == ep->npeer_qp &&
	       !memcmp(peer->qp, ep->peer_qp, peer->nqp * sizeof(peer->qp[0]));
}

void rdma_ep_shake(struct rdma_ep *ep, struct te_shake *out)
{
	struct rdma_ctx *c = ep->ctx;

	memset(out, 0, sizeof(*out));
	te_strlcpy(out->local_path, c->path, sizeof(out->local_path));
	te_strlcpy(out->peer_path, ep->path, sizeof(out->peer_path));
	pthread_mutex_lock(&c->lock);
	out->lid = c->port.lid;
	out->mtu = own_mtu(c);
	if (c->port.chosen >= 0)
		te_nic_gid_text(&c->port.gids[c->port.chosen].gid, out->gid);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < ep->nqp; i++)
		out->qp[i] = ep->qps[i].num;
	out->nqp = ep->nqp;
	out->te = true;
	out->has_ready_ack = true;
}

/* ---- making and finding ------------------------------------------------------------------- */

static void ep_free(struct rdma_ep *ep)
{
	for (unsigned i = 0; i < ep->nqp; i++) {
		if (ep->qps[i].qp && ibv_destroy_qp(ep->qps[i].qp))
			te_warn("QP cannot be destroyed: %s", strerror(errno));
		free(ep->qps[i].ring);
	}
	pthread_cond_destroy(&ep->changed);
	pthread_mutex_destroy(&ep->lock);
	atomic_fetch_sub(&ep->ctx->eps, 1);
	free(ep);
}

void rdma_ep_put(struct rdma_ep *ep)
{
	if (ep && atomic_fetch_sub(&ep->refs, 1) == 1)
		ep_free(ep);
}

static int make_qp(struct rdma_ep *ep, struct rdma_qp *qp, struct te_err *err)
{
	struct rdma_ctx *c = ep->ctx;

	qp->ep = ep;
	qp->cq = &c->cqs[atomic_fetch_add(&c->next_cq, 1) % c->ncqs];
	qp->ring = calloc((size_t)c->max_wr, sizeof(*qp->ring));
	if (!qp->ring)
		return te_fail(err, -ENOMEM, "out of memory");
	qp->qp = create_qp(c, qp->cq, &qp->max_inline);
	if (!qp->qp)
		return te_fail(err, -errno, "device '%s': no queue pair of %d requests: %s",
			       c->name, c->max_wr, strerror(errno));
	qp->num = qp->qp->qp_num;
	return 0;
}

static int ep_new(struct rdma_ctx *c, const char *path, struct rdma_ep **out, struct te_err *err)
{
	struct rdma_ep *ep = calloc(1, sizeof(*ep) + c->nqp * sizeof(ep->qps[0]));
	pthread_condattr_t attr;
	int r = 0;

	if (!ep)
		return te_fail(err, -ENOMEM, "out of memory");
	ep->ctx = c;
	atomic_fetch_add(&c->eps, 1);
	ep->nqp = c->nqp;
	te_strlcpy(ep->path, path, sizeof(ep->path));
	ep->node.key = ep->path;
	atomic_init(&ep->refs, 1);
	pthread_mutex_init(&ep->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&ep->changed, &attr);
	pthread_condattr_destroy(&attr);
	for (unsigned i = 0; i < ep->nqp && !r; i++)
		r = make_qp(ep, &ep->qps[i], err);
	if (r < 0) {
		ep_free(ep);
		return r;
	}
	*out = ep;
	return 0;
}

struct rdma_ep *rdma_ep_find(struct rdma_ctx *c, const char *path)
{
	struct te_pool_node *n;
	struct rdma_ep *ep = NULL;

	pthread_mutex_lock(&c->lock);
	n = te_pool_find(&c->pool, path);
	if (n) {
		ep = container_of(n, struct rdma_ep, node);
		atomic_fetch_add(&ep->refs, 1);
	}
	pthread_mutex_unlock(&c->lock);
	return ep;
}

/* One victim out of the full pool, with a reference; NULL when there is room. */
static struct rdma_ep *make_room(struct rdma_ctx *c)
{
	struct te_pool_node *n = te_pool_victim(&c->pool);
	struct rdma_ep *ep;

	if (!n)
		return NULL;
	te_pool_evict(&c->pool, n);
	ep = container_of(n, struct rdma_ep, node);
	atomic_fetch_add(&c->t->evictions, 1);
	return ep; /* the pool's reference */
}

int rdma_ep_get(struct rdma_ctx *c, const char *path, struct rdma_ep **out, struct te_err *err)
{
	struct rdma_ep *ep = rdma_ep_find(c, path), *mine = NULL, *victim;
	struct te_pool_node *n;
	int r;

	if (ep) {
		*out = ep;
		return 0;
	}
	pthread_rwlock_rdlock(&c->t->gate);
	r = atomic_load(&c->active) ? ep_new(c, path, &mine, err)
				    : te_fail(err, -ENETDOWN, "device '%s' is down", c->name);
	pthread_rwlock_unlock(&c->t->gate);
	if (r < 0)
		return r;
	for (;;) {
		struct te_err why;

		pthread_mutex_lock(&c->lock);
		n = te_pool_find(&c->pool, path); /* somebody was faster? */
		victim = n ? NULL : make_room(c);
		if (n) {
			ep = container_of(n, struct rdma_ep, node);
		} else if (!victim) {
			ep = mine;
			te_pool_insert(&c->pool, &mine->node);
		}
		if (ep)
			atomic_fetch_add(&ep->refs, 1);
		pthread_mutex_unlock(&c->lock);
		if (!victim)
			break;
		te_info("%s: the endpoint to %s gives way to %s (MC_MAX_EP_PER_CTX)", c->path,
			victim->path, path);
		te_fail(&why, -EAGAIN, "%s to %s: the endpoint gave way to another one", c->path,
			victim->path);
		rdma_ep_retire(victim, &why, NULL);
		rdma_ep_put(victim);
	}
	if (ep != mine)
		rdma_ep_put(mine);
	*out = ep;
	return 0;
}
