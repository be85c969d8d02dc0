/* region.c - the table of registered buffers: sorted, searched under a read lock, removed under
 * references. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "te_err.h"
#include "transport/region.h"

struct te_regions {
	pthread_rwlock_t lock;
	struct te_region **v; /* by addr, no overlap, those being removed included */
	size_t n, cap;
};

struct te_regions *te_regions_new(void)
{
	struct te_regions *t = calloc(1, sizeof(*t));
	pthread_rwlockattr_t attr;

	if (!t)
		return NULL;
	/* Else the stream of readers of a busy server keeps unregister out for ever. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&t->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	return t;
}

void te_regions_free(struct te_regions *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++) /* what an unregister has given up on */
		te_region_free(t->v[i]);
	pthread_rwlock_destroy(&t->lock);
	free(t->v);
	free(t);
}

/* Index of the first region that starts above addr. */
static size_t above(const struct te_regions *t, uint64_t addr)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (t->v[mid]->addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool overlap(const struct te_region *a, const struct te_region *b)
{
	return a->addr <= b->addr + (b->len - 1) && b->addr <= a->addr + (a->len - 1);
}

static int clash(const struct te_region *r, const struct te_region *with, struct te_err *err)
{
	return te_fail(err, -EEXIST,
		       "buffer 0x%" PRIx64 "+0x%" PRIx64 " overlaps the registered 0x%" PRIx64
		       "+0x%" PRIx64,
		       r->addr, r->len, with->addr, with->len);
}

/* Under the write lock. */
static int insert(struct te_regions *t, struct te_region *r, struct te_err *err)
{
	size_t at = above(t, r->addr);

	if (at > 0 && overlap(t->v[at - 1], r))
		return clash(r, t->v[at - 1], err);
	if (at < t->n && overlap(t->v[at], r))
		return clash(r, t->v[at], err);
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 16;
		struct te_region **v = reallocarray(t->v, cap, sizeof(*v));

		if (!v)
			return te_fail(err, -ENOMEM, "no memory for a table of %zu buffers", cap);
		t->v = v;
		t->cap = cap;
	}
	memmove(t->v + at + 1, t->v + at, (t->n - at) * sizeof(*t->v));
	t->v[at] = r;
	t->n++;
	return 0;
}

int te_regions_add(struct te_regions *t, const struct te_region *from, struct te_region **out,
		   struct te_err *err)
{
	struct te_region *r;
	int rc;

	if (!from->len || te_wraps(from->addr, from->len))
		return te_fail(err, -EINVAL, "buffer 0x%" PRIx64 "+0x%" PRIx64 " %s", from->addr,
			       from->len, from->len ? "wraps" : "has no length");
	r = calloc(1, sizeof(*r));
	if (!r)
		return te_fail(err, -ENOMEM, "no memory for a buffer's entry");
	r->addr = from->addr;
	r->len = from->len;
	te_strlcpy(r->location, from->location, sizeof(r->location));
	r->remote = from->remote;
	r->memfd = from->memfd;
	r->memfd_offset = from->memfd_offset;
	r->page_slot = from->page_slot;

	pthread_rwlock_wrlock(&t->lock);
	rc = insert(t, r, err);
	pthread_rwlock_unlock(&t->lock);
	if (rc) {
		free(r);
		return rc;
	}
	*out = r;
	return 0;
}

/* The visible region that lies at or before addr and nearest to it; under the lock. */
static struct te_region *find(const struct te_regions *t, uint64_t addr)
{
	size_t at = above(t, addr);

	if (!at || atomic_load_explicit(&t->v[at - 1]->refs, memory_order_relaxed) & TE_REGION_GONE)
		return NULL;
	return t->v[at - 1];
}

struct te_region *te_regions_at(struct te_regions *t, uint64_t addr)
{
	struct te_region *r;

	pthread_rwlock_rdlock(&t->lock);
	r = find(t, addr);
	if (r && r->addr != addr)
		r = NULL;
	pthread_rwlock_unlock(&t->lock);
	return r;
}

struct te_region *te_region_get(struct te_regions *t, uint64_t addr, uint64_t len, bool need_remote)
{
	struct te_region *r;

	if (!len)
		return NULL;
	pthread_rwlock_rdlock(&t->lock);
	r = find(t, addr);
	if (r && te_region_holds(r, addr, len) && (r->remote || !need_remote))
		te_region_ref(r);
	else
		r = NULL;
	pthread_rwlock_unlock(&t->lock);
	return r;
}

void te_region_put(struct te_region *r)
{
	if (r)
		te_region_put_n(r, 1);
}

void te_region_put_n(struct te_region *r, uint32_t n)
{
	uint32_t old;

	/* Pairs with the load in wait_unused(). After it *r may be freed: its address is all we
	 * use. */
	old = atomic_fetch_sub_explicit(&r->refs, n, memory_order_release);
	if (old == (TE_REGION_GONE | n))
		te_futex_wake(&r->refs, INT_MAX);
}

static int wait_unused(struct te_region *r, uint64_t until)
{
	uint32_t refs;

	while ((refs = atomic_load_explicit(&r->refs, memory_order_acquire)) != TE_REGION_GONE)
		if (te_futex_wait(&r->refs, refs, until) == -ETIMEDOUT &&
		    atomic_load_explicit(&r->refs, memory_order_acquire) != TE_REGION_GONE)
			return -EBUSY;
	return 0;
}

int te_regions_remove(struct te_regions *t, struct te_region *r, uint64_t until)
{
	uint32_t old;
	size_t at;

	/* The write lock keeps out a reader that has found the region but not yet counted itself.
	 */
	pthread_rwlock_wrlock(&t->lock);
	old = atomic_fetch_or_explicit(&r->refs, TE_REGION_GONE, memory_order_acquire);
	pthread_rwlock_unlock(&t->lock);
	if (old & TE_REGION_GONE)
		return -EBUSY;
	if (wait_unused(r, until)) {
		atomic_fetch_and_explicit(&r->refs, ~(uint32_t)TE_REGION_GONE,
					  memory_order_relaxed);
		return -EBUSY;
	}
	pthread_rwlock_wrlock(&t->lock);
	at = above(t, r->addr);
	memmove(t->v + at - 1, t->v + at, (t->n - at) * sizeof(*t->v));
	t->n--;
	pthread_rwlock_unlock(&t->lock);
	return 0;
}

void te_region_free(struct te_region *r)
{
	free(r);
}

void te_regions_each(struct te_regions *t, void (*cb)(void *arg, const struct te_region *r),
		     void *arg)
{
	pthread_rwlock_rdlock(&t->lock);
	for (size_t i = 0; i < t->n; i++)
		if (!(atomic_load_explicit(&t->v[i]->refs, memory_order_relaxed) & TE_REGION_GONE))
			cb(arg, t->v[i]);
	pthread_rwlock_unlock(&t->lock);
}
