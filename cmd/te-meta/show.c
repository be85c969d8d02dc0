/* show.c - show: a segment's descriptor, decoded and checked, and whether its owner lives. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "te-meta.h"

static void add_note(void *arg, const char *sentence)
{
	strings_add(arg, sentence);
}

/* 0 with *out; 1: there is none, or none of use, and a note says so. A segment that is only
 * registered has none, and no buffers. */
static int get_rpc(struct cmd *c, const char *name, bool registered, struct te_rpc_meta *out,
		   struct strings *notes)
{
	char *key = te_meta_key_rpc(c->meta, name);
	struct te_meta_value v = { 0 };
	struct te_err err = { 0 };
	int rc = key ? te_meta_get(c->meta, key, &v, &err) : -ENOMEM;

	if (!rc)
		rc = te_rpc_meta_parse(v.data, v.len, out, &err);
	if (rc && !(rc == -ENOENT && registered))
		strings_add(notes, err.msg);
	te_meta_value_clear(&v);
	free(key);
	return rc != 0;
}

static int show(struct cmd *c, struct shown *s, const struct te_desc *desc)
{
	struct strings notes = { 0 };
	struct te_rpc_meta rpc;
	char reason[256] = "nobody has published where it listens";

	te_desc_lint(desc, add_note, &notes);
	/* Files have no owner who could be asked. */
	if (!strchr(s->name, '/') && !get_rpc(c, s->name, !desc->nbuffers, &rpc, &notes)) {
		s->rpc = &rpc;
		s->alive =
			owner_probe(&c->conf, s->name, &rpc, reason, sizeof(reason)) == OWNER_ALIVE;
	}
	s->desc = desc;
	s->reason = reason;
	s->notes = &notes;
	c->print->segment(s);
	strings_clear(&notes);
	return CLI_OK;
}

int verb_show(struct cmd *c)
{
	const char *name = c->args.v[0] + strspn(c->args.v[0], "/");
	char *key = te_meta_key_segment(c->meta, name);
	struct te_meta_value v = { 0 };
	struct shown s = { .name = name, .key = key, .value = &v };
	struct te_desc *desc = NULL;
	struct te_err err = { 0 };
	int status;

	if (!key)
		return cli_fail(CLI_USAGE, "a segment's name is not empty");
	if (te_meta_get(c->meta, key, &v, &err))
		status = cli_error(&err);
	else if (te_desc_parse(v.data, v.len, &desc, &err))
		status = cli_fail(CLI_FAIL, "'%s': %s", key, err.msg);
	else
		status = show(c, &s, desc);
	te_desc_free(desc);
	te_meta_value_clear(&v);
	free(key);
	return status;
}
