/* test_bench.c - te-bench's histogram, and the places it reads and writes. */
#include "te-bench/hist.c"
#include "te-bench/slots.c"

#include <stdbool.h>
#include <stdlib.h>

#include "tap.h"

static void test_hist(void)
{
	static struct hist h, other, sum;
	static const double qs[] = { 0.5, 0.9, 0.99, 0.999 };
	uint64_t i, q, exact;
	bool near = true;

	ok(hist_quantile(&h, 0.5) == 0, "an empty histogram has no quantile");
	hist_add(&h, 7);
	ok(hist_quantile(&h, 0.5) == 7 && hist_quantile(&h, 0.999) == 7,
	   "one value is every quantile");
	for (i = 1; i <= 1000000; i++)
		hist_add(i % 2 ? &sum : &other, i * 1000);
	hist_merge(&sum, &other);
	for (i = 0; i < 4; i++) {
		q = hist_quantile(&sum, qs[i]);
		exact = (uint64_t)(qs[i] * 1e9);
		near &= llabs((long long)(q - exact)) < (long long)(exact / 60);
	}
	ok(near, "quantiles are right to 1.6 %%");
	ok(sum.min == 1000 && sum.max == 1000000000 && sum.count == 1000000,
	   "min, max and count are exact");
	hist_merge(&sum, &h);
	ok(sum.min == 7, "a smaller minimum is taken over");
	hist_add(&h, UINT64_MAX);
	ok(hist_quantile(&h, 1) > UINT64_MAX / 64 * 63, "the largest value has a bucket");
}

/* Do `n` walkers visit every slot of their range once a lap, and stay inside the buffers? */
static void walk_all(const struct te_desc *d, const struct slots *s, uint64_t n, bool *inside,
		     bool *apart)
{
	unsigned *seen = calloc(s->count, sizeof(*seen));
	uint64_t w, k, i;

	for (w = 0; w < n; w++) {
		struct walk walk = walk_share(s, w, n);

		for (k = 0; k < walk.span; k++) {
			struct place p = walk_next(&walk);
			const struct te_desc_buffer *b = &d->buffers[p.buffer];

			*inside &= p.addr == b->addr + p.offset && p.offset + s->block <= b->length;
		}
		*inside &= walk.at == 0;
		for (i = walk.first; i < walk.first + walk.span; i++)
			seen[i]++;
	}
	for (i = 0; i < s->count; i++)
		*apart &= seen[i] <= 1;
	free(seen);
}

static void test_slots(void)
{
	struct te_desc_buffer buffers[] = { { .addr = 0x10000, .length = 1000 },
					    { .addr = 0x20000, .length = 99 },
					    { .addr = 0x30000, .length = 350 } };
	struct te_desc d = { .buffers = buffers, .nbuffers = 3 };
	bool inside = true, apart = true;
	struct slots s, low, high;
	struct walk a, b;

	slots_init(&s, &d, 100, SLOTS_WHOLE);
	ok(s.count == 13 && s.nruns == 2, "a buffer that is too small has no place");
	walk_all(&d, &s, 1, &inside, &apart);
	walk_all(&d, &s, 4, &inside, &apart);
	walk_all(&d, &s, 13, &inside, &apart);
	ok(inside, "no place crosses the end of a buffer, and walks come round");
	ok(apart, "walkers have places of their own");
	a = walk_share(&s, 2, 20);
	b = walk_share(&s, 15, 20);
	ok(a.span == 1 && b.span == 1 && a.first == b.first, "more walkers than places share them");
	slots_init(&low, &d, 100, SLOTS_LOWER);
	slots_init(&high, &d, 100, SLOTS_UPPER);
	ok(low.count == 6 && high.count == 6, "a half of each buffer");
	ok(slots_at(&low, 4).offset + 100 <= 500 && slots_at(&high, 0).offset == 500 &&
		   slots_at(&high, 5).addr == 0x30000 + 175,
	   "the halves do not meet");
	slots_clear(&s);
	slots_clear(&low);
	slots_clear(&high);
	slots_init(&s, &d, 2000, SLOTS_WHOLE);
	ok(s.count == 0, "blocks that fit nowhere have no place");
	slots_clear(&s);
}

int main(void)
{
	test_hist();
	test_slots();
	return tap_end();
}
