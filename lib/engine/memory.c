/* memory.c - te_alloc, and registering memory with regions, transports and the store. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine.h"
#include "host/mem.h"

#define UNREGISTER_WAIT (5 * TE_NSEC_PER_SEC)

/* ---- allocation --------------------------------------------------------------------------- */

int te_alloc(struct te_engine *e, size_t len, int node, unsigned flags, void **out,
	     struct te_err *err)
{
	struct te_alloc_entry *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return te_fail(err, -ENOMEM, "out of memory");
	r = te_mem_shared(len, node, flags & TE_ALLOC_HUGEPAGES, "te-buffer", out, &a->fd, err);
	if (r < 0) {
		free(a);
		return r;
	}
	a->addr = (uint64_t)(uintptr_t)*out;
	a->len = te_mem_round(len, flags & TE_ALLOC_HUGEPAGES);
	pthread_mutex_lock(&e->memory_lock);
	a->next = e->allocs;
	e->allocs = a;
	pthread_mutex_unlock(&e->memory_lock);
	return 0;
}

static void alloc_release(struct te_alloc_entry *a)
{
	munmap((void *)(uintptr_t)a->addr, a->len);
	/* An initiator that has mapped it would keep the pages alive. */
	if (fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)a->len) < 0)
		te_trace("cannot give back pages: %s", strerror(errno));
	close(a->fd);
	free(a);
}

struct overlap {
	uint64_t addr, len;
	bool found;
};

static void look_overlap(void *arg, const struct te_region *r)
{
	struct overlap *o = arg;

	o->found |= r->addr < o->addr + o->len && o->addr < r->addr + r->len;
}

static bool in_use(struct te_engine *e, uint64_t addr, uint64_t len)
{
	struct overlap o = { .addr = addr, .len = len };

	te_regions_each(e->regions, look_overlap, &o);
	return o.found;
}

int te_free(struct te_engine *e, void *addr)
{
	struct te_alloc_entry *a = NULL;
	int r = -ENOENT;

	pthread_mutex_lock(&e->memory_lock);
	for (struct te_alloc_entry **at = &e->allocs; *at; at = &(*at)->next) {
		if ((*at)->addr != (uint64_t)(uintptr_t)addr)
			continue;
		if (in_use(e, (*at)->addr, (*at)->len)) {
			r = -EBUSY;
			break;
		}
		a = *at;
		*at = a->next;
		break;
	}
	pthread_mutex_unlock(&e->memory_lock);
	if (!a)
		return r;
	alloc_release(a);
	return 0;
}

/* ---- registration ------------------------------------------------------------------------- */

/* memory_lock held: is it memory of te_alloc(), which others can map? */
static void find_memfd(struct te_engine *e, struct te_region *r)
{
	r->memfd = -1;
	for (struct te_alloc_entry *a = e->allocs; a; a = a->next)
		if (r->addr >= a->addr && r->addr - a->addr <= a->len &&
		    r->len <= a->len - (r->addr - a->addr)) {
			r->memfd = a->fd;
			r->memfd_offset = r->addr - a->addr;
			return;
		}
}

static int plan_region(struct te_engine *e, const struct te_buffer *b, struct te_region *r,
		       struct te_err *err)
{
	const char *location = b->location && *b->location ? b->location : "*";
	int ret;

	memset(r, 0, sizeof(*r));
	r->addr = (uint64_t)(uintptr_t)b->addr;
	r->len = b->len;
	r->remote = b->remote;
	r->page_slot = -1;
	if (!r->addr || !r->len || te_wraps(r->addr, r->len))
		return te_fail(err, -EINVAL, "cannot register %p+%zu: %s", b->addr, b->len,
			       !r->addr	 ? "no address"
			       : !r->len ? "no bytes"
					 : "it wraps");
	ret = te_mem_check_location(location, err);
	if (ret < 0)
		return ret;
	if (strcmp(location, "*"))
		te_strlcpy(r->location, location, sizeof(r->location));
	else
		te_mem_location(b->addr, b->len, r->location, sizeof(r->location));
	find_memfd(e, r);
	return 0;
}

static void tell_unreg(struct te_engine *e, struct te_region *r, size_t n)
{
	while (n-- > 0)
		if (e->transports[n] && e->transports[n]->ops->unreg)
			e->transports[n]->ops->unreg(e->transports[n], r, te_now());
}

static int tell_reg(struct te_engine *e, struct te_region *r, struct te_err *err)
{
	for (size_t i = 0; i < TE_MAX_TRANSPORTS; i++) {
		int ret = 0;

		if (e->transports[i] && e->transports[i]->ops->reg)
			ret = e->transports[i]->ops->reg(e->transports[i], r, err);
		if (ret < 0) {
			tell_unreg(e, r, i);
			return ret;
		}
	}
	return 0;
}

static void tell_gone(struct te_engine *e, struct te_region *r)
{
	for (size_t i = 0; i < TE_MAX_TRANSPORTS; i++)
		if (e->transports[i] && e->transports[i]->ops->forget)
			e->transports[i]->ops->forget(e->transports[i], r);
}

static int register_one(struct te_engine *e, const struct te_buffer *b, struct te_err *err)
{
	struct te_region plan, *r;
	int ret = plan_region(e, b, &plan, err);

	if (!ret)
		ret = te_regions_add(e->regions, &plan, &r, err);
	if (ret < 0)
		return ret;
	ret = tell_reg(e, r, err);
	if (ret < 0 && te_regions_remove(e->regions, r, te_now() + UNREGISTER_WAIT) == 0) {
		tell_gone(e, r);
		te_region_free(r);
	}
	return ret;
}

/* Out of everybody's sight and use, or as before: 1 where peers could see it, else 0 or negative
 * errno. */
static int unregister_one(struct te_engine *e, uint64_t addr, uint64_t until, struct te_err *err)
{
	struct te_region *r = te_regions_at(e->regions, addr);
	bool remote = r && r->remote;
	int ret = 0;
	size_t i;

	if (!r)
		return te_fail(err, -ENOENT, "%#llx is not the start of a registered buffer",
			       (unsigned long long)addr);
	for (i = 0; i < TE_MAX_TRANSPORTS && !ret; i++)
		if (e->transports[i] && e->transports[i]->ops->unreg)
			ret = e->transports[i]->ops->unreg(e->transports[i], r, until);
	if (!ret)
		ret = te_regions_remove(e->regions, r, until);
	if (!ret) {
		tell_gone(e, r);
		te_region_free(r);
		return remote;
	}
	/* Where unreg had done its work already, reg does it again. */
	for (size_t k = 0; k + 1 < i; k++)
		if (e->transports[k] && e->transports[k]->ops->unreg &&
		    e->transports[k]->ops->reg(e->transports[k], r, err) < 0)
			te_warn("buffer %#llx stays registered, but not for %s",
				(unsigned long long)addr, e->transports[k]->ops->name);
	return te_fail(err, ret, "buffer %#llx+%llu is still in use by a transfer",
		       (unsigned long long)addr, (unsigned long long)r->len);
}

static int register_all(struct te_engine *e, const struct te_buffer *b, size_t n,
			struct te_err *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = register_one(e, &b[i], err);

		if (r < 0) {
			while (i-- > 0)
				unregister_one(e, (uint64_t)(uintptr_t)b[i].addr,
					       te_now() + UNREGISTER_WAIT, NULL);
			return r;
		}
	}
	return 0;
}

int te_register_batch(struct te_engine *e, const struct te_buffer *b, size_t n, struct te_err *err)
{
	bool any_remote = false;
	int r;

	pthread_mutex_lock(&e->memory_lock);
	r = register_all(e, b, n, err);
	pthread_mutex_unlock(&e->memory_lock);
	for (size_t i = 0; i < n; i++)
		any_remote |= b[i].remote;
	if (r || !any_remote)
		return r;
	r = te_publish_ram(e, err);
	if (r < 0) {
		pthread_mutex_lock(&e->memory_lock);
		for (size_t i = 0; i < n; i++)
			unregister_one(e, (uint64_t)(uintptr_t)b[i].addr,
				       te_now() + UNREGISTER_WAIT, NULL);
		pthread_mutex_unlock(&e->memory_lock);
	}
	return r;
}

int te_register(struct te_engine *e, void *addr, size_t len, const char *location, bool remote,
		struct te_err *err)
{
	const struct te_buffer b = {
		.addr = addr, .len = len, .location = location, .remote = remote
	};

	return te_register_batch(e, &b, 1, err);
}

int te_unregister_batch(struct te_engine *e, void *const *addrs, size_t n, struct te_err *err)
{
	uint64_t until = te_now() + UNREGISTER_WAIT;
	struct te_err publish_err;
	bool any_remote = false;
	int r = 0;

	pthread_mutex_lock(&e->memory_lock);
	for (size_t i = 0; i < n && r >= 0; i++) {
		r = unregister_one(e, (uint64_t)(uintptr_t)addrs[i], until, err);
		any_remote |= r > 0;
	}
	pthread_mutex_unlock(&e->memory_lock);
	/* The memory is the caller's again whatever the store says; the keeper does not repeat old
	 * texts. */
	if (any_remote && te_publish_ram(e, &publish_err) < 0)
		te_warn("the store still shows unregistered buffers: %s", publish_err.msg);
	return MIN(r, 0);
}

int te_unregister(struct te_engine *e, void *addr, struct te_err *err)
{
	return te_unregister_batch(e, &addr, 1, err);
}

/* ---- at the end --------------------------------------------------------------------------- */

struct starts {
	uint64_t *addr;
	size_t n, max;
};

static void collect_start(void *arg, const struct te_region *r)
{
	struct starts *s = arg;

	if (s->n < s->max)
		s->addr[s->n] = r->addr;
	s->n++;
}

void te_memory_unregister_all(struct te_engine *e)
{
	struct starts s = { 0 };

	if (!e->regions)
		return;
	te_regions_each(e->regions, collect_start, &s);
	s.max = s.n;
	s.n = 0;
	s.addr = calloc(s.max + 1, sizeof(*s.addr));
	if (!s.addr)
		return;
	te_regions_each(e->regions, collect_start, &s);
	for (size_t i = 0; i < s.n && i < s.max; i++)
		unregister_one(e, s.addr[i], te_now() + TE_NSEC_PER_SEC / 10, NULL);
	free(s.addr);
}

void te_memory_clear(struct te_engine *e)
{
	while (e->allocs) {
		struct te_alloc_entry *next = e->allocs->next;

		alloc_release(e->allocs);
		e->allocs = next;
	}
}
