/* case.c - one case of a run: warm-up, measurement, result. */
#include "baseline.h"
#include "crew.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { PATHS_MAX = 4096 };
static const double least_warmup = 0.2; /* with --baseline, which must see the connections */

/* ---- what the engine counts ------------------------------------------------------------------ */

struct before {
	struct te_path *paths;
	size_t npaths;
	struct te_totals totals;
	struct rusage usage;
};

static struct te_path *get_paths(struct te_engine *e, size_t *n)
{
	struct te_path *p = calloc(PATHS_MAX, sizeof(*p));
	int have = p ? te_engine_paths(e, p, PATHS_MAX) : 0;

	*n = have > PATHS_MAX ? PATHS_MAX : (size_t)have;
	return p;
}

static void look(struct te_engine *e, struct before *b)
{
	b->paths = get_paths(e, &b->npaths);
	te_engine_totals(e, &b->totals);
	getrusage(RUSAGE_SELF, &b->usage);
}

static bool same_path(const struct te_path *a, const struct te_path *b)
{
	return strcmp(a->transport, b->transport) == 0 && strcmp(a->local, b->local) == 0 &&
	       strcmp(a->remote, b->remote) == 0;
}

static const struct te_path *find_path(const struct before *b, const struct te_path *p)
{
	size_t i;

	for (i = 0; b->paths && i < b->npaths; i++) {
		if (same_path(&b->paths[i], p))
			return &b->paths[i];
	}
	return NULL;
}

/* What each path carried since. */
static void path_growth(struct te_engine *e, const struct before *b, struct case_result *out)
{
	struct te_path *all;
	const struct te_path *old;
	size_t n, i;

	all = get_paths(e, &n);
	for (i = 0; all && i < n; i++) {
		old = find_path(b, &all[i]);
		if (old) {
			all[i].slices -= old->slices;
			all[i].bytes -= old->bytes;
			all[i].retries -= old->retries;
		}
		/* A slice that ends in the next file has left bytes in this one. */
		if (all[i].slices || all[i].bytes || all[i].retries)
			all[out->npaths++] = all[i];
	}
	out->paths = all;
}

static double seconds_between(struct timeval a, struct timeval b)
{
	return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_usec - a.tv_usec) / 1e6;
}

static void look_again(struct te_engine *e, struct before *b, struct case_result *out)
{
	struct te_totals t;
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	te_engine_totals(e, &t);
	out->user = seconds_between(b->usage.ru_utime, u.ru_utime);
	out->system = seconds_between(b->usage.ru_stime, u.ru_stime);
	out->retries = t.retries - b->totals.retries;
	path_growth(e, b, out);
	free(b->paths);
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* The limits of the options as one round. */
static struct round whole(const struct bench_options *o, uint64_t block)
{
	struct round r = { .counted = true, .tickets = UINT64_MAX, .last = block };

	r.ns = (uint64_t)(o->duration * 1e9);
	if (o->requests)
		r.tickets = o->requests;
	if (o->bytes) {
		r.tickets = (o->bytes - 1) / block + 1;
		r.last = o->bytes - (r.tickets - 1) * block;
	}
	return r;
}

static int warm_up(struct crew *c, struct round_result *sum)
{
	const struct bench_options *o = c->session->opt;
	struct round r = { .tickets = UINT64_MAX, .last = c->spec.block };
	struct round_result got;
	double seconds = o->warmup;
	int rc;

	if (o->baseline && seconds < least_warmup)
		seconds = least_warmup;
	if (seconds <= 0)
		return 0;
	r.ns = (uint64_t)(seconds * 1e9);
	rc = crew_round(c, &r, &got);
	/* Errors are never for nothing, and wrong bytes neither. */
	sum->errors += got.errors;
	sum->mismatches += got.mismatches;
	return rc;
}

static void fill_latency(const struct crew *c, struct latency *l)
{
	struct hist *all = calloc(1, sizeof(*all));
	size_t i;

	if (!all)
		return;
	for (i = 0; i < c->nworkers; i++)
		hist_merge(all, &c->workers[i].latency);
	if (all->count) {
		l->min = (double)all->min / 1e3;
		l->avg = (double)all->sum / (double)all->count / 1e3;
		l->p50 = (double)hist_quantile(all, 0.5) / 1e3;
		l->p90 = (double)hist_quantile(all, 0.9) / 1e3;
		l->p99 = (double)hist_quantile(all, 0.99) / 1e3;
		l->p999 = (double)hist_quantile(all, 0.999) / 1e3;
		l->max = (double)all->max / 1e3;
	}
	free(all);
}

static void fill_result(const struct crew *c, const struct round_result *sum,
			struct case_result *out)
{
	out->seconds = sum->seconds;
	out->requests = sum->requests;
	out->bytes = sum->bytes;
	out->batches = sum->batches;
	out->errors = sum->errors;
	out->verified = c->session->opt->verify;
	out->checked_bytes = sum->checked_bytes;
	out->mismatches = sum->mismatches;
	fill_latency(c, &out->latency);
}

/* Is there a limit to measure beside? If not that is said, once, and the run goes on without. */
static bool has_limit(struct session *s, const struct crew *c)
{
	struct te_err err;

	if (!s->opt->baseline || s->no_baseline || !session_alive(s))
		return false;
	s->no_baseline = baseline_check(c, &err) != 0;
	if (s->no_baseline)
		cli_error(&err);
	return !s->no_baseline;
}

int case_run(struct session *s, const struct case_spec *spec, struct case_result *out,
	     struct te_err *err)
{
	const struct round all = whole(s->opt, spec->block);
	struct round_result sum = { 0 }, got;
	struct before before;
	struct crew c;
	int rc = crew_open(&c, s, spec, err);

	*out = (struct case_result){ .spec = *spec };
	if (rc)
		return rc;
	rc = warm_up(&c, &sum);
	look(s->engine, &before);
	if (!rc && has_limit(s, &c)) {
		rc = baseline_run(&c, &all, &sum, out, err);
	} else if (!rc) {
		rc = crew_round(&c, &all, &got);
		round_result_add(&sum, &got);
	}
	look_again(s->engine, &before, out);
	fill_result(&c, &sum, out);
	crew_close(&c);
	return rc;
}

void case_result_clear(struct case_result *r)
{
	free(r->paths);
	r->paths = NULL;
}
