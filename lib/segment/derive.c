/*
 * derive.c - the order in which a libstdc++ hash map gives back its keys.
 *
 * One singly linked list holds all nodes; a bucket knows the node before its first. As GCC's
 * hashtable.h, hashtable_policy.h and hash_bytes.cc do it since version 5, on 64-bit machines.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "segment/derive.h"

/* _Prime_rehash_policy: at least twice as many each time, and the map grows when full. */
static const size_t bucket_counts[] = { 13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273 };

enum { HASH_SEED = 0xc70f6907 };
#define HASH_MUL 0xc6a4a7935bd1e995ull

/* Little endian. */
static uint64_t load(const char *p, size_t n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | (unsigned char)p[n];
	return v;
}

static uint64_t mix(uint64_t v)
{
	return v ^ v >> 47;
}

/* std::_Hash_bytes, a MurmurHash. */
static uint64_t hash_bytes(const char *s)
{
	size_t len = strlen(s);
	uint64_t hash = (uint64_t)(unsigned)HASH_SEED ^ len * HASH_MUL;

	for (; len >= 8; s += 8, len -= 8) {
		hash ^= mix(load(s, 8) * HASH_MUL) * HASH_MUL;
		hash *= HASH_MUL;
	}
	if (len) {
		hash ^= load(s, len);
		hash *= HASH_MUL;
	}
	return mix(mix(hash) * HASH_MUL);
}

/* Nodes are numbered from 1: 0 is the list's head, and ends it. */
struct map {
	uint64_t *hash;
	size_t *next;
	size_t *before; /* by bucket: the node before its first, NOWHERE when empty */
	size_t nbuckets;
};
#define NOWHERE SIZE_MAX

static void insert(struct map *m, size_t node)
{
	size_t bucket = m->hash[node] % m->nbuckets;

	if (m->before[bucket] != NOWHERE) {
		m->next[node] = m->next[m->before[bucket]];
		m->next[m->before[bucket]] = node;
		return;
	}
	m->next[node] = m->next[0];
	m->next[0] = node;
	if (m->next[node])
		m->before[m->hash[m->next[node]] % m->nbuckets] = node;
	m->before[bucket] = 0;
}

static void grow(struct map *m, size_t nbuckets)
{
	size_t node = m->next[0];

	m->nbuckets = nbuckets;
	for (size_t i = 0; i < nbuckets; i++)
		m->before[i] = NOWHERE;
	m->next[0] = 0;
	while (node) {
		size_t next = m->next[node];

		insert(m, node);
		node = next;
	}
}

int te_derive_order(const char *const *keys, size_t n, size_t *order)
{
	const size_t most = bucket_counts[ARRAY_SIZE(bucket_counts) - 1];
	struct map m = { 0 };
	const size_t *step = bucket_counts;
	int rc = -ENOMEM;

	if (n > most)
		return -EOVERFLOW;
	m.hash = calloc(n + 1, sizeof(*m.hash));
	m.next = calloc(n + 1, sizeof(*m.next));
	m.before = calloc(most, sizeof(*m.before));
	if (!m.hash || !m.next || !m.before)
		goto out;
	for (size_t i = 0; i < n; i++) {
		m.hash[i + 1] = hash_bytes(keys[i]);
		if (i == m.nbuckets)
			grow(&m, *step++);
		insert(&m, i + 1);
	}
	for (size_t i = 0, node = m.next[0]; node; node = m.next[node])
		order[i++] = node - 1;
	rc = 0;
out:
	free(m.hash);
	free(m.next);
	free(m.before);
	return rc;
}
