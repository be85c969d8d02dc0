/* report.h - what the forms of a report have in common. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <jansson.h>

#include "bench.h"

/* "64 KiB", or "65537" where no unit divides it; returns buf. */
const char *report_size(uint64_t n, char *buf, size_t size);
/* Transports of a case, "shm" or "shm+tcp"; returns buf. */
const char *report_transports(const struct case_result *r, char *buf, size_t size);
/* The cases as one: what the final line tells. */
struct case_result report_total(const struct run *run);
/* Where it ran: a new object. */
json_t *report_environment(const struct run *run);

#endif
