/* hist.c - a log-linear histogram of one thread. */
#include "hist.h"

#include <math.h>

static unsigned bucket_of(uint64_t v)
{
	unsigned exp;

	if (v < 1u << HIST_SUB)
		return (unsigned)v;
	exp = 63 - (unsigned)__builtin_clzll(v);
	return ((exp - HIST_SUB + 1) << HIST_SUB) + (unsigned)(v >> (exp - HIST_SUB)) -
	       (1u << HIST_SUB);
}

static uint64_t middle_of(unsigned bucket)
{
	unsigned exp = bucket >> HIST_SUB;
	uint64_t low, width;

	if (exp == 0)
		return bucket;
	width = UINT64_C(1) << (exp - 1);
	low = ((bucket & ((1u << HIST_SUB) - 1)) + (1u << HIST_SUB)) * width;
	return low + width / 2;
}

void hist_add(struct hist *h, uint64_t value)
{
	if (!h->count || value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	h->count++;
	h->sum += value;
	h->bucket[bucket_of(value)]++;
}

void hist_merge(struct hist *to, const struct hist *from)
{
	unsigned i;

	if (!from->count)
		return;
	if (!to->count || from->min < to->min)
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
	to->count += from->count;
	to->sum += from->sum;
	for (i = 0; i < HIST_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

uint64_t hist_quantile(const struct hist *h, double q)
{
	uint64_t rank, seen = 0, v;
	unsigned i;

	if (!h->count)
		return 0;
	rank = (uint64_t)ceil(q * (double)h->count);
	for (i = 0; i < HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen && seen >= rank)
			break;
	}
	v = middle_of(i);
	return v < h->min ? h->min : v > h->max ? h->max : v;
}
