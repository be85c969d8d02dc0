/* te-topo.c - te-topo: which NICs are near which memory, here, elsewhere, and in between. */
#include "te-topo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verb.h"

enum { KEY_SEGMENT = 0x100, KEY_PEER, KEY_FORMAT };

static const struct argp_option options[] = {
	{ "input", 'i', "FILE|SPEC", 0,
	  "not this host but an hwloc XML file, a file with a priority matrix, or an hwloc "
	  "synthetic description",
	  0 },
	{ "segment", KEY_SEGMENT, "NAME", 0, "not this host but what that segment publishes", 0 },
	{ "peer", KEY_PEER, "FILE|SPEC", 0,
	  "path: the segment's topology, instead of what it publishes", 0 },
	{ "format", KEY_FORMAT, "svg|dot|ascii", 0, "draw: as what (svg)", 0 },
	{ 0 }
};

static const char doc[] =
	"Show which NICs are near which memory, as engines publish and use it.\v"
	"show               NICs and the priority matrix; --json: the matrix as it is published\n"
	"nics               each NIC's port, its GID, and why that one\n"
	"pick LOCATION      the NICs that memory there uses first, one a line\n"
	"path LOCATION SEGMENT [LOCATION]\n"
	"                   the pairs of NICs between memory here and memory there\n"
	"diff A B           what differs between two topologies; exit status 1 when any\n"
	"draw               a picture of it\n"
	"\n"
	"A and B are 'host', files, segments or synthetic descriptions. A location is cpu:0, "
	"cuda:1 or *.";

enum { INPUT = 1, SEGMENT = 2, PEER = 4, FORMAT = 8, JSON = 16 }; /* who takes an option */

static const struct verb verbs[] = {
	{ "show", "", 0, 0, INPUT | SEGMENT | JSON, verb_show },
	{ "nics", "", 0, 0, INPUT | SEGMENT | JSON, verb_nics },
	{ "pick", "LOCATION", 1, 1, INPUT | SEGMENT | JSON, verb_pick },
	{ "path", "LOCATION SEGMENT [LOCATION]", 2, 3, INPUT | PEER | JSON, verb_path },
	{ "diff", "A B", 2, 2, JSON, verb_diff },
	{ "draw", "", 0, 0, INPUT | SEGMENT | FORMAT, verb_draw },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cmd *c = state->input;

	switch (key) {
	case 'i':
		c->input = arg;
		break;
	case KEY_SEGMENT:
		c->segment = arg;
		break;
	case KEY_PEER:
		c->peer = arg;
		break;
	case KEY_FORMAT:
		c->format = arg;
		break;
	case ARGP_KEY_ARG:
		if (!c->verb)
			c->verb = arg;
		else if (c->nargs < sizeof(c->args) / sizeof(*c->args))
			c->args[c->nargs++] = arg;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct verb *find_verb(const struct cmd *c)
{
	const struct verb *v = verb_find(verbs, sizeof(verbs) / sizeof(*verbs),
					 c->verb ? c->verb : "show", c->nargs);

	verb_takes(v, c->input, INPUT, "input");
	verb_takes(v, c->segment, SEGMENT, "segment");
	verb_takes(v, c->peer, PEER, "peer");
	verb_takes(v, c->format, FORMAT, "format");
	verb_takes(v, c->cli.json, JSON, "json");
	if (c->input && c->segment)
		cli_usage(NULL, "--input and --segment exclude each other");
	return v;
}

void *zalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		exit(cli_fail(CLI_FAIL, "out of memory"));
	return p;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { .options = options,
					  .parser = parse,
					  .args_doc =
						  "[show|nics|pick|path|diff|draw [ARGUMENT...]]",
					  .doc = doc };
	struct cmd c = { 0 };
	const struct verb *v;

	cli_parse(&argp, argc, argv, &c.cli, &c);
	v = find_verb(&c);
	cli_conf(&c.cli, &c.conf);
	c.print = c.cli.json ? &print_json : &print_text;
	return cli_finish(v->run(&c));
}
