/* meta.c - choice of the store by its address, keys, and what all stores share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "meta/ops.h"

static const char p2p_name[] = "P2PHANDSHAKE";

/* rediss is here for the sake of its own refusal. */
static const struct {
	const char *scheme;
	const struct te_meta_ops *ops;
} schemes[] = {
	{ "etcd", &te_store_etcd },   { "http", &te_store_http },    { "https", &te_store_http },
	{ "redis", &te_store_redis }, { "rediss", &te_store_redis }, { p2p_name, &te_store_p2p },
};

static const struct te_meta_ops *find(const char *scheme, struct te_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strcmp(schemes[i].scheme, scheme) == 0)
			return schemes[i].ops;
	te_fail(err, -EINVAL,
		"unknown metadata scheme '%s': this build has etcd://, http://, https://, "
		"redis:// and %s",
		scheme, p2p_name);
	return NULL;
}

static int parse(const char *text, struct te_uri *u, struct te_err *err)
{
	if (strcmp(text, p2p_name) != 0)
		return te_uri_parse(text, u, err);
	u->scheme = strdup(text);
	u->shown = strdup(text);
	if (u->scheme && u->shown)
		return 0;
	te_uri_clear(u);
	return te_fail(err, -ENOMEM, "out of memory");
}

/* INTEROP 1.2. */
static char *key_prefix(const struct te_conf *conf)
{
	const char *id = conf->cluster_id;
	size_t len = strlen(id);

	if (!len)
		return strdup("mooncake/");
	return te_asprintf("mooncake/%s%s", id, id[len - 1] == '/' ? "" : "/");
}

static int open_store(const struct te_uri *u, const struct te_conf *conf, struct te_meta **out,
		      struct te_err *err)
{
	const struct te_meta_ops *ops = find(u->scheme, err);
	struct te_meta *m;
	int rc;

	if (!ops)
		return -EINVAL;
	rc = ops->open(u, conf, &m, err);
	if (rc)
		return rc;
	m->ops = ops;
	m->conf = *conf;
	m->uri = strdup(u->shown);
	m->prefix = key_prefix(conf);
	if (!m->uri || !m->prefix) {
		te_meta_close(m);
		return te_fail(err, -ENOMEM, "out of memory");
	}
	*out = m;
	return 0;
}

int te_meta_open(const char *uri, const struct te_conf *conf, struct te_meta **out,
		 struct te_err *err)
{
	struct te_conf own;
	struct te_uri u = { 0 };
	int rc;

	if (!conf) {
		te_conf_read(&own);
		conf = &own;
	}
	if (!uri || !*uri)
		uri = conf->metadata_server;
	rc = parse(*uri ? uri : p2p_name, &u, err);
	if (rc)
		return rc;
	rc = open_store(&u, conf, out, err);
	te_uri_clear(&u);
	return rc;
}

void te_meta_close(struct te_meta *m)
{
	if (!m)
		return;
	free(m->prefix);
	free(m->uri);
	m->ops->close(m);
}

const char *te_meta_uri(const struct te_meta *m)
{
	return m->uri;
}

const char *te_meta_scheme(const struct te_meta *m)
{
	return m->ops->scheme;
}

const char *te_meta_prefix(const struct te_meta *m)
{
	return m->prefix;
}

unsigned te_meta_caps(struct te_meta *m)
{
	return m->ops->caps(m);
}

int te_recode(struct te_err *err, int code, const char *context)
{
	te_wrap(err, code, "%s", context);
	if (err)
		err->code = code;
	return code;
}

uint64_t te_store_until(const struct te_meta *m)
{
	double s = MIN(5.0, m->conf.transfer_timeout_s);

	return te_now() + (uint64_t)(s * (double)TE_NSEC_PER_SEC);
}

int te_store_value(struct te_meta_value *v, const char *data, size_t len, struct te_err *err)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return te_fail(err, -ENOMEM, "out of memory");
	memcpy(copy, data, len);
	copy[len] = '\0';
	v->data = copy;
	v->len = len;
	return 0;
}

void te_meta_value_clear(struct te_meta_value *v)
{
	free(v->data);
	*v = (struct te_meta_value){ 0 };
}

static int check_key(const char *key, struct te_err *err)
{
	return *key ? 0 : te_fail(err, -EINVAL, "the key is empty");
}

int te_meta_get(struct te_meta *m, const char *key, struct te_meta_value *out, struct te_err *err)
{
	struct te_meta_value v = { 0 };
	int rc = check_key(key, err);

	if (!rc)
		rc = m->ops->get(m, key, &v, err);
	if (rc)
		return te_wrap(err, rc, "cannot get '%s' from %s", key, m->uri);
	*out = v;
	return 0;
}

int te_meta_put(struct te_meta *m, const char *key, const char *data, size_t len,
		const struct te_meta_put *opt, char *tag_out, struct te_err *err)
{
	static const struct te_meta_put plain;
	char tag[TE_META_TAG_MAX] = "";
	int rc = check_key(key, err);

	if (!rc)
		rc = m->ops->put(m, key, data, len, opt ? opt : &plain, tag, err);
	if (rc)
		return te_wrap(err, rc, "cannot put '%s' to %s", key, m->uri);
	if (tag_out)
		te_strlcpy(tag_out, tag, TE_META_TAG_MAX);
	return 0;
}

int te_meta_del(struct te_meta *m, const char *key, const char *if_match, struct te_err *err)
{
	int rc = check_key(key, err);

	if (!rc)
		rc = m->ops->del(m, key, if_match, err);
	return rc ? te_wrap(err, rc, "cannot delete '%s' from %s", key, m->uri) : 0;
}

int te_meta_list(struct te_meta *m, const char *prefix, int (*cb)(void *arg, const char *key),
		 void *arg, struct te_err *err)
{
	struct te_keys keys = { 0 };
	int rc = m->ops->list(m, prefix, &keys, err);

	if (rc)
		te_wrap(err, rc, "cannot list '%s' of %s", prefix, m->uri);
	te_keys_sort(&keys);
	for (size_t i = 0; !rc && i < keys.n; i++)
		if (cb(arg, keys.v[i].key))
			break;
	te_keys_clear(&keys);
	return rc;
}

int te_meta_ping(struct te_meta *m, struct te_err *err)
{
	int rc = m->ops->ping(m, err);

	return rc ? te_wrap(err, rc, "%s does not serve", m->uri) : 0;
}

char *te_meta_key_rpc(const struct te_meta *m, const char *name)
{
	name += strspn(name, "/");
	return *name ? te_asprintf("%srpc_meta/%s", m->prefix, name) : NULL;
}

char *te_meta_key_segment(const struct te_meta *m, const char *name)
{
	name += strspn(name, "/");
	if (!*name)
		return NULL;
	return te_asprintf("%s%s%s", m->prefix, strchr(name, '/') ? "" : "ram/", name);
}
