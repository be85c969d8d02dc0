/* te-meta.c - te-meta: read and change what the metadata store holds. */
#include "te-meta.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "desc_store.h"
#include "verb.h"

enum { KEY_TTL = 0x100, KEY_IF_ABSENT, KEY_IF_MATCH, KEY_TAG, KEY_DELETE };

static const struct argp_option options[] = {
	{ "ttl", KEY_TTL, "SECONDS", 0, "put, load: the key goes away after that time", 0 },
	{ "if-absent", KEY_IF_ABSENT, NULL, 0, "put, load: only if there is no such key", 0 },
	{ "if-match", KEY_IF_MATCH, "TAG", 0, "put, del: only if the value still has this tag", 0 },
	{ "tag", KEY_TAG, NULL, 0, "get: print the value's tag instead of the value", 0 },
	{ "delete", KEY_DELETE, NULL, 0, "gc: delete what it finds", 0 },
	{ 0 }
};

static const char doc[] =
	"Read and change what the metadata store holds.\v"
	"get KEY            write the value's bytes\n"
	"put KEY [VALUE|-]  store VALUE, or standard input\n"
	"del KEY...         delete keys; one that is not there is no error\n"
	"ls [PREFIX]        list keys, a line each\n"
	"show SEGMENT       decode and check a descriptor, ask whether its owner lives\n"
	"watch [PREFIX]     print a line for each change until interrupted\n"
	"dump [PREFIX]      write all entries as JSON, a line each\n"
	"load [FILE|-]      put the entries that dump wrote\n"
	"gc [PREFIX]        list (--delete: delete) entries whose owner is dead\n"
	"ping               ask whether the store serves, and what it can do\n"
	"\n"
	"Keys are whole: mooncake/ram/NAME. The default prefix is the cluster's, mooncake/ or "
	"mooncake/$MC_METADATA_CLUSTER_ID/.";

/* Who takes an option; and P2P, where peers themselves answer for their descriptor. */
enum { GET = 1, PUT = 2, DEL = 4, LOAD = 8, GC = 16, P2P = 32 };

static const struct verb verbs[] = {
	{ "get", "KEY", 1, 1, GET, verb_get },
	{ "put", "KEY [VALUE|-]", 1, 2, PUT, verb_put },
	{ "del", "KEY...", 1, SIZE_MAX, DEL, verb_del },
	{ "ls", "[PREFIX]", 0, 1, 0, verb_ls },
	{ "show", "SEGMENT", 1, 1, P2P, verb_show },
	{ "watch", "[PREFIX]", 0, 1, 0, verb_watch },
	{ "dump", "[PREFIX]", 0, 1, 0, verb_dump },
	{ "load", "[FILE|-]", 0, 1, LOAD, verb_load },
	{ "gc", "[PREFIX]", 0, 1, GC, verb_gc },
	{ "ping", "", 0, 0, 0, verb_ping },
};

static void set_ttl(struct cmd *c, const char *arg, struct argp_state *state)
{
	double s;

	if (!cli_seconds(arg, &s) || s < 1 || s > INT_MAX)
		cli_usage(state, "--ttl takes seconds, 1 or more, not '%s'", arg);
	c->ttl_s = (unsigned)s;
	c->ttl_s += s > c->ttl_s;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cmd *c = state->input;

	switch (key) {
	case KEY_TTL:
		set_ttl(c, arg, state);
		break;
	case KEY_IF_ABSENT:
		c->if_absent = true;
		break;
	case KEY_IF_MATCH:
		c->if_match = arg;
		break;
	case KEY_TAG:
		c->tag = true;
		break;
	case KEY_DELETE:
		c->delete = true;
		break;
	case ARGP_KEY_ARG:
		if (!c->verb)
			c->verb = arg;
		else
			strings_add(&c->args, arg);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct verb *find_verb(const struct cmd *c)
{
	const struct verb *v = verb_find(verbs, sizeof(verbs) / sizeof(*verbs), c->verb, c->args.n);

	verb_takes(v, c->ttl_s, PUT | LOAD, "ttl");
	verb_takes(v, c->if_absent, PUT | LOAD, "if-absent");
	verb_takes(v, c->if_match, PUT | DEL, "if-match");
	verb_takes(v, c->tag, GET, "tag");
	verb_takes(v, c->delete, GC, "delete");
	if (c->if_absent && c->if_match)
		cli_usage(NULL, "--if-absent and --if-match exclude each other");
	if (c->if_match && v->takes == DEL && c->args.n > 1)
		cli_usage(NULL, "--if-match takes one key");
	return v;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "get|put|del|ls|show|watch|dump|load|gc|ping [ARGUMENT...]",
		.doc = doc
	};
	struct cmd c = { 0 };
	const struct verb *v;
	int status;

	cli_parse(&argp, argc, argv, &c.cli, &c);
	v = find_verb(&c);
	c.print = c.cli.json ? &print_json : &print_text;
	te_conf_read(&c.conf);
	status = desc_store_open(&c.cli, &c.conf, !(v->takes & P2P), &c.meta);
	if (status == CLI_OK)
		status = v->run(&c);
	te_meta_close(c.meta);
	strings_clear(&c.args);
	return cli_finish(status);
}
