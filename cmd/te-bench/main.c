/* main.c - te-bench: one run from options to exit status. */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target.h"

static int run_target(const struct bench_options *o)
{
	struct target_argv t = { 0 };
	int status;

	options_target_argv(o, &t);
	status = t.failed ? cli_fail(CLI_FAIL, "out of memory") : target_main(t.argc, t.argv);
	target_argv_clear(&t);
	return status;
}

/* ---- the cases ------------------------------------------------------------------------------- */

/* Case i of the product of the lists: block size turns fastest, then batch size, then threads. */
static struct case_spec spec_of(const struct bench_options *o, size_t i)
{
	return (struct case_spec){
		.op = o->op,
		.block = o->block.at[i % o->block.n],
		.batch = o->batch.at[i / o->block.n % o->batch.n],
		.threads = o->threads.at[i / o->block.n / o->batch.n],
	};
}

/* Did the bytes go as was required? */
static bool went_by(const struct case_result *r, const char *transport)
{
	size_t i;

	for (i = 0; transport && i < r->npaths; i++) {
		if (r->paths[i].bytes && strcmp(r->paths[i].transport, transport) != 0)
			return false;
	}
	return true;
}

static int judge(const struct run *run, const struct case_result *r)
{
	if (!went_by(r, run->opt->require))
		return cli_fail(CLI_FAIL, "bytes went by another transport than the required %s",
				run->opt->require);
	if (r->mismatches)
		return CLI_FAIL;
	/* Whoever ends a run early does not want to hear that it failed. */
	return r->errors && !run->interrupted ? CLI_FAIL : CLI_OK;
}

/* Ends early when nothing is left to measure. */
static int run_cases(struct run *run, struct session *s, const struct report_ops *report,
		     struct csv *csv)
{
	struct te_err err = { 0 };
	struct case_result *r;
	int rc = 0, status = CLI_OK;
	size_t i;

	for (i = 0; !rc && i < run->planned && session_alive(s); i++) {
		const struct case_spec spec = spec_of(run->opt, i);

		r = &run->cases[run->ncases];
		rc = case_run(s, &spec, r, &err);
		run->interrupted = rc == -EINTR;
		if (rc && !run->interrupted) {
			case_result_clear(r);
			status = cli_error(&err);
			break;
		}
		run->ncases++;
		report->result(run, r);
		if (csv)
			csv_row(csv, run, r);
		if (judge(run, r))
			status = CLI_FAIL;
	}
	if (session_alive(s) < s->nsegments && !run->interrupted)
		status = CLI_FAIL;
	return status;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* What can be known before anything is measured. */
static int prepare(const struct bench_options *o, struct csv **csv)
{
	struct te_err err = { 0 };

	if (o->plot && plot_check(o->plot, &err))
		return cli_error(&err);
	if (o->csv && csv_open(o->csv, csv, &err))
		return cli_error(&err);
	return CLI_OK;
}

static int finish_files(const struct run *run, struct csv *csv)
{
	struct te_err err = { 0 };
	int status = CLI_OK;

	if (csv && csv_close(csv, &err))
		status = cli_error(&err);
	if (run->opt->plot && run->ncases && plot_write(run->opt->plot, run, &err))
		status = cli_error(&err);
	return status;
}

static int measure(struct run *run, struct session *s, struct csv *csv)
{
	const struct report_ops *report = run->opt->cli.json ? &report_json : &report_text;
	int status = CLI_OK;

	run->interrupted = s->interrupted;
	report->begin(run);
	if (!run->interrupted)
		status = run_cases(run, s, report, csv);
	report->end(run);
	return status;
}

static int bench(const struct bench_options *o, int argc, char **argv)
{
	struct run run = { .opt = o, .argc = argc, .argv = argv };
	struct session s;
	struct csv *csv = NULL;
	int signals, status, other;
	size_t i;

	/* A reader or gnuplot that has gone away is found where it is written to. */
	signal(SIGPIPE, SIG_IGN);
	cli_raise_files();
	signals = cli_signals();
	if (signals < 0)
		return CLI_FAIL;
	run.planned = o->block.n * o->batch.n * o->threads.n;
	run.cases = calloc(run.planned, sizeof(*run.cases));
	run.session = &s;
	status = run.cases ? prepare(o, &csv) : cli_fail(CLI_FAIL, "out of memory");
	if (!status) {
		status = session_open(&s, o, signals);
		if (!status) {
			status = measure(&run, &s, csv);
			session_close(&s);
		}
		other = finish_files(&run, csv);
		status = status ? status : other;
	}
	for (i = 0; i < run.ncases; i++)
		case_result_clear(&run.cases[i]);
	free(run.cases);
	close(signals);
	return status;
}

int main(int argc, char **argv)
{
	struct bench_options o;

	options_parse(&o, argc, argv);
	if (o.target)
		return run_target(&o);
	return cli_finish(bench(&o, argc, argv));
}
