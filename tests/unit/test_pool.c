/* test_pool.c - SIEVE and FIFO against a reference in arrays that one can check by reading. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tap.h"
#include "transport/rdma/pool.h"

enum { KEYS = 300 };

struct thing {
	struct te_pool_node node;
	char key[32];
	bool busy;
};

static bool thing_busy(const struct te_pool_node *node)
{
	return container_of(node, const struct thing, node)->busy;
}

/* ---- the reference: order[0] is the oldest ----------------------------------------------------
 */

struct ref {
	int order[KEYS];
	int n, hand; /* hand: a place in order */
	bool visited[KEYS];
	const struct thing *things;
};

static int ref_place(const struct ref *r, int key)
{
	for (int i = 0; i < r->n; i++)
		if (r->order[i] == key)
			return i;
	return -1;
}

static void ref_insert(struct ref *r, int key)
{
	r->order[r->n++] = key;
	r->visited[key] = false;
}

static void ref_remove(struct ref *r, int key)
{
	int place = ref_place(r, key);

	for (int i = place; i + 1 < r->n; i++)
		r->order[i] = r->order[i + 1];
	r->n--;
	/* A hand on what is gone stays at that place, where the next newer one is now; beyond the
	 * head it is at the tail. */
	if (r->hand > place)
		r->hand--;
	if (r->hand >= r->n)
		r->hand = 0;
}

static int ref_fifo(const struct ref *r)
{
	for (int i = 0; i < r->n; i++)
		if (!r->things[r->order[i]].busy)
			return r->order[i];
	return r->order[0];
}

static int ref_sieve(struct ref *r)
{
	int first_busy = -1;

	for (int step = 0; step < 2 * r->n; step++) {
		int place = (r->hand + step) % r->n, key = r->order[place];

		if (r->visited[key]) {
			r->visited[key] = false;
			continue;
		}
		if (!r->things[key].busy) {
			r->hand = place;
			return key;
		}
		if (first_busy < 0)
			first_busy = place;
	}
	r->hand = first_busy;
	return r->order[first_busy];
}

/* ---- traces -----------------------------------------------------------------------------------
 */

struct trace {
	struct te_pool pool;
	struct ref ref;
	struct thing things[KEYS];
	int keys;
	unsigned seed;
	uint64_t evictions;
	int bad;
};

static int dice(struct trace *t, int n)
{
	return (int)((unsigned)rand_r(&t->seed) % (unsigned)n);
}

/* Small keys come more often, as real peers do. */
static int some_key(struct trace *t)
{
	int a = dice(t, t->keys), b = dice(t, t->keys);

	return MIN(a, b);
}

static void use(struct trace *t, bool fifo, int key)
{
	struct te_pool_node *hit = te_pool_find(&t->pool, t->things[key].key), *old;
	int place = ref_place(&t->ref, key);

	t->bad += (place >= 0) != (hit != NULL) || (hit && hit != &t->things[key].node);
	if (hit) {
		t->ref.visited[key] = true;
		return;
	}
	while ((old = te_pool_victim(&t->pool))) {
		int want = fifo ? ref_fifo(&t->ref) : ref_sieve(&t->ref);

		t->bad += old != &t->things[want].node;
		te_pool_evict(&t->pool, old);
		ref_remove(&t->ref, want);
		t->evictions++;
	}
	te_pool_insert(&t->pool, &t->things[key].node);
	ref_insert(&t->ref, key);
}

static void fail_one(struct trace *t, int key)
{
	te_pool_remove(&t->pool, &t->things[key].node);
	if (ref_place(&t->ref, key) >= 0)
		ref_remove(&t->ref, key);
}

/* The same nodes in the same order, all of them findable. */
static void compare(struct trace *t)
{
	int i = t->ref.n;

	for (struct te_pool_node *n = te_pool_first(&t->pool); n; n = te_pool_next(n)) {
		bool visited = n->visited;

		t->bad += --i < 0 || n != &t->things[t->ref.order[i]].node;
		t->bad += te_pool_find(&t->pool, n->key) != n;
		n->visited = visited;
	}
	t->bad += i != 0 || t->pool.size != (size_t)t->ref.n || t->pool.evictions != t->evictions;
}

static void run(struct trace *t, size_t capacity, bool fifo,
		bool (*busy)(const struct te_pool_node *))
{
	*t = (struct trace){ .keys = (int)MIN(3 * capacity + 2, (size_t)KEYS),
			     .seed = (unsigned)(4 * capacity + fifo + 1) };
	t->ref.things = t->things;
	for (int i = 0; i < t->keys; i++) {
		snprintf(t->things[i].key, sizeof(t->things[i].key), "10.0.0.%d:12001@mlx5_%d",
			 i / 4, i % 4);
		t->things[i].node.key = t->things[i].key;
	}
	te_pool_init(&t->pool, capacity, fifo, busy);
	for (int step = 0; step < 20000 && !t->bad; step++) {
		int what = dice(t, 100);

		if (busy && what < 30)
			t->things[some_key(t)].busy ^= true;
		else if (what < 34)
			fail_one(t, dice(t, t->keys));
		else
			use(t, fifo, some_key(t));
		if (step % 16 == 0 || capacity < 4)
			compare(t);
	}
	compare(t);
	te_pool_clear(&t->pool);
}

static void traces(void)
{
	static const size_t capacities[] = { 1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 90 };
	static struct trace t;

	for (size_t i = 0; i < ARRAY_SIZE(capacities); i++)
		for (int fifo = 0; fifo < 2; fifo++) {
			run(&t, capacities[i], fifo, NULL);
			ok(!t.bad && t.evictions > 100, "%s of %zu: as the reference",
			   fifo ? "FIFO" : "SIEVE", capacities[i]);
			run(&t, capacities[i], fifo, thing_busy);
			ok(!t.bad && t.evictions > 100,
			   "%s of %zu with work in flight: as the reference",
			   fifo ? "FIFO" : "SIEVE", capacities[i]);
		}
}

/* ---- by hand, and the corners -------------------------------------------------------
 */

static struct thing *thing(struct thing *t, const char *key)
{
	*t = (struct thing){ 0 };
	te_strlcpy(t->key, key, sizeof(t->key));
	t->node.key = t->key;
	return t;
}

/* Use each letter of `uses` in a pool of `capacity`; the letters evicted, in order. */
static const char *evicted(size_t capacity, bool fifo, const char *uses, const char *busy)
{
	static struct thing things[26];
	static char out[64];
	struct te_pool pool;
	struct te_pool_node *old;
	size_t n = 0;

	te_pool_init(&pool, capacity, fifo, thing_busy);
	for (int i = 0; i < 26; i++) {
		thing(&things[i], (char[]){ (char)('A' + i), 0 });
		things[i].busy = strchr(busy, 'A' + i) != NULL;
	}
	for (; *uses; uses++) {
		if (te_pool_find(&pool, (char[]){ *uses, 0 }))
			continue;
		while ((old = te_pool_victim(&pool))) {
			out[n++] = *old->key;
			te_pool_evict(&pool, old);
		}
		te_pool_insert(&pool, &things[*uses - 'A'].node);
	}
	out[n] = '\0';
	te_pool_clear(&pool);
	return out;
}

static void by_hand(void)
{
	static const struct {
		size_t capacity;
		bool fifo;
		const char *uses, *busy, *gone, *what;
	} cases[] = {
		/* Head G F E D C B A tail, A B G visited: H evicts C (the hand stops at D), D is
		   used, I spares it and takes E, J takes F; the bits of A and B went when the hand
		   passed them. */
		{ 7, false, "ABCDEFGABGHADIBJ", "", "CEF", "SIEVE, step by step" },
		{ 3, true, "ABCAAADE", "", "AB", "FIFO takes no notice of uses" },
		{ 1, false, "AAB", "", "A", "SIEVE of one evicts what was used" },
		{ 2, false, "ABACA", "", "B", "SIEVE of two keeps what is used" },
		{ 2, true, "ABC", "A", "B", "FIFO passes over work in flight" },
		{ 2, false, "ABC", "A", "B", "SIEVE passes over work in flight" },
		{ 3, false, "ABCABCD", "AB", "C", "SIEVE spares the busy before the used" },
		{ 2, false, "ABC", "AB", "A", "SIEVE, all busy: the first all the same" },
		{ 2, true, "ABC", "AB", "A", "FIFO, all busy: the oldest all the same" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *gone =
			evicted(cases[i].capacity, cases[i].fifo, cases[i].uses, cases[i].busy);

		ok(!strcmp(gone, cases[i].gone), "%s: %s", cases[i].what, gone);
	}
}

static void corners(void)
{
	struct te_pool pool;
	struct thing a, b;

	te_pool_init(&pool, 2, false, NULL);
	ok(!te_pool_find(&pool, "x@y") && !te_pool_victim(&pool) && !te_pool_first(&pool), "empty");
	te_pool_remove(&pool, &thing(&a, "x@y")->node);
	te_pool_evict(&pool, &a.node);
	ok(pool.size == 0 && pool.evictions == 0, "removing what is not in does nothing");
	te_pool_insert(&pool, &a.node);
	te_pool_insert(&pool, &thing(&b, "x@z")->node);
	ok(te_pool_victim(&pool) == &a.node && te_pool_victim(&pool) == &a.node,
	   "the older one goes, and asking twice changes nothing");
	te_pool_remove(&pool, &a.node);
	ok(!te_pool_victim(&pool) && pool.evictions == 0 && pool.size == 1, "a removal makes room");
	te_pool_insert(&pool, &a.node);
	ok(te_pool_victim(&pool) == &b.node, "back in, it is the newest");
	te_pool_clear(&pool);
}

static void large(void)
{
	enum { N = 65536 };
	static struct thing things[N + 1];
	struct te_pool pool;
	int found = 0;

	te_pool_init(&pool, N, false, NULL);
	for (int i = 0; i <= N; i++) {
		struct te_pool_node *old = te_pool_victim(&pool);

		snprintf(things[i].key, sizeof(things[i].key), "%d@mlx5_0", i);
		things[i].node.key = things[i].key;
		if (old)
			te_pool_evict(&pool, old);
		te_pool_insert(&pool, &things[i].node);
	}
	for (int i = 0; i <= N; i++)
		found += te_pool_find(&pool, things[i].key) == &things[i].node;
	ok(found == N && !things[0].node.in && pool.evictions == 1, "65536 and one more");
	ok(te_pool_victim(&pool) == &things[1].node, "all used: once round, the oldest again");
	te_pool_clear(&pool);
}

int main(void)
{
	traces();
	by_hand();
	corners();
	large();
	return tap_end();
}
