/* te-register.c - te-register: write segments into the metadata store, look at them, remove them.
 */
#include "te-register.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "desc_store.h"
#include "file_segment.h"
#include "verb.h"

enum { KEY_REPLACE = 0x100, KEY_DRY_RUN, KEY_FORCE, KEY_DEVICE, KEY_MATRIX };

static const struct argp_option options[] = {
	{ "replace", KEY_REPLACE, NULL, 0, "nvmeof: start over with these files, on this host", 0 },
	{ "protocol", 'p', "auto|tcp|rdma", 0, "ram: what will be served (default: auto)", 0 },
	{ "device-name", KEY_DEVICE, "LIST", 0,
	  "ram: NICs for rdma, separated by commas (default: all)", 0 },
	{ "nic-priority-matrix", KEY_MATRIX, "FILE|JSON", 0,
	  "ram: priority matrix for rdma (default: found out)", 0 },
	{ "force", KEY_FORCE, NULL, 0, "remove: though others use it or nobody knows whose it is",
	  0 },
	{ "dry-run", KEY_DRY_RUN, NULL, 0,
	  "nvmeof, ram, remove: say what would be done, and change nothing", 0 },
	{ 0 }
};

static const char doc[] =
	"Write segments into the metadata store, look at them, remove them.\v"
	"nvmeof NAME FILE...  register files of this host as segment nvmeof/NAME; a second run "
	"adds "
	"to it\n"
	"ram NAME             register what is known of a RAM segment before its engine starts\n"
	"list                 all segments, a line each\n"
	"show NAME            one segment: its files, and where others have mounted them\n"
	"remove NAME          take a segment out of the store\n"
	"\n"
	"show and remove take ram/NAME and nvmeof/NAME where both exist.";

enum { NVMEOF = 1, RAM = 2, REMOVE = 4 }; /* who takes an option */

static const struct verb verbs[] = {
	{ "nvmeof", "NAME FILE...", 2, SIZE_MAX, NVMEOF, verb_nvmeof },
	{ "ram", "NAME", 1, 1, RAM, verb_ram },
	{ "list", "", 0, 0, 0, verb_list },
	{ "show", "NAME", 1, 1, 0, verb_show },
	{ "remove", "NAME", 1, 1, REMOVE, verb_remove },
};

static void set_protocol(struct cmd *c, const char *arg, const struct argp_state *state)
{
	if (strcmp(arg, "auto") != 0 && strcmp(arg, "tcp") != 0 && strcmp(arg, "rdma") != 0)
		cli_usage(state, "--protocol is auto, tcp or rdma, not '%s'", arg);
	c->protocol = arg;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cmd *c = state->input;

	switch (key) {
	case KEY_REPLACE:
		c->replace = true;
		break;
	case KEY_DRY_RUN:
		c->dry_run = true;
		break;
	case KEY_FORCE:
		c->force = true;
		break;
	case 'p':
		set_protocol(c, arg, state);
		break;
	case KEY_DEVICE:
		c->devices = arg;
		break;
	case KEY_MATRIX:
		c->matrix = arg;
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

	verb_takes(v, c->replace, NVMEOF, "replace");
	verb_takes(v, c->protocol, RAM, "protocol");
	verb_takes(v, c->devices, RAM, "device-name");
	verb_takes(v, c->matrix, RAM, "nic-priority-matrix");
	verb_takes(v, c->force, REMOVE, "force");
	verb_takes(v, c->dry_run, NVMEOF | RAM | REMOVE, "dry-run");
	return v;
}

void check_new_name(const char *name)
{
	if (!*name)
		cli_usage(NULL, "a segment's name is not empty");
	if (!file_segment_is_text(name))
		cli_usage(NULL, "the name '%s' is not UTF-8", name);
	for (const char *p = name; *p; p++)
		if (*p == ',' || (unsigned char)*p < ' ' || *p == 0x7f)
			cli_usage(NULL, "a segment's name has no comma nor control character: '%s'",
				  name);
}

int main(int argc, char **argv)
{
	static const struct argp argp = { .options = options,
					  .parser = parse,
					  .args_doc = "nvmeof|ram|list|show|remove [ARGUMENT...]",
					  .doc = doc };
	struct cmd c = { 0 };
	const struct verb *v;
	int status;

	cli_parse(&argp, argc, argv, &c.cli, &c);
	v = find_verb(&c);
	c.print = c.cli.json ? &print_json : &print_text;
	te_conf_read(&c.conf);
	status = desc_store_open(&c.cli, &c.conf, true, &c.meta);
	if (status == CLI_OK)
		status = v->run(&c);
	te_meta_close(c.meta);
	strings_clear(&c.args);
	return cli_finish(status);
}
