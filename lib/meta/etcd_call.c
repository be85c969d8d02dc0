/*
 * etcd_call.c - calls of etcd's v3 JSON gateway: endpoints with failover, login, etcd's JSON.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "meta/etcd.h"

/* gRPC codes, in etcd's error documents. */
enum {
	NOT_FOUND = 5,
	PERMISSION_DENIED = 7,
	FAILED_PRECONDITION = 9,
	UNAVAILABLE = 14,
	UNAUTHENTICATED = 16
};

int64_t te_etcd_int(const json_t *obj, const char *member)
{
	const json_t *v = json_object_get(obj, member);
	int64_t n = 0;

	if (json_is_integer(v))
		return json_integer_value(v);
	if (json_is_string(v) && te_parse_i64(json_string_value(v), INT64_MIN, INT64_MAX, &n))
		return n;
	return 0;
}

int64_t te_etcd_revision(const json_t *reply)
{
	return te_etcd_int(json_object_get(reply, "header"), "revision");
}

int te_etcd_bytes(const json_t *obj, const char *member, char **out, size_t *len,
		  struct te_err *err)
{
	const json_t *v = json_object_get(obj, member);
	const char *text = json_is_string(v) ? json_string_value(v) : "";
	int rc = te_base64_decode(text, strlen(text), out, len);

	if (rc == -EINVAL)
		return te_fail(err, -EBADMSG, "etcd's '%s' is not base64", member);
	return rc ? te_fail(err, rc, "out of memory") : 0;
}

json_t *te_etcd_text(const char *data, size_t len)
{
	char *text = te_base64_encode(data, len);
	json_t *v = text ? json_string(text) : NULL;

	free(text);
	return v;
}

/* The first key behind all that begin with prefix; one zero byte means no end. */
static json_t *range_end(const char *prefix)
{
	size_t len = strlen(prefix);
	char *end = strdup(prefix);
	json_t *v;

	if (!end)
		return NULL;
	while (len && (unsigned char)end[len - 1] == 0xff)
		len--;
	if (len)
		end[len - 1]++;
	v = len ? te_etcd_text(end, len) : te_etcd_text("", 1);
	free(end);
	return v;
}

static json_t *next_key(const char *key, size_t len)
{
	char *next = calloc(1, len + 1);
	json_t *v;

	if (!next)
		return NULL;
	memcpy(next, key, len);
	v = te_etcd_text(next, len + 1);
	free(next);
	return v;
}

json_t *te_etcd_range(const char *prefix, const char *after, size_t after_len)
{
	json_t *r = json_object(), *key;

	/* A key and a NUL is the next key. An empty one is not allowed: the least is one zero byte.
	 */
	if (after)
		key = next_key(after, after_len);
	else
		key = te_etcd_text(prefix, *prefix ? strlen(prefix) : 1);
	if (json_object_set_new(r, "key", key) ||
	    json_object_set_new(r, "range_end", range_end(prefix))) {
		json_decref(r);
		return NULL;
	}
	return r;
}

static int status_of(int64_t code)
{
	switch (code) {
	case NOT_FOUND:
		return -ENOENT;
	case PERMISSION_DENIED:
	case UNAUTHENTICATED:
		return -EACCES;
	case UNAVAILABLE:
		return -EAGAIN;
	case FAILED_PRECONDITION: /* of a login: authentication is not enabled */
		return -ENOTCONN;
	default:
		return -EIO;
	}
}

/* What the server said: *reply, or the error in it. */
static int understand(const struct te_http_reply *r, json_t **reply, struct te_err *err)
{
	struct te_err why = { 0 };
	const char *text;
	char line[160];
	json_t *root;
	int rc;

	if (te_json_parse(r->body ? r->body : "", r->len, &root, &why)) {
		te_http_reply_text(r, line, sizeof(line));
		return te_fail(err, r->status >= 500 ? -EAGAIN : -EPROTO,
			       "this is no etcd v3 gateway: it answered %ld %s", r->status, line);
	}
	if (r->status == 200 && json_is_object(root)) {
		*reply = root;
		return 0;
	}
	if (te_json_str(root, "error", &text, NULL) && te_json_str(root, "message", &text, NULL))
		text = "an error without a text";
	rc = status_of(te_etcd_int(root, "code"));
	/* What it says to a call without a token: a bad argument, to gRPC. */
	if (strstr(text, "user name is empty"))
		rc = -EACCES;
	rc = te_fail(err, rc, "the server answered %ld '%.200s'", r->status, text);
	json_decref(root);
	return rc;
}

struct post { /* one request and how it went */
	const char *method;
	char *body;
	bool login; /* no token goes with it */
	uint64_t until;
	struct te_http_reply r;
};

static char *auth_header(struct te_etcd *e)
{
	char *line;

	pthread_mutex_lock(&e->lock);
	line = e->token ? te_asprintf("Authorization: %s", e->token) : NULL;
	pthread_mutex_unlock(&e->lock);
	return line;
}

/* To one endpoint. `share`: how much of the time that is left it may use. */
static int post_to(struct te_etcd *e, unsigned at, struct post *p, unsigned share, json_t **reply,
		   struct te_err *err)
{
	char *url = te_asprintf("%s/v3/%s", e->url[at], p->method);
	char *auth = p->login ? NULL : auth_header(e);
	const char *headers[] = { auth, NULL };
	uint64_t now = te_now(), left = p->until > now ? p->until - now : 0;
	struct te_http_request q = {
		.method = "POST",
		.url = url,
		.headers = headers,
		.body = p->body,
		.body_len = strlen(p->body),
		.until = now + left / share,
		.stop_fd = -1,
	};
	int rc = -ENOMEM;

	if (url)
		rc = te_curl_run(e->pool, &q, &p->r, err);
	else
		te_fail(err, rc, "out of memory");
	if (!rc)
		rc = understand(&p->r, reply, err);
	te_http_reply_clear(&p->r);
	free(auth);
	free(url);
	return rc;
}

static bool goes_on(int rc, const struct post *p, enum te_etcd_repeat repeat)
{
	bool lost = rc == -ETIMEDOUT || rc == -EIO || rc == -ECONNREFUSED || rc == -EHOSTUNREACH;

	if (p->r.status) /* it answered */
		return rc == -EAGAIN && repeat == TE_ETCD_REPEATABLE;
	return lost && (!p->r.sent || repeat == TE_ETCD_REPEATABLE);
}

/* To one endpoint after the other, beginning with the one that answered last. */
static int post(struct te_etcd *e, struct post *p, enum te_etcd_repeat repeat, json_t **reply,
		struct te_err *err)
{
	unsigned first = atomic_load_explicit(&e->current, memory_order_relaxed);
	int rc = 0;

	for (unsigned i = 0; i < e->nurl; i++) {
		unsigned at = (first + i) % e->nurl;

		rc = post_to(e, at, p, e->nurl - i, reply, err);
		if (!rc)
			atomic_store_explicit(&e->current, at, memory_order_relaxed);
		if (!rc || !goes_on(rc, p, repeat))
			return rc;
		te_info("etcd endpoint %s fails", e->url[at]);
	}
	return rc;
}

/* Takes token. NULL: the server wants none, whatever MC_TE_ETCD_USERNAME says. */
static void set_token(struct te_etcd *e, char *token)
{
	pthread_mutex_lock(&e->lock);
	free(e->token);
	e->token = token;
	e->open = !token;
	pthread_mutex_unlock(&e->lock);
}

static int log_in(struct te_etcd *e, uint64_t until, struct te_err *err)
{
	struct post p = { .method = "auth/authenticate", .login = true, .until = until };
	json_t *request = json_object(), *reply;
	const char *token;
	char *copy;
	int rc;

	if (!json_object_set_new(request, "name", json_string(e->user)) &&
	    !json_object_set_new(request, "password", json_string(e->password ? e->password : "")))
		p.body = te_json_format(request);
	json_decref(request);
	if (!p.body)
		return te_fail(err, -EINVAL, "cannot log in: user or password is not UTF-8 text");
	rc = post(e, &p, TE_ETCD_REPEATABLE, &reply, err);
	explicit_bzero(p.body, strlen(p.body));
	free(p.body);
	if (rc == -ENOTCONN) {
		set_token(e, NULL);
		return 0;
	}
	if (rc)
		return te_recode(err, rc == -EIO ? -EACCES : rc, "cannot log in");
	rc = te_json_str(reply, "token", &token, err);
	copy = rc ? NULL : strdup(token);
	json_decref(reply);
	if (!copy)
		return rc ? te_recode(err, -EPROTO, "cannot log in")
			  : te_fail(err, -ENOMEM, "out of memory");
	set_token(e, copy);
	return 0;
}

static bool logged_in(struct te_etcd *e)
{
	bool in;

	pthread_mutex_lock(&e->lock);
	in = e->token || e->open;
	pthread_mutex_unlock(&e->lock);
	return in;
}

int te_etcd_call(struct te_etcd *e, const char *method, json_t *request, enum te_etcd_repeat repeat,
		 uint64_t until, json_t **reply, struct te_err *err)
{
	struct post p = { .method = method, .until = until };
	bool fresh = false;
	int rc = 0;

	p.body = request ? te_json_format(request) : NULL;
	json_decref(request);
	if (!p.body)
		return te_fail(err, -ENOMEM, "out of memory");
	if (e->user && !logged_in(e)) {
		rc = log_in(e, p.until, err);
		fresh = true;
	}
	if (!rc)
		rc = post(e, &p, repeat, reply, err);
	/* Tokens end after five minutes, and with the server that gave them. */
	if (rc == -EACCES && e->user && !fresh) {
		rc = log_in(e, p.until, err);
		if (!rc)
			rc = post(e, &p, repeat, reply, err);
	}
	free(p.body);
	return rc;
}

int te_etcd_stream(struct te_etcd *e, const char *method, json_t *request, int stop_fd,
		   int (*on_data)(void *arg, const char *data, size_t len), void *arg,
		   struct te_err *err)
{
	unsigned at = atomic_load_explicit(&e->current, memory_order_relaxed);
	char *body = request ? te_json_format(request) : NULL;
	char *url = te_asprintf("%s/v3/%s", e->url[at], method);
	char *auth = auth_header(e);
	const char *headers[] = { auth, NULL };
	struct te_http_request q = {
		.method = "POST",
		.url = url,
		.headers = headers,
		.body = body,
		.body_len = body ? strlen(body) : 0,
		.connect_until = te_store_until(&e->base),
		.stop_fd = stop_fd,
		.on_data = on_data,
		.arg = arg,
	};
	struct te_http_reply r = { 0 };
	json_t *reply = NULL;
	int rc = body && url ? te_curl_run(e->pool, &q, &r, err)
			     : te_fail(err, -ENOMEM, "out of memory");

	if (!rc && r.status != 200) {
		rc = understand(&r, &reply, err);
		json_decref(reply);
	}
	if (!rc)
		rc = te_fail(err, -ECONNRESET, "the server ended the stream");
	te_http_reply_clear(&r);
	json_decref(request);
	free(auth);
	free(url);
	free(body);
	return rc;
}
