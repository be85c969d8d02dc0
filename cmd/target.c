/* target.c - te-target: publish a segment and serve it until told to stop. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "http.h"
#include "matrix.h"
#include "out.h"
#include "te.h"

enum {
	KEY_DEVICE = 0x100,
	KEY_MATRIX,
	KEY_AUTO,
	KEY_NO_AUTO,
	KEY_NODE_SIZE,
	KEY_BUFFER,
	KEY_HUGE,
	KEY_FILE,
	KEY_PATTERN,
	KEY_READY,
	KEY_METRICS,
	KEY_MAX,
	KEY_IDLE,
};
enum { SHOWN_BUFFERS = 8, DEFAULT_SEED = 1 };

static const struct argp_option options[] = {
	{ "protocol", 'p', "auto|tcp|rdma", 0,
	  "what to serve; peers on this host may use shm as well (default: auto)", 0 },
	{ "device-name", KEY_DEVICE, "LIST", 0, "NICs for rdma, separated by commas (default: all)",
	  0 },
	{ "nic-priority-matrix", KEY_MATRIX, "FILE|JSON", 0,
	  "priority matrix for rdma (default: found out)", 0 },
	{ "auto-discovery", KEY_AUTO, "true|false", OPTION_ARG_OPTIONAL,
	  "find NICs and matrix (the default without --device-name and --nic-priority-matrix)", 0 },
	{ "noauto-discovery", KEY_NO_AUTO, NULL, OPTION_HIDDEN, NULL, 0 },
	{ "buffer-size", KEY_NODE_SIZE, "SIZE", 0,
	  "one buffer of this size on each NUMA node (default: 1G, or none with --buffer or "
	  "--file)",
	  0 },
	{ "buffer", KEY_BUFFER, "LOCATION:SIZE", 0,
	  "a buffer at cpu:N or * (any node); may be repeated", 0 },
	{ "hugepages", KEY_HUGE, NULL, 0, "take the buffers from huge pages", 0 },
	{ "file", KEY_FILE, "PATH", 0, "serve this file, mapped; peers can write to it", 0 },
	{ "pattern", KEY_PATTERN, "SEED", OPTION_ARG_OPTIONAL,
	  "fill the buffers with te-bench's verification pattern (default seed: 1)", 0 },
	{ "ready-file", KEY_READY, "FILE", 0,
	  "write the --json document here once peers can reach the segment", 0 },
	{ "metrics", KEY_METRICS, "ADDR:PORT", 0, "serve Prometheus metrics over HTTP", 0 },
	{ "max-duration", KEY_MAX, "TIME", 0, "leave after this time (30, 500ms, 10m)", 0 },
	{ "idle-timeout", KEY_IDLE, "TIME", 0, "leave when no peer has moved bytes for this time",
	  0 },
	{ 0 }
};
static const char about[] = "Publish a segment and serve it to peers until SIGINT or SIGTERM.";

static void parse_buffer(struct target *t, char *arg, const struct argp_state *state)
{
	char *colon = strrchr(arg, ':');
	struct target_spec *s;
	uint64_t size;

	if (!colon || colon == arg || !cli_size(colon + 1, &size))
		cli_usage(state, "--buffer takes LOCATION:SIZE, such as cpu:0:1G, not '%s'", arg);
	if ((size_t)(colon - arg) >= sizeof(s->location))
		cli_usage(state, "--buffer: unknown location in '%s'", arg);
	s = target_add_spec(t, arg, (size_t)(colon - arg), size);
	if (!s)
		exit(cli_fail(CLI_FAIL, "out of memory"));
}

static void parse_size(const char *option, const char *arg, uint64_t *out,
		       const struct argp_state *state)
{
	if (!cli_size(arg, out))
		cli_usage(state, "--%s takes a size such as 64K or 1G, not '%s'", option, arg);
}

static void parse_time(const char *option, const char *arg, double *out,
		       const struct argp_state *state)
{
	if (!cli_seconds(arg, out) || *out <= 0)
		cli_usage(state, "--%s takes a time above 0 such as 30, 500ms or 10m, not '%s'",
			  option, arg);
}

static void parse_protocol(struct target *t, const char *arg, const struct argp_state *state)
{
	if (strcmp(arg, "auto") != 0 && strcmp(arg, "tcp") != 0 && strcmp(arg, "rdma") != 0)
		cli_usage(state, "--protocol is auto, tcp or rdma, not '%s'", arg);
	t->protocol = arg;
}

static void parse_seed(struct target *t, const char *arg, const struct argp_state *state)
{
	t->pattern = true;
	t->seed = DEFAULT_SEED;
	if (arg && !cli_u64(arg, 0, UINT64_MAX, &t->seed))
		cli_usage(state, "--pattern takes a whole number as seed, not '%s'", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct target *t = state->input;
	struct te_err err;

	switch (key) {
	case 'p':
		parse_protocol(t, arg, state);
		break;
	case KEY_DEVICE:
		t->devices = arg;
		break;
	case KEY_MATRIX:
		t->matrix = arg;
		break;
	case KEY_AUTO:
		t->auto_discovery = cli_switch(state, "auto-discovery", arg);
		break;
	case KEY_NO_AUTO:
		t->auto_discovery = false;
		break;
	case KEY_NODE_SIZE:
		parse_size("buffer-size", arg, &t->node_size, state);
		break;
	case KEY_BUFFER:
		parse_buffer(t, arg, state);
		break;
	case KEY_HUGE:
		t->hugepages = true;
		break;
	case KEY_FILE:
		t->file = arg;
		break;
	case KEY_PATTERN:
		parse_seed(t, arg, state);
		break;
	case KEY_READY:
		t->ready_file = arg;
		break;
	case KEY_METRICS:
		if (http_check_listen(arg, &err))
			cli_usage(state, "--metrics: %s", err.msg);
		t->metrics = arg;
		break;
	case KEY_MAX:
		parse_time("max-duration", arg, &t->max_duration, state);
		break;
	case KEY_IDLE:
		parse_time("idle-timeout", arg, &t->idle_timeout, state);
		break;
	case ARGP_KEY_END:
		if (t->file && t->pattern)
			cli_usage(state, "--pattern would overwrite the file of --file");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = options, .parser = parse, .doc = about, .children = cli_children
};

/* ---- what is said once the segment can be reached ------------------------------------------ */

struct ready {
	struct te_engine_info info;
	struct te_desc *desc; /* as published */
	const struct target *target;
};

/* Where a buffer is: te says so in a member of its own, rdma calls the buffer so. */
static const char *location_of(const struct te_desc *d, const struct te_desc_buffer *b)
{
	if (b->location)
		return b->location;
	return strcmp(d->protocol, "rdma") == 0 ? b->name : "*";
}

static json_t *nics_doc(const struct te_desc *d)
{
	json_t *nics = json_array();

	for (size_t i = 0; i < d->ndevices; i++)
		json_array_append_new(nics, json_pack("{s:s, s:s}", "name", d->devices[i].name,
						      "gid", d->devices[i].gid));
	return nics;
}

static json_t *ready_doc(const struct ready *r)
{
	json_t *buffers = json_array(), *doc;
	size_t i;

	for (i = 0; i < r->desc->nbuffers; i++) {
		const struct te_desc_buffer *b = &r->desc->buffers[i];

		json_array_append_new(buffers,
				      json_pack("{s:I, s:I, s:s}", "addr", (json_int_t)b->addr,
						"length", (json_int_t)b->length, "location",
						location_of(r->desc, b)));
	}
	doc = json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:o}", "segment", r->info.name,
			"metadata_server", r->info.metadata_server, "protocol", r->info.protocol,
			"rpc_port", (int)r->info.rpc_port, "tcp_data_port",
			(int)r->info.tcp_data_port, "nics", nics_doc(r->desc), "buffers", buffers);
	if (r->target->http)
		json_object_set_new(doc, "metrics_port",
				    json_integer(http_port(r->target->http, 0)));
	return doc;
}

static void print_json(const struct ready *r)
{
	out_json(ready_doc(r));
}

/* A word that a shell takes as it is, or quoted. */
static void print_word(const char *option, const char *word)
{
	if (word[strspn(
		    word,
		    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@,[]%")] ==
	    '\0') {
		printf(" %s%s", option, word);
		return;
	}
	printf(" %s'", option);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*word);
	}
	putchar('\'');
}

static void print_command(const struct ready *r)
{
	const struct target *t = r->target;

	printf("to use it, run\n  te-bench");
	print_word("--metadata-server=", r->info.metadata_server);
	print_word("--segment-id=", r->info.name);
	if (t->pattern)
		printf(" --operation=read --verify=%" PRIu64, t->seed);
	putchar('\n');
}

static void print_text(const struct ready *r)
{
	const struct te_desc *d = r->desc;
	char size[32];
	size_t i;

	printf("segment       %s\n", r->info.name);
	printf("metadata      %s\n", r->info.metadata_server);
	printf("protocol      %s\n", r->info.protocol);
	printf("address       %s, rpc port %u, tcp data port %u\n", r->info.host, r->info.rpc_port,
	       r->info.tcp_data_port);
	for (i = 0; i < d->ndevices; i++)
		printf("%s  %-8s GID %s\n", i ? "            " : "nics        ", d->devices[i].name,
		       d->devices[i].gid);
	for (i = 0; i < d->nbuffers && i < SHOWN_BUFFERS; i++)
		printf("%s  %-8s 0x%012" PRIx64 "  %s\n", i ? "            " : "buffers     ",
		       location_of(d, &d->buffers[i]), d->buffers[i].addr,
		       out_bytes((double)d->buffers[i].length, size, sizeof(size)));
	if (i < d->nbuffers)
		printf("              and %zu more\n", d->nbuffers - i);
	if (r->target->http)
		printf("metrics       port %u, /metrics\n", http_port(r->target->http, 0));
	print_command(r);
}

static void (*const print_ready[])(const struct ready *r) = {
	[false] = print_text, [true] = print_json
};

static int announce(const struct target *t, struct te_err *err)
{
	struct ready r = { .target = t };
	char *text = te_engine_describe(t->engine);
	int rc;

	if (!text)
		return te_fail(err, -ENOMEM, "out of memory");
	rc = te_desc_parse(text, strlen(text), &r.desc, err);
	free(text);
	if (rc)
		return rc;
	te_engine_info(t->engine, &r.info);
	print_ready[t->cli.json](&r);
	if (t->ready_file) {
		json_t *json = ready_doc(&r);

		rc = out_file(t->ready_file, json, err);
		json_decref(json);
	}
	te_desc_free(r.desc);
	return rc;
}

/* ---- serving ------------------------------------------------------------------------------- */

static void answer_http(void *arg, struct http_request *r)
{
	struct target *t = arg;
	char *text = NULL;

	if (strcmp(http_method(r), "GET") != 0 && strcmp(http_method(r), "HEAD") != 0)
		http_reply(r, 405, "text/plain", "only GET\n", 9, NULL);
	else if (strcmp(http_path(r), "/metrics") != 0)
		http_reply(r, 404, "text/plain", "try /metrics\n", 13, NULL);
	else if (!(text = te_engine_metrics(t->engine)))
		http_reply(r, 500, "text/plain", "out of memory\n", 14, NULL);
	else
		http_reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", text, strlen(text),
			   NULL);
	free(text);
}

static int start_metrics(struct target *t, struct te_err *err)
{
	const char *listen[] = { t->metrics, NULL };
	struct http_options opt = {
		.listen = listen, .max_body = 4096, .handle = answer_http, .arg = t
	};

	return t->metrics ? http_start(&opt, &t->http, err) : 0;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static uint64_t served(const struct target *t)
{
	struct te_totals totals;

	te_engine_totals(t->engine, &totals);
	return totals.served_requests;
}

/* Without a limit this sleeps until a signal comes. With --idle-timeout it looks ten times in that
 * time. */
static void serve(const struct target *t)
{
	struct pollfd p = { .fd = t->signals, .events = POLLIN };
	double start = now(), active = start, wake;
	uint64_t last = 0, count;

	for (;;) {
		wake = -1;
		if (t->max_duration > 0)
			wake = start + t->max_duration - now();
		if (t->idle_timeout > 0 && (wake < 0 || wake > t->idle_timeout / 10))
			wake = t->idle_timeout / 10;
		if (poll(&p, 1,
			 wake < 0     ? -1
			 : wake > 1e6 ? 1000000000
				      : (int)(wake * 1000) + 1) > 0)
			return;
		count = served(t);
		if (count != last)
			active = now();
		last = count;
		if (t->max_duration > 0 && now() >= start + t->max_duration)
			return;
		if (t->idle_timeout > 0 && now() >= active + t->idle_timeout)
			return;
	}
}

static int open_engine(struct target *t, struct te_err *err)
{
	struct te_conf conf;
	struct te_engine_options opt = {
		.conf = &conf,
		.metadata_server = t->cli.metadata,
		.local_server_name = t->cli.name,
		.protocol = t->protocol,
		.device_name = t->devices,
		.nic_priority_matrix = t->matrix_text,
		.auto_discovery = t->auto_discovery,
	};

	cli_conf(&t->cli, &conf);
	return te_engine_open(&t->engine, &opt, err);
}

static int run(struct target *t, struct te_err *err)
{
	int rc = matrix_read(t->matrix, t->protocol, &t->matrix_text, err);

	if (!rc)
		rc = open_engine(t, err);
	if (!rc)
		rc = target_memory(t, err);
	if (!rc)
		rc = start_metrics(t, err);
	if (!rc)
		rc = announce(t, err);
	if (rc)
		return cli_error(err);
	rc = cli_finish(CLI_OK);
	if (rc == CLI_OK)
		serve(t);
	return rc;
}

int target_main(int argc, char **argv)
{
	struct target t = { .signals = -1 };
	struct te_err err = { 0 };
	int status;

	cli_parse(&argp, argc, argv, &t.cli, &t);
	/* Whoever reads our output may go away: that must not leave the metadata behind. */
	signal(SIGPIPE, SIG_IGN);
	cli_raise_files();
	t.signals = cli_signals();
	if (t.signals < 0)
		return CLI_FAIL;
	/* A file of an earlier run would deceive whoever waits for it. */
	if (t.ready_file)
		out_file_remove(t.ready_file);
	status = run(&t, &err);
	if (t.ready_file)
		out_file_remove(t.ready_file);
	if (t.http)
		http_stop(t.http);
	if (t.engine)
		te_engine_close(t.engine);
	target_memory_clear(&t);
	close(t.signals);
	return cli_finish(status);
}
