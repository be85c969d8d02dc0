/* accept.c - the passive side of handshakes: whoever asks is checked before anything is made for
 * them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma/rdma.h"

/* ---- who asks ----------------------------------------------------------------------------- */

static struct rdma_ctx *own_ctx(struct rdma *t, const char *path)
{
	for (size_t i = 0; i < t->nctx; i++)
		if (t->ctx[i] && !strcmp(t->ctx[i]->path, path))
			return t->ctx[i];
	return NULL;
}

/* The sender's descriptor must know the NIC and the GID: a made-up handshake makes nothing. Older
   engines leave lid and GID to the descriptor. */
static int verify(struct rdma *t, struct te_shake *s, struct te_err *err)
{
	struct te_directory *d = t->base.env->directory;
	const char *at = strchr(s->local_path, '@');
	char server[TE_SHAKE_PATH];
	struct te_desc *desc;
	int r;

	if (!at || at == s->local_path || !at[1])
		return te_fail(err, -EINVAL, "'%.100s' is no NIC path", s->local_path);
	te_strlcpy(server, s->local_path, (size_t)(at - s->local_path) + 1);
	r = d->descriptor(d, server, &desc, err);
	if (r < 0)
		return r;
	r = te_fail(err, -ENOENT, "segment '%.100s' has no NIC '%.60s'", server, at + 1);
	for (size_t i = 0; i < desc->ndevices; i++) {
		const struct te_desc_device *dev = &desc->devices[i];

		if (strcmp(dev->name, at + 1) != 0)
			continue;
		r = 0;
		if (!s->gid[0]) {
			te_strlcpy(s->gid, dev->gid, sizeof(s->gid));
			s->lid = dev->lid;
		} else if (strcasecmp(s->gid, dev->gid) != 0) {
			r = te_fail(err, -ENOENT, "the descriptor of '%.100s' has GID %s for %s",
				    server, dev->gid, dev->name);
		}
		break;
	}
	te_desc_free(desc);
	return r;
}

/* ---- type 0 ------------------------------------------------------------------------------- */

/* Do its QPs know the peer's? Under EP_CONNECTING they do once our own handshake was answered, and
 * the ready-ack is on its way. ep->lock held. */
static bool is_connected(const struct rdma_ep *ep)
{
	int state = atomic_load(&ep->state);

	return state == EP_WAIT_ACK || state == EP_READY || (state == EP_CONNECTING && ep->was_rts);
}

/* The third message: from now on we may post. */
static void take_ack(struct rdma_ctx *c, const struct te_shake *s, struct te_shake *reply)
{
	struct rdma_ep *ep = rdma_ep_find(c, s->local_path);
	bool good = false;

	if (ep) {
		pthread_mutex_lock(&ep->lock);
		good = rdma_ep_is_with(ep, s) && is_connected(ep);
		if (good)
			atomic_store(&ep->state, EP_READY);
		pthread_cond_broadcast(&ep->changed);
		pthread_mutex_unlock(&ep->lock);
		rdma_ep_put(ep);
	}
	if (!good)
		te_shake_refuse(reply, "stale ready-ack: no such endpoint");
}

enum outcome { DONE, STALE, REFUSED };

/* ep->lock held. */
static enum outcome set_up(struct rdma_ep *ep, const struct te_shake *s, struct te_err *err)
{
	if (atomic_load(&ep->state) == EP_RETIRED)
		return STALE;
	if (is_connected(ep))
		return rdma_ep_is_with(ep, s) ? DONE : STALE;
	/* NEW, or CONNECTING: both sides have asked at the same time, and this answers. */
	if (rdma_ep_setup(ep, s, err) < 0)
		return REFUSED;
	ep->since = te_now();
	atomic_store(&ep->state, s->has_ready_ack ? EP_WAIT_ACK : EP_READY);
	pthread_cond_broadcast(&ep->changed);
	return DONE;
}

static void retire_stale(struct rdma_ep *ep)
{
	struct te_err why;

	te_fail(&why, -ECONNRESET, "%s to %s: the peer connects anew", ep->ctx->path, ep->path);
	/* It has dropped its half already: no farewell. */
	pthread_mutex_lock(&ep->lock);
	ep->te = false;
	pthread_mutex_unlock(&ep->lock);
	rdma_ep_retire(ep, &why, NULL);
}

/* Twice at most: a peer that was restarted meets the endpoint of its former life. */
static void take_request(struct rdma_ctx *c, const struct te_shake *s, struct te_shake *reply)
{
	enum outcome outcome = STALE;
	struct te_err err = { 0 };

	for (int i = 0; i < 3 && outcome == STALE; i++) {
		struct rdma_ep *ep;

		if (rdma_ep_get(c, s->local_path, &ep, &err) < 0) {
			outcome = REFUSED;
			break;
		}
		pthread_mutex_lock(&ep->lock);
		outcome = set_up(ep, s, &err);
		pthread_mutex_unlock(&ep->lock);
		if (outcome == DONE)
			rdma_ep_shake(ep, reply);
		else if (outcome == STALE)
			retire_stale(ep);
		else
			rdma_ep_retire(ep, &err, NULL);
		rdma_ep_put(ep);
	}
	if (outcome != DONE)
		te_shake_refuse(reply, "%s", err.code ? err.msg : "cannot connect");
	else if (!s->has_ready_ack)
		reply->has_ready_ack = false;
	rdma_janitor_wake(c->t); /* for ready-acks that never come */
}

static void answer(struct rdma *t, struct te_shake *s, struct te_shake *reply)
{
	struct rdma_ctx *c = own_ctx(t, s->peer_path);
	union ibv_gid gid;
	struct te_err err;

	if (!c || !atomic_load(&c->active)) {
		te_shake_refuse(reply, "no NIC '%.100s' here, or it is down", s->peer_path);
	} else if (s->ready_ack) {
		take_ack(c, s, reply);
	} else if (s->nqp != c->nqp) {
		te_shake_refuse(reply,
				"%zu QPs an endpoint there, %u here: MC_NUM_QP_PER_EP must be the "
				"same on both sides",
				s->nqp, c->nqp);
	} else if (s->gid[0] && !te_nic_gid_parse(s->gid, &gid)) {
		te_shake_refuse(reply, "'%s' is no GID", s->gid);
	} else if (verify(t, s, &err) < 0) {
		te_shake_refuse(reply, "cannot verify '%.60s': %s", s->local_path, err.msg);
	} else {
		take_request(c, s, reply);
	}
	if (reply->reply[0])
		te_info("handshake from '%s' refused: %s", s->local_path, reply->reply);
}

/* ---- type 0x10 ---------------------------------------------------------------------------- */

/* The peer has retired its half: so do we, before we answer. */
static void take_farewell(struct rdma *t, const struct te_shake *s)
{
	struct rdma_ctx *c = own_ctx(t, s->peer_path);
	struct rdma_ep *ep = c ? rdma_ep_find(c, s->local_path) : NULL;
	struct te_err why;
	bool ours;

	if (!ep)
		return;
	pthread_mutex_lock(&ep->lock);
	ours = rdma_ep_is_with(ep, s);
	if (ours)
		ep->te = false;
	pthread_mutex_unlock(&ep->lock);
	te_fail(&why, -ECONNRESET, "%s to %s: the peer has retired the endpoint", c->path,
		ep->path);
	if (ours)
		rdma_ep_retire(ep, &why, NULL);
	rdma_ep_put(ep);
}

char *rdma_handshake(struct te_transport *base, enum te_rpc_type type, const char *body, size_t len)
{
	struct rdma *t = rdma_of(base);
	struct te_shake s, reply;
	struct te_err err;

	memset(&reply, 0, sizeof(reply));
	if (type == TE_RPC_RETIRE) {
		if (te_shake_parse_retire(body, len, &s, &err) < 0)
			return NULL;
		take_farewell(t, &s);
		return te_strdup("{}");
	}
	if (te_shake_parse(body, len, &s, &err) < 0)
		return NULL;
	answer(t, &s, &reply);
	return te_shake_format(&reply);
}
