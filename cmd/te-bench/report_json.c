/* report_json.c - the result of te-bench as one JSON document. */
#include "out.h"
#include "report.h"

static json_t *integer(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *latency(const struct latency *l)
{
	json_t *o = json_object();

	json_object_set_new(o, "min", json_real(l->min));
	json_object_set_new(o, "avg", json_real(l->avg));
	json_object_set_new(o, "p50", json_real(l->p50));
	json_object_set_new(o, "p90", json_real(l->p90));
	json_object_set_new(o, "p99", json_real(l->p99));
	json_object_set_new(o, "p999", json_real(l->p999));
	json_object_set_new(o, "max", json_real(l->max));
	return o;
}

static json_t *verify(const struct case_result *r)
{
	json_t *o;

	if (!r->verified)
		return json_null();
	o = json_object();
	json_object_set_new(o, "checked_bytes", integer(r->checked_bytes));
	json_object_set_new(o, "mismatches", integer(r->mismatches));
	return o;
}

static json_t *baseline(const struct case_result *r)
{
	json_t *o, *spread;

	if (!r->has_baseline)
		return json_null();
	o = json_object();
	spread = json_array();
	json_array_append_new(spread, json_real(r->q1));
	json_array_append_new(spread, json_real(r->q3));
	json_object_set_new(o, "bytes_per_second", json_real(r->raw_bytes_per_second));
	json_object_set_new(o, "ratio", json_real(r->ratio));
	json_object_set_new(o, "spread", spread);
	return o;
}

static json_t *cpu(const struct case_result *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "user", json_real(r->user));
	json_object_set_new(o, "system", json_real(r->system));
	return o;
}

static json_t *path(const struct case_result *r)
{
	json_t *list = json_array(), *o;
	size_t i;

	for (i = 0; i < r->npaths; i++) {
		o = json_object();
		json_object_set_new(o, "transport", json_string(r->paths[i].transport));
		json_object_set_new(o, "local", json_string(r->paths[i].local));
		json_object_set_new(o, "remote", json_string(r->paths[i].remote));
		json_object_set_new(o, "slices", integer(r->paths[i].slices));
		json_object_set_new(o, "bytes", integer(r->paths[i].bytes));
		json_object_set_new(o, "retries", integer(r->paths[i].retries));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *one_case(const struct run *run, const struct case_result *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "operation", json_string(bench_op_names[r->spec.op]));
	json_object_set_new(o, "block_size", integer(r->spec.block));
	json_object_set_new(o, "batch_size", integer(r->spec.batch));
	json_object_set_new(o, "threads", integer(r->spec.threads));
	json_object_set_new(o, "segments", integer(run->session->nsegments));
	json_object_set_new(o, "duration_seconds", json_real(r->seconds));
	json_object_set_new(o, "requests", integer(r->requests));
	json_object_set_new(o, "bytes", integer(r->bytes));
	json_object_set_new(o, "bytes_per_second", json_real(per_second(r->bytes, r->seconds)));
	json_object_set_new(o, "requests_per_second",
			    json_real(per_second(r->requests, r->seconds)));
	json_object_set_new(o, "latency_us", latency(&r->latency));
	json_object_set_new(o, "errors", integer(r->errors));
	json_object_set_new(o, "retries", integer(r->retries));
	json_object_set_new(o, "verify", verify(r));
	json_object_set_new(o, "baseline", baseline(r));
	json_object_set_new(o, "cpu_seconds", cpu(r));
	json_object_set_new(o, "path", path(r));
	return o;
}

static void begin(const struct run *run)
{
	(void)run;
}

static void result(const struct run *run, const struct case_result *r)
{
	(void)run;
	(void)r;
}

/* Only the end is printed: until then there is no whole document. */
static void end(const struct run *run)
{
	json_t *doc = json_object(), *cases = json_array();
	size_t i;

	for (i = 0; i < run->ncases; i++)
		json_array_append_new(cases, one_case(run, &run->cases[i]));
	json_object_set_new(doc, "te_bench", json_integer(1));
	json_object_set_new(doc, "environment", report_environment(run));
	json_object_set_new(doc, "cases", cases);
	if (run->interrupted)
		json_object_set_new(doc, "interrupted", json_true());
	out_json(doc);
}

const struct report_ops report_json = {
	.begin = begin,
	.result = result,
	.end = end,
};
