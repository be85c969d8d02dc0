/* test_region.c - the table of registered buffers: overlap, look-up, and removal against users. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tap.h"
#include "te_err.h"
#include "transport/region.h"

static int add(struct te_regions *t, uint64_t addr, uint64_t len, bool remote,
	       struct te_region **out, struct te_err *err)
{
	struct te_region r = {
		.addr = addr, .len = len, .location = "cpu:0", .remote = remote, .memfd = -1
	};

	return te_regions_add(t, &r, out, err);
}

static void overlaps(void)
{
	struct te_regions *t = te_regions_new();
	struct te_region *a, *b, *x;
	struct te_err err = { 0 };

	ok(add(t, 0x1000, 0x1000, true, &a, NULL) == 0, "a region is added");
	ok(add(t, 0x2000, 0x1000, false, &b, NULL) == 0, "one that touches it is added");
	ok(add(t, 0x1000, 0x1000, true, &x, &err) == -EEXIST, "twice is refused");
	ok(strstr(err.msg, "0x1000+0x1000 overlaps the registered 0x1000+0x1000"),
	   "both are named: %s", err.msg);
	ok(add(t, 0xfff, 2, true, &x, NULL) == -EEXIST, "overlap from below is refused");
	ok(add(t, 0x2fff, 1, true, &x, NULL) == -EEXIST, "overlap inside is refused");
	ok(add(t, 0x800, 0x10000, true, &x, NULL) == -EEXIST, "overlap from outside is refused");
	ok(add(t, 0x5000, 0, true, &x, NULL) == -EINVAL, "zero length is refused");
	ok(add(t, UINT64_MAX - 1, 3, true, &x, NULL) == -EINVAL, "wrapping is refused");
	ok(add(t, UINT64_MAX, 1, true, &x, NULL) == 0, "the last byte of all can be registered");
	ok(te_regions_at(t, 0x2000) == b && !te_regions_at(t, 0x2001), "found by its start only");
	te_regions_remove(t, x, 0);
	te_region_free(x);

	ok((x = te_region_get(t, 0x1000, 0x1000, true)) == a, "get of all of it");
	te_region_put(x);
	ok(!te_region_get(t, 0x1000, 0x1001, true), "get over its end is refused");
	ok(!te_region_get(t, 0x1fff, 2, false), "get over two regions is refused");
	ok(!te_region_get(t, 0x1800, UINT64_MAX, true), "get that wraps is refused");
	ok(!te_region_get(t, 0x1000, 0, true), "get of nothing is refused");
	te_region_put(NULL);
	ok(!te_region_get(t, 0x2000, 1, true), "a local-only region is not there for peers");
	ok((x = te_region_get(t, 0x2fff, 1, false)) == b, "but for ourselves");

	ok(te_regions_remove(t, b, te_now() + 20 * TE_NSEC_PER_MSEC) == -EBUSY, "in use: -EBUSY");
	ok(te_regions_at(t, 0x2000) == b, "and visible again");
	te_region_put(x);
	ok(te_regions_remove(t, b, te_now()) == 0, "unused: removed even without time");
	ok(!te_regions_at(t, 0x2000), "and gone");
	te_region_free(b);
	ok(te_regions_remove(t, a, te_now()) == 0, "the other one too");
	te_region_free(a);
	te_regions_free(t);
}

static void count(void *arg, const struct te_region *r)
{
	uint64_t *last = arg;

	*last = r->addr > *last ? r->addr : UINT64_MAX;
}

static void many(void)
{
	enum { N = 12000 };
	struct te_regions *t = te_regions_new();
	struct te_region **r = calloc(N, sizeof(struct te_region *));
	uint64_t last = 0;
	int bad = 0;

	for (uint64_t i = 0; i < N; i++) {
		uint64_t k = i * 7919 % N; /* N and 7919 have no common factor: every k once */

		bad += add(t, 0x10000 + k * 0x2000, 0x1000, true, &r[k], NULL) != 0;
	}
	ok(!bad, "%d regions are added", N);
	te_regions_each(t, count, &last);
	ok(last == 0x10000 + (N - 1) * 0x2000ull, "each one in order of address");
	for (uint64_t i = 0; i < N; i++) {
		struct te_region *x = te_region_get(t, 0x10000 + i * 0x2000 + 5, 0xffb, true);

		bad += x != r[i] || te_region_get(t, 0x10000 + i * 0x2000 + 0x1000, 1, true);
		te_region_put(x);
	}
	ok(!bad, "all are found, the gaps are not");
	for (uint64_t i = 0; i < N; i++) {
		bad += te_regions_remove(t, r[i], te_now()) != 0;
		te_region_free(r[i]);
	}
	ok(!bad, "all are removed");
	te_regions_free(t);
	free(r);
}

struct race {
	struct te_regions *t;
	uint8_t *memory;
	_Atomic bool stop;
	_Atomic uint64_t hits;
};

/* Uses the memory of the region whenever it can be had; ASan and TSan see a use after removal. */
static void *user(void *arg)
{
	struct race *race = arg;

	while (!atomic_load(&race->stop)) {
		struct te_region *r = te_region_get(race->t, 0x1000, 16, true);

		if (!r)
			continue;
		atomic_fetch_add(&race->hits, *(uint8_t *)(uintptr_t)r->memfd_offset);
		te_region_put(r);
	}
	return NULL;
}

static void races(void)
{
	struct race race = { .t = te_regions_new() };
	pthread_t th[3];
	int bad = 0, rounds = 0;

	for (size_t i = 0; i < ARRAY_SIZE(th); i++)
		pthread_create(&th[i], NULL, user, &race);
	for (uint64_t end = te_now() + TE_NSEC_PER_SEC; te_now() < end; rounds++) {
		struct te_region r = { .addr = 0x1000, .len = 16, .remote = true }, *x;
		uint8_t *memory = malloc(16);
		uint64_t seen = atomic_load(&race.hits);

		memory[0] = 1;
		r.memfd_offset = (uintptr_t)memory;
		bad += te_regions_add(race.t, &r, &x, NULL) != 0;
		while (atomic_load(&race.hits) == seen && te_now() < end)
			;
		bad += te_regions_remove(race.t, x, te_now() + 5 * TE_NSEC_PER_SEC) != 0;
		te_region_free(x);
		free(memory);
	}
	atomic_store(&race.stop, true);
	for (size_t i = 0; i < ARRAY_SIZE(th); i++)
		pthread_join(th[i], NULL);
	ok(!bad && race.hits, "%s", "regions come and go under three users");
	printf("# %d rounds, %llu uses\n", rounds, (unsigned long long)race.hits);
	te_regions_free(race.t);
}

int main(void)
{
	overlaps();
	many();
	races();
	return tap_end();
}
