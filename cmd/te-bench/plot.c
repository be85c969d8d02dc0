/* plot.c - --plot: the throughput of the cases, drawn by gnuplot. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* gnuplot with `in` as its standard input (-1: none) and nothing on its standard output. */
static int start(char *const *argv, int in, pid_t *pid)
{
	posix_spawn_file_actions_t fa;
	int rc = posix_spawn_file_actions_init(&fa);

	if (rc)
		return -rc;
	posix_spawn_file_actions_addopen(&fa, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&fa, in, STDIN_FILENO);
	rc = posix_spawnp(pid, argv[0], &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	return -rc;
}

static bool ends_well(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return false;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int plot_check(const char *path, struct te_err *err)
{
	char name[] = "gnuplot", version[] = "--version";
	char *const argv[] = { name, version, NULL };
	pid_t pid;
	int rc;

	rc = start(argv, -1, &pid);
	if (!rc && !ends_well(pid))
		rc = -ENOEXEC;
	if (rc)
		return te_fail(err, rc, "--plot=%s: cannot run gnuplot: %s", path, strerror(-rc));
	return 0;
}

/* ---- what is drawn: one line for each combination of what is not on the x axis -----------------
 */

enum axis { AXIS_BLOCK, AXIS_BATCH, AXIS_THREADS };

static uint64_t value(const struct case_spec *s, enum axis axis)
{
	return axis == AXIS_BLOCK ? s->block : axis == AXIS_BATCH ? s->batch : s->threads;
}

static enum axis x_axis(const struct bench_options *o)
{
	if (o->block.n > 1)
		return AXIS_BLOCK;
	if (o->batch.n > 1)
		return AXIS_BATCH;
	return o->threads.n > 1 ? AXIS_THREADS : AXIS_BLOCK;
}

static bool same_line(const struct case_spec *a, const struct case_spec *b, enum axis axis)
{
	return (axis == AXIS_BLOCK || a->block == b->block) &&
	       (axis == AXIS_BATCH || a->batch == b->batch) &&
	       (axis == AXIS_THREADS || a->threads == b->threads);
}

static bool is_first(const struct run *run, size_t i, enum axis axis)
{
	size_t k;

	for (k = 0; k < i; k++) {
		if (same_line(&run->cases[k].spec, &run->cases[i].spec, axis))
			return false;
	}
	return true;
}

static void write_line(FILE *f, const struct run *run, size_t first, enum axis axis)
{
	const struct case_result *r;
	size_t i;

	fprintf(f, "$line%zu << EOD\n", first);
	for (i = first; i < run->ncases; i++) {
		r = &run->cases[i];
		if (same_line(&run->cases[first].spec, &r->spec, axis))
			fprintf(f, "%llu %.9g\n", (unsigned long long)value(&r->spec, axis),
				per_second(r->bytes, r->seconds) / run->opt->unit->bytes);
	}
	fputs("EOD\n", f);
}

static void write_title(FILE *f, const struct case_spec *s, enum axis axis)
{
	const char *sep = axis == AXIS_THREADS ? "" : ", ";
	char block[32];

	if (axis != AXIS_BLOCK)
		fprintf(f, "blocks of %s, ", report_size(s->block, block, sizeof(block)));
	if (axis != AXIS_BATCH)
		fprintf(f, "batches of %llu%s", (unsigned long long)s->batch, sep);
	if (axis != AXIS_THREADS)
		fprintf(f, "%llu thread%s", (unsigned long long)s->threads,
			s->threads == 1 ? "" : "s");
}

/* The values that were measured, as people write them: not 1.04858x10^6. */
static void write_tics(FILE *f, const struct bench_options *o, enum axis axis)
{
	const struct sweep *sweep = axis == AXIS_BLOCK	 ? &o->block
				    : axis == AXIS_BATCH ? &o->batch
							 : &o->threads;
	unsigned long long v;
	char text[32];
	size_t i;

	fputs("set xtics (", f);
	for (i = 0; i < sweep->n; i++) {
		v = (unsigned long long)sweep->at[i];
		if (axis == AXIS_BLOCK)
			report_size(v, text, sizeof(text));
		else
			snprintf(text, sizeof(text), "%llu", v);
		fprintf(f, "%s'%s' %llu", i ? ", " : "", text, v);
	}
	fputs(")\n", f);
	if (sweep->n == 1) /* a range of one point is a warning */
		fprintf(f, "set xrange [%g:%g]\n", (double)sweep->at[0] / 2,
			(double)sweep->at[0] * 2);
}

/* gnuplot's strings in single quotes know one escape only. */
static void write_quoted(FILE *f, const char *text)
{
	fputc('\'', f);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', f);
		fputc(*text, f);
	}
	fputc('\'', f);
}

static void write_script(FILE *f, const char *path, const struct run *run)
{
	static const char *const labels[] = { "block size", "batch size", "threads" };
	const enum axis axis = x_axis(run->opt);
	const bool png = strcasecmp(strrchr(path, '.'), ".png") == 0;
	const char *sep = "plot ";
	size_t i;

	fprintf(f, "set terminal %s size 960,600 background rgb 'white'\nset output ",
		png ? "png" : "svg");
	write_quoted(f, path);
	fprintf(f,
		"\nset title 'te-bench %s'\nset xlabel '%s'\nset ylabel '%s/s'\nset logscale x 2\n"
		"set yrange [0:*]\nset grid\nset key outside above\nset rmargin 5\n",
		bench_op_names[run->opt->op], labels[axis], run->opt->unit->name);
	write_tics(f, run->opt, axis);
	for (i = 0; i < run->ncases; i++) {
		if (is_first(run, i, axis))
			write_line(f, run, i, axis);
	}
	for (i = 0; i < run->ncases; i++) {
		if (!is_first(run, i, axis))
			continue;
		fprintf(f, "%s$line%zu with linespoints title '", sep, i);
		write_title(f, &run->cases[i].spec, axis);
		fputc('\'', f);
		sep = ", ";
	}
	fputc('\n', f);
}

int plot_write(const char *path, const struct run *run, struct te_err *err)
{
	char name[] = "gnuplot", dash[] = "-";
	char *const argv[] = { name, dash, NULL };
	int fds[2], rc;
	FILE *f;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return te_fail(err, -errno, "cannot make a pipe: %s", strerror(errno));
	rc = start(argv, fds[0], &pid);
	close(fds[0]);
	f = rc ? NULL : fdopen(fds[1], "we");
	if (!f) {
		rc = rc ? rc : -errno;
		close(fds[1]);
	} else {
		write_script(f, path, run);
		rc = fclose(f) ? -errno : 0;
		if (!ends_well(pid) && !rc)
			rc = -EIO;
	}
	return rc ? te_fail(err, rc, "cannot draw '%s' by gnuplot: %s", path, strerror(-rc)) : 0;
}
