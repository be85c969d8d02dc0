/* segment.c - segments that were opened: their descriptors, the peers they are reached by,
 * refreshing both. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "host/addr.h"

/* te_seg.inflight: bit 0 says that te_segment_close() waits, the rest counts. */
enum { SEG_CLOSING = 1, SEG_ONE = 2 };

/* What a look-up of a segment yields. */
struct found {
	struct te_desc *desc;
	char host[256];
};

static void found_clear(struct found *f)
{
	te_desc_free(f->desc);
	f->desc = NULL;
}

static int fetch_host(struct te_engine *e, const char *name, struct found *f, struct te_err *err)
{
	struct te_meta_value v;
	struct te_rpc_meta rpc;
	char *key = te_meta_key_rpc(e->meta, name);
	int r;

	if (!key)
		return te_fail(err, -EINVAL, "segment name is empty");
	r = te_meta_get(e->meta, key, &v, err);
	free(key);
	if (r == -ENOENT)
		return te_fail(err, r,
			       "segment '%s' has no rpc_meta entry in %s: its owner is gone?", name,
			       te_meta_uri(e->meta));
	if (r < 0)
		return r;
	r = te_rpc_meta_parse(v.data, v.len, &rpc, err);
	te_meta_value_clear(&v);
	if (r < 0)
		return te_wrap(err, r, "rpc_meta of segment '%s'", name);
	te_strlcpy(f->host, rpc.host, sizeof(f->host));
	return 0;
}

static int fetch(struct te_engine *e, const char *name, struct found *f, struct te_err *err)
{
	struct te_meta_value v;
	char *key = te_meta_key_segment(e->meta, name);
	int r;

	if (!key)
		return te_fail(err, -EINVAL, "segment name is empty");
	r = te_meta_get(e->meta, key, &v, err);
	if (r == -ENOENT)
		te_fail(err, r, "no segment '%s' in %s (key '%s')", name, te_meta_uri(e->meta),
			key);
	free(key);
	if (r < 0)
		return r;
	r = te_desc_parse(v.data, v.len, &f->desc, err);
	te_meta_value_clear(&v);
	if (r < 0)
		return te_wrap(err, r, "descriptor of segment '%s'", name);
	r = fetch_host(e, name, f, err);
	if (r < 0)
		found_clear(f);
	return r;
}

/* ---- ranges ------------------------------------------------------------------------------- */

static int by_addr(const void *a, const void *b)
{
	const struct te_range *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static int make_ranges(const struct te_desc *d, struct te_range **out, struct te_err *err)
{
	struct te_range *r = calloc(d->nbuffers + 1, sizeof(*r));

	if (!r)
		return te_fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < d->nbuffers; i++)
		r[i] = (struct te_range){ d->buffers[i].addr, d->buffers[i].length };
	qsort(r, d->nbuffers, sizeof(*r), by_addr);
	*out = r;
	return 0;
}

/* seg->lock held. *hint: index that matched last. */
static bool covered(const struct te_seg *seg, uint64_t addr, uint64_t len, size_t *hint)
{
	size_t lo = 0, hi = seg->nranges;

	if (seg->peer->ops->covers)
		return seg->peer->ops->covers(seg->peer, addr, len);
	if (*hint < hi && addr >= seg->ranges[*hint].addr && len <= seg->ranges[*hint].len &&
	    addr - seg->ranges[*hint].addr <= seg->ranges[*hint].len - len)
		return true;
	while (lo < hi) { /* first range above addr */
		size_t mid = lo + (hi - lo) / 2;

		if (seg->ranges[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return false;
	*hint = lo - 1;
	return len <= seg->ranges[lo - 1].len &&
	       addr - seg->ranges[lo - 1].addr <= seg->ranges[lo - 1].len - len;
}

/* ---- refreshing --------------------------------------------------------------------------- */

/* Does what was found call for another peer than the one in use? */
static bool differs(const struct te_seg *seg, const struct found *f)
{
	const struct te_desc *a = seg->desc, *b = f->desc;

	return !seg->peer || !a || strcmp(seg->host, f->host) || strcmp(a->protocol, b->protocol) ||
	       a->tcp_data_port != b->tcp_data_port ||
	       a->tcp_proto_version != b->tcp_proto_version || a->te.present != b->te.present ||
	       (a->te.present &&
		(strcmp(a->te.token, b->te.token) || strcmp(a->te.host, b->te.host)));
}

/* Put what was found in place, with a new peer where the old one will not do. Takes f->desc. */
static int install(struct te_seg *seg, struct found *f, struct te_err *err)
{
	struct te_peer *peer = NULL, *old = NULL;
	struct te_range *ranges = NULL, *old_ranges;
	struct te_desc *old_desc;
	bool change;
	int r = make_ranges(f->desc, &ranges, err);

	if (r < 0)
		return r;
	pthread_rwlock_rdlock(&seg->lock);
	change = differs(seg, f);
	pthread_rwlock_unlock(&seg->lock);
	if (change) {
		r = te_peer_choose(seg->e, seg->name, f->host, f->desc, &peer, err);
		if (r < 0) {
			free(ranges);
			return r;
		}
		peer->seg = seg;
	}
	pthread_rwlock_wrlock(&seg->lock);
	old_desc = seg->desc;
	old_ranges = seg->ranges;
	seg->desc = f->desc;
	seg->ranges = ranges;
	seg->nranges = f->desc->nbuffers;
	seg->fetched = te_now();
	if (change) {
		old = seg->peer;
		seg->peer = peer;
		te_strlcpy(seg->host, f->host, sizeof(seg->host));
	}
	pthread_rwlock_unlock(&seg->lock);
	f->desc = NULL;
	te_desc_free(old_desc);
	free(old_ranges);
	if (old && old->ops->abort) {
		struct te_err gone;

		te_fail(&gone, -ECONNRESET, "segment '%s' has moved to another address", seg->name);
		old->ops->abort(old, -ECONNRESET, &gone);
	}
	te_peer_put(seg->e, old);
	return 0;
}

static int refresh(struct te_seg *seg, struct te_err *err)
{
	struct found f = { 0 };
	int r;

	atomic_fetch_add(&seg->e->refreshes, 1);
	r = fetch(seg->e, seg->name, &f, err);
	if (!r)
		r = install(seg, &f, err);
	found_clear(&f);
	return r;
}

static struct te_slice *take_parked(struct te_seg *seg, struct te_err *why)
{
	struct te_slice *s;

	pthread_mutex_lock(&seg->park_lock);
	s = seg->parked;
	*why = seg->park_why;
	seg->parked = NULL;
	seg->park_why.code = 0;
	if (!s) {
		seg->refreshing = false;
		pthread_cond_broadcast(&seg->parked_cond);
	}
	pthread_mutex_unlock(&seg->park_lock);
	return s;
}

/* After a refresh: back to the transport, or the end for ranges that nobody registered. */
static void redispatch(struct te_seg *seg, struct te_slice *chain, const struct te_err *why)
{
	struct te_slice *send = NULL, **send_end = &send, *lost = NULL, **lost_end = &lost;
	struct te_err reason;
	size_t hint = 0;

	pthread_rwlock_rdlock(&seg->lock);
	for (struct te_slice *s = chain, *next; s; s = next) {
		next = s->next;
		s->next = NULL;
		if (atomic_load(&s->task->stopped)) {
			s->status = -ECANCELED;
			*lost_end = s;
			lost_end = &s->next;
		} else if (covered(seg, s->remote, s->len, &hint)) {
			*send_end = s;
			send_end = &s->next;
		} else {
			s->status = -EFAULT;
			*lost_end = s;
			lost_end = &s->next;
		}
	}
	pthread_rwlock_unlock(&seg->lock);
	if (lost) {
		te_fail(&reason, -EFAULT, "range %#llx+%llu is not registered in segment '%s'%s%s",
			(unsigned long long)lost->remote, (unsigned long long)lost->len, seg->name,
			why->code ? " any more: " : "", why->code ? why->msg : "");
		te_task_finish(seg->e, lost, &reason);
	}
	if (send)
		te_seg_dispatch(seg, send);
}

static void *refresh_main(void *arg)
{
	struct te_seg *seg = arg;
	struct te_err why, err, both;
	struct te_slice *chain;

	while ((chain = take_parked(seg, &why))) {
		int r = refresh(seg, &err);

		if (!r) {
			redispatch(seg, chain, &why);
			continue;
		}
		if (why.code)
			te_fail(&both, why.code, "%.240s (and no newer address: %.240s)", why.msg,
				err.msg);
		for (struct te_slice *s = chain; s; s = s->next)
			s->status = why.code ? why.code : r;
		te_task_finish(seg->e, chain, why.code ? &both : &err);
	}
	return NULL;
}

void te_seg_park(struct te_seg *seg, struct te_slice *chain, const struct te_err *why)
{
	struct te_slice **end = &chain;
	int r = 0;

	while (*end)
		end = &(*end)->next;
	pthread_mutex_lock(&seg->park_lock);
	*end = seg->parked;
	seg->parked = chain;
	if (why && !seg->park_why.code)
		seg->park_why = *why;
	if (!seg->refreshing) {
		if (seg->has_thread)
			pthread_join(seg->refresher, NULL);
		seg->refreshing = true;
		r = te_thread_start(&seg->refresher, "te-refresh", refresh_main, seg);
		seg->has_thread = !r;
		if (r) {
			seg->refreshing = false;
			chain = seg->parked;
			seg->parked = NULL;
		}
	}
	pthread_mutex_unlock(&seg->park_lock);
	if (r) {
		struct te_err err;

		te_fail(&err, r, "cannot start a thread to refresh segment '%s': %s", seg->name,
			strerror(-r));
		for (struct te_slice *s = chain; s; s = s->next)
			s->status = r;
		te_task_finish(seg->e, chain, &err);
	}
}

/* ---- dispatch ----------------------------------------------------------------------------- */

/* Every batch in the chain remembers the peer; false: out of memory. */
static bool keep_peer(struct te_slice *chain, struct te_peer *p)
{
	struct te_batch *last = NULL;

	for (struct te_slice *s = chain; s; s = s->next) {
		if (s->task->batch != last && te_batch_keep_peer(s->task->batch, p) < 0)
			return false;
		last = s->task->batch;
	}
	return true;
}

static void out_of_memory(struct te_seg *seg, struct te_slice *chain)
{
	struct te_err err;

	te_fail(&err, -ENOMEM, "out of memory");
	for (struct te_slice *s = chain; s; s = s->next)
		s->status = -ENOMEM;
	te_task_finish(seg->e, chain, &err);
}

void te_seg_dispatch(struct te_seg *seg, struct te_slice *chain)
{
	struct te_slice *send = NULL, **send_end = &send, *park = NULL, **park_end = &park;
	struct te_peer *p;
	size_t hint = 0;

	pthread_rwlock_rdlock(&seg->lock);
	p = seg->peer;
	te_peer_ref(p);
	for (struct te_slice *s = chain, *next; s; s = next) {
		next = s->next;
		s->next = NULL;
		if (covered(seg, s->remote, s->len, &hint)) {
			s->peer = p;
			atomic_store_explicit(&s->lent, true, memory_order_release);
			*send_end = s;
			send_end = &s->next;
		} else {
			*park_end = s;
			park_end = &s->next;
		}
	}
	pthread_rwlock_unlock(&seg->lock);
	if (park)
		te_seg_park(seg, park, NULL);
	if (send && keep_peer(send, p))
		p->ops->submit(p, send);
	else if (send)
		out_of_memory(seg, send);
	te_peer_put(seg->e, p);
}

struct te_peer *te_seg_peer(struct te_seg *seg)
{
	struct te_peer *p;

	pthread_rwlock_rdlock(&seg->lock);
	p = seg->peer;
	if (p)
		te_peer_ref(p);
	pthread_rwlock_unlock(&seg->lock);
	return p;
}

void te_seg_abort(struct te_seg *seg, int status, const struct te_err *why)
{
	struct te_peer *p = te_seg_peer(seg);

	if (p && p->ops->abort)
		p->ops->abort(p, status, why);
	te_peer_put(seg->e, p);
}

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
	bool tcp = !e->initiator_only && (e->conf.force_tcp || !strcmp(e->only, "tcp"));
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
	if (tcp) {
		struct found f = { .desc = d };

		te_strlcpy(f.host, e->host, sizeof(f.host));
		r = install(seg, &f, err);
		found_clear(&f);
		return r;
	}
	r = te_peer_choose(e, e->name, NULL, d, &p, err);
	te_desc_free(d);
	if (r < 0)
		return r;
	p->seg = seg;
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
	r = refresh(seg, err);
	if (r < 0) {
		seg_free(seg);
		return r;
	}
	return enter(e, seg, err);
}

void te_seg_hold(struct te_seg *seg, uint32_t count)
{
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

static void wait_idle(struct te_seg *seg)
{
	uint32_t seen = atomic_fetch_or(&seg->inflight, SEG_CLOSING) | SEG_CLOSING;

	while (seen != SEG_CLOSING) {
		te_futex_wait(&seg->inflight, seen, te_now() + TE_NSEC_PER_SEC);
		seen = atomic_load(&seg->inflight);
	}
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
	wait_idle(seg);
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
		te_seg_hold(seg, 1);
	pthread_rwlock_unlock(&e->segs_lock);
	if (!seg)
		return te_fail(err, -EBADF, "unknown segment id %d", id);
	r = refresh(seg, err);
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
