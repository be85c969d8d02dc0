/* options.c - te-bench's command line. */
#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
	KEY_SELF = 0x100,
	KEY_SEGMENT,
	KEY_MODE,
	KEY_OPERATION,
	KEY_PROTOCOL,
	KEY_DEVICE,
	KEY_DISCOVERY,
	KEY_NO_DISCOVERY,
	KEY_MATRIX,
	KEY_BUFFER_SIZE,
	KEY_BLOCK,
	KEY_BATCH,
	KEY_THREADS,
	KEY_DURATION,
	KEY_REQUESTS,
	KEY_BYTES,
	KEY_WARMUP,
	KEY_RATE,
	KEY_VERIFY,
	KEY_REQUIRE,
	KEY_SYNC,
	KEY_BASELINE,
	KEY_INTERVAL,
	KEY_CSV,
	KEY_PLOT,
	KEY_UNIT,
	KEY_PRECISION,
	KEY_PATTERN,
	KEY_READY_FILE,
};

/* Groups: what to measure, how long, what to say, for whom. */
static const struct argp_option options[] = {
	{ "segment-id", KEY_SEGMENT, "NAME[,NAME...]", 0, "segments to read and write", 1 },
	{ "self", KEY_SELF, NULL, 0, "start a target of our own and measure this host", 1 },
	{ "operation", KEY_OPERATION, "read|write|mixed|bidir", 0, "what to do (default read)", 1 },
	{ "block-size", KEY_BLOCK, "SIZES", 0,
	  "bytes of a request (default 64K); 4K,1M and 4K..16M sweep", 1 },
	{ "batch-size", KEY_BATCH, "COUNTS", 0, "requests in flight of a thread (default 128)", 1 },
	{ "threads", KEY_THREADS, "COUNTS", 0, "threads that submit (default 1)", 1 },
	{ "protocol", KEY_PROTOCOL, "auto|local|shm|tcp|rdma|nvmeof", 0,
	  "this way or fail (default auto)", 1 },
	{ "require-transport", KEY_REQUIRE, "local|shm|tcp|rdma|nvmeof", 0,
	  "fail unless the bytes go that way", 1 },
	{ "sync", KEY_SYNC, NULL, 0, "files: what is written is durable", 1 },

	{ "duration", KEY_DURATION, "SECONDS", 0, "measure that long (default 10)", 2 },
	{ "requests", KEY_REQUESTS, "COUNT", 0, "measure that many requests, of all threads", 2 },
	{ "bytes", KEY_BYTES, "SIZE", 0, "measure that many bytes, of all threads", 2 },
	{ "warmup", KEY_WARMUP, "SECONDS", 0,
	  "run that long before measuring (default: a tenth of --duration, at most 1)", 2 },
	{ "rate", KEY_RATE, "COUNT", 0, "offer that many requests a second, of all threads", 2 },

	{ "verify", KEY_VERIFY, "SEED", OPTION_ARG_OPTIONAL,
	  "compare every byte with a pattern (default seed 1)", 3 },
	{ "baseline", KEY_BASELINE, NULL, 0, "measure the raw limit of the same path too", 3 },
	{ "interval", KEY_INTERVAL, "SECONDS", 0, "say on standard error how it goes", 3 },
	{ "report-unit", KEY_UNIT, "GB|GiB|Gb|MB|MiB|Mb|KB|KiB|Kb", 0,
	  "unit of throughput (default GB)", 3 },
	{ "report-precision", KEY_PRECISION, "DIGITS", 0, "digits after the point (default 2)", 3 },
	{ "csv", KEY_CSV, "FILE", 0, "write one row a case", 3 },
	{ "plot", KEY_PLOT, "FILE", 0, "draw the throughput into FILE.svg or FILE.png by gnuplot",
	  3 },

	{ "mode", KEY_MODE, "initiator|target", 0, "target: be a te-target (default initiator)",
	  4 },
	{ "buffer-size", KEY_BUFFER_SIZE, "SIZE", 0,
	  "memory of a target of ours, and limit of our source memory", 4 },
	{ "device-name", KEY_DEVICE, "LIST", 0, "rdma: NICs to use (default all)", 4 },
	{ "auto-discovery", KEY_DISCOVERY, "true|false", OPTION_ARG_OPTIONAL, "rdma: find NICs out",
	  4 },
	{ "noauto-discovery", KEY_NO_DISCOVERY, NULL, OPTION_HIDDEN, NULL, 4 },
	{ "nic-priority-matrix", KEY_MATRIX, "FILE|JSON", 0, "rdma: which NICs for which memory",
	  4 },
	{ "pattern", KEY_PATTERN, "SEED", OPTION_ARG_OPTIONAL,
	  "fill files, or with --mode=target the memory, for --verify", 4 },
	{ "ready-file", KEY_READY_FILE, "FILE", 0, "with --mode=target: say in FILE that it serves",
	  4 },
	{ 0 }
};

static const char doc[] =
	"Move blocks between memory of this host and segments, and say how fast that is."
	"\vThe last line is 'Test completed: duration D, batch count N, throughput X GB/s'. "
	"te-bench(1) "
	"defines every figure.";

const char *const bench_op_names[] = { "read", "write", "mixed", "bidir", NULL };
static const char *const protocols[] = { "auto", "local", "shm", "tcp", "rdma", "nvmeof", NULL };
static const char default_seed[] = "1";
static const char *const modes[] = { "initiator", "target", NULL };

static const struct unit units[] = {
	{ "GB", 1e9 }, { "GiB", 1 << 30 }, { "Gb", 1e9 / 8 },
	{ "MB", 1e6 }, { "MiB", 1 << 20 }, { "Mb", 1e6 / 8 },
	{ "KB", 1e3 }, { "KiB", 1 << 10 }, { "Kb", 1e3 / 8 },
};

/* ---- values --------------------------------------------------------------------------------- */

static size_t pick(const struct argp_state *state, const char *option, const char *arg,
		   const char *const *list)
{
	char all[128];
	size_t i, n = 0;

	for (i = 0; list[i]; i++) {
		if (strcmp(list[i], arg) == 0)
			return i;
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i ? ", " : "", list[i]);
	}
	cli_usage(state, "unknown %s '%s' (known: %s)", option, arg, all);
}

/* "a", "a,b", "a..b" (powers of two from a, and b); is_size: K, M, G allowed. */
static void sweep_word(const struct argp_state *state, const char *option, char *word, uint64_t max,
		       bool is_size, struct sweep *out)
{
	char *dots = strstr(word, "..");
	uint64_t from, to, v;

	if (dots)
		*dots = '\0';
	if (is_size ? !cli_size(word, &from) || from > max : !cli_u64(word, 1, max, &from))
		cli_usage(state, "--%s: '%s' is not a number from 1 to %llu", option, word,
			  (unsigned long long)max);
	to = from;
	if (dots &&
	    (is_size ? !cli_size(dots + 2, &to) || to > max : !cli_u64(dots + 2, 1, max, &to)))
		cli_usage(state, "--%s: '%s' is not a number from 1 to %llu", option, dots + 2,
			  (unsigned long long)max);
	if (to < from)
		cli_usage(state, "--%s: the range ends below its begin", option);
	for (v = from;; v = v > to / 2 ? to : v * 2) {
		if (out->n == SWEEP_MAX)
			cli_usage(state, "--%s: more than %d values", option, SWEEP_MAX);
		out->at[out->n++] = v;
		if (v == to)
			break;
	}
}

static void sweep(const struct argp_state *state, const char *option, const char *arg, uint64_t max,
		  bool is_size, struct sweep *out)
{
	char *copy = strdup(arg), *rest = copy, *word;

	if (!copy)
		exit(cli_fail(CLI_FAIL, "out of memory"));
	out->n = 0;
	while ((word = strsep(&rest, ",")))
		sweep_word(state, option, word, max, is_size, out);
	free(copy);
}

static double seconds(const struct argp_state *state, const char *option, const char *arg,
		      bool zero)
{
	double v;

	if (!cli_seconds(arg, &v) || (v == 0 && !zero))
		cli_usage(state, "--%s: '%s' is not a time%s, such as 10, 0.5 or 500ms", option,
			  arg, zero ? "" : " above 0");
	return v;
}

static uint64_t number(const struct argp_state *state, const char *option, const char *arg,
		       uint64_t min, uint64_t max)
{
	uint64_t v;

	if (!cli_u64(arg, min, max, &v))
		cli_usage(state, "--%s: '%s' is not a number from %llu to %llu", option, arg,
			  (unsigned long long)min, (unsigned long long)max);
	return v;
}

static uint64_t size(const struct argp_state *state, const char *option, const char *arg)
{
	uint64_t v;

	if (!cli_size(arg, &v))
		cli_usage(state, "--%s: '%s' is not a size", option, arg);
	return v;
}

/* Unlike other bad values not an error: the seed's bench does so, and scripts rely on it. */
static const struct unit *unit(const char *arg)
{
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(units[i].name, arg) == 0)
			return &units[i];
	}
	cli_fail(0, "unknown --report-unit '%s': GB is used", arg);
	return &units[0];
}

/* ---- parsing -------------------------------------------------------------------------------- */

static error_t parse_what(int key, char *arg, struct argp_state *state, struct bench_options *o)
{
	switch (key) {
	case KEY_SEGMENT:
		o->segment_id = arg;
		break;
	case KEY_SELF:
		o->self = true;
		break;
	case KEY_OPERATION:
		o->op = (enum bench_op)pick(state, "operation", arg, bench_op_names);
		break;
	case KEY_BLOCK:
		sweep(state, "block-size", arg, UINT64_C(1) << 40, true, &o->block);
		break;
	case KEY_BATCH:
		sweep(state, "batch-size", arg, 1 << 20, false, &o->batch);
		break;
	case KEY_THREADS:
		sweep(state, "threads", arg, 4096, false, &o->threads);
		break;
	case KEY_PROTOCOL:
		o->protocol = protocols[pick(state, "protocol", arg, protocols)];
		break;
	case KEY_REQUIRE:
		o->require = protocols[1 + pick(state, "transport", arg, protocols + 1)];
		break;
	case KEY_SYNC:
		o->sync = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_how(int key, char *arg, struct argp_state *state, struct bench_options *o)
{
	switch (key) {
	case KEY_DURATION:
		o->duration = seconds(state, "duration", arg, false);
		break;
	case KEY_REQUESTS:
		o->requests = number(state, "requests", arg, 1, UINT64_C(1) << 62);
		break;
	case KEY_BYTES:
		o->bytes = size(state, "bytes", arg);
		break;
	case KEY_WARMUP:
		o->warmup = seconds(state, "warmup", arg, true);
		break;
	case KEY_RATE:
		o->rate = (double)number(state, "rate", arg, 1, 1000000000);
		break;
	case KEY_VERIFY:
		o->verify = true;
		o->seed = arg ? number(state, "verify", arg, 0, UINT64_MAX) : 1;
		break;
	case KEY_BASELINE:
		o->baseline = true;
		break;
	case KEY_INTERVAL:
		o->interval = seconds(state, "interval", arg, false);
		break;
	case KEY_CSV:
		o->csv = arg;
		break;
	case KEY_PLOT:
		o->plot = arg;
		break;
	case KEY_UNIT:
		o->unit = unit(arg);
		break;
	case KEY_PRECISION:
		o->precision = (unsigned)number(state, "report-precision", arg, 0, 9);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_who(int key, char *arg, struct argp_state *state, struct bench_options *o)
{
	switch (key) {
	case KEY_MODE:
		o->target = pick(state, "mode", arg, modes) == 1;
		break;
	case KEY_BUFFER_SIZE:
		o->buffer_size = size(state, "buffer-size", arg);
		break;
	case KEY_DEVICE:
		o->device_name = arg;
		break;
	case KEY_DISCOVERY:
		o->auto_discovery = cli_switch(state, "auto-discovery", arg);
		break;
	case KEY_NO_DISCOVERY:
		o->auto_discovery = false;
		break;
	case KEY_MATRIX:
		o->nic_priority_matrix = arg;
		break;
	case KEY_PATTERN:
		o->pattern = arg ? arg : default_seed;
		break;
	case KEY_READY_FILE:
		o->ready_file = arg;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct bench_options *o = state->input;
	error_t rc = parse_what(key, arg, state, o);

	if (rc == ARGP_ERR_UNKNOWN)
		rc = parse_how(key, arg, state, o);
	if (rc == ARGP_ERR_UNKNOWN)
		rc = parse_who(key, arg, state, o);
	return rc;
}

static void check_plot(const char *path)
{
	const char *dot = strrchr(path, '.');

	if (!dot || (strcasecmp(dot, ".svg") != 0 && strcasecmp(dot, ".png") != 0))
		cli_usage(NULL, "--plot: '%s' ends neither in .svg nor in .png", path);
}

/* Files are filled by who uses them. What is then verified is meant, unless another seed is named.
 */
static void check_fill(struct bench_options *o)
{
	if (!o->pattern)
		return;
	if (!o->segment_id)
		cli_usage(NULL,
			  "--pattern needs --mode=target or --segment-id with a segment of files");
	o->fill = true;
	o->fill_seed = 1;
	if (o->pattern != default_seed)
		o->fill_seed = number(NULL, "pattern", o->pattern, 0, UINT64_MAX);
	else if (o->verify)
		o->fill_seed = o->seed;
}

static void check(struct bench_options *o)
{
	const bool local = strcmp(o->protocol, "local") == 0;

	if (o->ready_file)
		cli_usage(NULL, "--ready-file needs --mode=target");
	check_fill(o);
	if (o->self && strcmp(o->protocol, "nvmeof") == 0)
		cli_usage(NULL, "--self excludes --protocol=nvmeof: a target serves memory");
	if ((o->duration > 0) + (o->requests > 0) + (o->bytes > 0) > 1)
		cli_usage(NULL, "at most one of --duration, --requests and --bytes");
	if (o->segment_id && (o->self || local))
		cli_usage(NULL, "--segment-id excludes %s",
			  o->self ? "--self" : "--protocol=local");
	if (o->segment_id && !o->segment_id[strspn(o->segment_id, ",")])
		cli_usage(NULL, "--segment-id names no segment");
	if (o->require && strcmp(o->protocol, "auto") != 0 && strcmp(o->require, o->protocol) != 0)
		cli_usage(NULL, "--require-transport=%s excludes --protocol=%s", o->require,
			  o->protocol);
	if (o->plot)
		check_plot(o->plot);
	if (!o->segment_id && !o->self && !local)
		cli_usage(NULL, "whose memory? give --segment-id=NAME or --self");
	if (!o->requests && !o->bytes && o->duration == 0)
		o->duration = 10;
	/* No store is needed for it, whatever the environment says. */
	if (o->self && !o->cli.metadata)
		o->cli.metadata = "P2PHANDSHAKE";
	if (o->warmup < 0)
		o->warmup = o->duration / 10 < 1 ? o->duration / 10 : 1;
}

void options_parse(struct bench_options *o, int argc, char **argv)
{
	static const struct argp argp = {
		.options = options, .parser = parse, .children = cli_children, .doc = doc
	};

	*o = (struct bench_options){
		.protocol = "auto",
		.block = { .at = { 65536 }, .n = 1 },
		.batch = { .at = { 128 }, .n = 1 },
		.threads = { .at = { 1 }, .n = 1 },
		.warmup = -1,
		.unit = &units[0],
		.precision = 2,
	};
	if (argc == 1 && isatty(STDOUT_FILENO)) {
		argp_help(&argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC,
			  argv[0]);
		exit(cli_finish(CLI_OK));
	}
	cli_parse(&argp, argc, argv, &o->cli, o);
	if (!o->target)
		check(o);
}

uint64_t options_memory(const struct bench_options *o)
{
	const uint64_t least = 64 << 20, most = 1 << 30;
	uint64_t need = 4, most_of[3] = { 0 };
	const struct sweep *sweeps[3] = { &o->block, &o->batch, &o->threads };
	size_t i, k;

	if (o->buffer_size)
		return o->buffer_size;
	for (i = 0; i < 3; i++) {
		for (k = 0; k < sweeps[i]->n; k++) {
			if (sweeps[i]->at[k] > most_of[i])
				most_of[i] = sweeps[i]->at[k];
		}
		if (__builtin_mul_overflow(need, most_of[i], &need) || need > most)
			return most;
	}
	return need < least ? least : need;
}

/* ---- --mode=target -------------------------------------------------------------------------- */

void target_argv_add(struct target_argv *t, const char *fmt, ...)
{
	va_list ap;
	char *word;

	if (t->failed || t->argc == TARGET_ARGV_MAX - 1) {
		t->failed = true;
		return;
	}
	va_start(ap, fmt);
	if (vasprintf(&word, fmt, ap) < 0)
		t->failed = true;
	else
		t->argv[t->argc++] = word;
	va_end(ap);
}

static void add_if(struct target_argv *t, const char *option, const char *value)
{
	if (value)
		target_argv_add(t, "--%s=%s", option, value);
}

void options_target_argv(const struct bench_options *o, struct target_argv *t)
{
	int i;

	target_argv_add(t, "te-target");
	add_if(t, "metadata-server", o->cli.metadata);
	add_if(t, "local-server-name", o->cli.name);
	/* A target serves shm beside whatever it publishes. */
	if (strcmp(o->protocol, "local") != 0 && strcmp(o->protocol, "shm") != 0)
		add_if(t, "protocol", o->protocol);
	add_if(t, "device-name", o->device_name);
	add_if(t, "nic-priority-matrix", o->nic_priority_matrix);
	add_if(t, "pattern", o->pattern);
	add_if(t, "ready-file", o->ready_file);
	if (o->auto_discovery)
		target_argv_add(t, "--auto-discovery");
	if (o->buffer_size)
		target_argv_add(t, "--buffer-size=%llu", (unsigned long long)o->buffer_size);
	if (o->cli.json)
		target_argv_add(t, "--json");
	if (o->cli.verbose < 0)
		target_argv_add(t, "--quiet");
	for (i = 0; i < o->cli.verbose && i < 2; i++)
		target_argv_add(t, "--verbose");
}

void target_argv_clear(struct target_argv *t)
{
	while (t->argc > 0)
		free(t->argv[--t->argc]);
}
