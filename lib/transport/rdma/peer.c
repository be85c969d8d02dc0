/* peer.c - a segment over rdma: its rails as the descriptor names them, its opening and its end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma/rdma.h"

enum { ASK_S = 1 }; /* between two looks at the descriptor of a peer with NICs down */

/* ---- rails of a descriptor ---------------------------------------------------------------- */

static struct rdma_rail *find_rail(struct rdma_peer *p, const struct rdma_ctx *c, const char *nic)
{
	struct rdma_rail *r = p->rails;

	while (r && (r->ctx != c || strcmp(r->remote, nic) != 0))
		r = r->next;
	return r;
}

static struct rdma_rail *add_rail(struct rdma_peer *p, struct rdma_ctx *c, const char *nic)
{
	struct rdma_rail *r = calloc(1, sizeof(*r)), **end = &p->rails;

	if (!r)
		return NULL;
	r->peer = p;
	r->ctx = c;
	te_strlcpy(r->remote, nic, sizeof(r->remote));
	snprintf(r->path, sizeof(r->path), "%s@%s", p->server, nic);
	while (*end)
		end = &(*end)->next;
	*end = r;
	return r;
}

static void drop_ep(struct rdma_rail *r)
{
	rdma_ep_put(r->ep);
	r->ep = NULL;
	r->state = RAIL_IDLE;
}

static int list_rail(struct rdma_peer *p, struct rdma_ctx *c, size_t device, struct te_err *err)
{
	const struct rdma_device *d = &p->table->devices[device];
	struct rdma_rail *r = find_rail(p, c, d->name);
	union ibv_gid gid;

	if (!te_nic_gid_parse(d->gid, &gid))
		return 0; /* no way there */
	if (!r)
		r = add_rail(p, c, d->name);
	if (!r)
		return te_fail(err, -ENOMEM, "out of memory");
	if (r->ep && memcmp(&gid, &r->gid, sizeof(gid)) != 0)
		drop_ep(r);
	r->gid = gid;
	r->lid = d->lid;
	r->device = (unsigned)device;
	r->listed = true;
	r->hopeless = false; /* there is news of the peer */
	return 0;
}

/* peer->lock held (or nobody knows it yet). Takes table. */
static int use_table(struct rdma_peer *p, struct rdma_table *table, const struct te_desc_ext *te,
		     struct te_err *err)
{
	size_t devices = MIN(table->ndevices, (size_t)RDMA_DEVICES);
	int r = 0;

	if (devices < table->ndevices)
		te_warn("segment '%s': it names %zu devices, of which the first %zu are used",
			p->base.segment, table->ndevices, devices);
	rdma_table_free(p->table);
	p->table = table;
	p->te = te->present;
	p->degraded = te->degraded;
	for (struct rdma_rail *rail = p->rails; rail; rail = rail->next)
		rail->listed = false;
	for (size_t i = 0; i < p->t->nctx && !r; i++)
		for (size_t k = 0; p->t->ctx[i] && k < devices && !r; k++)
			r = list_rail(p, p->t->ctx[i], k, err);
	for (struct rdma_rail *rail = p->rails; rail; rail = rail->next)
		p->degraded |= !rail->listed;
	return r ? r : rdma_plan_rails(p, err);
}

void rdma_peer_update(struct te_peer *base, const struct te_desc *desc)
{
	struct rdma_peer *p = container_of(base, struct rdma_peer, base);
	struct rdma_table *table = rdma_table_new(desc);
	struct rdma_done done;
	struct te_err err;

	if (!table)
		return;
	rdma_done_init(&done);
	pthread_mutex_lock(&p->lock);
	if (use_table(p, table, &desc->te, &err) < 0)
		te_warn("segment '%s': %s", p->base.segment, err.msg);
	rdma_pump(p, &done);
	pthread_mutex_unlock(&p->lock);
	rdma_done_deliver(p->t, &done);
}

/* ---- open and close ----------------------------------------------------------------------- */

static int check(const struct te_peer_info *info, const struct rdma *t, struct te_err *err)
{
	const struct te_desc *d = info->desc;

	if (strcmp(d->protocol, "rdma") != 0)
		return te_fail(err, -EOPNOTSUPP, "its protocol is %s", d->protocol);
	for (size_t i = 0; i < t->nctx; i++)
		if (t->ctx[i])
			return d->ndevices ? 0
					   : te_fail(err, -EOPNOTSUPP,
						     "its descriptor names no device");
	return te_fail(err, -EOPNOTSUPP, "this host has no RDMA device");
}

int rdma_peer_open(struct te_transport *base, const struct te_peer_info *info, struct te_peer **out,
		   struct te_err *err)
{
	struct rdma *t = rdma_of(base);
	const char *server = info->desc->rdma_server_name;
	struct rdma_table *table;
	struct rdma_peer *p;
	int r = check(info, t, err);

	if (r < 0)
		return r;
	p = calloc(1, sizeof(*p));
	table = rdma_table_new(info->desc);
	if (!p || !table) {
		free(p);
		rdma_table_free(table);
		return te_fail(err, -ENOMEM, "out of memory");
	}
	p->t = t;
	pthread_mutex_init(&p->lock, NULL);
	p->queue_end = &p->queue;
	p->fenced_end = &p->fenced;
	te_strlcpy(p->server, server && *server ? server : info->desc->name, sizeof(p->server));
	te_strlcpy(p->base.segment, info->name, sizeof(p->base.segment));
	atomic_init(&p->base.piece, t->slice);
	p->base.fragment = t->fragment;
	r = use_table(p, table, &info->desc->te, err);
	if (r < 0) {
		rdma_peer_free(p);
		return r;
	}
	pthread_mutex_lock(&t->peers_lock);
	p->next = t->peers;
	t->peers = p;
	pthread_mutex_unlock(&t->peers_lock);
	*out = &p->base;
	return 0;
}

/* The janitor frees it: the last slice may have come back on the peer's own connector. */
void rdma_peer_close(struct te_peer *base)
{
	struct rdma_peer *p = container_of(base, struct rdma_peer, base);
	struct rdma *t = p->t;

	pthread_mutex_lock(&p->lock);
	p->closing = true;
	pthread_mutex_unlock(&p->lock);
	rdma_janitor_wake(t);
}

/* Nobody starts others any more. */
void rdma_peer_join(struct rdma_peer *p)
{
	for (struct rdma_rail *r = p->rails; r; r = r->next) {
		if (r->has_thread)
			pthread_join(r->connector, NULL);
		r->has_thread = false;
	}
}

void rdma_peer_free(struct rdma_peer *p)
{
	rdma_peer_join(p);
	while (p->rails) {
		struct rdma_rail *next = p->rails->next;

		rdma_ep_put(p->rails->ep);
		free(p->rails);
		p->rails = next;
	}
	rdma_plan_clear(p);
	rdma_table_free(p->table);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

bool rdma_path(struct te_peer *base, size_t i, struct te_path *out)
{
	struct rdma_peer *p = container_of(base, struct rdma_peer, base);
	struct rdma_rail *r;

	pthread_mutex_lock(&p->lock);
	for (r = p->rails; r && i; r = r->next)
		i--;
	if (r) {
		te_strlcpy(out->local, r->ctx->name, sizeof(out->local));
		te_strlcpy(out->remote, r->remote, sizeof(out->remote));
		out->slices = atomic_load(&r->slices);
		out->bytes = atomic_load(&r->bytes);
		out->retries = atomic_load(&r->retries);
	}
	pthread_mutex_unlock(&p->lock);
	return r;
}

/* ---- abort and time ----------------------------------------------------------------------- */

/* Every endpoint that has work of this peer's goes: only that makes its memory quiet. */
static void retire_rails(struct rdma_peer *p, const struct te_err *why)
{
	for (;;) {
		struct rdma_ep *ep = NULL;

		pthread_mutex_lock(&p->lock);
		for (struct rdma_rail *r = p->rails; r && !ep; r = r->next)
			if (r->ep && atomic_load(&r->meter.inflight) &&
			    atomic_load(&r->ep->state) != EP_RETIRED) {
				ep = r->ep;
				atomic_fetch_add(&ep->refs, 1);
			}
		pthread_mutex_unlock(&p->lock);
		if (!ep)
			return;
		rdma_ep_retire(ep, why, NULL);
		rdma_ep_put(ep);
	}
}

void rdma_abort(struct te_peer *base, int status, const struct te_err *why)
{
	struct rdma_peer *p = container_of(base, struct rdma_peer, base);
	struct rdma_done done;

	rdma_done_init(&done);
	pthread_mutex_lock(&p->lock);
	p->abort_status = status;
	p->abort_why = why ? *why : (struct te_err){ .code = status, .msg = "aborted" };
	rdma_fail_queue(p, status, &p->abort_why, &done);
	pthread_mutex_unlock(&p->lock);
	retire_rails(p, &p->abort_why);
	rdma_done_deliver(p->t, &done);
}

/* peer->lock held. */
static void take_fenced(struct rdma_peer *p, struct rdma_done *done)
{
	while (p->fenced) {
		struct te_slice *s = p->fenced;

		p->fenced = s->next;
		if (!p->fenced)
			p->fenced_end = &p->fenced;
		rdma_done_add(done, s, 0, NULL);
	}
}

bool rdma_is_fenced(const struct rdma_peer *p)
{
	return atomic_load(&p->jobs) || te_now() < atomic_load(&p->fence_until);
}

void rdma_fence(struct rdma_peer *p)
{
	atomic_store(&p->fence_until, te_now() + (uint64_t)RDMA_BYE_MS * TE_NSEC_PER_MSEC);
}

void rdma_unfence(struct rdma_peer *p)
{
	struct rdma *t = p->t;
	struct rdma_done done;

	rdma_done_init(&done);
	pthread_mutex_lock(&p->lock);
	atomic_fetch_sub(&p->jobs, 1);
	if (!rdma_is_fenced(p))
		take_fenced(p, &done);
	pthread_mutex_unlock(&p->lock);
	rdma_done_deliver(t, &done);
}

bool rdma_peer_curious(struct rdma_peer *p, char *segment)
{
	uint64_t now = te_now();
	bool yes;

	pthread_mutex_lock(&p->lock);
	yes = p->degraded && !p->closing && now - p->asked > ASK_S * TE_NSEC_PER_SEC;
	if (yes) {
		p->asked = now;
		te_strlcpy(segment, p->base.segment, sizeof(p->base.segment));
	}
	pthread_mutex_unlock(&p->lock);
	return yes;
}

bool rdma_peer_over(struct rdma_peer *p)
{
	bool over;

	pthread_mutex_lock(&p->lock);
	over = p->closing && !p->connectors && !atomic_load(&p->jobs) && !p->fenced;
	pthread_mutex_unlock(&p->lock);
	return over;
}

void rdma_peer_replan(struct rdma_peer *p, const struct rdma_ctx *c)
{
	struct te_err err;

	pthread_mutex_lock(&p->lock);
	for (struct rdma_rail *r = p->rails; r; r = r->next)
		if (r->ctx == c)
			r->paused_until = 0;
	if (rdma_plan_rails(p, &err) < 0)
		te_warn("segment '%s': %s", p->base.segment, err.msg);
	pthread_mutex_unlock(&p->lock);
}

bool rdma_peer_tick(struct rdma_peer *p, struct rdma_done *done)
{
	bool busy;

	pthread_mutex_lock(&p->lock);
	for (struct rdma_rail *r = p->rails; r; r = r->next)
		rdma_rail_look(r);
	if (p->queue)
		rdma_pump(p, done);
	if (!rdma_is_fenced(p))
		take_fenced(p, done);
	busy = p->queue || p->fenced || p->closing;
	pthread_mutex_unlock(&p->lock);
	return busy;
}
