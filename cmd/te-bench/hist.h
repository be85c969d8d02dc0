/* hist.h - a log-linear histogram of one thread, buckets 1.6 % wide. */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

enum { HIST_SUB = 6, HIST_BUCKETS = (64 - HIST_SUB + 1) << HIST_SUB };

struct hist {
	uint64_t count, sum, min, max;	/* min: only with count > 0 */
	uint64_t bucket[HIST_BUCKETS];
};

void hist_add(struct hist *h, uint64_t value);
void hist_merge(struct hist *to, const struct hist *from);
/* The middle of the bucket that holds quantile q (0..1), within min and max; 0 when empty. */
uint64_t hist_quantile(const struct hist *h, double q);

#endif
