/* segments.c - the table of open segments: ids, opening, closing, our own segment. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

/* te_seg.inflight: bit 0 says that te_segment_close() waits, the rest counts. */
enum { SEG_CLOSING = 1, SEG_ONE = 2 };

/* ---- the table ---------------------------------------------------------------------------- */

static struct te_seg *seg_new(struct te_engine *e, const char *name)
{
	struct te_seg *seg = calloc(1, sizeof(*seg));

	if (!seg)
		return NULL;
	seg->e = e;
	seg->opens = 1;
	seg->name = te_strdup(name);
	pthread_rwlock_init(&seg->lock, NULL);
	pthread_mutex_init(&seg->park_lock, NULL);
	pthread_cond_init(&seg->parked_cond, NULL);
	if (seg->name)
		return seg;
	free(seg);
	return NULL;
}

static void seg_free(struct te_seg *seg)
{
	if (!seg)
		return;
	if (seg->has_thread)
		pthread_join(seg->refresher, NULL);
	te_peer_put(seg->e, seg->peer);
	te_desc_free(seg->desc);
	free(seg->ranges);
	free(seg->name);
	pthread_cond_destroy(&seg->parked_cond);
	pthread_mutex_destroy(&seg->park_lock);
	pthread_rwlock_destroy(&seg->lock);
	free(seg);
}

/* segs_lock held for writing. */
static int put_in_table(struct te_engine *e, struct te_seg *seg, struct te_err *err)
{
	size_t i;

	for (i = 0; i < e->nsegs && e->segs[i]; i++)
		;
	if (i == TE_MAX_SEGMENTS)
		return te_fail(err, -EMFILE, "%d segments are open already", TE_MAX_SEGMENTS);
	if (i == e->nsegs) {
		struct te_seg **segs = realloc(e->segs, (i + 1) * sizeof(*segs));
		uint16_t *gens;

		if (segs)
			e->segs = segs;
		gens = realloc(e->seg_generation, (i + 1) * sizeof(*gens));
		if (gens)
			e->seg_generation = gens;
		if (!segs || !gens)
			return te_fail(err, -ENOMEM, "out of memory");
		e->seg_generation[i] = 0;
		e->nsegs++;
	}
	e->segs[i] = seg;
	seg->id = (int32_t)(i | (uint32_t)e->seg_generation[i] << 16);
	return 0;
}

struct te_seg *te_seg_find(struct te_engine *e, int32_t id)
{
	uint32_t index = (uint32_t)id & 0xffff;

	if (id < 0 || index >= e->nsegs || !e->segs[index] || e->segs[index]->id != id)
		return NULL;
	return e->segs[index];
}

static struct te_seg *find_name(struct te_engine *e, const char *name)
{
	for (size_t i = 0; i < e->nsegs; i++)
		if (e->segs[i] && !strcmp(e->segs[i]->name, name))
			return e->segs[i];
	return NULL;
}

int te_segs_init(struct te_engine *e, struct te_err *err)
{
	struct te_seg *own = seg_new(e, e->name);
	int r;

	if (!own)
		return te_fail(err, -ENOMEM, "out of memory");
	r = put_in_table(e, own, err);
	if (r < 0)
		seg_free(own);
	return r;
}

void te_segs_clear(struct te_engine *e)
{
	for (size_t i = 0; i < e->nsegs; i++)
		seg_free(e->segs[i]);
	while (e->left) {
		struct te_seg *next = e->left->next_left;

		seg_free(e->left);
		e->left = next;
	}
	free(e->segs);
	free(e->seg_generation);
	e->segs = NULL;
	e->nsegs = 0;
}

/* Our own segment gets its peer when it is first opened: tcp then knows its port. */
static int open_own(struct te_engine *e, struct te_seg *seg, struct te_err *err)
{
	struct te_desc *d = te_publish_desc(e);
	struct te_peer *p = NULL;
	/* Through the network and back, as a peer would. */
	bool wire = !e->initiator_only && (e->conf.force_tcp || e->conf.force_hca ||
					   !strcmp(e->only, "tcp") || !strcmp(e->only, "rdma"));
	int r;

	if (!d)
		return te_fail(err, -ENOMEM, "out of memory");
	pthread_rwlock_rdlock(&seg->lock);
	p = seg->peer;
	pthread_rwlock_unlock(&seg->lock);
	if (p) {
		te_desc_free(d);
		return 0;
	}
	if (wire)
		return te_seg_install(seg, d, e->host, err);
	r = te_peer_choose(e, e->name, NULL, d, &p, err);
	te_desc_free(d);
	if (r < 0)
		return r;
	pthread_rwlock_wrlock(&seg->lock);
	if (!seg->peer) {
		seg->peer = p;
		p = NULL;
	}
	pthread_rwlock_unlock(&seg->lock);
	te_peer_put(e, p);
	return 0;
}

/* Another thread may have opened the same name while we fetched: then ours is thrown away. */
static int32_t enter(struct te_engine *e, struct te_seg *seg, struct te_err *err)
{
	struct te_seg *other;
	int32_t id;

	pthread_rwlock_wrlock(&e->segs_lock);
	other = find_name(e, seg->name);
	if (other) {
		other->opens++;
		id = other->id;
	} else {
		id = put_in_table(e, seg, err);
		if (!id)
			id = seg->id;
	}
	pthread_rwlock_unlock(&e->segs_lock);
	if (other || id < 0)
		seg_free(seg);
	return id;
}

int32_t te_segment_open(struct te_engine *e, const char *name, struct te_err *err)
{
	struct te_seg *seg;
	int32_t id = -1;
	int r;

	while (name && *name == '/')
		name++;
	if (!name || !*name)
		return te_fail(err, -EINVAL, "segment name is empty");
	if (!strcmp(name, e->name)) {
		r = open_own(e, e->segs[0], err);
		return r < 0 ? r : TE_LOCAL_SEGMENT;
	}
	pthread_rwlock_wrlock(&e->segs_lock);
	seg = find_name(e, name);
	if (seg) {
		seg->opens++;
		id = seg->id;
	}
	pthread_rwlock_unlock(&e->segs_lock);
	if (seg && !e->conf.disable_metacache)
		return id;
	if (seg) {
		r = te_segment_refresh(e, id, err);
		return r < 0 ? r : id;
	}
	seg = seg_new(e, name);
	if (!seg)
		return te_fail(err, -ENOMEM, "out of memory");
	r = te_seg_refresh(seg, err);
	if (r < 0) {
		seg_free(seg);
		return r;
	}
	return enter(e, seg, err);
}

void te_seg_hold(struct te_seg *seg, uint32_t count, uint64_t deadline)
{
	uint64_t latest = atomic_load_explicit(&seg->latest, memory_order_relaxed);

	/* Two that come at once may both be late by what they lie apart: a matter of ms. */
	if (deadline > latest)
		atomic_store_explicit(&seg->latest, deadline, memory_order_relaxed);
	atomic_fetch_add(&seg->inflight, count * SEG_ONE);
}

/* The segment may be freed by the one that waits as soon as the count is down: touch only its
 * address then. */
void te_seg_release(struct te_seg *seg, uint32_t count)
{
	uint32_t old = atomic_fetch_sub(&seg->inflight, count * SEG_ONE);

	if (old == (count * SEG_ONE | SEG_CLOSING))
		te_futex_wake(&seg->inflight, 1);
}

/* false: some are not back long after their time-out. */
static bool wait_idle(struct te_seg *seg)
{
	uint64_t until = MAX(te_now(), atomic_load(&seg->latest)) + TE_CLOSE_S * TE_NSEC_PER_SEC;
	uint32_t seen = atomic_fetch_or(&seg->inflight, SEG_CLOSING) | SEG_CLOSING;

	while (seen != SEG_CLOSING) {
		uint64_t now = te_now();

		if (now >= until)
			return false;
		te_futex_wait(&seg->inflight, seen, MIN(until, now + TE_NSEC_PER_SEC));
		seen = atomic_load(&seg->inflight);
	}
	return true;
}

/* It is freed with the engine. */
static int leave(struct te_engine *e, struct te_seg *seg)
{
	te_warn("segment '%s' is closed, but the kernel still has transfers of it", seg->name);
	pthread_rwlock_wrlock(&e->segs_lock);
	seg->next_left = e->left;
	e->left = seg;
	pthread_rwlock_unlock(&e->segs_lock);
	return -EBUSY;
}

int te_segment_close(struct te_engine *e, int32_t id)
{
	struct te_seg *seg;
	uint32_t index = (uint32_t)id & 0xffff;

	if (id == TE_LOCAL_SEGMENT)
		return 0;
	pthread_rwlock_wrlock(&e->segs_lock);
	seg = te_seg_find(e, id);
	if (seg && --seg->opens == 0) {
		e->segs[index] = NULL;
		e->seg_generation[index] = (e->seg_generation[index] + 1) & 0x7fff;
	} else if (seg) {
		pthread_rwlock_unlock(&e->segs_lock);
		return 0;
	}
	pthread_rwlock_unlock(&e->segs_lock);
	if (!seg)
		return -EBADF;
	if (!wait_idle(seg))
		return leave(e, seg);
	seg_free(seg);
	return 0;
}

int te_segment_refresh(struct te_engine *e, int32_t id, struct te_err *err)
{
	struct te_seg *seg;
	int r;

	if (id == TE_LOCAL_SEGMENT)
		return 0;
	/* Held as a reader, a bounded time: a segment may not be closed under us. */
	pthread_rwlock_rdlock(&e->segs_lock);
	seg = te_seg_find(e, id);
	if (seg)
		te_seg_hold(seg, 1, 0);
	pthread_rwlock_unlock(&e->segs_lock);
	if (!seg)
		return te_fail(err, -EBADF, "unknown segment id %d", id);
	r = te_seg_refresh(seg, err);
	te_seg_release(seg, 1);
	return r;
}

/* A copy by way of the text: descriptors are fetched rarely. */
static int copy_desc(const struct te_desc *d, struct te_desc **out, struct te_err *err)
{
	char *text = te_desc_format(d);
	int r;

	if (!text)
		return te_fail(err, -ENOMEM, "out of memory");
	r = te_desc_parse(text, strlen(text), out, err);
	free(text);
	return r;
}

int te_segment_desc(struct te_engine *e, int32_t id, struct te_desc **out, struct te_err *err)
{
	struct te_seg *seg;
	int r = 0;

	if (id == TE_LOCAL_SEGMENT) {
		*out = te_publish_desc(e);
		return *out ? 0 : te_fail(err, -ENOMEM, "out of memory");
	}
	pthread_rwlock_rdlock(&e->segs_lock);
	seg = te_seg_find(e, id);
	if (!seg) {
		r = te_fail(err, -EBADF, "unknown segment id %d", id);
	} else {
		pthread_rwlock_rdlock(&seg->lock);
		r = copy_desc(seg->desc, out, err);
		pthread_rwlock_unlock(&seg->lock);
	}
	pthread_rwlock_unlock(&e->segs_lock);
	return r;
}

const char *te_segment_transport(struct te_engine *e, int32_t id)
{
	const char *name = NULL;
	struct te_seg *seg;

	pthread_rwlock_rdlock(&e->segs_lock);
	seg = te_seg_find(e, id);
	if (seg) {
		pthread_rwlock_rdlock(&seg->lock);
		name = seg->peer ? seg->peer->ops->name : NULL;
		pthread_rwlock_unlock(&seg->lock);
	}
	pthread_rwlock_unlock(&e->segs_lock);
	return name;
}
