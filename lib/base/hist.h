/* hist.h - a log-linear latency histogram, 1.6 % wide buckets, updated by many threads. */
#ifndef TE_BASE_HIST_H
#define TE_BASE_HIST_H

#include <stdatomic.h>
#include <stdint.h>

enum { TE_HIST_SUB = 6, TE_HIST_BUCKETS = (64 - TE_HIST_SUB + 1) << TE_HIST_SUB };

struct te_hist {
	_Atomic uint64_t count, sum, max;
	_Atomic uint32_t bucket[TE_HIST_BUCKETS];
};

void te_hist_add(struct te_hist *h, uint64_t value);
/* The same value n times. */
void te_hist_add_n(struct te_hist *h, uint64_t value, uint32_t n);
/* Upper bound of the bucket that holds quantile q (0..1), at most max; 0 when empty. */
uint64_t te_hist_quantile(const struct te_hist *h, double q);

#endif
