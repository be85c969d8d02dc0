/* rail.c - rails: pairs of a NIC here and one of the peer's, what they are worth, and which one a
 * slice takes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma/affinity.h"
#include "transport/rdma/rdma.h"

/* Of work that a rail may have: what a NIC has queued for longer than its QPs' ack time-out (67 ms
 * at 14) it sends twice. */
#define WINDOW_NS    (25 * (uint64_t)TE_NSEC_PER_MSEC)
#define PAUSE_MIN_NS (500 * (uint64_t)TE_NSEC_PER_MSEC)
#define RATE_GUESS   1e9 /* bytes a second, of a rail that was never measured */

enum {
	WINDOW_SLICES = 4, /* at least; twice as many until it is measured */
	CLASS_TIER = 4,	   /* preferred NICs first, then ... */
	CLASS_FAR = 2,	   /* ... those in the same subnet, then ... */
	CLASS_SPARE = 1,   /* ... a matching of NICs; all other pairs only when that fails */
	MATCH_MAX =
		256, /* pairs; a peer that names more NICs than machines have gets no matching */
};

/* ---- plans -------------------------------------------------------------------------------- */

/* 0: preferred, 1: one of the others, 2: the matrix rules it out. Without a row any will do. */
static int tier_of(const struct te_matrix *m, const struct te_matrix_row *row, const char *nic)
{
	int at = m ? te_matrix_nic(m, nic) : -1;

	if (!row || !row->n)
		return 0;
	for (size_t i = 0; i < row->n; i++)
		if (row->nics[i] == at)
			return i >= row->npreferred;
	return 2;
}

static unsigned uses(const struct rdma_plan *plan, const struct rdma_rail *r, unsigned class,
		     bool local)
{
	unsigned n = 0;

	for (size_t i = 0; i < plan->n; i++)
		if (plan->class[i] == class && (local ? plan->rails[i]->ctx == r->ctx
						      : !strcmp(plan->rails[i]->remote, r->remote)))
			n++;
	return n;
}

/* Under MC_ENABLE_DEST_DEVICE_AFFINITY: of a group of equals, NICs of the same name go together. */
static void match_names(struct rdma_plan *plan, unsigned class)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->class[i] == class &&
		    !strcmp(plan->rails[i]->ctx->name, plan->rails[i]->remote))
			plan->class[i] -= CLASS_SPARE;
}

/* Of a group of equals, one rail for each NIC here (local), or there, that has none yet; the rest
 * are spare. class: of the spare ones; they lose CLASS_SPARE when they are chosen. */
static void match_side(struct rdma_plan *plan, unsigned class, bool local)
{
	for (size_t k = 0; k < plan->n; k++) {
		unsigned least = UINT32_MAX;
		size_t at = k;

		if (plan->class[k] != class ||
		    uses(plan, plan->rails[k], class - CLASS_SPARE, local))
			continue;
		for (size_t i = 0; i < plan->n; i++) {
			const struct rdma_rail *r = plan->rails[i];
			unsigned n;

			if (plan->class[i] != class ||
			    (local ? r->ctx != plan->rails[k]->ctx
				   : strcmp(r->remote, plan->rails[k]->remote) != 0))
				continue;
			n = uses(plan, r, class - CLASS_SPARE, !local);
			if (n < least) {
				least = n;
				at = i;
			}
		}
		plan->class[at] = (uint8_t)(class - CLASS_SPARE);
	}
}

static void match(struct rdma_plan *plan, unsigned class, bool same_name)
{
	if (same_name)
		match_names(plan, class);
	match_side(plan, class, true);
	match_side(plan, class, false);
}

/* A NIC of the peer that a rule leaves out counts as one of the others. */
static int tier_there(const struct rdma_peer *p, const struct te_matrix_row *row,
		      const struct rdma_rail *r)
{
	const struct te_conf *conf = p->t->base.env->conf;
	int tier = tier_of(p->table->matrix, row, r->remote);

	if (tier == 0 && row && conf->hca_peer_affinity &&
	    te_affinity_excludes(conf->nic_peer_affinity, row->location, r->ctx->name, r->remote))
		tier = 1;
	return tier;
}

static void add_to_plan(struct rdma_peer *p, struct rdma_plan *plan,
			const struct te_matrix_row *own, const struct te_matrix_row *theirs)
{
	for (struct rdma_rail *r = p->rails; r; r = r->next) {
		int here = tier_of(p->t->matrix, own, r->ctx->name);
		int there = tier_there(p, theirs, r);

		if (!r->listed || here > 1 || there > 1)
			continue;
		plan->rails[plan->n] = r;
		plan->class[plan->n++] = (uint8_t)((here + there) * CLASS_TIER +
						   (r->near ? 0 : CLASS_FAR) + CLASS_SPARE);
	}
}

/* Made when it is first needed: a peer may name thousands of locations. */
const struct rdma_plan *rdma_plan(struct rdma_peer *p, size_t own, size_t theirs)
{
	const struct te_matrix *here = p->t->matrix, *there = p->table->matrix;
	struct rdma_plan *plan;
	size_t n = 0;

	if (!p->plans)
		return NULL;
	plan = &p->plans[own * p->plan_stride + theirs];
	if (plan->rails)
		return plan;
	for (struct rdma_rail *r = p->rails; r; r = r->next)
		n++;
	plan->class = calloc(n + 1, 1);
	plan->rails = plan->class ? calloc(n + 1, sizeof(plan->rails[0])) : NULL;
	if (!plan->rails) {
		free(plan->class);
		plan->class = NULL;
		return NULL;
	}
	add_to_plan(p, plan, own < here->nrows ? &here->rows[own] : NULL,
		    there && theirs < there->nrows ? &there->rows[theirs] : NULL);
	for (unsigned group = CLASS_SPARE; group < 3 * CLASS_TIER && plan->n <= MATCH_MAX;
	     group += CLASS_FAR)
		match(plan, group, p->t->base.env->conf->dest_affinity);
	return plan;
}

void rdma_plan_clear(struct rdma_peer *p)
{
	for (size_t i = 0; i < p->nplans; i++) {
		free(p->plans[i].rails);
		free(p->plans[i].class);
	}
	free(p->plans);
	p->plans = NULL;
	p->nplans = 0;
}

static void look_near(struct rdma_rail *r)
{
	struct rdma_ctx *c = r->ctx;

	pthread_mutex_lock(&c->lock);
	r->near = c->port.chosen >= 0 && te_nic_same_subnet(&c->port.gids[c->port.chosen], &r->gid);
	pthread_mutex_unlock(&c->lock);
}

int rdma_plan_rails(struct rdma_peer *p, struct te_err *err)
{
	const struct te_matrix *own = p->t->matrix, *theirs = p->table->matrix;
	size_t nown = own->nrows + 1, ntheirs = (theirs ? theirs->nrows : 0) + 1;

	for (struct rdma_rail *r = p->rails; r; r = r->next)
		look_near(r);
	rdma_plan_clear(p);
	p->plans = calloc(nown * ntheirs, sizeof(*p->plans));
	if (!p->plans)
		return te_fail(err, -ENOMEM, "out of memory");
	p->nplans = nown * ntheirs;
	p->plan_stride = ntheirs;
	return 0;
}

/* ---- what rails are worth ----------------------------------------------------------------- */

void rdma_rail_moved(struct rdma_rail *r, uint64_t bytes, uint64_t now)
{
	uint64_t rate = rdma_meter_moved(&r->meter, bytes, now);
	uint64_t old = atomic_load_explicit(&r->rate, memory_order_relaxed);
	uint64_t peak = atomic_load_explicit(&r->peak, memory_order_relaxed);

	if (!rate)
		return;
	/* Not the mean: a rail that others use too must not give way more and more. */
	atomic_store_explicit(&r->peak, MAX(rate, peak - peak / 16), memory_order_relaxed);
	atomic_store_explicit(&r->rate, old ? (3 * old + rate) / 4 : rate, memory_order_relaxed);
}

void rdma_rail_failed(struct rdma_rail *r, const struct te_err *why, bool hopeless)
{
	const struct te_conf *conf = r->peer->t->base.env->conf;
	uint64_t now = te_now(), pause = 0;

	if (!r->failed_since) {
		r->failed_since =
			now; /* may have been a single lost connection: tried again at once */
	} else {
		pause = MAX((now - r->failed_since) / 4, PAUSE_MIN_NS);
		pause = MIN(pause, (uint64_t)conf->rail_pause_s * TE_NSEC_PER_SEC);
	}
	pause = MAX(pause, (uint64_t)conf->conn_pause_ms * TE_NSEC_PER_MSEC);
	r->state = RAIL_PAUSED;
	r->paused_until = now + pause;
	r->hopeless = hopeless;
	r->why = *why;
	rdma_ep_put(r->ep);
	r->ep = NULL;
	te_info("segment '%s': path %s to %s is avoided for %u ms: %s", r->peer->base.segment,
		r->ctx->path, r->path, (unsigned)(pause / TE_NSEC_PER_MSEC), why->msg);
}

/* Of a pair that says something: "" of one that was never needed. */
static void reason(const struct rdma_rail *r, char *why, size_t size)
{
	*why = '\0';
	if (!r->listed)
		return;
	if (atomic_load(&r->ctx->active))
		te_strlcpy(why,
			   r->why.code		    ? r->why.msg
			   : r->state == RAIL_READY ? "in use"
						    : "",
			   size);
	else if (r->near || r->why.code || atomic_load(&r->slices))
		rdma_ctx_why(r->ctx, why, size);
}

void rdma_rails_say(const struct rdma_peer *p, char *text, size_t size)
{
	size_t len = 0;

	*text = '\0';
	for (const struct rdma_rail *r = p->rails; r && len < size; r = r->next) {
		char why[120];
		int n;

		reason(r, why, sizeof(why));
		if (!*why)
			continue;
		n = snprintf(text + len, size - len, "%s%s to %s: %s", len ? "; " : "",
			     r->ctx->name, r->remote, why);
		len += n > 0 ? (size_t)n : 0;
	}
	if (!len)
		te_strlcpy(text,
			   p->rails ? "none was tried" : "the peer names no NIC that ours may use",
			   size);
}

void rdma_rails_why(const struct rdma_peer *p, struct te_err *err)
{
	char text[420];
	int code = -ENETUNREACH;

	for (const struct rdma_rail *r = p->rails; r; r = r->next)
		if (r->listed && atomic_load(&r->ctx->active) && r->why.code)
			code = r->why.code;
	rdma_rails_say(p, text, sizeof(text));
	te_fail(err, code, "no path: %s", text);
}

/* ---- choosing ----------------------------------------------------------------------------- */

static size_t own_row(const struct te_matrix *m, const char *location)
{
	const struct te_matrix_row *row = te_matrix_row(m, location);

	return row ? (size_t)(row - m->rows) : m->nrows;
}

static const struct rdma_plan *plan_for(struct rdma_peer *p, const struct te_slice *s)
{
	const struct rdma_range *to = rdma_range(p->table, s->remote);

	if (!to)
		return NULL;
	if (p->last_region != s->region) {
		p->last_region = s->region;
		p->last_row = own_row(p->t->matrix, s->region->location);
	}
	return rdma_plan(p, p->last_row, to->row);
}

static bool usable(const struct rdma_rail *r)
{
	return r->listed && atomic_load_explicit(&r->ctx->active, memory_order_relaxed);
}

/* An endpoint that was retired behind the rail's back: by its peer, or to make room. */
void rdma_rail_look(struct rdma_rail *r)
{
	if (r->state != RAIL_READY || atomic_load(&r->ep->state) == EP_READY)
		return;
	rdma_ep_put(r->ep);
	r->ep = NULL;
	r->state = RAIL_IDLE;
}

static uint64_t load_of(const struct rdma_rail *r)
{
	return atomic_load_explicit(&r->meter.inflight, memory_order_relaxed) + r->chain_bytes;
}

static double rate_of(const struct rdma_rail *r)
{
	uint64_t rate = atomic_load_explicit(&r->rate, memory_order_relaxed);

	return rate ? (double)rate : RATE_GUESS;
}

/* A full rail is filled again once a quarter is free: few posts and few completions for many
 * slices. */
static bool has_room(struct rdma_rail *r, uint64_t len)
{
	uint64_t peak = atomic_load_explicit(&r->peak, memory_order_relaxed), load = load_of(r);
	uint64_t least = WINDOW_SLICES * r->peer->t->slice, window;

	if (r->nchain + MIN((int)RDMA_PARTS, r->ctx->max_wr) > rdma_post_room(r->ep))
		return false;
	window = peak ? MAX((uint64_t)((double)peak * (double)WINDOW_NS / 1e9), least) : 2 * least;
	if (load && load + len > window)
		r->full = true;
	else if (load <= window - window / 4)
		r->full = false;
	return !r->full;
}

/* What a look at one class of rails found. */
struct look {
	struct rdma_rail *best, *fast; /* with room; the fastest of all that are ready */
	double best_end;
	unsigned ready, coming, idle;
	uint64_t load; /* bytes that the ready ones have */
};

static bool may_start(const struct rdma_rail *r, uint64_t now, bool desperate)
{
	uint64_t from = desperate ? MIN(r->paused_until, r->tried + PAUSE_MIN_NS) : r->paused_until;

	return r->state == RAIL_IDLE || (r->state == RAIL_PAUSED && now >= from);
}

static void start_rails(struct rdma_peer *p, const struct rdma_plan *plan, unsigned class,
			unsigned most, bool desperate)
{
	for (size_t i = 0; i < plan->n && most; i++) {
		struct rdma_rail *r = plan->rails[i];

		if (plan->class[i] != class || !usable(r) || !may_start(r, p->now, desperate))
			continue;
		r->state = RAIL_CONNECTING;
		r->tried = p->now;
		most--;
	}
	rdma_connect(p);
}

/* Of equals the one whose turn is longest ago. */
static void look_at_ready(struct rdma_rail *r, const struct te_slice *s, struct look *l)
{
	double end = 0;

	l->ready++;
	l->load += load_of(r);
	if (!l->fast || rate_of(r) > rate_of(l->fast))
		l->fast = r;
	if (!has_room(r, s->len))
		return;
	if (!r->peer->t->base.env->conf->path_roundrobin)
		end = (double)(load_of(r) + s->len) / rate_of(r);
	if (!l->best || end < l->best_end || (end == l->best_end && r->turn < l->best->turn)) {
		l->best = r;
		l->best_end = end;
	}
}

static void look_at_class(struct rdma_peer *p, const struct rdma_plan *plan, unsigned class,
			  const struct te_slice *s, bool desperate, struct look *l)
{
	memset(l, 0, sizeof(*l));
	for (size_t i = 0; i < plan->n; i++) {
		struct rdma_rail *r = plan->rails[i];

		if (plan->class[i] != class || !usable(r))
			continue;
		rdma_rail_look(r);
		l->coming += r->state == RAIL_CONNECTING;
		l->idle += may_start(r, p->now, desperate);
		if (r->state == RAIL_READY)
			look_at_ready(r, s, l);
	}
}

/* A slow rail is no help for the last slices: the fastest one would be done with all of them
 * before. */
static bool too_slow(const struct rdma_peer *p, const struct look *l)
{
	const struct rdma_rail *fast = l->fast;

	if (!l->best || l->best == fast || p->t->base.env->conf->path_roundrobin ||
	    !atomic_load(&l->best->rate) || !atomic_load(&fast->rate))
		return false;
	return l->best_end > (double)(load_of(fast) + p->queued) / rate_of(fast);
}

static bool any_ready(const struct rdma_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		if (usable(plan->rails[i]) && plan->rails[i]->state == RAIL_READY &&
		    atomic_load(&plan->rails[i]->ep->state) == EP_READY)
			return true;
	return false;
}

/* How many rails there is work for: one for each slice that waits or is in flight, since many
 * callers with a slice each are no short queue. */
static unsigned worth(const struct rdma_peer *p, const struct look *l)
{
	return (unsigned)MIN((p->queued + l->load + p->t->slice - 1) / p->t->slice, (uint64_t)64);
}

struct rdma_rail *rdma_choose(struct rdma_peer *p, const struct te_slice *s, bool *wait)
{
	const struct rdma_plan *plan = plan_for(p, s);
	bool started = false, ready;

	*wait = false;
	if (!plan)
		return NULL;
	ready = any_ready(plan);
	for (unsigned class = 0; class < 3 * CLASS_TIER; class ++) {
		struct look l;

		look_at_class(p, plan, class, s, !ready, &l);
		if (l.idle && !started) {
			unsigned want = worth(p, &l), have = l.ready + l.coming;

			if (have < want)
				start_rails(p, plan, class, want - have, !ready);
			l.coming += have < want;
		}
		started |= l.coming > 0;
		*wait |= l.coming || l.ready;
		if (l.best && !too_slow(p, &l)) {
			l.best->turn = ++p->turn;
			return l.best;
		}
		if (l.ready)
			return NULL;
	}
	return NULL;
}
