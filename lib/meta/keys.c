/* keys.c - growing and sorted sets of keys, each with the fingerprint of its value. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "meta/ops.h"

static int reserve(struct te_keys *k)
{
	size_t cap = k->cap ? 2 * k->cap : 64;
	struct te_key *v;

	if (k->n < k->cap)
		return 0;
	v = reallocarray(k->v, cap, sizeof(*v));
	if (!v)
		return -ENOMEM;
	k->v = v;
	k->cap = cap;
	return 0;
}

static void key_clear(struct te_key *e)
{
	free(e->key);
	free(e->print);
}

int te_keys_add(struct te_keys *k, const char *key, size_t len)
{
	struct te_key e = { 0 };

	if (memchr(key, '\0', len))
		return 0;
	if (reserve(k))
		return -ENOMEM;
	e.key = strndup(key, len);
	if (!e.key)
		return -ENOMEM;
	k->v[k->n++] = e;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct te_key *)a)->key, ((const struct te_key *)b)->key);
}

void te_keys_sort(struct te_keys *k)
{
	size_t to = 0;

	if (!k->n)
		return;
	qsort(k->v, k->n, sizeof(*k->v), by_key);
	for (size_t i = 1; i < k->n; i++) {
		if (strcmp(k->v[i].key, k->v[to].key) == 0)
			key_clear(&k->v[i]);
		else
			k->v[++to] = k->v[i];
	}
	k->n = to + 1;
}

/* Where key is, or would be inserted. */
static size_t lower_bound(const struct te_keys *k, const char *key)
{
	size_t lo = 0, hi = k->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(k->v[mid].key, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct te_key *te_keys_find(const struct te_keys *k, const char *key)
{
	size_t at = lower_bound(k, key);

	return at < k->n && strcmp(k->v[at].key, key) == 0 ? &k->v[at] : NULL;
}

int te_keys_set(struct te_keys *k, const char *key, const char *print)
{
	size_t at = lower_bound(k, key);
	char *copy = te_strdup(print);
	struct te_key e;

	if (print && !copy)
		return -ENOMEM;
	if (at < k->n && strcmp(k->v[at].key, key) == 0) {
		free(k->v[at].print);
		k->v[at].print = copy;
		return 0;
	}
	if (te_keys_add(k, key, strlen(key))) {
		free(copy);
		return -ENOMEM;
	}
	e = k->v[k->n - 1];
	e.print = copy;
	memmove(&k->v[at + 1], &k->v[at], (k->n - 1 - at) * sizeof(e));
	k->v[at] = e;
	return 0;
}

void te_keys_remove(struct te_keys *k, const char *key)
{
	struct te_key *e = te_keys_find(k, key);

	if (!e)
		return;
	key_clear(e);
	k->n--;
	memmove(e, e + 1, (size_t)(k->v + k->n - e) * sizeof(*e));
}

void te_keys_clear(struct te_keys *k)
{
	for (size_t i = 0; i < k->n; i++)
		key_clear(&k->v[i]);
	free(k->v);
	*k = (struct te_keys){ 0 };
}

/* FNV-1a, 64 bit, and the length. */
void te_fingerprint(const char *data, size_t len, char out[TE_META_TAG_MAX])
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)data[i]) * 0x100000001b3u;
	snprintf(out, TE_META_TAG_MAX, "%zx-%016llx", len, (unsigned long long)h);
}
