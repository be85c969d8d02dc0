/* basic.c - get, put, del, ls, watch and ping, and what the other verbs share with them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "te-meta.h"

static const size_t value_max = 512u << 20;

const char *prefix_of(const struct cmd *c)
{
	return c->args.n ? c->args.v[0] : te_meta_prefix(c->meta);
}

static int add_key(void *arg, const char *key)
{
	strings_add(arg, key);
	return 0;
}

int list_keys(struct cmd *c, const char *prefix, struct strings *out)
{
	struct te_err err = { 0 };

	return te_meta_list(c->meta, prefix, add_key, out, &err) ? cli_error(&err) : CLI_OK;
}

int verb_ls(struct cmd *c)
{
	struct strings keys = { 0 };
	int status = list_keys(c, prefix_of(c), &keys);

	if (status == CLI_OK)
		c->print->keys(&keys);
	strings_clear(&keys);
	return status;
}

int verb_get(struct cmd *c)
{
	const char *key = c->args.v[0];
	struct te_meta_value v;
	struct te_err err = { 0 };

	if (te_meta_get(c->meta, key, &v, &err))
		return cli_error(&err);
	if (c->tag && !*v.tag) {
		te_meta_value_clear(&v);
		return cli_fail(CLI_FAIL, "%s gives its values no tags", te_meta_uri(c->meta));
	}
	if (c->tag)
		c->print->tag(key, v.tag);
	else
		c->print->value(key, &v);
	te_meta_value_clear(&v);
	return CLI_OK;
}

int put_options(struct cmd *c, struct te_meta_put *opt)
{
	struct te_err err = { 0 };

	*opt = (struct te_meta_put){ .ttl_s = c->ttl_s,
				     .if_absent = c->if_absent,
				     .if_match = c->if_match };
	if (!c->ttl_s)
		return CLI_OK;
	/* A store that is away cannot say what it can do: that is another failure. */
	if (te_meta_ping(c->meta, &err))
		return cli_error(&err);
	if (te_meta_caps(c->meta) & TE_META_TTL)
		return CLI_OK;
	return cli_fail(CLI_FAIL,
			"%s cannot let keys go away after a time; te-http-meta, etcd and redis can",
			te_meta_uri(c->meta));
}

/* All of standard input. malloc'ed; NULL after a message. */
static char *read_stdin(size_t *len)
{
	size_t cap = 0, n = 0, got;
	char *data = NULL;

	do {
		if (n == cap) {
			char *more = cap < value_max ? realloc(data, cap ? 2 * cap : 65536) : NULL;

			if (!more) {
				cli_fail(CLI_FAIL, "the value on standard input is too long");
				free(data);
				return NULL;
			}
			cap = cap ? 2 * cap : 65536;
			data = more;
		}
		got = fread(data + n, 1, cap - n, stdin);
		n += got;
	} while (got);
	if (ferror(stdin)) {
		cli_fail(CLI_FAIL, "cannot read standard input: %s", strerror(errno));
		free(data);
		return NULL;
	}
	*len = n;
	return data;
}

int verb_put(struct cmd *c)
{
	const char *key = c->args.v[0], *value = c->args.n > 1 ? c->args.v[1] : "-";
	char tag[TE_META_TAG_MAX], *input = NULL;
	struct te_meta_put opt;
	struct te_err err = { 0 };
	size_t len = strlen(value);
	int status;

	if (strcmp(value, "-") == 0) {
		input = read_stdin(&len);
		if (!input)
			return CLI_FAIL;
	}
	status = put_options(c, &opt);
	if (status == CLI_OK &&
	    te_meta_put(c->meta, key, input ? input : value, len, &opt, tag, &err))
		status = cli_error(&err);
	if (status == CLI_OK)
		c->print->put(key, tag);
	free(input);
	return status;
}

int verb_del(struct cmd *c)
{
	int status = CLI_OK;
	struct te_err err;
	size_t done = 0;

	for (size_t i = 0; i < c->args.n; i++) {
		char *key = c->args.v[i];

		err = (struct te_err){ 0 };
		if (te_meta_del(c->meta, key, c->if_match, &err)) {
			status = cli_error(&err);
			continue;
		}
		/* Those that are done come first, for the printer. */
		c->args.v[i] = c->args.v[done];
		c->args.v[done++] = key;
	}
	c->print->deleted(c->args.v, done);
	return status;
}

static int on_change(void *arg, const struct te_meta_event *ev)
{
	struct cmd *c = arg;

	c->print->change(ev);
	return fflush(stdout) != 0;
}

int verb_watch(struct cmd *c)
{
	int stop = cli_signals();
	struct te_err err = { 0 };
	int rc;

	if (stop < 0)
		return CLI_FAIL;
	rc = te_meta_watch(c->meta, prefix_of(c), on_change, c, stop, &err);
	close(stop);
	return rc ? cli_error(&err) : CLI_OK;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int verb_ping(struct cmd *c)
{
	struct pong p = { .uri = te_meta_uri(c->meta), .scheme = te_meta_scheme(c->meta) };
	struct te_err err = { 0 };
	double began = now();

	if (te_meta_ping(c->meta, &err))
		return cli_error(&err);
	p.seconds = now() - began;
	p.caps = te_meta_caps(c->meta);
	c->print->pong(&p);
	return CLI_OK;
}
