/* hist.c - a log-linear histogram: 64 buckets for each power of two. */
#include "base/hist.h"

enum { SUB = 1 << TE_HIST_SUB };

static unsigned bucket_of(uint64_t v)
{
	unsigned shift;

	if (v < SUB)
		return (unsigned)v;
	shift = 63u - (unsigned)__builtin_clzll(v) - TE_HIST_SUB;
	return ((shift + 1) << TE_HIST_SUB) + (unsigned)((v >> shift) & (SUB - 1));
}

static uint64_t bucket_top(unsigned b)
{
	unsigned group = b >> TE_HIST_SUB, sub = b & (SUB - 1);

	if (!group)
		return sub;
	/* For the very last bucket the shift drops the carry, and 0 - 1 is the right top. */
	return ((uint64_t)(SUB + sub + 1) << (group - 1)) - 1;
}

void te_hist_add(struct te_hist *h, uint64_t value)
{
	te_hist_add_n(h, value, 1);
}

void te_hist_add_n(struct te_hist *h, uint64_t value, uint32_t n)
{
	uint64_t max = atomic_load_explicit(&h->max, memory_order_relaxed);

	/* Counters only: nothing is published through them, so relaxed is enough. */
	atomic_fetch_add_explicit(&h->bucket[bucket_of(value)], n, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->count, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum, value * n, memory_order_relaxed);
	while (value > max &&
	       !atomic_compare_exchange_weak_explicit(&h->max, &max, value, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

uint64_t te_hist_quantile(const struct te_hist *h, double q)
{
	uint64_t total = 0, rank, seen = 0, max;

	/* The sum of the buckets and not `count`: adders may be between the two. */
	for (unsigned b = 0; b < TE_HIST_BUCKETS; b++)
		total += atomic_load_explicit(&h->bucket[b], memory_order_relaxed);
	if (!total)
		return 0;
	rank = (uint64_t)(q * (double)total);
	if ((double)rank < q * (double)total || !rank)
		rank++;
	max = atomic_load_explicit(&h->max, memory_order_relaxed);
	for (unsigned b = 0; b < TE_HIST_BUCKETS; b++) {
		seen += atomic_load_explicit(&h->bucket[b], memory_order_relaxed);
		if (seen >= rank)
			return bucket_top(b) < max ? bucket_top(b) : max;
	}
	return max;
}
