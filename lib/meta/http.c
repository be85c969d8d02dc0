/*
 * http.c - the HTTP metadata server: GET, PUT, DELETE of URL?key=KEY (INTEROP 1.8 and 10).
 *
 * te-http-meta shows itself by the header "TE-Meta: 1" in each reply, and only then are asked, by
 * extra parameters and headers that other servers would not know:
 *
 *	PUT with TE-TTL: SECONDS, If-Match: "TAG", If-None-Match: *
 *	DELETE with If-Match: "TAG"; a conflict is 412
 *	GET URL?prefix=P&list=1
 *		{"keys":[...],"revision":N}
 *	GET URL?prefix=P&watch=1&since=N&timeout=S
 *		{"revision":M,"events":[{"type","key","value_base64"}]}
 *		no events after S seconds, 410 when N is too old
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "meta/curl.h"
#include "meta/ops.h"

enum kind { UNKNOWN, FOREIGN, TE_HTTP_META };
enum { WATCH_S = 25 };
static const char probe_key[] = "te-probe";

struct http {
	struct te_meta base;
	struct te_curl_pool *pool;
	char *url;	  /* with '?' or '&' behind it */
	char *auth;	  /* "Authorization: Bearer ...", or NULL */
	_Atomic int kind; /* relaxed: a late look only costs a question more */
};

static struct http *of(struct te_meta *m)
{
	return container_of(m, struct http, base);
}

static void http_close(struct te_meta *m)
{
	struct http *h = of(m);

	te_curl_pool_free(h->pool);
	if (h->auth)
		explicit_bzero(h->auth, strlen(h->auth));
	if (h->url)
		explicit_bzero(h->url, strlen(h->url));
	free(h->auth);
	free(h->url);
	free(h);
}

/* curl takes user:password from the URL, so they go back in. */
static char *base_url(const struct te_uri *u)
{
	const char *path = *u->path == '/' && u->path[1] ? u->path : "/metadata";
	char *user = u->user ? te_uri_escape(u->user) : NULL;
	char *password = u->password ? te_uri_escape(u->password) : NULL;
	char *url = te_asprintf("%s://%s%s%s%s%s%s%c", u->scheme, user ? user : "",
				password ? ":" : "", password ? password : "", user ? "@" : "",
				u->authority, path, strchr(path, '?') ? '&' : '?');

	if (password)
		explicit_bzero(password, strlen(password));
	free(password);
	free(user);
	return url;
}

static int http_open(const struct te_uri *u, const struct te_conf *conf, struct te_meta **out,
		     struct te_err *err)
{
	struct http *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return te_fail(err, -ENOMEM, "out of memory");
	rc = te_curl_pool_new(conf, &h->pool, err);
	if (rc)
		goto fail;
	h->url = base_url(u);
	if (*conf->http_token)
		h->auth = te_asprintf("Authorization: Bearer %s", conf->http_token);
	if (!h->url || (*conf->http_token && !h->auth)) {
		rc = te_fail(err, -ENOMEM, "out of memory");
		goto fail;
	}
	*out = &h->base;
	return 0;
fail:
	http_close(&h->base);
	return rc;
}

enum { HEADERS_MAX = 4 };

struct call { /* one request to the server */
	const char *method;
	const char *query; /* behind the '?' */
	const char *headers[HEADERS_MAX];
	const char *body;
	size_t len;
	uint64_t until; /* of the operation that it is part of */
	int extra_s;	/* the server may take so long before it answers */
	int stop_fd;
};

/* A gateway's error says nothing about the server behind it. */
static void learn(struct http *h, const struct te_http_reply *r)
{
	if (r->te_meta)
		atomic_store_explicit(&h->kind, TE_HTTP_META, memory_order_relaxed);
	else if (r->status < 500)
		atomic_store_explicit(&h->kind, FOREIGN, memory_order_relaxed);
}

static int run(struct http *h, const struct call *c, struct te_http_reply *r, struct te_err *err)
{
	const char *headers[HEADERS_MAX + 2];
	size_t n = 0;
	char *url = te_asprintf("%s%s", h->url, c->query);
	struct te_http_request q = {
		.method = c->method,
		.url = url,
		.headers = headers,
		.body = c->body,
		.body_len = c->len,
		.connect_until = c->until,
		.until = c->until + (uint64_t)c->extra_s * TE_NSEC_PER_SEC,
		.stop_fd = c->stop_fd,
	};
	int rc;

	*r = (struct te_http_reply){ 0 };
	if (!url)
		return te_fail(err, -ENOMEM, "out of memory");
	if (h->auth)
		headers[n++] = h->auth;
	for (size_t i = 0; i < HEADERS_MAX && c->headers[i]; i++)
		headers[n++] = c->headers[i];
	headers[n] = NULL;
	rc = te_curl_run(h->pool, &q, r, err);
	if (!rc)
		learn(h, r);
	explicit_bzero(url, strlen(url));
	free(url);
	return rc;
}

/* A request for one key. */
static int run_key(struct http *h, struct call *c, const char *key, struct te_http_reply *r,
		   struct te_err *err)
{
	char *escaped = te_uri_escape(key);
	char *query = escaped ? te_asprintf("key=%s", escaped) : NULL;
	int rc;

	*r = (struct te_http_reply){ 0 };
	c->query = query;
	c->stop_fd = -1;
	rc = query ? run(h, c, r, err) : te_fail(err, -ENOMEM, "out of memory");
	free(query);
	free(escaped);
	return rc;
}

static int refused(const struct te_http_reply *r, struct te_err *err)
{
	char text[160];

	te_http_reply_text(r, text, sizeof(text));
	if (r->status == 401 || r->status == 403)
		return te_fail(err, -EACCES, "the server answered %ld %s (MC_TE_HTTP_TOKEN)",
			       r->status, text);
	if (r->status == 413)
		return te_fail(err, -EMSGSIZE, "the server answered 413 %s", text);
	return te_fail(err, -EIO, "the server answered %ld %s", r->status, text);
}

static int ask_kind(struct http *h, uint64_t until, struct te_err *err)
{
	struct call c = { .method = "GET", .until = until };
	struct te_http_reply r;
	int rc;

	if (atomic_load_explicit(&h->kind, memory_order_relaxed) != UNKNOWN)
		return 0;
	rc = run_key(h, &c, probe_key, &r, err);
	te_http_reply_clear(&r);
	return rc;
}

static bool is_te(struct http *h)
{
	return atomic_load_explicit(&h->kind, memory_order_relaxed) == TE_HTTP_META;
}

static int need_te(struct http *h, uint64_t until, const char *what, struct te_err *err)
{
	int rc = ask_kind(h, until, err);

	if (rc || is_te(h))
		return rc;
	return te_fail(err, -EOPNOTSUPP,
		       "this http server knows only GET, PUT and DELETE of a key and cannot %s; "
		       "te-http-meta, etcd and redis can",
		       what);
}

static unsigned http_caps(struct te_meta *m)
{
	ask_kind(of(m), te_store_until(m), NULL);
	return is_te(of(m)) ? TE_META_LIST | TE_META_WATCH | TE_META_TTL | TE_META_CAS : 0;
}

static int http_get(struct te_meta *m, const char *key, struct te_meta_value *out,
		    struct te_err *err)
{
	struct call c = { .method = "GET", .until = te_store_until(m) };
	struct te_http_reply r;
	int rc = run_key(of(m), &c, key, &r, err);

	if (rc)
		goto out;
	if (r.status == 404)
		rc = te_fail(err, -ENOENT, "no such key");
	else if (r.status != 200)
		rc = refused(&r, err);
	else
		rc = te_store_value(out, r.body ? r.body : "", r.len, err);
	if (!rc && r.te_meta)
		te_strlcpy(out->tag, r.etag, sizeof(out->tag));
out:
	te_http_reply_clear(&r);
	return rc;
}

/* Other servers keep the first rpc_meta of a name for ever: INTEROP 10. */
static bool is_duplicate_refusal(const char *key, const struct te_http_reply *r)
{
	char text[160];

	te_http_reply_text(r, text, sizeof(text));
	return r->status == 400 && !r->te_meta && strstr(key, "rpc_meta") &&
	       (strcasestr(text, "duplicate") || strstr(text, "rpc_meta"));
}

static bool is_done(const struct te_http_reply *r)
{
	return r->status >= 200 && r->status < 300;
}

static int replace_rpc_meta(struct http *h, struct call *put, const char *key,
			    struct te_http_reply *r, struct te_err *err)
{
	struct call del = { .method = "DELETE", .until = put->until };
	int rc;

	te_http_reply_clear(r);
	rc = run_key(h, &del, key, r, err);
	if (!rc && !is_done(r) && r->status != 404)
		rc = refused(r, err);
	te_http_reply_clear(r);
	return rc ? rc : run_key(h, put, key, r, err);
}

static int conflict(const struct te_meta_put *opt, struct te_err *err)
{
	if (opt->if_absent)
		return te_fail(err, -EEXIST, "the key exists already");
	return te_fail(err, -ESTALE, "the value is not the one with tag '%s' any more",
		       opt->if_match);
}

/* if_match goes into a header line: only a word that a server could have given. */
static int check_tag(const char *tag, struct te_err *err)
{
	size_t len = strlen(tag);

	if (len && len < TE_META_TAG_MAX && strcspn(tag, "\"\r\n") == len)
		return 0;
	return te_fail(err, -EINVAL, "'%s' is not a tag of this store", tag);
}

static int put_headers(struct http *h, const struct te_meta_put *opt, char lines[2][160],
		       struct call *c, struct te_err *err)
{
	size_t n = 0;
	int rc = 0;

	if (opt->if_absent || opt->if_match)
		rc = need_te(h, c->until, "compare before it writes", err);
	else if (opt->ttl_s)
		rc = ask_kind(h, c->until, err);
	if (!rc && opt->if_match)
		rc = check_tag(opt->if_match, err);
	if (rc)
		return rc;
	if (opt->if_absent)
		c->headers[n++] = "If-None-Match: *";
	if (opt->if_match) {
		snprintf(lines[0], sizeof(lines[0]), "If-Match: \"%s\"", opt->if_match);
		c->headers[n++] = lines[0];
	}
	if (opt->ttl_s && is_te(h)) {
		snprintf(lines[1], sizeof(lines[1]), "TE-TTL: %u", opt->ttl_s);
		c->headers[n++] = lines[1];
	}
	return 0;
}

static int http_put(struct te_meta *m, const char *key, const char *data, size_t len,
		    const struct te_meta_put *opt, char *tag_out, struct te_err *err)
{
	struct call c = {
		.method = "PUT", .body = len ? data : "", .len = len, .until = te_store_until(m)
	};
	struct te_http_reply r = { 0 };
	char lines[2][160];
	int rc = put_headers(of(m), opt, lines, &c, err);

	if (!rc)
		rc = run_key(of(m), &c, key, &r, err);
	if (!rc && is_duplicate_refusal(key, &r))
		rc = replace_rpc_meta(of(m), &c, key, &r, err);
	if (rc)
		goto out;
	if (r.status == 412)
		rc = conflict(opt, err);
	else if (!is_done(&r))
		rc = refused(&r, err);
	else if (r.te_meta)
		te_strlcpy(tag_out, r.etag, TE_META_TAG_MAX);
out:
	te_http_reply_clear(&r);
	return rc;
}

static int http_del(struct te_meta *m, const char *key, const char *if_match, struct te_err *err)
{
	struct call c = { .method = "DELETE", .until = te_store_until(m) };
	struct te_http_reply r = { 0 };
	char line[160];
	int rc = 0;

	if (if_match) {
		rc = need_te(of(m), c.until, "compare before it deletes", err);
		if (!rc)
			rc = check_tag(if_match, err);
		snprintf(line, sizeof(line), "If-Match: \"%s\"", if_match);
		c.headers[0] = line;
	}
	if (!rc)
		rc = run_key(of(m), &c, key, &r, err);
	if (!rc && r.status == 412)
		rc = te_fail(err, -ESTALE, "the value is not the one with tag '%s' any more",
			     if_match);
	else if (!rc && !is_done(&r) && r.status != 404)
		rc = refused(&r, err);
	te_http_reply_clear(&r);
	return rc;
}

/* GET with a prefix; *root is the JSON of a 200, else -ERESTART for 410 or the refusal. */
static int ask(struct http *h, const char *prefix, const char *more, uint64_t until, int extra_s,
	       int stop_fd, json_t **root, struct te_err *err)
{
	char *escaped = te_uri_escape(prefix);
	char *query = escaped ? te_asprintf("prefix=%s&%s", escaped, more) : NULL;
	struct call c = { .method = "GET",
			  .query = query,
			  .until = until,
			  .extra_s = extra_s,
			  .stop_fd = stop_fd };
	struct te_http_reply r = { 0 };
	int rc = query ? run(h, &c, &r, err) : te_fail(err, -ENOMEM, "out of memory");

	if (!rc && r.status == 410)
		rc = te_fail(err, -ERESTART, "the server has forgotten some changes");
	else if (!rc && r.status != 200)
		rc = refused(&r, err);
	if (!rc && te_json_parse(r.body ? r.body : "", r.len, root, err))
		rc = te_recode(err, -EBADMSG, "the server's answer is of no use");
	te_http_reply_clear(&r);
	free(query);
	free(escaped);
	return rc;
}

static int http_list(struct te_meta *m, const char *prefix, struct te_keys *keys,
		     struct te_err *err)
{
	json_t *root, *list, *key;
	size_t i;
	uint64_t until = te_store_until(m);
	int rc = need_te(of(m), until, "list keys", err);

	if (!rc)
		rc = ask(of(m), prefix, "list=1", until, 0, -1, &root, err);
	if (rc)
		return rc;
	rc = te_json_array(root, "keys", &list, err);
	if (rc)
		goto out;
	json_array_foreach(list, i, key)
	{
		if (!json_is_string(key))
			rc = te_fail(err, -EBADMSG,
				     "the server's list has a key that is no string");
		else if (te_keys_add(keys, json_string_value(key), json_string_length(key)))
			rc = te_fail(err, -ENOMEM, "out of memory");
		if (rc)
			break;
	}
out:
	json_decref(root);
	return rc;
}

static int report(struct te_watch *w, const json_t *event, struct te_err *err)
{
	const char *type, *key, *text;
	char *data;
	size_t len;
	int rc = te_json_str(event, "type", &type, err);

	if (!rc)
		rc = te_json_str(event, "key", &key, err);
	if (rc)
		return te_recode(err, -EBADMSG, "the server's event is of no use");
	if (strcmp(type, "delete") == 0)
		return te_watch_deleted(w, key);
	rc = te_json_str(event, "value_base64", &text, err);
	if (!rc)
		rc = te_base64_decode(text, strlen(text), &data, &len);
	if (rc)
		return te_fail(err, -EBADMSG, "the server's event for '%s' has no value", key);
	rc = te_watch_put(w, key, data, len);
	free(data);
	return rc;
}

/* One long poll. *since moves on. */
static int poll_once(struct http *h, struct te_watch *w, uint64_t *since, struct te_err *err)
{
	char more[96];
	json_t *root, *events, *event;
	uint64_t revision;
	size_t i;
	int rc;

	snprintf(more, sizeof(more), "watch=1&since=%llu&timeout=%d", (unsigned long long)*since,
		 WATCH_S);
	rc = ask(h, w->prefix, more, te_store_until(&h->base), WATCH_S, w->stop_fd, &root, err);
	if (rc)
		return rc;
	rc = te_json_u64(root, "revision", INT64_MAX, &revision, err);
	if (!rc)
		rc = te_json_array(root, "events", &events, err);
	if (rc) {
		rc = te_recode(err, -EBADMSG, "the server's answer is of no use");
		goto out;
	}
	if (revision < *since) {
		rc = te_fail(err, -ERESTART, "the server has begun again");
		goto out;
	}
	json_array_foreach(events, i, event)
	{
		rc = report(w, event, err);
		if (rc)
			break;
	}
	*since = revision;
out:
	json_decref(root);
	return rc;
}

static int http_watch(struct te_meta *m, struct te_watch *w, struct te_err *err)
{
	uint64_t since = 0;
	json_t *root;
	uint64_t until = te_store_until(m);
	int rc = need_te(of(m), until, "tell of changes", err);

	if (!rc)
		rc = ask(of(m), w->prefix, "watch=1", until, 0, w->stop_fd, &root, err);
	if (rc)
		return rc;
	rc = te_json_u64(root, "revision", INT64_MAX, &since, err);
	json_decref(root);
	if (!rc)
		rc = te_watch_resync(w, err);
	while (!rc)
		rc = poll_once(of(m), w, &since, err);
	return rc;
}

static int http_ping(struct te_meta *m, struct te_err *err)
{
	struct call c = { .method = "GET", .until = te_store_until(m) };
	struct te_http_reply r;
	int rc = run_key(of(m), &c, probe_key, &r, err);

	if (!rc && r.status != 200 && r.status != 404)
		rc = refused(&r, err);
	te_http_reply_clear(&r);
	return rc;
}

const struct te_meta_ops te_store_http = {
	.scheme = "http",
	.open = http_open,
	.close = http_close,
	.caps = http_caps,
	.get = http_get,
	.put = http_put,
	.del = http_del,
	.list = http_list,
	.watch = http_watch,
	.ping = http_ping,
};
