/* peer.c - a segment over rdma: its rails, the queue of slices that no rail has yet, and their ways
 * back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma/rdma.h"

enum {
	GRACE_S = 5, /* without any rail, before slices fail; or MC_TRANSFER_TIMEOUT / 4 */
	ASK_S = 1,   /* between two looks at the descriptor of a peer with NICs down */
};

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

static void fail_queue(struct rdma_peer *p, int status, const struct te_err *why,
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
 * just been lost. */
static bool post_chains(struct rdma_peer *p, struct rdma_done *done)
{
	bool lost = false;

	for (struct rdma_rail *r = p->rails; r; r = r->next) {
		struct te_slice *rest;

		if (!r->chain)
			continue;
		rest = rdma_post(r->ep, r, r->chain);
		lost |= rest && atomic_load(&r->ep->state) != EP_READY;
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
	fail_queue(p, why.code, &why, done);
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
		if (!rdma_range(p->table, p->queue->remote)) {
			unknown_range(pop(p), done);
			continue;
		}
		r = rdma_choose(p, p->queue, &wait);
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
			if (r->ep && atomic_load(&r->inflight) &&
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
	fail_queue(p, status, &p->abort_why, &done);
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

void rdma_unfence(struct rdma_peer *p)
{
	struct rdma *t = p->t;
	struct rdma_done done;

	rdma_done_init(&done);
	pthread_mutex_lock(&p->lock);
	if (atomic_load(&p->jobs) == 1)
		take_fenced(p, &done);
	atomic_fetch_sub(&p->jobs, 1);
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
	over = p->closing && !p->connectors && !atomic_load(&p->jobs);
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
	if (!atomic_load(&p->jobs))
		take_fenced(p, done);
	busy = p->queue || p->fenced || p->closing;
	pthread_mutex_unlock(&p->lock);
	return busy;
}
