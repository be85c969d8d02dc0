/* conf.c - reads the tunables. The only getenv() of libte. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/conf_table.h"
#include "base/log.h"
#include "base/util.h"
#include "te_conf.h"
#include "te_err.h"

/* A value of any kind. */
union value {
	int64_t num;
	double real;
	bool on;
	const char *text;
};

/* Seconds for ever, and yet in 64 bits of ns. */
#define FOREVER_S 1e9

static bool parse_positive(const char *s, double *out)
{
	char *end;
	double v;

	/* No blanks, signs, hex, inf or nan. */
	if (!*s || strspn(s, "0123456789.eE-+") != strlen(s) || *s == '-' || *s == '+')
		return false;
	v = strtod(s, &end);
	if (*end || !(v > 0) || isinf(v))
		return false;
	*out = MIN(v, FOREVER_S);
	return true;
}

/* Which word of "A|B|C" is s? -1: none. */
static int word_index(const char *words, const char *s)
{
	size_t len = strlen(s);
	int i = 0;

	for (const char *w = words; w; w = strchr(w, '|'), i++) {
		w += *w == '|';
		if (strcspn(w, "|") == len && !strncasecmp(w, s, len))
			return i;
	}
	return -1;
}

static bool parse_switch(const char *s, bool *out)
{
	/* Pairs: a word that says no, one that says yes. */
	int i = *s ? word_index("0|1|false|true|no|yes|off|on", s) : 0;

	*out = i % 2 == 1;
	return i >= 0;
}

static bool parse(const struct te_conf_var *var, const char *s, union value *out)
{
	switch (var->kind) {
	case TE_CONF_INT:
		return te_parse_i64(s, var->min, var->max, &out->num);
	case TE_CONF_POSITIVE:
		return parse_positive(s, &out->real);
	case TE_CONF_SWITCH:
		return parse_switch(s, &out->on);
	case TE_CONF_CHOICE:
	case TE_CONF_LEVEL:
		out->num = word_index(var->words, s);
		return out->num >= 0;
	case TE_CONF_TEXT:
	case TE_CONF_SECRET:
		out->text = s;
		return !var->size || strlen(s) < var->size;
	}
	return false;
}

static void store_choice(const struct te_conf_var *var, int64_t v, void *field)
{
	if (var->size == sizeof(bool))
		*(bool *)field = v;
	else
		*(int64_t *)field = v;
}

static void store(const struct te_conf_var *var, union value v, struct te_conf *conf)
{
	void *field = (char *)conf + var->off;

	if (!var->size)
		return;
	switch (var->kind) {
	case TE_CONF_INT:
		*(int64_t *)field = v.num;
		break;
	case TE_CONF_POSITIVE:
		*(double *)field = v.real;
		break;
	case TE_CONF_SWITCH:
		*(bool *)field = v.on;
		break;
	case TE_CONF_CHOICE:
		store_choice(var, v.num < 0 ? -1 : var->stored[v.num], field);
		break;
	case TE_CONF_LEVEL:
		*(enum te_log_level *)field = (enum te_log_level)v.num;
		break;
	case TE_CONF_TEXT:
	case TE_CONF_SECRET:
		te_strlcpy(field, v.text, var->size);
		break;
	}
}

static const char *range_text(const struct te_conf_var *var, char *buf, size_t size)
{
	switch (var->kind) {
	case TE_CONF_INT:
		snprintf(buf, size, "%lld..%lld", (long long)var->min, (long long)var->max);
		break;
	case TE_CONF_POSITIVE:
		snprintf(buf, size, "> 0");
		break;
	case TE_CONF_SWITCH:
		snprintf(buf, size, "0|1|no|yes|off|on|false|true");
		break;
	case TE_CONF_CHOICE:
	case TE_CONF_LEVEL:
		snprintf(buf, size, "%s", var->words);
		break;
	case TE_CONF_TEXT:
	case TE_CONF_SECRET:
		if (var->size)
			snprintf(buf, size, "text, at most %zu bytes", var->size - 1);
		else
			snprintf(buf, size, "text");
		break;
	}
	return buf;
}

/* One variable as it stands in the environment. */
struct reading {
	const char *name;  /* under which it was set */
	const char *env;   /* NULL: unset */
	bool valid;	   /* env is in its range */
	union value value; /* env's, else the default's */
};

static struct reading read_var(const struct te_conf_var *var)
{
	struct reading r = { .name = var->name, .env = getenv(var->name) };

	if (!r.env && var->alias) {
		r.env = getenv(var->alias);
		r.name = r.env ? var->alias : var->name;
	}
	r.valid = r.env && parse(var, r.env, &r.value);
	if (!r.valid)
		parse(var, var->def, &r.value);
	return r;
}

static const struct te_conf_var *find_var(const char *name)
{
	for (size_t i = 0; i < te_conf_nvars; i++)
		if (!strcmp(te_conf_vars[i].name, name))
			return &te_conf_vars[i];
	return NULL;
}

static int64_t int_of(const char *name)
{
	return read_var(find_var(name)).value.num;
}

/* Ports that the kernel gives to outgoing connections: a listener there would be in their way. */
static bool ephemeral(int64_t port)
{
	return port >= 32768 && port <= 60999;
}

static bool bad_ports(char *why, size_t size)
{
	int64_t min = int_of("MC_MIN_RPC_PORT"), max = int_of("MC_MAX_RPC_PORT");

	if (min <= max && !ephemeral(min) && !ephemeral(max))
		return false;
	snprintf(why, size,
		 "MC_MIN_RPC_PORT=%lld and MC_MAX_RPC_PORT=%lld are no range within 1024..65535 "
		 "without 32768..60999",
		 (long long)min, (long long)max);
	return true;
}

static bool bad_ratio(char *why, size_t size)
{
	int64_t ratio = int_of("MC_FRAGMENT_RATIO"), slice = int_of("MC_SLICE_SIZE");

	if (ratio < slice)
		return false;
	snprintf(why, size, "MC_FRAGMENT_RATIO=%lld is not below MC_SLICE_SIZE=%lld",
		 (long long)ratio, (long long)slice);
	return true;
}

/* Empty, or LOCAL=PEER,PEER;LOCAL=PEER. */
static bool bad_affinity(char *why, size_t size)
{
	const char *text = read_var(find_var("MC_NIC_PEER_AFFINITY")).value.text, *s = text;

	while (*s) {
		size_t rule = strcspn(s, ";"), name = strcspn(s, "=;");

		/* An empty one, as after a last ';', says nothing. */
		if (rule && (!name || s[name] != '=' || name + 1 == rule ||
			     memchr(s + name + 1, '=', rule - name - 1))) {
			snprintf(why, size,
				 "MC_NIC_PEER_AFFINITY='%.100s' is not of the form "
				 "LOCAL=PEER,PEER;LOCAL=PEER",
				 text);
			return true;
		}
		s += rule + (s[rule] == ';');
	}
	return false;
}

static bool two_affinities(char *why, size_t size)
{
	snprintf(why, size,
		 "MC_ENABLE_DEST_DEVICE_AFFINITY and MC_ENABLE_HCA_PEER_AFFINITY contradict each "
		 "other");
	return read_var(find_var("MC_ENABLE_DEST_DEVICE_AFFINITY")).value.on &&
	       read_var(find_var("MC_ENABLE_HCA_PEER_AFFINITY")).value.on;
}

/* What one row cannot say. `names` fall back to their defaults together. */
static const struct rule {
	const char *names[2];
	bool (*bad)(char *why, size_t size);
} rules[] = {
	{ { "MC_MIN_RPC_PORT", "MC_MAX_RPC_PORT" }, bad_ports },
	{ { "MC_FRAGMENT_RATIO" }, bad_ratio },
	{ { "MC_NIC_PEER_AFFINITY" }, bad_affinity },
	{ { "MC_ENABLE_DEST_DEVICE_AFFINITY", "MC_ENABLE_HCA_PEER_AFFINITY" }, two_affinities },
};

static bool rule_names(const struct rule *rule, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(rule->names); i++)
		if (rule->names[i] && !strcmp(rule->names[i], name))
			return true;
	return false;
}

static void apply_rules(struct te_conf *conf)
{
	char why[256];

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		if (!rules[i].bad(why, sizeof(why)))
			continue;
		te_warn("%s, using the default", why);
		for (size_t j = 0; j < ARRAY_SIZE(rules[i].names) && rules[i].names[j]; j++) {
			const struct te_conf_var *var = find_var(rules[i].names[j]);
			union value v;

			parse(var, var->def, &v);
			store(var, v, conf);
		}
	}
}

void te_conf_read(struct te_conf *conf)
{
	struct reading level, dir;
	char range[96];

	memset(conf, 0, sizeof(*conf));
	/* First where warnings go, then the warnings. */
	level = read_var(find_var("MC_LOG_LEVEL"));
	dir = read_var(find_var("MC_LOG_DIR"));
	te_log_from_env((enum te_log_level)level.value.num, dir.value.text);

	for (size_t i = 0; i < te_conf_nvars; i++) {
		const struct te_conf_var *var = &te_conf_vars[i];
		struct reading r = read_var(var);

		if (r.env && !r.valid)
			te_warn("%s='%s' is not in [%s], using the default %s", r.name,
				var->kind == TE_CONF_SECRET ? "(secret)" : r.env,
				range_text(var, range, sizeof(range)), *var->def ? var->def : "''");
		store(var, r.value, conf);
	}
	apply_rules(conf);
}

int te_conf_check(const struct te_conf *conf, const char *protocol, struct te_err *err)
{
	const struct {
		bool on;
		const char *name, *protocol, *lacks;
	} force[] = {
		{ conf->force_tcp, "MC_FORCE_TCP", "tcp", NULL },
		/* Whether there is a device shows when the engine opens. */
		{ conf->force_hca, "MC_FORCE_HCA", "rdma", NULL },
		{ conf->force_mnnvl, "MC_FORCE_MNNVL", "nvlink", "NVLink" },
		{ conf->intranode_nvlink, "MC_INTRA_NVLINK (MC_INTRANODE_NVLINK)", "nvlink_intra",
		  "NVLink" },
	};
	size_t first = ARRAY_SIZE(force);

	for (size_t i = 0; i < ARRAY_SIZE(force); i++) {
		if (!force[i].on)
			continue;
		if (first < i)
			return te_fail(err, -EINVAL, "%s and %s exclude each other",
				       force[first].name, force[i].name);
		first = i;
	}
	if (first == ARRAY_SIZE(force))
		return 0;
	if (protocol && *protocol && strcmp(protocol, "auto") &&
	    strcmp(protocol, force[first].protocol))
		return te_fail(err, -EINVAL, "%s and protocol '%s' exclude each other",
			       force[first].name, protocol);
	if (force[first].lacks)
		return te_fail(err, -ENOTSUP, "%s is set, but this build has no %s support",
			       force[first].name, force[first].lacks);
	return 0;
}

void te_conf_each(void (*cb)(void *arg, const struct te_conf_entry *e), void *arg)
{
	char range[96], why[256];
	bool broken[ARRAY_SIZE(rules)];

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		broken[i] = rules[i].bad(why, sizeof(why));
	for (size_t i = 0; i < te_conf_nvars; i++) {
		const struct te_conf_var *var = &te_conf_vars[i];
		struct reading r = read_var(var);
		struct te_conf_entry e = { .name = var->name,
					   .range = range_text(var, range, sizeof(range)),
					   .def = var->def,
					   .help = var->help,
					   .used = var->use == TE_CONF_USED,
					   .secret = var->kind == TE_CONF_SECRET };

		for (size_t j = 0; j < ARRAY_SIZE(rules); j++)
			if (broken[j] && r.env && rule_names(&rules[j], var->name))
				r.valid = false;
		e.value = r.valid ? r.env : var->def;
		if (e.secret && *e.value)
			e.value = "(set)";
		e.origin = r.valid ? "environment" : r.env ? "invalid, default used" : "default";
		cb(arg, &e);
	}
}
