/* main.c - te-mount: files of NVMe-oF segments on this host. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "te-mount.h"

enum {
	KEY_CONNECT = 0x100,
	KEY_UNMOUNT,
	KEY_DRY_RUN,
	KEY_NO_CHECK,
	KEY_TIMEOUT,
	KEY_ALL, /* from here on: with --connect only */
	KEY_READ_ONLY,
	KEY_OPTIONS,
	KEY_FSTYPE,
	KEY_PATH_IN_FS,
	KEY_TRANSPORT,
	KEY_TRADDR,
	KEY_TRSVCID,
	KEY_NQN,
	KEY_NSID,
	KEY_HOSTNQN,
	KEY_HOSTID,
	KEY_HOST_TRADDR,
	KEY_HOST_IFACE,
	KEY_FAST_IO_FAIL,
	KEY_RECONNECT,
	KEY_CTRL_LOSS,
	KEY_KEEP_ALIVE,
	KEY_IO_QUEUES,
	KEY_QUEUE_SIZE,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to do:", 1 },
	{ "connect", KEY_CONNECT, NULL, 0, "discover, connect, mount, check, publish", 0 },
	{ "unmount", KEY_UNMOUNT, NULL, 0,
	  "take this host's entries back, unmount and disconnect what te-mount did", 0 },
	{ "dry-run", KEY_DRY_RUN, NULL, 0, "print the steps, do nothing", 0 },
	{ "no-check", KEY_NO_CHECK, NULL, 0, "the file may be missing here, or have another length",
	  0 },
	{ "timeout", KEY_TIMEOUT, "SECONDS", 0,
	  "for all that may take long (default: 30, status 5)", 0 },
	{ NULL, 0, NULL, 0, "With --connect, the target:", 2 },
	{ "transport", KEY_TRANSPORT, "tcp|rdma", 0, "how to reach it", 0 },
	{ "traddr", KEY_TRADDR, "ADDR", 0, "its address", 0 },
	{ "trsvcid", KEY_TRSVCID, "PORT", 0, "its port (default: 4420)", 0 },
	{ "nqn", KEY_NQN, "NQN", 0, "name of its subsystem", 0 },
	{ "nsid", KEY_NSID, "N", 0, "namespace (default: the only one)", 0 },
	{ NULL, 0, NULL, 0, "With --connect, the files:", 3 },
	{ "all", KEY_ALL, NULL, 0, "all files of the segment", 0 },
	{ "path-in-fs", KEY_PATH_IN_FS, "PATH", 0,
	  "where the file is in the file system (default: found by its path's last parts)", 0 },
	{ "fstype", KEY_FSTYPE, "TYPE", 0, "file system type (default: found out)", 0 },
	{ "options", KEY_OPTIONS, "LIST", 0, "mount options, as for mount(8) -o", 0 },
	{ "read-only", KEY_READ_ONLY, NULL, 0, "mount it read-only", 0 },
	{ NULL, 0, NULL, 0, "With --connect, the connection:", 4 },
	{ "hostnqn", KEY_HOSTNQN, "NQN", 0, "name of this host (default: of /etc/nvme/hostnqn)",
	  0 },
	{ "hostid", KEY_HOSTID, "UUID", 0, "id of this host (default: of /etc/nvme/hostid)", 0 },
	{ "host-traddr", KEY_HOST_TRADDR, "ADDR", 0, "own address to connect from", 0 },
	{ "host-iface", KEY_HOST_IFACE, "NAME", 0, "own interface to connect from (tcp)", 0 },
	{ "fast-io-fail-tmo", KEY_FAST_IO_FAIL, "SECONDS", 0,
	  "I/O to a lost target fails after that (default: 5)", 0 },
	{ "reconnect-delay", KEY_RECONNECT, "SECONDS", 0,
	  "between attempts to get it back (default: 2)", 0 },
	{ "ctrl-loss-tmo", KEY_CTRL_LOSS, "SECONDS", 0,
	  "until the device of a lost target goes away (default: 60)", 0 },
	{ "keep-alive-tmo", KEY_KEEP_ALIVE, "SECONDS", 0,
	  "until a silent target counts as lost (default: the kernel's)", 0 },
	{ "nr-io-queues", KEY_IO_QUEUES, "N", 0, "queues (default: one a CPU)", 0 },
	{ "queue-size", KEY_QUEUE_SIZE, "N", 0, "entries of a queue (default: 128)", 0 },
	{ 0 }
};

static const char doc[] =
	"Tell a segment of files where they are on this host, and mount them.\v"
	"NAME FILE_PATH LOCAL_PATH   publish that FILE_PATH of segment NAME is LOCAL_PATH here\n"
	"--connect ... NAME FILE_PATH... MOUNT_POINT\n"
	"                            the same for files on an NVMe-oF target, mounted first\n"
	"--unmount NAME [FILE_PATH...]\n"
	"                            undo both\n"
	"status NAME                 compare what is published with what is here; exit 1: not "
	"well\n"
	"\n"
	"This host's name in the segment is that of --local-server-name.";

struct parse {
	struct cmd *c;
	int connect_only; /* an option of --connect that was given, or 0 */
};

static int int_arg(const struct argp_state *state, const char *name, const char *arg, uint64_t min)
{
	uint64_t v;

	if (!cli_u64(arg, min, INT_MAX, &v))
		cli_usage(state, "--%s takes a number, %u or more, not '%s'", name, (unsigned)min,
			  arg);
	return (int)v;
}

static int seconds_arg(const struct argp_state *state, const char *name, const char *arg)
{
	double s;

	if (!cli_seconds(arg, &s) || s < 1 || s > 86400)
		cli_usage(state, "--%s takes seconds, 1 or more, not '%s'", name, arg);
	return (int)(s + 0.5);
}

static void set_transport(struct cmd *c, const char *arg, const struct argp_state *state)
{
	if (strcmp(arg, "tcp") != 0 && strcmp(arg, "rdma") != 0)
		cli_usage(state, "--transport takes tcp or rdma, not '%s'", arg);
	c->target.transport = arg;
}

static void set_port(struct fabric_target *t, const char *arg, const struct argp_state *state)
{
	uint64_t port;

	if (!cli_u64(arg, 1, 65535, &port))
		cli_usage(state, "--trsvcid takes a port, not '%s'", arg);
	t->trsvcid = arg;
}

static void set_timeout(struct cmd *c, const char *arg, const struct argp_state *state)
{
	if (!cli_seconds(arg, &c->timeout_s) || c->timeout_s <= 0 || c->timeout_s > 86400)
		cli_usage(state, "--timeout takes seconds, more than 0, not '%s'", arg);
}

static error_t parse_target(struct fabric_target *t, int key, char *arg,
			    const struct argp_state *state)
{
	switch (key) {
	case KEY_TRADDR:
		t->traddr = arg;
		break;
	case KEY_TRSVCID:
		set_port(t, arg, state);
		break;
	case KEY_NQN:
		t->nqn = arg;
		break;
	case KEY_NSID:
		t->nsid = (unsigned)int_arg(state, "nsid", arg, 1);
		break;
	case KEY_HOSTNQN:
		t->hostnqn = arg;
		break;
	case KEY_HOSTID:
		t->hostid = arg;
		break;
	case KEY_HOST_TRADDR:
		t->host_traddr = arg;
		break;
	case KEY_HOST_IFACE:
		t->host_iface = arg;
		break;
	case KEY_FAST_IO_FAIL:
		t->fast_io_fail_tmo = seconds_arg(state, "fast-io-fail-tmo", arg);
		break;
	case KEY_RECONNECT:
		t->reconnect_delay = seconds_arg(state, "reconnect-delay", arg);
		break;
	case KEY_CTRL_LOSS:
		t->ctrl_loss_tmo = seconds_arg(state, "ctrl-loss-tmo", arg);
		break;
	case KEY_KEEP_ALIVE:
		t->keep_alive_tmo = seconds_arg(state, "keep-alive-tmo", arg);
		break;
	case KEY_IO_QUEUES:
		t->nr_io_queues = int_arg(state, "nr-io-queues", arg, 1);
		break;
	case KEY_QUEUE_SIZE:
		t->queue_size = int_arg(state, "queue-size", arg, 16);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct parse *p = state->input;
	struct cmd *c = p->c;

	if (key >= KEY_ALL && key <= KEY_QUEUE_SIZE)
		p->connect_only = key;
	switch (key) {
	case KEY_CONNECT:
		c->connect = true;
		break;
	case KEY_UNMOUNT:
		c->unmount = true;
		break;
	case KEY_DRY_RUN:
		c->dry_run = true;
		break;
	case KEY_NO_CHECK:
		c->no_check = true;
		break;
	case KEY_TIMEOUT:
		set_timeout(c, arg, state);
		break;
	case KEY_TRANSPORT:
		set_transport(c, arg, state);
		break;
	case KEY_ALL:
		c->all = true;
		break;
	case KEY_PATH_IN_FS:
		c->path_in_fs = arg;
		break;
	case KEY_FSTYPE:
		c->fstype = arg;
		break;
	case KEY_OPTIONS:
		c->options = arg;
		break;
	case KEY_READ_ONLY:
		c->read_only = true;
		break;
	case ARGP_KEY_ARG:
		c->args[c->nargs++] = arg;
		break;
	default:
		return parse_target(&c->target, key, arg, state);
	}
	return 0;
}

static void check_connect(const struct cmd *c)
{
	if (!c->target.transport || !c->target.traddr || !c->target.nqn)
		cli_usage(NULL, "--connect needs --transport, --traddr and --nqn");
	if (strlen(c->target.nqn) >= FABRIC_NQN_MAX)
		cli_usage(NULL, "an NQN has at most %d characters", FABRIC_NQN_MAX - 1);
	if (c->nargs < (c->all ? 2 : 3))
		cli_usage(NULL, "usage: %s --connect ... NAME %s MOUNT_POINT",
			  program_invocation_short_name, c->all ? "--all" : "FILE_PATH...");
	if (c->all && c->nargs > 2)
		cli_usage(NULL, "--all takes no FILE_PATH: NAME MOUNT_POINT");
	if (c->path_in_fs && (c->all || c->nargs > 3))
		cli_usage(NULL, "--path-in-fs is for one FILE_PATH");
}

static const char *option_name(int key)
{
	size_t i = 0;

	while (options[i].key != key)
		i++;
	return options[i].name;
}

typedef int verb_fn(struct cmd *c);

static verb_fn *choose(const struct parse *p)
{
	const struct cmd *c = p->c;

	if (c->connect && c->unmount)
		cli_usage(NULL, "--connect and --unmount exclude each other");
	if (!c->connect && p->connect_only)
		cli_usage(NULL, "--%s is for --connect", option_name(p->connect_only));
	if (c->no_check && c->unmount)
		cli_usage(NULL, "--unmount does not take --no-check");
	if (c->connect) {
		check_connect(c);
		return verb_connect;
	}
	if (c->unmount) {
		if (!c->nargs)
			cli_usage(NULL, "usage: %s --unmount NAME [FILE_PATH...]",
				  program_invocation_short_name);
		return verb_unmount;
	}
	if (c->nargs && strcmp(c->args[0], "status") == 0) {
		if (c->nargs != 2)
			cli_usage(NULL, "usage: %s status NAME", program_invocation_short_name);
		if (c->dry_run || c->no_check)
			cli_usage(NULL, "'status' does not take --%s",
				  c->dry_run ? "dry-run" : "no-check");
		return verb_status;
	}
	if (c->nargs != 3)
		cli_usage(NULL, "usage: %s NAME FILE_PATH LOCAL_PATH",
			  program_invocation_short_name);
	return verb_add;
}

int need_root(const char *what)
{
	return geteuid() == 0 ? CLI_OK : cli_fail(CLI_FAIL, "needs root: %s", what);
}

/* The store, and the key of the segment that a user has named. */
static int find_segment(struct cmd *c, const char *given)
{
	struct te_err err = { 0 };
	int status;

	te_conf_read(&c->conf);
	status = desc_store_open(&c->cli, &c->conf, true, &c->meta);
	if (status != CLI_OK)
		return status;
	if (file_segment_key(c->meta, given, &c->key, &err) ||
	    file_segment_host(&c->cli, c->host_name, &c->host, &err))
		return cli_fail(CLI_USAGE, "%s", err.msg);
	c->segment = c->key + strlen(te_meta_prefix(c->meta));
	return CLI_OK;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "NAME FILE_PATH LOCAL_PATH\n"
			    "--connect [OPTION...] NAME FILE_PATH... MOUNT_POINT\n"
			    "--unmount NAME [FILE_PATH...]\n"
			    "status NAME",
		.doc = doc
	};
	struct cmd c = { .stop = -1,
			 .target = { .trsvcid = "4420",
				     .fast_io_fail_tmo = 5,
				     .reconnect_delay = 2,
				     .ctrl_loss_tmo = 60 } };
	struct parse p = { .c = &c };
	verb_fn *verb;
	int status;

	c.args = calloc((size_t)argc + 1, sizeof(*c.args));
	if (!c.args)
		return cli_fail(CLI_FAIL, "out of memory");
	cli_parse(&argp, argc, argv, &c.cli, &p);
	verb = choose(&p);
	if (c.timeout_s == 0)
		c.timeout_s = verb == verb_status ? 5 : 30;
	c.print = c.cli.json ? &print_json : &print_text;
	status = find_segment(&c, c.args[verb == verb_status ? 1 : 0]);
	if (status == CLI_OK)
		status = verb(&c);
	te_meta_close(c.meta);
	free(c.key);
	free(c.args);
	return cli_finish(status);
}
