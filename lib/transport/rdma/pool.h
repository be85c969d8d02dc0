/*
 * pool.h - which endpoints a NIC keeps, and which one gives way when there are too many: SIEVE or FIFO.
 *
 *	ep = te_pool_find(&pool, path);
 *	if (!ep) {
 *		while ((old = te_pool_victim(&pool)))
 *			te_pool_evict(&pool, old), retire(old);
 *		te_pool_insert(&pool, &new->node);
 *	}
 *
 * Order only: no verbs, no lock (the caller's covers all calls), no memory of an endpoint's own. A node is embedded in its
 * endpoint; node and key stay where they are while they are in the pool.
 */
#ifndef TE_RDMA_POOL_H
#define TE_RDMA_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct te_pool_node {
	const char *key;		/* NIC path of the peer; set by the owner before it goes in */
	struct te_pool_node *newer, *older;
	struct te_pool_node *chain;	/* of the same hash */
	uint64_t hash;
	bool visited, in;
};

struct te_pool {
	size_t capacity, size;
	uint64_t evictions;		/* since init */
	bool fifo;
	bool (*busy)(const struct te_pool_node *node);	/* work in flight; such a node goes last */
	struct te_pool_node *newest, *oldest;
	struct te_pool_node *hand;	/* of SIEVE; NULL: at the oldest */
	struct te_pool_node **buckets;
	size_t nbuckets;		/* a power of two */
	uint64_t seed;			/* keys come from peers: none can choose them to collide */
};

/* capacity >= 1. busy may be NULL: nothing is. 0 or -ENOMEM. */
int te_pool_init(struct te_pool *pool, size_t capacity, bool fifo, bool (*busy)(const struct te_pool_node *node));
/* Nodes that are still in belong to whoever put them there: they are only forgotten. */
void te_pool_clear(struct te_pool *pool);

/* NULL when there is none. A hit counts as a use: SIEVE spares it once. */
struct te_pool_node *te_pool_find(struct te_pool *pool, const char *key);
/* No node with that key may be in. Goes in even when the pool is full: capacity is kept by te_pool_victim(). */
void te_pool_insert(struct te_pool *pool, struct te_pool_node *node);
/* The node to evict so that one more fits, NULL when there is room. One with work in flight only if all have some.
   SIEVE moves its hand: to be followed by te_pool_evict() of that node. */
struct te_pool_node *te_pool_victim(struct te_pool *pool);
/* Out with it, and counted. */
void te_pool_evict(struct te_pool *pool, struct te_pool_node *node);
/* Out with it; nothing happens when it is not in. */
void te_pool_remove(struct te_pool *pool, struct te_pool_node *node);

/* From the newest to the oldest; take the next one before the current one goes. */
static inline struct te_pool_node *te_pool_first(const struct te_pool *pool)
{
	return pool->newest;
}

static inline struct te_pool_node *te_pool_next(const struct te_pool_node *node)
{
	return node->older;
}

#endif
