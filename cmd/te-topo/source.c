/* source.c - where a topology comes from: this host, a file, a description, a segment. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "te-topo.h"
#include "te_err.h"
#include "te_meta.h"
#include "te_segment.h"

static int source_host(struct cmd *c, struct source *s)
{
	struct te_err err = { 0 };

	s->label = "this host";
	s->host = true;
	return te_topo_open_host(&c->conf, &s->topo, &err) ? cli_error(&err) : CLI_OK;
}

int source_input(const char *input, struct source *s)
{
	struct te_err err = { 0 };

	s->label = input;
	return te_topo_open_input(input, &s->topo, &err) ? cli_error(&err) : CLI_OK;
}

/* The matrix that is published, if one is. */
static int open_published(const char *name, struct source *s)
{
	const char *json = s->desc->priority_matrix;
	struct te_err err = { 0 };

	if (!json)
		return cli_fail(CLI_FAIL,
				"segment '%s' publishes no priority matrix (its protocol is %s)",
				name, s->desc->protocol);
	if (te_topo_open_matrix(json, strlen(json), &s->topo, &err))
		return cli_fail(CLI_FAIL, "priority matrix of segment '%s': %s", name, err.msg);
	return CLI_OK;
}

int source_segment(struct cmd *c, const char *name, struct source *s)
{
	struct te_meta_value v = { 0 };
	struct te_meta *meta = NULL;
	struct te_err err = { 0 };
	char *key = NULL;
	int status, rc;

	s->label = name;
	if (te_meta_open(c->cli.metadata, &c->conf, &meta, &err))
		return cli_error(&err);
	key = te_meta_key_segment(meta, name);
	rc = key ? te_meta_get(meta, key, &v, &err) : te_fail(&err, -EINVAL, "the name is empty");
	if (!rc)
		rc = te_desc_parse(v.data, v.len, &s->desc, &err);
	status = rc ? cli_fail(CLI_FAIL, "segment '%s': %s", name, err.msg)
		    : open_published(name, s);
	te_meta_value_clear(&v);
	te_meta_close(meta);
	free(key);
	return status;
}

int source_open(struct cmd *c, struct source *s)
{
	if (c->segment)
		return source_segment(c, c->segment, s);
	return c->input ? source_input(c->input, s) : source_host(c, s);
}

int source_word(struct cmd *c, const char *word, struct source *s)
{
	static const char prefix[] = "segment:";

	if (strcmp(word, "host") == 0)
		return source_host(c, s);
	if (strncmp(word, prefix, strlen(prefix)) == 0)
		return source_segment(c, word + strlen(prefix), s);
	s->label = word;
	if (access(word, F_OK) == 0)
		return source_input(word, s);
	if (te_topo_open_input(word, &s->topo, NULL) == 0)
		return CLI_OK;
	return source_segment(c, word, s);
}

void source_close(struct source *s)
{
	te_topo_close(s->topo);
	te_desc_free(s->desc);
}
