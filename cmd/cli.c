/* cli.c - what all te commands share: common options, exit status, sizes, errors. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "out.h"
#include "te_conf.h"
#include "te_log.h"

enum { KEY_ENV = 0x1000, KEY_USAGE };

static const struct argp_option options[] = {
	{ "metadata-server", 'm', "URI", 0,
	  "metadata store: http://, redis://, etcd:// or P2PHANDSHAKE (default: "
	  "$MC_METADATA_SERVER, else P2PHANDSHAKE)",
	  0 },
	{ "local-server-name", 'n', "NAME", 0, "name of our own segment (default: host name)", 0 },
	{ "json", 'j', NULL, 0, "print JSON instead of text", 0 },
	{ "verbose", 'v', NULL, 0, "log more to standard error; twice: still more", 0 },
	{ "quiet", 'q', NULL, 0, "log errors only", 0 },
	{ "env", KEY_ENV, NULL, 0, "print the MC_* tunables in force and exit", 0 },
	{ "help", 'h', NULL, 0, "print this help and exit", 0 },
	{ "usage", KEY_USAGE, NULL, 0, "print a short usage message and exit", 0 },
	{ "version", 'V', NULL, 0, "print version, stores and transports and exit", 0 },
	{ 0 }
};

/* The input that argp hands to both parsers below. */
struct parse {
	const struct argp *argp; /* the command's */
	void *input;
	struct cli *cli;
	bool env;
};

static void print_help(const struct argp_state *state, unsigned what)
{
	argp_state_help(state, stdout, what);
	exit(cli_finish(CLI_OK));
}

static void print_version(void)
{
	printf("%s (te) %s\nstores: http https redis etcd P2PHANDSHAKE\ntransports: local shm "
	       "rdma tcp\n",
	       program_invocation_short_name, TE_VERSION);
	exit(cli_finish(CLI_OK));
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
	struct parse *p = state->input;
	struct cli *c = p->cli;

	switch (key) {
	case 'm':
		c->metadata = arg;
		break;
	case 'n':
		c->name = arg;
		break;
	case 'j':
		c->json = true;
		break;
	case 'v':
		c->verbose = c->verbose < 0 ? 1 : c->verbose + 1;
		break;
	case 'q':
		c->verbose = -1;
		break;
	case 'h':
		print_help(state, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC);
		break;
	case 'V':
		print_version();
		break;
	case KEY_USAGE:
		print_help(state, ARGP_HELP_USAGE);
		break;
	case KEY_ENV:
		p->env = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp common = { .options = options, .parser = parse_common };
const struct argp_child cli_children[] = { { &common, 0, "Common options:", 90 }, { 0 } };

/* ---- --env -------------------------------------------------------------------------------- */

static void env_text(void *arg, const struct te_conf_entry *e)
{
	(void)arg;
	printf("%-40s %-16s %-21s %-24s %s%s\n", e->name, *e->value ? e->value : "-", e->origin,
	       e->range, e->used ? "" : "not used by this build: ", e->help);
}

static void env_json(void *arg, const struct te_conf_entry *e)
{
	json_t *o = json_object();

	json_object_set_new(o, "name", json_string(e->name));
	json_object_set_new(o, "value", json_string(e->value));
	json_object_set_new(o, "origin", json_string(e->origin));
	json_object_set_new(o, "default", json_string(e->def));
	json_object_set_new(o, "range", json_string(e->range));
	json_object_set_new(o, "used", json_boolean(e->used));
	json_object_set_new(o, "help", json_string(e->help));
	json_array_append_new(arg, o);
}

static void print_env(bool json)
{
	struct te_conf conf;
	json_t *list;

	/* For its warnings: the table says only that a value was refused. */
	te_conf_read(&conf);
	if (!json) {
		printf("%-40s %-16s %-21s %-24s %s\n", "VARIABLE", "VALUE", "ORIGIN", "RANGE",
		       "MEANING");
		te_conf_each(env_text, NULL);
	} else {
		list = json_array();
		te_conf_each(env_json, list);
		out_json(json_pack("{s:o}", "tunables", list));
	}
	exit(cli_finish(CLI_OK));
}

/* ---- options ------------------------------------------------------------------------------ */

static bool is_end(const struct argp_option *o)
{
	return !o->name && !o->key && !o->doc && !o->group;
}

struct match {
	const struct argp_option *opt; /* whose arg and flags count; NULL: none found */
	bool exact, ambiguous;
};

/* Do the first len characters of a typed name begin `option`? Underscores count as dashes. */
static bool begins(const char *option, const char *typed, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (option[i] != (typed[i] == '_' ? '-' : typed[i]))
			return false;
	}
	return true;
}

/* Find a long option by (the beginning of) its name, in a command's table and its children's. */
static void match_long(const struct argp *argp, const char *name, size_t len, struct match *m)
{
	const struct argp_option *o, *real = NULL;
	const struct argp_child *c;

	for (o = argp->options; o && !is_end(o); o++) {
		if (!(o->flags & OPTION_ALIAS))
			real = o;
		if (!o->name || (o->flags & OPTION_DOC) || !begins(o->name, name, len))
			continue;
		if (!o->name[len])
			*m = (struct match){ .opt = real, .exact = true };
		else if (!m->opt)
			m->opt = real;
		else if (!m->exact && m->opt != real)
			m->ambiguous = true;
	}
	for (c = argp->children; c && c->argp; c++)
		match_long(c->argp, name, len, m);
}

static const struct argp_option *match_short(const struct argp *argp, int key)
{
	const struct argp_option *o, *real = NULL;
	const struct argp_child *c;

	for (o = argp->options; o && !is_end(o); o++) {
		if (!(o->flags & OPTION_ALIAS))
			real = o;
		if (o->key == key && !(o->flags & OPTION_DOC))
			return real;
	}
	for (c = argp->children; c && c->argp; c++) {
		real = match_short(c->argp, key);
		if (real)
			return real;
	}
	return NULL;
}

/* Both return whether the next word is the option's argument. */
static bool check_long(const struct argp *argp, char *word, bool last)
{
	size_t len = strcspn(word + 2, "=");
	struct match m = { 0 };
	char *p;

	match_long(argp, word + 2, len, &m);
	if (!m.opt)
		cli_usage(NULL, "unknown option '%.*s'", (int)len + 2, word);
	if (m.ambiguous)
		cli_usage(NULL, "option '%.*s' is ambiguous", (int)len + 2, word);
	for (p = word + 2; p < word + 2 + len; p++) {
		if (*p == '_')
			*p = '-';
	}
	if (word[2 + len]) {
		if (!m.opt->arg)
			cli_usage(NULL, "option '--%s' takes no value", m.opt->name);
		return false;
	}
	if (!m.opt->arg || (m.opt->flags & OPTION_ARG_OPTIONAL))
		return false;
	if (last)
		cli_usage(NULL, "option '--%s' needs a value (%s)", m.opt->name, m.opt->arg);
	return true;
}

static bool check_short(const struct argp *argp, const char *word, bool last)
{
	const struct argp_option *o;
	const char *p;

	for (p = word + 1; *p; p++) {
		o = match_short(argp, (unsigned char)*p);
		if (!o)
			cli_usage(NULL, "unknown option '-%c'", *p);
		if (!o->arg)
			continue;
		if (p[1] || (o->flags & OPTION_ARG_OPTIONAL))
			return false;
		if (last)
			cli_usage(NULL, "option '-%c' needs a value (%s)", *p, o->arg);
		return true;
	}
	return false;
}

/*
 * argp and getopt report a bad option on two lines and know nothing of underscores. So all words
 * are looked at before argp sees them: it will find nothing to complain about. Names are rewritten
 * in place.
 */
static void check_options(const struct argp *argp, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		if (argv[i][0] != '-' || !argv[i][1])
			continue;
		if (strcmp(argv[i], "--") == 0)
			break;
		if (argv[i][1] == '-' ? check_long(argp, argv[i], i + 1 == argc)
				      : check_short(argp, argv[i], i + 1 == argc))
			i++;
	}
}

/* In front of the command's own parser. */
static error_t parse_command(int key, char *arg, struct argp_state *state)
{
	struct parse *p = state->input;
	error_t rc;

	if (key == ARGP_KEY_INIT)
		state->child_inputs[0] = p;
	/* All options have been seen by then, and a missing argument does not matter. */
	if (p->env && (key == ARGP_KEY_ARG || key == ARGP_KEY_ARGS || key == ARGP_KEY_NO_ARGS ||
		       key == ARGP_KEY_END))
		print_env(p->cli->json);
	state->input = p->input;
	rc = p->argp->parser ? p->argp->parser(key, arg, state) : ARGP_ERR_UNKNOWN;
	if (key == ARGP_KEY_ARGS && rc == ARGP_ERR_UNKNOWN)
		cli_usage(state, "unexpected argument '%s'", state->argv[state->next]);
	return rc;
}

static void set_log_level(int verbose)
{
	if (verbose)
		te_log_set_level(verbose < 0	? TE_LOG_ERROR
				 : verbose == 1 ? TE_LOG_INFO
						: TE_LOG_TRACE);
}

void cli_parse(const struct argp *argp, int argc, char **argv, struct cli *cli, void *input)
{
	struct parse p = { .argp = argp, .input = input, .cli = cli };
	struct argp wrapped = *argp;
	error_t rc;

	wrapped.parser = parse_command;
	wrapped.children = cli_children;
	*cli = (struct cli){ 0 };
	check_options(&wrapped, argc, argv);
	rc = argp_parse(&wrapped, argc, argv, ARGP_NO_HELP, NULL, &p);
	if (rc)
		cli_usage(NULL, "%s", strerror(rc));
	set_log_level(cli->verbose);
}

void cli_conf(const struct cli *cli, struct te_conf *conf)
{
	struct te_err err = { 0 };
	struct te_meta *meta;
	int rc;

	te_conf_read(conf);
	/* Does not connect: this is about the address alone. */
	rc = te_meta_open(cli->metadata, conf, &meta, &err);
	if (rc == -EINVAL)
		cli_usage(NULL, "%s", err.msg);
	if (rc == 0)
		te_meta_close(meta);
}

bool cli_switch(const struct argp_state *state, const char *option, const char *arg)
{
	static const char *const yes[] = { "true", "t", "yes", "y", "1", "on" };
	static const char *const no[] = { "false", "f", "no", "n", "0", "off" };
	size_t i;

	if (!arg)
		return true;
	for (i = 0; i < sizeof(yes) / sizeof(*yes); i++) {
		if (strcasecmp(arg, yes[i]) == 0)
			return true;
		if (strcasecmp(arg, no[i]) == 0)
			return false;
	}
	cli_usage(state, "--%s takes true or false, not '%s'", option, arg);
}

/* ---- errors and exit ---------------------------------------------------------------------- */

static void say(const char *fmt, va_list ap, const char *end)
{
	char *text;

	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	out_line(stderr, "%s: %s%s", program_invocation_short_name, text ? text : "out of memory",
		 end);
	free(text);
}

int cli_error(const struct te_err *err)
{
	return cli_fail(CLI_FAIL, "%s", err->msg);
}

int cli_fail(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap, "");
	va_end(ap);
	return status;
}

void cli_warn(const char *fmt, ...)
{
	va_list ap;

	if (!te_log_wants(TE_LOG_WARNING))
		return;
	va_start(ap, fmt);
	say(fmt, ap, "");
	va_end(ap);
}

void cli_usage(const struct argp_state *state, const char *fmt, ...)
{
	char end[128];
	va_list ap;

	(void)state;
	snprintf(end, sizeof(end), "; try %s --help", program_invocation_short_name);
	va_start(ap, fmt);
	say(fmt, ap, end);
	va_end(ap);
	exit(CLI_USAGE);
}

int cli_finish(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	return cli_fail(CLI_FAIL, "cannot write to standard output: %s", strerror(errno));
}

/* ---- values of options -------------------------------------------------------------------- */

bool cli_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || *end || v < min || v > max)
		return false;
	*out = v;
	return true;
}

bool cli_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	const uint64_t max = UINT64_C(1) << 62;
	unsigned shift = 0;
	const char *unit;
	uint64_t v;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || v == 0)
		return false;
	if (*end) {
		unit = strchr(units, toupper((unsigned char)*end));
		if (!unit || (end[1] && strcasecmp(end + 1, "iB") != 0))
			return false;
		shift = 10 * (unsigned)(unit - units + 1);
	}
	if (v > max >> shift)
		return false;
	*out = v << shift;
	return true;
}

bool cli_seconds(const char *text, double *out)
{
	static const struct {
		const char *name;
		double factor;
	} units[] = { { "", 1 },      { "s", 1 },  { "ms", 1e-3 },
		      { "us", 1e-6 }, { "m", 60 }, { "h", 3600 } };
	size_t i, len = strspn(text, "0123456789.");
	char *end;
	double v;

	if (!len || len > 32)
		return false;
	v = strtod(text, &end);
	/* "1e3" and "0x1" are not how people write seconds. */
	if (end != text + len || !isfinite(v))
		return false;
	for (i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(end, units[i].name) == 0) {
			*out = v * units[i].factor;
			return true;
		}
	}
	return false;
}

int cli_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == 0) {
		fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
		if (fd >= 0)
			return fd;
	}
	cli_fail(CLI_FAIL, "cannot receive signals: %s", strerror(errno));
	return -1;
}

void cli_raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}
