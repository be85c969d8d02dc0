/* pool.c - SIEVE and FIFO over a list, and a hash table to find its nodes.
 *
 * SIEVE: Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is Simpler than LRU", NSDI 2024. A new node
 * goes to the head, unvisited; a hit only sets a bit; the hand walks from the tail to the head and
 * round, and takes the first unvisited node, unsetting the bits it passes. What is added here: a
 * node with work in flight is passed over.
 */
#include "transport/rdma/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* ---- by key ------------------------------------------------------------------------------- */

/* FNV-1a from a secret start. */
static uint64_t hash_key(const struct te_pool *pool, const char *key)
{
	uint64_t h = pool->seed;

	for (; *key; key++)
		h = (h ^ (unsigned char)*key) * 0x100000001b3ull;
	return h ^ h >> 32;
}

static struct te_pool_node **bucket(const struct te_pool *pool, uint64_t hash)
{
	return &pool->buckets[hash & (pool->nbuckets - 1)];
}

/* Chains stay short; without memory for that they get longer, and everything still works. */
static void grow(struct te_pool *pool)
{
	struct te_pool_node **buckets = calloc(2 * pool->nbuckets, sizeof(struct te_pool_node *));

	if (!buckets)
		return;
	free(pool->buckets);
	pool->buckets = buckets;
	pool->nbuckets *= 2;
	for (struct te_pool_node *n = pool->newest; n; n = n->older) {
		struct te_pool_node **b = bucket(pool, n->hash);

		n->chain = *b;
		*b = n;
	}
}

static struct te_pool_node *peek(const struct te_pool *pool, const char *key)
{
	uint64_t hash = hash_key(pool, key);
	struct te_pool_node *n = *bucket(pool, hash);

	while (n && (n->hash != hash || strcmp(n->key, key)))
		n = n->chain;
	return n;
}

struct te_pool_node *te_pool_find(struct te_pool *pool, const char *key)
{
	struct te_pool_node *n = peek(pool, key);

	if (n)
		n->visited = true;
	return n;
}

/* ---- in and out --------------------------------------------------------------------------- */

int te_pool_init(struct te_pool *pool, size_t capacity, bool fifo,
		 bool (*busy)(const struct te_pool_node *node))
{
	assert(capacity > 0);
	*pool = (struct te_pool){
		.capacity = capacity, .fifo = fifo, .busy = busy, .nbuckets = 16
	};
	te_random(&pool->seed, sizeof(pool->seed));
	pool->buckets = calloc(pool->nbuckets, sizeof(struct te_pool_node *));
	return pool->buckets ? 0 : -ENOMEM;
}

void te_pool_clear(struct te_pool *pool)
{
	free(pool->buckets);
	*pool = (struct te_pool){ 0 };
}

void te_pool_insert(struct te_pool *pool, struct te_pool_node *node)
{
	struct te_pool_node **b;

	assert(!node->in && !peek(pool, node->key));
	if (pool->size >= pool->nbuckets)
		grow(pool);
	node->hash = hash_key(pool, node->key);
	node->visited = false;
	node->in = true;
	b = bucket(pool, node->hash);
	node->chain = *b;
	*b = node;
	node->newer = NULL;
	node->older = pool->newest;
	if (pool->newest)
		pool->newest->newer = node;
	else
		pool->oldest = node;
	pool->newest = node;
	pool->size++;
}

void te_pool_remove(struct te_pool *pool, struct te_pool_node *node)
{
	struct te_pool_node **at;

	if (!node->in)
		return;
	for (at = bucket(pool, node->hash); *at != node;)
		at = &(*at)->chain;
	*at = node->chain;
	if (pool->hand == node)
		pool->hand = node->newer;
	*(node->newer ? &node->newer->older : &pool->newest) = node->older;
	*(node->older ? &node->older->newer : &pool->oldest) = node->newer;
	node->newer = node->older = node->chain = NULL;
	node->in = false;
	pool->size--;
}

void te_pool_evict(struct te_pool *pool, struct te_pool_node *node)
{
	pool->evictions += node->in;
	te_pool_remove(pool, node);
}

/* ---- who gives way ------------------------------------------------------------------------ */

static bool is_busy(const struct te_pool *pool, const struct te_pool_node *node)
{
	return pool->busy && pool->busy(node);
}

static struct te_pool_node *fifo_victim(const struct te_pool *pool)
{
	struct te_pool_node *n = pool->oldest;

	while (n && is_busy(pool, n))
		n = n->newer;
	return n ? n : pool->oldest;
}

/* Twice round is enough: the first round leaves nothing visited. */
static struct te_pool_node *sieve_victim(struct te_pool *pool)
{
	struct te_pool_node *n = pool->hand, *passed = NULL;

	for (size_t left = 2 * pool->size; left; left--, n = n->newer) {
		if (!n)
			n = pool->oldest;
		if (n->visited) {
			n->visited = false;
		} else if (!is_busy(pool, n)) {
			passed = n;
			break;
		} else if (!passed) {
			passed = n;
		}
	}
	return pool->hand = passed;
}

struct te_pool_node *te_pool_victim(struct te_pool *pool)
{
	if (pool->size < pool->capacity)
		return NULL;
	return pool->fifo ? fifo_victim(pool) : sieve_victim(pool);
}
