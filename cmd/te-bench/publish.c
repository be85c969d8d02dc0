/* publish.c - does this run need names of its own in the store, and which? */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether they can be used finds the engine out. */
static bool has_nics(void)
{
	DIR *dir = opendir("/sys/class/infiniband");
	const struct dirent *d = NULL;

	while (dir && (d = readdir(dir)) && d->d_name[0] == '.')
		;
	if (dir)
		closedir(dir);
	return d != NULL;
}

/* Of a target that cannot be asked we hear when its segment is opened. */
static bool offers_rdma(struct te_meta *m, const char *name)
{
	struct te_meta_value v = { 0 };
	struct te_desc *d = NULL;
	char *key = te_meta_key_segment(m, name);
	bool yes = false;

	if (key && te_meta_get(m, key, &v, NULL) == 0 &&
	    te_desc_parse(v.data, v.len, &d, NULL) == 0)
		yes = strcmp(d->protocol, "rdma") == 0;
	te_desc_free(d);
	te_meta_value_clear(&v);
	free(key);
	return yes;
}

static bool any(struct te_meta *m, const char *segments,
		bool (*is)(struct te_meta *m, const char *))
{
	char *list = strdup(segments), *rest = list, *name;
	bool yes = false;

	while (list && !yes && (name = strsep(&rest, ",")))
		yes = *name && is(m, name);
	free(list);
	return yes;
}

/* What is not under its name can only be of files. */
static bool is_memory(struct te_meta *m, const char *name)
{
	struct te_meta_value v = { 0 };
	char *key;
	bool yes;

	if (strncmp(name, "nvmeof/", 7) == 0)
		return false;
	key = te_meta_key_segment(m, name);
	yes = !key || te_meta_get(m, key, &v, NULL) != -ENOENT;
	te_meta_value_clear(&v);
	free(key);
	return yes;
}

static bool may_take_rdma(const struct session *s, struct te_meta *m)
{
	const struct bench_options *o = s->opt;
	const char *way = o->require ? o->require : o->protocol;

	if (strcmp(way, "rdma") == 0 || s->conf.force_hca)
		return true;
	if (strcmp(way, "auto") != 0 || s->conf.force_tcp)
		return false;
	/* The target of --self is on this host: shm serves. */
	return o->segment_id && has_nics() && any(m, o->segment_id, offers_rdma);
}

/* The host of "host:port", "[v6]:port" or "host": where we can be reached, at another port. */
static char *host_of(const char *name)
{
	size_t n = strcspn(name, ":");

	if (*name == '[')
		n = strcspn(name, "]") + 1;
	else if (name[n] && strchr(name + n + 1, ':'))
		n = strlen(name); /* a bare IPv6 literal */
	return strndup(name, n);
}

/* Without a store a name is an address: that which the user named, that of the target of --self, or
 * what the engine chooses. */
static bool choose_addresses(struct session *s)
{
	const char *given = s->opt->cli.name;

	if (!given && s->opt->self)
		given = "127.0.0.1";
	if (!given)
		return true;
	s->own_name = host_of(given);
	s->checker_name = host_of(given);
	return s->own_name && s->checker_name;
}

static bool choose_names(struct session *s)
{
	char host[200] = "";

	if (gethostname(host, sizeof(host) - 1))
		snprintf(host, sizeof(host), "localhost");
	return asprintf(&s->own_name, "%s.%d", host, (int)getpid()) >= 0 &&
	       asprintf(&s->checker_name, "%s.verify", s->own_name) >= 0;
}

int publish_choose(struct session *s, struct te_err *err)
{
	struct te_meta *m;
	int rc = te_meta_open(s->opt->cli.metadata, &s->conf, &m, err);
	bool p2p, good = true;

	if (rc)
		return rc;
	p2p = strcmp(te_meta_scheme(m), "p2p") == 0;
	s->files = s->opt->cli.name && s->opt->segment_id && !p2p &&
		   !any(m, s->opt->segment_id, is_memory);
	s->rdma = !s->files && may_take_rdma(s, m);
	te_meta_close(m);
	if (s->rdma)
		good = p2p ? choose_addresses(s) : choose_names(s);
	return good ? 0 : te_fail(err, -ENOMEM, "out of memory");
}
