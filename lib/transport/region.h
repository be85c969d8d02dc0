/*
 * region.h - the registered buffers of one engine, and who is using them.
 *
 * A region is used under a reference: te_regions_remove() takes it out of sight first and then waits
 * until the last reference is gone, so that nobody touches memory after unregister. References are held
 * by tasks (source side) and by serving connections (target side), for a burst, not for a slice.
 */
#ifndef TE_TRANSPORT_REGION_H
#define TE_TRANSPORT_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct te_err;

struct te_region {
	uint64_t addr, len;		/* constant from here ... */
	char location[64];
	bool remote;
	int memfd;			/* te_alloc() memory: the fd that it maps, else -1 */
	uint64_t memfd_offset;		/* where addr lies in memfd */
	int page_slot;			/* row in the control page (shm.h), -1 when none; ... to here */
	void *keys;			/* rdma's memory regions, between its reg and unreg */
	_Atomic uint32_t refs;		/* users now, and TE_REGION_GONE; waited for by te_regions_remove() */
};

/* In refs: being removed, no new reference from the table. One word with the count, since the last
   te_region_put() may not look at a region that its subtraction gave up. */
#define TE_REGION_GONE 0x80000000u

struct te_regions;

struct te_regions *te_regions_new(void);
/* Nobody uses the table or a region any more; what is still in it is freed. */
void te_regions_free(struct te_regions *t);

/* Copies *r's constant part. -EEXIST on overlap. *out stays valid until removed. */
int te_regions_add(struct te_regions *t, const struct te_region *r, struct te_region **out, struct te_err *err);
/* The region that starts at addr, no reference; NULL. */
struct te_region *te_regions_at(struct te_regions *t, uint64_t addr);
/* Out of sight at once, then wait until `until` for the references. -EBUSY: it is visible again. After 0 the
   caller frees it with te_region_free(). */
int te_regions_remove(struct te_regions *t, struct te_region *r, uint64_t until);
void te_region_free(struct te_region *r);

/* The region that holds all of [addr, addr+len), with a reference; NULL if there is none, or (need_remote)
   it is local-only. len 0 is never held. */
struct te_region *te_region_get(struct te_regions *t, uint64_t addr, uint64_t len, bool need_remote);
/* One more reference to a region that the caller already holds. */
static inline void te_region_ref(struct te_region *r)
{
	atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
}
void te_region_put(struct te_region *r);	/* NULL is fine */
/* The same for many references at once. */
static inline void te_region_ref_n(struct te_region *r, uint32_t n)
{
	atomic_fetch_add_explicit(&r->refs, n, memory_order_relaxed);
}
void te_region_put_n(struct te_region *r, uint32_t n);
static inline bool te_region_holds(const struct te_region *r, uint64_t addr, uint64_t len)
{
	return addr >= r->addr && len <= r->len && addr - r->addr <= r->len - len;
}
/* Calls cb for each region in address order under the table's lock. */
void te_regions_each(struct te_regions *t, void (*cb)(void *arg, const struct te_region *r), void *arg);

#endif
