/* baseline.h - work and raw loop by turns, so that both see the same noise. */
#ifndef BENCH_BASELINE_H
#define BENCH_BASELINE_H

#include "crew.h"

/* -EOPNOTSUPP: none is measured here for the transports in use. */
int baseline_check(const struct crew *c, struct te_err *err);
/* Runs `all` in rounds of the work, each beside one of the raw loop. Adds the work's to *sum and fills the baseline
   of *out. Some work must have run before: its connections are counted. */
int baseline_run(struct crew *c, const struct round *all, struct round_result *sum, struct case_result *out,
		 struct te_err *err);

#endif
