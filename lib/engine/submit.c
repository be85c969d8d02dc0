/* submit.c - requests become tasks and slices: all of a submit is checked, then nothing is refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

enum {
	CHAINS = 16,  /* segments of one submit that are collected before they are handed out */
	PREFETCH = 4, /* tasks ahead */
	CACHE_LINE = 64,
};

/* What one submit looks at again and again. */
struct plan {
	struct te_engine *e;
	struct te_batch *b;
	struct te_seg *seg;	  /* of the last request */
	struct te_region *region; /* of the last source; one reference of our own */
	uint32_t region_uses;	  /* tasks with that source whose references are not taken yet */
	uint64_t piece, fragment; /* of seg's peer */
	uint64_t total;		  /* bytes of the submit */
	size_t nseg;		  /* further pieces needed */
	struct {
		struct te_seg *seg;
		struct te_slice *head, **tail;
		uint32_t count;
	} chain[CHAINS];
	size_t nchains;
};

/* The references of the tasks that were filled, before any of them can end. */
static void take_references(struct plan *p)
{
	if (p->region_uses)
		te_region_ref_n(p->region, p->region_uses);
	p->region_uses = 0;
}

static int look_at_segment(struct plan *p, int32_t id, size_t i, struct te_err *err)
{
	struct te_peer *peer;
	int r;

	if (p->seg && p->seg->id == id)
		return 0;
	p->seg = te_seg_find(p->e, id);
	if (!p->seg)
		return te_fail(err, -EBADF, "request %zu: unknown segment id %d", i, id);
	peer = te_seg_peer(p->seg);
	if (!peer) { /* only our own segment is opened by need */
		r = te_segment_open(p->e, p->e->name, err);
		if (r < 0)
			return te_wrap(err, r, "request %zu", i);
		peer = te_seg_peer(p->seg);
	}
	p->piece = atomic_load_explicit(&peer->piece, memory_order_relaxed);
	p->fragment = peer->fragment;
	te_peer_put(p->e, peer);
	return 0;
}

static int look_at_source(struct plan *p, const struct te_request *q, size_t i, struct te_err *err)
{
	uint64_t addr = (uint64_t)(uintptr_t)q->source;

	if (te_wraps(addr, q->length) || te_wraps(q->offset, q->length))
		return te_fail(err, -EINVAL, "request %zu: length %llu wraps", i,
			       (unsigned long long)q->length);
	if (!q->length || (p->region && te_region_holds(p->region, addr, q->length)))
		return 0;
	take_references(p);
	te_region_put(p->region);
	p->region = te_region_get(p->e->regions, addr, q->length, false);
	if (!p->region)
		return te_fail(err, -EFAULT,
			       "request %zu: source %#llx+%llu is not in one registered buffer", i,
			       (unsigned long long)addr, (unsigned long long)q->length);
	return 0;
}

/* How many beside the first; a short last one joins the one before. */
static uint64_t further_pieces(const struct plan *p, uint64_t length)
{
	uint64_t n = p->piece && length > p->piece ? (length - 1) / p->piece : 0;

	return n && length - n * p->piece <= p->fragment ? n - 1 : n;
}

/* Everything that can be refused, before anything is changed. */
static int check_all(struct plan *p, const struct te_request *req, size_t n, struct te_err *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = look_at_segment(p, req[i].target, i, err);

		if (r < 0)
			return r;
		if (req[i].op != TE_READ && req[i].op != TE_WRITE)
			return te_fail(err, -EINVAL, "request %zu: unknown operation %d", i,
				       req[i].op);
		r = look_at_source(p, &req[i], i, err);
		if (r < 0)
			return r;
		p->nseg += further_pieces(p, req[i].length);
		p->total += req[i].length;
	}
	return 0;
}

static struct te_slice *take_pieces(struct plan *p, size_t *used, size_t n)
{
	struct te_slice *s = &p->b->pieces->slice[*used];

	*used += n;
	return s;
}

static void fill_slice(struct te_slice *s, struct te_task *t, const struct te_request *q,
		       uint64_t at, uint64_t len, uint64_t deadline)
{
	memset(s, 0, sizeof(*s));
	s->task = t;
	s->local = (char *)q->source + at;
	s->remote = q->offset + at;
	s->len = len;
	s->op = (uint8_t)q->op;
	s->deadline = deadline;
	s->cancelled = &t->stopped;
}

/* The request becomes slices at the end of its segment's chain. */
static uint32_t fill_task(struct plan *p, struct te_task *t, const struct te_request *q,
			  size_t *used, uint64_t deadline, struct te_slice ***tail)
{
	uint32_t n = (uint32_t)further_pieces(p, q->length);
	uint64_t piece = p->piece;

	if (*used + n > p->nseg) /* the peer has changed its mind since check_all() */
		n = 0;
	t->region = p->region;
	p->region_uses++;
	t->more = n ? take_pieces(p, used, n) : NULL;
	t->nmore = n;
	atomic_store_explicit(&t->left, n + 1, memory_order_relaxed);
	for (uint32_t k = 0; k <= n; k++) {
		struct te_slice *s = k ? &t->more[k - 1] : &t->slice;
		uint64_t at = (uint64_t)k * piece;

		fill_slice(s, t, q, at, k < n ? piece : q->length - at, deadline);
		s->region = p->region;
		**tail = s;
		*tail = &s->next;
	}
	return n + 1;
}

static void flush_chains(struct plan *p)
{
	take_references(p);
	for (size_t i = 0; i < p->nchains; i++) {
		atomic_fetch_add(&p->b->inflight, p->chain[i].count);
		te_seg_hold(p->chain[i].seg, p->chain[i].count, p->chain[i].head->deadline);
		te_seg_dispatch(p->chain[i].seg, p->chain[i].head);
	}
	p->nchains = 0;
}

static size_t chain_of(struct plan *p, struct te_seg *seg)
{
	size_t i;

	for (i = 0; i < p->nchains; i++)
		if (p->chain[i].seg == seg)
			return i;
	if (i == CHAINS) {
		flush_chains(p);
		i = 0;
	}
	p->chain[i].seg = seg;
	p->chain[i].head = NULL;
	p->chain[i].tail = &p->chain[i].head;
	p->chain[i].count = 0;
	p->nchains = i + 1;
	return i;
}

static void init_task(struct te_task *t, struct plan *p, const struct te_request *q, uint64_t now)
{
	memset(t, 0, sizeof(*t));
	t->batch = p->b;
	t->seg = p->seg;
	t->length = q->length;
	t->submitted = now;
}

static void prefetch_task(const struct te_task *t)
{
	for (size_t at = 0; at < sizeof(*t); at += CACHE_LINE)
		__builtin_prefetch((const char *)t + at, 1);
}

static uint64_t deadline_of(const struct plan *p, uint64_t now)
{
	const struct te_conf *c = &p->e->conf;
	double s = c->transfer_timeout_s + (double)p->total / 1e6;

	if (c->slice_timeout_s && (double)c->slice_timeout_s < s)
		s = (double)c->slice_timeout_s;
	return now + (uint64_t)(s * 1e9);
}

/* Nothing can be refused from here on. */
static void run_all(struct plan *p, const struct te_request *req, size_t n)
{
	size_t base = atomic_load(&p->b->n), used = 0;
	uint64_t now = te_now(), deadline = deadline_of(p, now);
	uint32_t empty = 0;

	atomic_fetch_add(&p->b->pending, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		struct te_task *t = &p->b->tasks[base + i];
		size_t c;

		/* The first touch of a task costs more than all else that is done to it. */
		if (i + PREFETCH < n)
			prefetch_task(&p->b->tasks[base + i + PREFETCH]);
		look_at_segment(p, req[i].target, i, NULL);
		look_at_source(p, &req[i], i, NULL);
		init_task(t, p, &req[i], now);
		if (req[i].length) {
			c = chain_of(p, p->seg);
			p->chain[c].count +=
				fill_task(p, t, &req[i], &used, deadline, &p->chain[c].tail);
		} else {
			empty += te_task_end(t, TE_COMPLETED, 0, NULL, now);
		}
		atomic_store_explicit(&p->b->n, base + i + 1, memory_order_release);
	}
	flush_chains(p);
	te_batch_ended(p->b, empty);
}

static int make_pieces(struct te_batch *b, size_t n, struct te_err *err)
{
	struct te_pieces *block;

	if (!n)
		return 0;
	block = malloc(sizeof(*block) + n * sizeof(block->slice[0]));
	if (!block)
		return te_fail(err, -ENOMEM, "out of memory for %zu pieces", n);
	block->next = b->pieces;
	b->pieces = block;
	return 0;
}

/* b->submit_lock and segs_lock (reading) held. */
static int submit_locked(struct te_batch *b, const struct te_request *req, size_t n,
			 struct te_err *err)
{
	struct plan p = { .e = b->e, .b = b };
	size_t used = atomic_load(&b->n);
	int r;

	if (n > b->capacity - used)
		return te_fail(err, -ENOSPC, "batch of %zu has room for %zu more requests, not %zu",
			       b->capacity, b->capacity - used, n);
	if (atomic_load(&b->e->closing))
		return te_fail(err, -ESHUTDOWN, "the engine is closing");
	r = check_all(&p, req, n, err);
	if (!r)
		r = make_pieces(b, p.nseg, err);
	if (!r)
		run_all(&p, req, n);
	te_region_put(p.region);
	return r;
}

static int submit(struct te_batch *b, const struct te_request *req, size_t n, struct te_err *err)
{
	int r;

	pthread_mutex_lock(&b->submit_lock);
	pthread_rwlock_rdlock(&b->e->segs_lock);
	r = submit_locked(b, req, n, err);
	pthread_rwlock_unlock(&b->e->segs_lock);
	pthread_mutex_unlock(&b->submit_lock);
	return r;
}

static int unknown_batch(uint64_t id, struct te_err *err)
{
	return te_fail(err, -EBADF, "unknown or stale batch id %#llx", (unsigned long long)id);
}

int te_batch_submit(struct te_engine *e, uint64_t id, const struct te_request *req, size_t n,
		    struct te_err *err)
{
	struct te_batch *b = te_batch_get(e, id);
	int r;

	if (!b)
		return unknown_batch(id, err);
	r = submit(b, req, n, err);
	te_batch_put(b);
	return r;
}

/* The message waits in the batch before anything can complete. */
static int submit_notify(struct te_batch *b, const struct te_request *req, size_t n,
			 const char *name, const char *msg, struct te_err *err)
{
	char *name_copy = te_strdup(name ? name : ""), *msg_copy = te_strdup(msg ? msg : "");
	int r;

	if (!name_copy || !msg_copy) {
		free(name_copy);
		free(msg_copy);
		return te_fail(err, -ENOMEM, "out of memory");
	}
	pthread_mutex_lock(&b->lock);
	free(b->notify_name);
	free(b->notify_msg);
	b->notify_name = name_copy;
	b->notify_msg = msg_copy;
	b->notify_target = req[0].target;
	pthread_mutex_unlock(&b->lock);
	r = submit(b, req, n, err);
	if (!r)
		return 0;
	pthread_mutex_lock(&b->lock);
	if (b->notify_msg == msg_copy) {
		free(b->notify_name);
		free(b->notify_msg);
		b->notify_name = b->notify_msg = NULL;
	}
	pthread_mutex_unlock(&b->lock);
	return r;
}

int te_batch_submit_notify(struct te_engine *e, uint64_t id, const struct te_request *req, size_t n,
			   const char *name, const char *msg, struct te_err *err)
{
	struct te_batch *b;
	int r;

	if (!n)
		return te_fail(err, -EINVAL, "a notification needs at least one request");
	b = te_batch_get(e, id);
	if (!b)
		return unknown_batch(id, err);
	r = submit_notify(b, req, n, name, msg, err);
	te_batch_put(b);
	return r;
}
