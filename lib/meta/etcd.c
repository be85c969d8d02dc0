/*
 * etcd.c - the etcd store: get, put, delete, list and leases over the v3 JSON gateway.
 *
 * Its traps: 64-bit numbers are strings; false, 0 and empty members are absent; a put without the
 * lease detaches the key from it; keepalive of a dead lease is a 200 without a TTL. A value's tag
 * is its mod_revision. A handle keeps one lease for each TTL that was asked for; every put with
 * that TTL prolongs it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "host/addr.h"
#include "meta/etcd.h"

enum { DEFAULT_PORT = 2379, PAGE = 1000 };

static struct te_etcd *of(struct te_meta *m)
{
	return container_of(m, struct te_etcd, base);
}

static void wipe(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

static void etcd_close(struct te_meta *m)
{
	struct te_etcd *e = of(m);

	te_curl_pool_free(e->pool);
	for (unsigned i = 0; i < e->nurl; i++)
		free(e->url[i]);
	wipe(e->token);
	wipe(e->password);
	free(e->user);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

static int set_endpoints(struct te_etcd *e, const struct te_uri *u, struct te_err *err)
{
	struct te_endpoint *list;
	int n = te_uri_endpoints(u, DEFAULT_PORT, &list, err), rc = 0;

	if (n < 0)
		return n;
	for (int i = 0; i < n && i < (int)ARRAY_SIZE(e->url) && !rc; i++) {
		char *at = te_addr_join(list[i].host, list[i].port);

		e->url[i] = at ? te_asprintf("http://%s", at) : NULL;
		free(at);
		if (e->url[i])
			e->nurl++;
		else
			rc = te_fail(err, -ENOMEM, "out of memory");
	}
	free(list);
	return rc;
}

/* What the address says goes before MC_TE_ETCD_*. */
static int set_user(struct te_etcd *e, const struct te_uri *u, const struct te_conf *conf,
		    struct te_err *err)
{
	bool in_uri = u->user && *u->user;
	const char *user = in_uri ? u->user : conf->etcd_username;
	const char *password = in_uri ? u->password : conf->etcd_password;

	if (!*user)
		return 0;
	e->user = strdup(user);
	e->password = te_strdup(password);
	if (!e->user || (password && !e->password))
		return te_fail(err, -ENOMEM, "out of memory");
	return 0;
}

static int etcd_open(const struct te_uri *u, const struct te_conf *conf, struct te_meta **out,
		     struct te_err *err)
{
	struct te_etcd *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return te_fail(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&e->lock, NULL);
	rc = te_curl_pool_new(conf, &e->pool, err);
	if (!rc)
		rc = set_endpoints(e, u, err);
	if (!rc)
		rc = set_user(e, u, conf, err);
	if (rc) {
		etcd_close(&e->base);
		return rc;
	}
	*out = &e->base;
	return 0;
}

static unsigned etcd_caps(struct te_meta *m)
{
	(void)m;
	return TE_META_LIST | TE_META_WATCH | TE_META_TTL | TE_META_CAS;
}

static json_t *key_request(const char *key)
{
	json_t *r = json_object();

	if (json_object_set_new(r, "key", te_etcd_text(key, strlen(key)))) {
		json_decref(r);
		return NULL;
	}
	return r;
}

static int etcd_get(struct te_meta *m, const char *key, struct te_meta_value *out,
		    struct te_err *err)
{
	json_t *reply;
	const json_t *kv;
	int rc = te_etcd_call(of(m), "kv/range", key_request(key), TE_ETCD_REPEATABLE,
			      te_store_until(m), &reply, err);

	if (rc)
		return rc;
	kv = json_array_get(json_object_get(reply, "kvs"), 0);
	if (!kv) {
		json_decref(reply);
		return te_fail(err, -ENOENT, "no such key");
	}
	rc = te_etcd_bytes(kv, "value", &out->data, &out->len, err);
	if (!rc)
		snprintf(out->tag, sizeof(out->tag), "%" PRId64, te_etcd_int(kv, "mod_revision"));
	json_decref(reply);
	return rc;
}

/* ---- leases ------------------------------------------------------------------------------- */

static json_t *number(int64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, n);
	return json_string(text);
}

static json_t *number_request(const char *member, int64_t n)
{
	json_t *r = json_object();

	if (json_object_set_new(r, member, number(n))) {
		json_decref(r);
		return NULL;
	}
	return r;
}

static int lease_grant(struct te_etcd *e, unsigned ttl_s, uint64_t until, int64_t *id,
		       struct te_err *err)
{
	json_t *reply;
	int rc = te_etcd_call(e, "lease/grant", number_request("TTL", ttl_s), TE_ETCD_REPEATABLE,
			      until, &reply, err);

	if (rc)
		return te_wrap(err, rc, "cannot get a lease");
	*id = te_etcd_int(reply, "ID");
	json_decref(reply);
	return *id ? 0 : te_fail(err, -EPROTO, "cannot get a lease: etcd gave it no number");
}

/* *alive: it has been prolonged. */
static int lease_keep(struct te_etcd *e, int64_t id, uint64_t until, bool *alive,
		      struct te_err *err)
{
	json_t *reply;
	int rc = te_etcd_call(e, "lease/keepalive", number_request("ID", id), TE_ETCD_REPEATABLE,
			      until, &reply, err);

	if (rc == -ENOENT) {
		*alive = false;
		return 0;
	}
	if (rc)
		return te_wrap(err, rc, "cannot prolong the lease");
	*alive = te_etcd_int(json_object_get(reply, "result"), "TTL") > 0;
	json_decref(reply);
	return 0;
}

/* The lease for ttl_s, or an unused place, or the one that was used longest ago. Under the lock. */
static struct te_etcd_lease *lease_slot(struct te_etcd *e, unsigned ttl_s)
{
	struct te_etcd_lease *oldest = &e->lease[0];

	for (size_t i = 0; i < ARRAY_SIZE(e->lease); i++) {
		if (e->lease[i].ttl_s == ttl_s)
			return &e->lease[i];
		if (e->lease[i].refreshed < oldest->refreshed)
			oldest = &e->lease[i];
	}
	*oldest = (struct te_etcd_lease){ .ttl_s = ttl_s };
	return oldest;
}

/*
 * A live lease for ttl_s, prolonged now (or so short a time ago that it does not matter). Two
 * threads may both find none and get one each: the later one stays, and the other ends with the
 * keys put under it only if they are not put again.
 */
static int lease_for(struct te_etcd *e, unsigned ttl_s, uint64_t until, int64_t *id,
		     struct te_err *err)
{
	uint64_t now = te_now(), fresh = MIN(ttl_s * TE_NSEC_PER_SEC / 20, TE_NSEC_PER_SEC / 2);
	struct te_etcd_lease *l, had;
	bool alive = false;
	int rc = 0;

	pthread_mutex_lock(&e->lock);
	had = *lease_slot(e, ttl_s);
	pthread_mutex_unlock(&e->lock);
	*id = had.id;
	if (had.id && now - had.refreshed < fresh)
		return 0;
	if (had.id)
		rc = lease_keep(e, had.id, until, &alive, err);
	if (!rc && !alive)
		rc = lease_grant(e, ttl_s, until, id, err);
	if (rc)
		return rc;
	pthread_mutex_lock(&e->lock);
	l = lease_slot(e, ttl_s);
	l->id = *id;
	l->refreshed = now;
	pthread_mutex_unlock(&e->lock);
	return 0;
}

static void lease_forget(struct te_etcd *e, int64_t id)
{
	pthread_mutex_lock(&e->lock);
	for (size_t i = 0; i < ARRAY_SIZE(e->lease); i++)
		if (e->lease[i].id == id)
			e->lease[i] = (struct te_etcd_lease){ 0 };
	pthread_mutex_unlock(&e->lock);
}

/* ---- writing ------------------------------------------------------------------------------ */

static json_t *put_request(const char *key, const char *data, size_t len, int64_t lease)
{
	json_t *r = key_request(key);

	if (json_object_set_new(r, "value", te_etcd_text(data, len)) ||
	    (lease && json_object_set_new(r, "lease", number(lease)))) {
		json_decref(r);
		return NULL;
	}
	return r;
}

/* "if the key's target is n: op". Takes op. A key that does not exist has create_revision 0. */
static json_t *txn_request(const char *key, const char *target, const char *member, int64_t n,
			   const char *op_name, json_t *op)
{
	json_t *txn = json_object(), *compare = key_request(key), *success = json_object();

	if (json_object_set_new(compare, "result", json_string("EQUAL")) ||
	    json_object_set_new(compare, "target", json_string(target)) ||
	    json_object_set_new(compare, member, number(n)) ||
	    json_object_set_new(success, op_name, op) ||
	    json_object_set_new(txn, "compare", json_array()) ||
	    json_array_append(json_object_get(txn, "compare"), compare) ||
	    json_object_set_new(txn, "success", json_array()) ||
	    json_array_append(json_object_get(txn, "success"), success)) {
		json_decref(txn);
		txn = NULL;
	}
	json_decref(compare);
	json_decref(success);
	return txn;
}

static int parse_tag(const char *tag, int64_t *revision, struct te_err *err)
{
	if (te_parse_i64(tag, 1, INT64_MAX, revision))
		return 0;
	return te_fail(err, -EINVAL, "'%s' is not a tag of etcd", tag);
}

/* 0 done, 1 the comparison failed. */
static int run_txn(struct te_etcd *e, json_t *txn, uint64_t until, int64_t *revision,
		   struct te_err *err)
{
	json_t *reply;
	int rc = te_etcd_call(e, "kv/txn", txn, TE_ETCD_ONCE, until, &reply, err);

	if (rc)
		return rc;
	rc = json_is_true(json_object_get(reply, "succeeded")) ? 0 : 1;
	*revision = te_etcd_revision(reply);
	json_decref(reply);
	return rc;
}

static int stale(const char *tag, struct te_err *err)
{
	return te_fail(err, -ESTALE, "the value is not the one with tag '%s' any more", tag);
}

static int put_once(struct te_etcd *e, const char *key, json_t *put, const struct te_meta_put *opt,
		    uint64_t until, int64_t *revision, struct te_err *err)
{
	int64_t expected = 0;
	json_t *reply;
	int rc;

	if (!opt->if_match && !opt->if_absent) {
		rc = te_etcd_call(e, "kv/put", put, TE_ETCD_REPEATABLE, until, &reply, err);
		if (!rc) {
			*revision = te_etcd_revision(reply);
			json_decref(reply);
		}
		return rc;
	}
	if (opt->if_match) {
		rc = parse_tag(opt->if_match, &expected, err);
		if (rc) {
			json_decref(put);
			return rc;
		}
		rc = run_txn(e,
			     txn_request(key, "MOD", "mod_revision", expected, "request_put", put),
			     until, revision, err);
		return rc > 0 ? stale(opt->if_match, err) : rc;
	}
	rc = run_txn(e, txn_request(key, "CREATE", "create_revision", 0, "request_put", put), until,
		     revision, err);
	return rc > 0 ? te_fail(err, -EEXIST, "the key exists already") : rc;
}

static int etcd_put(struct te_meta *m, const char *key, const char *data, size_t len,
		    const struct te_meta_put *opt, char *tag_out, struct te_err *err)
{
	struct te_etcd *e = of(m);
	uint64_t until = te_store_until(m);
	int64_t lease = 0, revision = 0;
	int rc = 0;

	/* A lease may end between being prolonged and being used: then once more with a new one. */
	for (int left = 2; left; left--) {
		if (opt->ttl_s)
			rc = lease_for(e, opt->ttl_s, until, &lease, err);
		if (!rc)
			rc = put_once(e, key, put_request(key, data, len, lease), opt, until,
				      &revision, err);
		if (rc != -ENOENT || !lease)
			break;
		lease_forget(e, lease);
	}
	if (!rc)
		snprintf(tag_out, TE_META_TAG_MAX, "%" PRId64, revision);
	return rc;
}

static int etcd_del(struct te_meta *m, const char *key, const char *if_match, struct te_err *err)
{
	int64_t expected, revision;
	json_t *reply;
	int rc;

	if (!if_match) {
		rc = te_etcd_call(of(m), "kv/deleterange", key_request(key), TE_ETCD_REPEATABLE,
				  te_store_until(m), &reply, err);
		if (!rc)
			json_decref(reply);
		return rc;
	}
	rc = parse_tag(if_match, &expected, err);
	if (rc)
		return rc;
	rc = run_txn(of(m),
		     txn_request(key, "MOD", "mod_revision", expected, "request_delete_range",
				 key_request(key)),
		     te_store_until(m), &revision, err);
	return rc > 0 ? stale(if_match, err) : rc;
}

/* ---- listing ------------------------------------------------------------------------------ */

struct last { /* key of the pages so far */
	char *key;
	size_t len;
};

static bool is_after(const char *key, size_t len, const struct last *last)
{
	int d = last->key ? memcmp(key, last->key, MIN(len, last->len)) : 1;

	return d > 0 || (d == 0 && len > last->len);
}

static int add_page(json_t *kvs, struct te_keys *keys, struct last *last, struct te_err *err)
{
	json_t *kv;
	size_t i;

	json_array_foreach(kvs, i, kv)
	{
		char *key;
		size_t len;
		int rc = te_etcd_bytes(kv, "key", &key, &len, err);

		if (rc)
			return rc;
		if (!is_after(key, len, last))
			rc = te_fail(err, -EBADMSG, "etcd's list of keys is out of order");
		else if (te_keys_add(keys, key, len))
			rc = te_fail(err, -ENOMEM, "out of memory");
		free(last->key);
		*last = (struct last){ key, len };
		if (rc)
			return rc;
	}
	return 0;
}

/* By pages: a reply stays small however many keys there are. */
static int etcd_list(struct te_meta *m, const char *prefix, struct te_keys *keys,
		     struct te_err *err)
{
	struct last last = { 0 };
	uint64_t until = te_store_until(m);
	bool more = true;
	int rc = 0;

	while (more && !rc) {
		json_t *request = te_etcd_range(prefix, last.key, last.len), *reply, *kvs;

		if (json_object_set_new(request, "keys_only", json_true()) ||
		    json_object_set_new(request, "limit", json_integer(PAGE))) {
			json_decref(request);
			request = NULL;
		}
		rc = te_etcd_call(of(m), "kv/range", request, TE_ETCD_REPEATABLE, until, &reply,
				  err);
		if (rc)
			break;
		kvs = json_object_get(reply, "kvs");
		more = json_is_true(json_object_get(reply, "more")) && json_array_size(kvs);
		rc = add_page(kvs, keys, &last, err);
		json_decref(reply);
	}
	free(last.key);
	return rc;
}

/* A read that goes through the quorum and needs the login. */
static int etcd_ping(struct te_meta *m, struct te_err *err)
{
	json_t *request = key_request(m->prefix), *reply;
	int rc;

	if (json_object_set_new(request, "count_only", json_true())) {
		json_decref(request);
		request = NULL;
	}
	rc = te_etcd_call(of(m), "kv/range", request, TE_ETCD_REPEATABLE, te_store_until(m), &reply,
			  err);
	if (!rc)
		json_decref(reply);
	return rc;
}

const struct te_meta_ops te_store_etcd = {
	.scheme = "etcd",
	.open = etcd_open,
	.close = etcd_close,
	.caps = etcd_caps,
	.get = etcd_get,
	.put = etcd_put,
	.del = etcd_del,
	.list = etcd_list,
	.watch = te_etcd_watch,
	.ping = etcd_ping,
};
