/* report_csv.c - --csv: one row a case. */
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct csv {
	FILE *f;
	const char *path;
};

int csv_open(const char *path, struct csv **out, struct te_err *err)
{
	struct csv *c = calloc(1, sizeof(*c));

	if (!c)
		return te_fail(err, -ENOMEM, "out of memory");
	c->path = path;
	c->f = fopen(path, "we");
	if (!c->f) {
		free(c);
		return te_fail(err, -errno, "cannot write '%s': %s", path, strerror(errno));
	}
	fputs("operation,block_size,batch_size,threads,segments,duration_seconds,requests,bytes,"
	      "bytes_per_second,"
	      "requests_per_second,latency_min_us,latency_avg_us,latency_p50_us,latency_p90_us,"
	      "latency_p99_us,"
	      "latency_p999_us,latency_max_us,errors,retries,checked_bytes,mismatches,baseline_"
	      "bytes_per_second,"
	      "baseline_ratio,cpu_user_seconds,cpu_system_seconds,transport\n",
	      c->f);
	*out = c;
	return 0;
}

/* What was not asked for stays empty. */
static void optional(struct csv *c, bool have, double v)
{
	if (have)
		fprintf(c->f, ",%.17g", v);
	else
		fputc(',', c->f);
}

void csv_row(struct csv *c, const struct run *run, const struct case_result *r)
{
	const struct latency *l = &r->latency;
	char path[64];

	fprintf(c->f,
		"%s,%llu,%llu,%llu,%zu,%.6f,%llu,%llu,%.0f,%.1f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,"
		"%llu,%llu",
		bench_op_names[r->spec.op], (unsigned long long)r->spec.block,
		(unsigned long long)r->spec.batch, (unsigned long long)r->spec.threads,
		run->session->nsegments, r->seconds, (unsigned long long)r->requests,
		(unsigned long long)r->bytes, per_second(r->bytes, r->seconds),
		per_second(r->requests, r->seconds), l->min, l->avg, l->p50, l->p90, l->p99,
		l->p999, l->max, (unsigned long long)r->errors, (unsigned long long)r->retries);
	optional(c, r->verified, (double)r->checked_bytes);
	optional(c, r->verified, (double)r->mismatches);
	optional(c, r->has_baseline, r->raw_bytes_per_second);
	optional(c, r->has_baseline, r->ratio);
	fprintf(c->f, ",%.3f,%.3f,%s\n", r->user, r->system,
		report_transports(r, path, sizeof(path)));
	fflush(c->f);
}

int csv_close(struct csv *c, struct te_err *err)
{
	bool bad = ferror(c->f);
	int rc = 0;

	errno = 0;
	if (fclose(c->f) || bad)
		rc = te_fail(err, -EIO, "cannot write '%s': %s", c->path,
			     errno ? strerror(errno) : "I/O error");
	free(c);
	return rc;
}
