/* connect.c - the active side: a thread of each rail connects it by a handshake of type 0,
 * and tries each connection with an empty request before slices take it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/rpc.h"
#include "transport/rdma/rdma.h"

enum {
	SHAKE_S = 5,  /* for one handshake */
	OTHER_S = 10, /* for another thread's, or the peer's, for the same endpoint */
};

/* What one attempt needs; copied, since the peer may change meanwhile. */
struct attempt {
	struct rdma *t;
	struct rdma_ctx *ctx;
	char server[128], path[TE_SHAKE_PATH], host[256];
	unsigned port;
	union ibv_gid gid; /* of the descriptor, where the reply has none */
	unsigned lid;
	struct rdma_range to; /* for the probe */
	uint32_t rkey;
	bool has_range;
	bool te;       /* the peer is */
	bool hopeless; /* result: the failure is not one of the link */
	int gid_tries;
};

/* ---- the handshake ------------------------------------------------------------------------ */

static int exchange(struct attempt *a, const struct te_shake *say, struct te_shake *reply,
		    struct te_err *err)
{
	char *text, *answer = NULL;
	size_t len;
	int r;

	text = te_shake_format(say);
	if (!text)
		return te_fail(err, -ENOMEM, "out of memory");
	r = te_rpc_call(a->t->base.env->conf, a->host, a->port, TE_RPC_CONNECTION, text,
			te_now() + SHAKE_S * TE_NSEC_PER_SEC, &answer, &len, err);
	free(text);
	if (!r)
		r = te_shake_parse(answer, len, reply, err);
	free(answer);
	if (r < 0)
		return te_wrap(err, r, "handshake of %s with %s", a->ctx->path, a->path);
	if (reply->reply[0])
		return te_fail(err, -ECONNREFUSED, "%s refuses %s: %s", a->path, a->ctx->path,
			       reply->reply);
	return 0;
}

/* Somebody else is connecting this endpoint: what comes of it. ep->lock held. */
static int await(struct rdma_ep *ep, struct te_err *err)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += OTHER_S;
	while (!r &&
	       (atomic_load(&ep->state) == EP_CONNECTING || atomic_load(&ep->state) == EP_WAIT_ACK))
		r = pthread_cond_timedwait(&ep->changed, &ep->lock, &until);
	if (atomic_load(&ep->state) == EP_READY)
		return 0;
	if (atomic_load(&ep->state) == EP_RETIRED) {
		if (err)
			*err = ep->why;
		return ep->why.code ? ep->why.code : -ECONNRESET;
	}
	return te_fail(err, -ETIMEDOUT, "%s to %s: the peer's handshake was not finished in %d s",
		       ep->ctx->path, ep->path, OTHER_S);
}

static int check_reply(const struct attempt *a, struct te_shake *reply, struct te_err *err)
{
	if (strcmp(reply->local_path, a->path) != 0 || strcmp(reply->peer_path, a->ctx->path) != 0)
		return te_fail(err, -EPROTO, "%s answers as '%.100s' to '%.100s'", a->path,
			       reply->local_path, reply->peer_path);
	if (!reply->gid[0]) {
		te_nic_gid_text(&a->gid, reply->gid);
		reply->lid = a->lid;
	}
	return 0;
}

/* After the reply; ep->lock held. The peer's own handshake may have done the work meanwhile. */
static int use_reply(struct rdma_ep *ep, const struct te_shake *reply, struct te_err *err)
{
	int state = atomic_load(&ep->state);

	if (state == EP_RETIRED)
		return te_fail(err, ep->why.code ? ep->why.code : -ECONNRESET, "%s", ep->why.msg);
	if (state == EP_CONNECTING)
		return rdma_ep_setup(ep, reply, err);
	if (!rdma_ep_is_with(ep, reply))
		return te_fail(err, -EPROTO, "%s has answered with other QPs than it asked with",
			       ep->path);
	return 0;
}

static int send_ack(struct attempt *a, struct te_shake *say, const struct te_shake *reply,
		    struct te_err *err)
{
	struct te_shake answer;

	if (!reply->has_ready_ack)
		return 0;
	say->ready_ack = true;
	return exchange(a, say, &answer, err);
}

static void set_ready(struct rdma_ep *ep)
{
	pthread_mutex_lock(&ep->lock);
	if (atomic_load(&ep->state) != EP_RETIRED)
		atomic_store(&ep->state, EP_READY);
	pthread_cond_broadcast(&ep->changed);
	pthread_mutex_unlock(&ep->lock);
}

/* The peer's handshake has connected us while ours failed: that connection stands (INTEROP 4.4). */
static bool was_connected(struct rdma_ep *ep)
{
	bool yes;

	pthread_mutex_lock(&ep->lock);
	yes = atomic_load(&ep->state) == EP_READY ||
	      (atomic_load(&ep->state) == EP_WAIT_ACK && await(ep, NULL) == 0);
	pthread_mutex_unlock(&ep->lock);
	return yes;
}

/* A NIC talking to itself needs no messages. ep->lock held. */
static int connect_self(struct rdma_ep *ep, struct te_err *err)
{
	struct te_shake own;
	int r;

	rdma_ep_shake(ep, &own);
	own.te = false; /* nobody to say farewell to */
	r = rdma_ep_setup(ep, &own, err);
	if (!r)
		atomic_store(&ep->state, EP_READY);
	return r;
}

/* Whatever comes of it, the peer may have made its half: it is told when ours goes. */
static void note_asked(const struct attempt *a, struct rdma_ep *ep)
{
	pthread_mutex_lock(&ep->lock);
	te_strlcpy(ep->host, a->host, sizeof(ep->host));
	ep->port = a->port;
	ep->te = a->te;
	ep->asked = true;
	pthread_mutex_unlock(&ep->lock);
}

static int shake_hands(struct attempt *a, struct rdma_ep *ep, struct te_err *err)
{
	struct te_directory *d = a->t->base.env->directory;
	struct te_shake say, reply;
	int r = d->address(d, a->server, a->host, sizeof(a->host), &a->port, err);

	rdma_ep_shake(ep, &say);
	if (!r) {
		note_asked(a, ep);
		r = exchange(a, &say, &reply, err);
	}
	if (!r)
		r = check_reply(a, &reply, err);
	if (r < 0) {
		a->hopeless = true;
		return was_connected(ep) ? 0 : r;
	}
	pthread_mutex_lock(&ep->lock);
	r = use_reply(ep, &reply, err);
	pthread_mutex_unlock(&ep->lock);
	if (!r)
		r = send_ack(a, &say, &reply, err);
	if (!r)
		set_ready(ep);
	return r && was_connected(ep) ? 0 : r;
}

static int connect_ep(struct attempt *a, struct rdma_ep *ep, struct te_err *err)
{
	int r = 0;

	pthread_mutex_lock(&ep->lock);
	if (atomic_load(&ep->state) == EP_NEW) {
		if (!strcmp(ep->path, a->ctx->path)) {
			r = connect_self(ep, err);
			pthread_mutex_unlock(&ep->lock);
			return r;
		}
		atomic_store(&ep->state, EP_CONNECTING);
		pthread_mutex_unlock(&ep->lock);
		return shake_hands(a, ep, err);
	}
	if (atomic_load(&ep->state) != EP_READY)
		r = await(ep, err);
	pthread_mutex_unlock(&ep->lock);
	return r;
}

/* ---- the probe ---------------------------------------------------------------------------- */

static int probe(struct attempt *a, struct rdma_ep *ep, struct te_err *err)
{
	uint64_t until = te_now() + (uint64_t)RDMA_PROBE_MS * TE_NSEC_PER_MSEC;
	int r;

	a->to.rkey = &a->rkey;
	r = rdma_post_probe(ep, a->has_range ? &a->to : NULL, 0);
	if (r < 0)
		return te_fail(err, r, "%s to %s: %s", a->ctx->path, a->path, strerror(-r));
	while ((r = atomic_load(&ep->probe)) > 0 && te_now() < until) {
		struct timespec nap = { .tv_nsec = 200000 };

		if (!rdma_poll(a->ctx))
			nanosleep(&nap, NULL);
	}
	if (!r)
		return 0;
	return te_fail(err, r > 0 ? -EHOSTUNREACH : r,
		       "%s to %s: the peer does not answer on this path (%s)", a->ctx->path,
		       a->path, r > 0 ? "nothing came back" : strerror(-r));
}

/* ---- one rail ----------------------------------------------------------------------------- */

static int try_once(struct attempt *a, struct rdma_ep **out, struct te_err *err)
{
	struct rdma_ep *ep;
	char why[256];
	int r;

	if (!atomic_load(&a->ctx->active)) {
		rdma_ctx_why(a->ctx, why, sizeof(why));
		return te_fail(err, -ENETDOWN, "%s", why);
	}
	r = rdma_ep_get(a->ctx, a->path, &ep, err);
	if (r < 0)
		return r;
	r = connect_ep(a, ep, err);
	if (!r)
		r = probe(a, ep, err);
	if (r < 0) {
		rdma_ep_retire(ep, err, NULL);
		rdma_ep_put(ep);
		return r;
	}
	atomic_fetch_add(&a->t->connects, 1);
	*out = ep;
	return 0;
}

/* In automatic mode a GID that the NIC refuses is followed by the next best. */
static int attempt(struct attempt *a, struct rdma_ep **out, struct te_err *err)
{
	const struct te_conf *conf = a->t->base.env->conf;
	int r;

	for (;;) {
		r = try_once(a, out, err);
		if (r != -EINVAL || conf->gid_index >= 0 ||
		    a->gid_tries++ >= conf->auto_gid_max_retries || !rdma_ctx_next_gid(a->ctx))
			return r;
		te_warn("%s; trying another GID", err->msg);
		a->t->base.env->directory->changed(a->t->base.env->directory);
	}
}

/* p->lock held. */
static void prepare(struct attempt *a, const struct rdma_peer *p, const struct rdma_rail *r)
{
	*a = (struct attempt){
		.t = p->t, .ctx = r->ctx, .gid = r->gid, .lid = r->lid, .te = p->te
	};
	te_strlcpy(a->server, p->server, sizeof(a->server));
	te_strlcpy(a->path, r->path, sizeof(a->path));
	if (r->listed && p->table->nranges) { /* its number among the devices is of this table */
		a->to = p->table->ranges[0];
		a->rkey = a->to.rkey[r->device];
		a->has_range = true;
	}
}

static void connect_rail(struct rdma_peer *p, struct rdma_rail *r, struct rdma_done *done)
{
	struct rdma_ep *ep = NULL;
	struct attempt a;
	struct te_err err;
	int rc;

	prepare(&a, p, r);
	pthread_mutex_unlock(&p->lock);
	rc = attempt(&a, &ep, &err);
	pthread_mutex_lock(&p->lock);
	if (r->state != RAIL_CONNECTING) { /* the descriptor has changed meanwhile */
		rdma_ep_put(ep);
	} else if (rc < 0) {
		rdma_rail_failed(r, &err, a.hopeless);
	} else {
		r->ep = ep;
		r->state = RAIL_READY;
		r->paused_until = 0;
		r->why.code = 0;
		r->why.msg[0] = '\0';
		te_info("segment '%s': path %s to %s is ready", p->base.segment, r->ctx->path,
			r->path);
	}
	rdma_pump(p, done);
}

static void *connector(void *arg)
{
	struct rdma_rail *r = arg;
	struct rdma_peer *p = r->peer;
	struct rdma *t = p->t;
	struct rdma_done done;

	pthread_mutex_lock(&p->lock);
	while (r->state == RAIL_CONNECTING && !p->closing) {
		rdma_done_init(&done);
		connect_rail(p, r, &done);
		pthread_mutex_unlock(&p->lock);
		rdma_done_deliver(t, &done);
		pthread_mutex_lock(&p->lock);
	}
	r->at_work = false;
	p->connectors--;
	pthread_mutex_unlock(&p->lock);
	rdma_janitor_wake(t); /* which may be waiting to free the peer */
	return NULL;
}

static void start(struct rdma_rail *r)
{
	struct te_err why;
	int rc;

	if (r->has_thread)
		pthread_join(r->connector, NULL); /* it is past its last line */
	r->at_work = true;
	r->peer->connectors++;
	rc = te_thread_start(&r->connector, "te-rdma-conn", connector, r);
	r->has_thread = !rc;
	if (!rc)
		return;
	r->at_work = false;
	r->peer->connectors--;
	te_fail(&why, rc, "cannot start a thread: %s", strerror(-rc));
	rdma_rail_failed(r, &why, true);
}

void rdma_connect(struct rdma_peer *p)
{
	for (struct rdma_rail *r = p->rails; r && !p->closing; r = r->next)
		if (r->state == RAIL_CONNECTING && !r->at_work)
			start(r);
}
