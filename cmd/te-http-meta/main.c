/* main.c - te-http-meta: the HTTP metadata server. Options, start and end. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "cli.h"
#include "out.h"
#include "te_conf.h"

enum { LISTEN_MAX = 32 };
#define VALUE_MAX (512ull << 20) /* SQLite's limit is 1e9 */

enum {
	KEY_LISTEN = 0x200,
	KEY_DATA,
	KEY_TOKEN_FILE,
	KEY_TLS_CERT,
	KEY_TLS_KEY,
	KEY_MAX_VALUE,
	KEY_READY_FILE
};

struct opts {
	const char *listen[LISTEN_MAX + 1];
	int listens;
	const char *data, *token_file, *tls_cert, *tls_key, *ready_file;
	uint64_t max_value;
};

static const struct argp_option options[] = {
	{ "listen", KEY_LISTEN, "ADDR:PORT", 0,
	  "listen there (default: 127.0.0.1:8080); :PORT is all addresses, port 0 a free one; may "
	  "be "
	  "repeated",
	  0 },
	{ "addr", KEY_LISTEN, NULL, OPTION_ALIAS, NULL, 0 },
	{ "data", KEY_DATA, "FILE", 0, "keep everything in this SQLite file (default: in memory)",
	  0 },
	{ "token-file", KEY_TOKEN_FILE, "FILE", 0, "clients must show the bearer token in FILE",
	  0 },
	{ "tls-cert", KEY_TLS_CERT, "FILE", 0, "serve https with this certificate (chain), PEM",
	  0 },
	{ "tls-key", KEY_TLS_KEY, "FILE", 0, "private key of the certificate, PEM", 0 },
	{ "max-value", KEY_MAX_VALUE, "SIZE", 0, "refuse larger values (default: 64M)", 0 },
	{ "ready-file", KEY_READY_FILE, "FILE", 0, "write addresses and URL there once it listens",
	  0 },
	{ 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct opts *o = state->input;
	struct te_err err;

	switch (key) {
	case KEY_LISTEN:
		if (o->listens == LISTEN_MAX)
			cli_usage(state, "more than %d addresses to listen on", LISTEN_MAX);
		if (http_check_listen(arg, &err))
			cli_usage(state, "--listen: %s", err.msg);
		o->listen[o->listens++] = arg;
		break;
	case KEY_DATA:
		o->data = arg;
		break;
	case KEY_TOKEN_FILE:
		o->token_file = arg;
		break;
	case KEY_TLS_CERT:
		o->tls_cert = arg;
		break;
	case KEY_TLS_KEY:
		o->tls_key = arg;
		break;
	case KEY_MAX_VALUE:
		if (!cli_size(arg, &o->max_value) || o->max_value > VALUE_MAX)
			cli_usage(state, "--max-value: '%s' is no size from 1 to 512M", arg);
		break;
	case KEY_READY_FILE:
		o->ready_file = arg;
		break;
	case ARGP_KEY_ARG:
		cli_usage(state, "unexpected argument '%s'", arg);
	case ARGP_KEY_END:
		if (!o->tls_cert != !o->tls_key)
			cli_usage(state, "--tls-cert and --tls-key go together");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- what we tell the world --------------------------------------------------------------- */

/* A URL that works on this host, at least. */
static void make_url(const struct api *a, const struct opts *o, char *buf, size_t size)
{
	const char *scheme = o->tls_cert ? "https" : "http", *address = http_address(a->http, 0);
	unsigned port = http_port(a->http, 0);

	if (!strncmp(address, "[::]:", 5) || !strncmp(address, "0.0.0.0:", 8))
		snprintf(buf, size, "%s://127.0.0.1:%u/metadata", scheme, port);
	else
		snprintf(buf, size, "%s://%s/metadata", scheme, address);
}

static json_t *ready_json(const struct api *a, const char *url)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; http_address(a->http, i); i++)
		json_array_append_new(list, json_string(http_address(a->http, i)));
	return json_pack("{s:o, s:s}", "listen", list, "url", url);
}

static int announce(const struct api *a, const struct opts *o, const struct cli *cli,
		    struct te_err *err)
{
	char url[160];
	json_t *doc;
	int rc;

	make_url(a, o, url, sizeof(url));
	if (cli->json)
		out_json(ready_json(a, url));
	else if (cli->verbose >= 0)
		printf("serving %s\n", url);
	if (fflush(stdout))
		return te_fail(err, -errno, "cannot write output: %s", strerror(errno));
	if (http_is_loopback(a->http) && cli->verbose >= 0)
		fprintf(stderr,
			"%s: listening on loopback only, other hosts cannot reach it (all "
			"addresses: "
			"--listen=:%u)\n",
			program_invocation_short_name, http_port(a->http, 0));
	if (!o->ready_file)
		return 0;
	doc = ready_json(a, url);
	rc = out_file(o->ready_file, doc, err);
	json_decref(doc);
	return rc;
}

/* ---- running ------------------------------------------------------------------------------ */

static void raise_limits(void)
{
	cli_raise_files(); /* thousands of engines keep a connection each */
	/* A file that may not grow is an error of that write, not the end. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
}

static void wake_server(void *arg)
{
	struct api *a = arg;

	http_wake(a->http);
}

static int open_store(struct api *a, const struct opts *o, struct te_err *err)
{
	struct timespec ts;
	int rc;

	/* Revisions in us since 1970: they grow from one run to the next, and JSON readers keep
	 * them exact. */
	clock_gettime(CLOCK_REALTIME, &ts);
	if (!store_init(&a->store, (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000))
		return te_fail(err, -ENOMEM, "out of memory");
	api_init(a);
	if (!o->data)
		return 0;
	rc = disk_open(o->data, &a->disk, err);
	if (!rc)
		rc = disk_load(a->disk, &a->store, api_now(), err);
	if (!rc)
		rc = disk_start(a->disk, wake_server, a, err);
	return rc;
}

static int serve(struct api *a, const struct opts *o, const struct cli *cli, int signals,
		 struct te_err *err)
{
	struct http_options http = {
		.listen = o->listen,
		.tls_cert = o->tls_cert,
		.tls_key = o->tls_key,
		.max_body = o->max_value,
	};
	struct pollfd wait = { .fd = signals, .events = POLLIN };
	int rc;

	api_options(a, &http);
	rc = http_start(&http, &a->http, err);
	if (rc)
		return rc;
	rc = announce(a, o, cli, err);
	while (!rc && poll(&wait, 1, -1) < 0 && errno == EINTR)
		;
	api_stop(a);
	if (o->ready_file)
		out_file_remove(o->ready_file);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.children = cli_children,
		.doc = "Keep the metadata of a cluster and serve it over HTTP.",
	};
	struct opts o = { .max_value = 64 << 20 };
	struct cli cli = { 0 };
	struct te_err err = { 0 };
	struct api a = { 0 };
	char *token = NULL;
	struct te_conf conf;
	int signals, rc = 0;

	cli_parse(&argp, argc, argv, &cli, &o);
	/* For the log only. */
	te_conf_read(&conf);
	if (!o.listens)
		o.listen[o.listens++] = "127.0.0.1:8080";
	signals = cli_signals();
	if (signals < 0)
		return CLI_FAIL;
	raise_limits();
	if (o.ready_file)
		out_file_remove(o.ready_file);
	if (o.token_file)
		rc = token_read(o.token_file, &token, &err);
	a.token = token;
	if (!rc)
		rc = open_store(&a, &o, &err);
	if (!rc)
		rc = serve(&a, &o, &cli, signals, &err);
	if (a.disk) {
		disk_stop(a.disk);
		disk_close(a.disk);
	}
	store_clear(&a.store);
	if (token)
		explicit_bzero(token, strlen(token));
	free(token);
	close(signals);
	return cli_finish(rc ? cli_error(&err) : CLI_OK);
}
