/* report_text.c - the result of te-bench for people. */
#include "report.h"

#include <stdio.h>
#include <string.h>

static const char *rate_text(const struct run *run, double bytes_per_second, char *buf, size_t size)
{
	const struct bench_options *o = run->opt;

	snprintf(buf, size, "%.*f %s/s", (int)o->precision, bytes_per_second / o->unit->bytes,
		 o->unit->name);
	return buf;
}

/* ---- one case: a paragraph ------------------------------------------------------------------- */

static void print_what(const struct run *run, const struct case_result *r)
{
	const struct session *s = run->session;
	char block[32];

	printf("%s of %s%s, batches of %llu, %llu thread%s, segment%s %s",
	       bench_op_names[r->spec.op], report_size(r->spec.block, block, sizeof(block)),
	       r->spec.block % 1024 ? " bytes" : "", (unsigned long long)r->spec.batch,
	       (unsigned long long)r->spec.threads, r->spec.threads == 1 ? "" : "s",
	       s->nsegments == 1 ? "" : "s", s->segments[0].name);
	if (s->nsegments > 1)
		printf(" and %zu more", s->nsegments - 1);
	if (s->conf.file_sync && bench_writes(r->spec.op))
		printf(", WRITEs to files durable");
	putchar('\n');
}

static void print_paths(const struct case_result *r)
{
	size_t i;

	for (i = 0; i < r->npaths; i++) {
		const struct te_path *p = &r->paths[i];

		printf("  %-11s %s: %s -> %s, %llu slices, %llu bytes", i ? "" : "path",
		       p->transport, p->local, p->remote, (unsigned long long)p->slices,
		       (unsigned long long)p->bytes);
		if (p->retries)
			printf(", %llu retries", (unsigned long long)p->retries);
		putchar('\n');
	}
}

static void print_checks(const struct run *run, const struct case_result *r)
{
	char rate[48];

	if (r->errors || r->retries)
		printf("  %-11s %llu, %llu retries\n", "errors", (unsigned long long)r->errors,
		       (unsigned long long)r->retries);
	if (r->verified)
		printf("  %-11s %llu bytes checked, %llu mismatches; checking is not in the times "
		       "above\n",
		       "verify", (unsigned long long)r->checked_bytes,
		       (unsigned long long)r->mismatches);
	if (r->has_baseline)
		printf("  %-11s %s raw; ratio %.3f (quartiles %.3f to %.3f)\n", "baseline",
		       rate_text(run, r->raw_bytes_per_second, rate, sizeof(rate)), r->ratio, r->q1,
		       r->q3);
}

static void print_case(const struct run *run, const struct case_result *r)
{
	const struct latency *l = &r->latency;
	char rate[48];

	print_what(run, r);
	printf("  %-11s %.2f s\n", "duration", r->seconds);
	printf("  %-11s %llu, %.0f requests/s\n", "requests", (unsigned long long)r->requests,
	       per_second(r->requests, r->seconds));
	printf("  %-11s %s\n", "throughput",
	       rate_text(run, per_second(r->bytes, r->seconds), rate, sizeof(rate)));
	printf("  %-11s min %.1f, avg %.1f, p50 %.1f, p90 %.1f, p99 %.1f, p99.9 %.1f, max %.1f "
	       "us\n",
	       "latency", l->min, l->avg, l->p50, l->p90, l->p99, l->p999, l->max);
	printf("  %-11s %.2f s user, %.2f s system\n", "cpu", r->user, r->system);
	print_checks(run, r);
	print_paths(r);
}

/* ---- several cases: a table ------------------------------------------------------------------ */

static void print_row(const struct run *run, const struct case_result *r)
{
	char block[32], path[64];

	printf("%-9s %9s %7llu %7llu %12.0f %12.*f %10.1f %10.1f %10.1f %7llu %s",
	       bench_op_names[r->spec.op], report_size(r->spec.block, block, sizeof(block)),
	       (unsigned long long)r->spec.batch, (unsigned long long)r->spec.threads,
	       per_second(r->requests, r->seconds), (int)run->opt->precision,
	       per_second(r->bytes, r->seconds) / run->opt->unit->bytes, r->latency.p50,
	       r->latency.p99, r->latency.p999, (unsigned long long)r->errors,
	       report_transports(r, path, sizeof(path)));
	if (r->has_baseline)
		printf(" %.3f (%.3f..%.3f)", r->ratio, r->q1, r->q3);
	putchar('\n');
	fflush(stdout);
}

static void begin(const struct run *run)
{
	char unit[16];

	if (run->planned < 2)
		return;
	snprintf(unit, sizeof(unit), "%s/s", run->opt->unit->name);
	printf("%-9s %9s %7s %7s %12s %12s %10s %10s %10s %7s %s%s\n", "operation", "block",
	       "batch", "threads", "requests/s", unit, "p50 us", "p99 us", "p99.9 us", "errors",
	       "path", run->opt->baseline ? " ratio" : "");
}

static void result(const struct run *run, const struct case_result *r)
{
	if (run->planned < 2)
		print_case(run, r);
	else
		print_row(run, r);
}

/* Scripts look for this line, which the seed's bench ends with. */
static void end(const struct run *run)
{
	const struct case_result t = report_total(run);
	char rate[48];

	if (run->interrupted)
		puts("interrupted");
	printf("Test completed: duration %.2f, batch count %llu, throughput %s\n", t.seconds,
	       (unsigned long long)t.batches,
	       rate_text(run, per_second(t.bytes, t.seconds), rate, sizeof(rate)));
}

const struct report_ops report_text = {
	.begin = begin,
	.result = result,
	.end = end,
};
