/*
 * redis.c - the redis store: GET, SET [NX] [EX], DEL, SCAN.
 *
 * Compare-and-swap is WATCH, GET, MULTI, SET, EXEC; a value's tag is a fingerprint of its bytes,
 * for redis has no versions. Changes come by keyspace events if the server is set to send them (its
 * settings are never changed), else by polling.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "meta/redis_conn.h"

enum { DEFAULT_PORT = 6379, HEARTBEAT_MS = 10000 };
enum events { EVENTS_UNKNOWN, EVENTS_OFF, EVENTS_ON };

struct redis {
	struct te_meta base;
	struct te_redis_pool pool;
	_Atomic int events; /* relaxed: asked again costs a question */
};

#define ARG(s)                                                                                     \
	{                                                                                          \
		(s), strlen(s)                                                                     \
	}
#define ARGS(...)                                                                                  \
	(struct te_redis_arg[])                                                                    \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

static struct redis *of(struct te_meta *m)
{
	return container_of(m, struct redis, base);
}

static void redis_close(struct te_meta *m)
{
	struct redis *r = of(m);

	te_redis_pool_clear(&r->pool);
	if (r->pool.password)
		explicit_bzero(r->pool.password, strlen(r->pool.password));
	free(r->pool.password);
	free(r->pool.user);
	free(r);
}

static const char *given(const char *s)
{
	return s && *s ? s : NULL;
}

/* What the address says goes before MC_REDIS_*. */
static int set_up(struct redis *r, const struct te_uri *u, const struct te_conf *conf,
		  struct te_err *err)
{
	bool in_uri = given(u->password);
	const char *password = given(in_uri ? u->password : conf->redis_password);
	const char *user = given(in_uri ? u->user : conf->redis_username);
	struct te_endpoint *at;
	int64_t db = conf->redis_db_index;
	int n;

	if (strlen(u->path) > 1 && !te_parse_i64(u->path + 1, 0, 65535, &db))
		return te_fail(err, -EINVAL, "'%s' is not a redis database number", u->path + 1);
	n = te_uri_endpoints(u, DEFAULT_PORT, &at, err);
	if (n < 0)
		return n;
	r->pool.at = at[0];
	free(at);
	if (n > 1)
		return te_fail(err, -EINVAL, "a redis address names one server, not %d", n);
	r->pool.db = (int)db;
	r->pool.user = te_strdup(user);
	r->pool.password = te_strdup(password);
	if ((user && !r->pool.user) || (password && !r->pool.password))
		return te_fail(err, -ENOMEM, "out of memory");
	return 0;
}

static int redis_open(const struct te_uri *u, const struct te_conf *conf, struct te_meta **out,
		      struct te_err *err)
{
	struct redis *r;
	int rc;

	if (strcmp(u->scheme, "rediss") == 0)
		return te_fail(err, -EINVAL,
			       "rediss:// is not supported: hiredis 0.14, which this build uses, "
			       "has no TLS; use redis:// or a TLS tunnel");
	r = calloc(1, sizeof(*r));
	if (!r)
		return te_fail(err, -ENOMEM, "out of memory");
	te_redis_pool_init(&r->pool);
	rc = set_up(r, u, conf, err);
	if (rc) {
		redis_close(&r->base);
		return rc;
	}
	*out = &r->base;
	return 0;
}

/* One command and its reply on a pooled connection. again: may be sent twice, so a connection that
   dies under it (an idle one may be dead without our knowing) is replaced once. */
static int ask(struct redis *r, const struct te_redis_arg *args, size_t n, bool again,
	       uint64_t until, redisReply **out, struct te_err *err)
{
	int rc = 0;

	for (int left = again ? 2 : 1; left; left--) {
		struct te_redis_conn *c = NULL;

		rc = te_redis_take(&r->pool, until, &c, err);
		if (rc)
			return rc;
		rc = te_redis_send(c, args, n, until, err);
		if (!rc)
			rc = te_redis_recv(c, until, out, err);
		if (!c->broken || rc == -ETIMEDOUT || rc == -EPROTO)
			left = 1;
		te_redis_give(&r->pool, c);
	}
	return rc;
}

static int unexpected(redisReply *reply, const char *command, struct te_err *err)
{
	freeReplyObject(reply);
	return te_fail(err, -EPROTO, "the server's reply to %s makes no sense", command);
}

static int redis_get(struct te_meta *m, const char *key, struct te_meta_value *out,
		     struct te_err *err)
{
	redisReply *reply;
	int rc = ask(of(m), ARGS(ARG("GET"), ARG(key)), 2, true, te_store_until(m), &reply, err);

	if (rc)
		return rc;
	if (reply->type == REDIS_REPLY_STRING)
		rc = te_store_value(out, reply->str, reply->len, err);
	else if (reply->type == REDIS_REPLY_NIL)
		rc = te_fail(err, -ENOENT, "no such key");
	else
		return unexpected(reply, "GET", err);
	if (!rc)
		te_fingerprint(out->data, out->len, out->tag);
	freeReplyObject(reply);
	return rc;
}

struct set { /* SET key value [NX] [EX ttl] */
	struct te_redis_arg args[6];
	size_t n;
	char ttl[16];
};

static void set_command(struct set *s, const char *key, const char *data, size_t len,
			const struct te_meta_put *opt)
{
	*s = (struct set){ .args = { ARG("SET"), ARG(key), { len ? data : "", len } }, .n = 3 };
	if (opt->if_absent)
		s->args[s->n++] = (struct te_redis_arg)ARG("NX");
	if (opt->ttl_s) {
		snprintf(s->ttl, sizeof(s->ttl), "%u", opt->ttl_s);
		s->args[s->n++] = (struct te_redis_arg)ARG("EX");
		s->args[s->n++] = (struct te_redis_arg)ARG(s->ttl);
	}
}

/* Takes the next `n` replies off the connection; *last is the last one. */
static int replies(struct te_redis_conn *c, int n, uint64_t until, redisReply **last,
		   struct te_err *err)
{
	int rc = 0;

	*last = NULL;
	while (n-- > 0) {
		redisReply *r = NULL;
		int one = te_redis_recv(c, until, &r, rc ? NULL : err);

		rc = rc ? rc : one;
		if (c->broken)
			return rc;
		if (n || rc)
			freeReplyObject(one ? NULL : r);
		else
			*last = r;
	}
	return rc;
}

/* After WATCH: is the value still the one with this tag? */
static int check_tag(struct te_redis_conn *c, const char *key, const char *tag, uint64_t until,
		     struct te_err *err)
{
	char now[TE_META_TAG_MAX];
	redisReply *value;
	int rc = te_redis_send(c, ARGS(ARG("WATCH"), ARG(key)), 2, until, err);

	if (!rc)
		rc = te_redis_send(c, ARGS(ARG("GET"), ARG(key)), 2, until, err);
	if (!rc)
		rc = replies(c, 2, until, &value, err);
	if (rc)
		return rc;
	if (value->type == REDIS_REPLY_STRING)
		te_fingerprint(value->str, value->len, now);
	if (value->type != REDIS_REPLY_STRING || strcmp(now, tag) != 0)
		rc = te_fail(err, -ESTALE, "the value is not the one with tag '%s' any more", tag);
	freeReplyObject(value);
	return rc;
}

/* `change` on one key, only if its value has that tag. */
static int change_if(struct redis *r, const char *key, const char *tag,
		     const struct te_redis_arg *change, size_t n, struct te_err *err)
{
	uint64_t until = te_store_until(&r->base);
	struct te_redis_conn *c;
	redisReply *done = NULL;
	int rc = te_redis_take(&r->pool, until, &c, err);

	if (rc)
		return rc;
	rc = check_tag(c, key, tag, until, err);
	if (!rc)
		rc = te_redis_send(c, ARGS(ARG("MULTI")), 1, until, err);
	if (!rc)
		rc = te_redis_send(c, change, n, until, err);
	if (!rc)
		rc = te_redis_send(c, ARGS(ARG("EXEC")), 1, until, err);
	if (!rc)
		rc = replies(c, 3, until, &done, err);
	if (!rc && done->type == REDIS_REPLY_NIL)
		rc = te_fail(err, -ESTALE, "somebody else changed the value meanwhile");
	else if (!rc && done->elements == 1 && done->element[0]->type == REDIS_REPLY_ERROR)
		rc = te_fail(err, -EIO, "the server says '%s'", done->element[0]->str);
	freeReplyObject(done);
	/* A connection left with a WATCH is of no more use. */
	c->broken |= rc != 0;
	te_redis_give(&r->pool, c);
	return rc;
}

static int redis_put(struct te_meta *m, const char *key, const char *data, size_t len,
		     const struct te_meta_put *opt, char *tag_out, struct te_err *err)
{
	redisReply *reply;
	struct set s;
	int rc;

	set_command(&s, key, data, len, opt);
	if (opt->if_match) {
		rc = change_if(of(m), key, opt->if_match, s.args, s.n, err);
	} else {
		rc = ask(of(m), s.args, s.n, !opt->if_absent, te_store_until(m), &reply, err);
		if (!rc && reply->type == REDIS_REPLY_NIL)
			rc = te_fail(err, -EEXIST, "the key exists already");
		if (!rc || rc == -EEXIST)
			freeReplyObject(reply);
	}
	if (!rc)
		te_fingerprint(data, len, tag_out);
	return rc;
}

static int redis_del(struct te_meta *m, const char *key, const char *if_match, struct te_err *err)
{
	struct te_redis_arg del[] = { ARG("DEL"), ARG(key) };
	redisReply *reply;
	int rc;

	if (if_match)
		return change_if(of(m), key, if_match, del, 2, err);
	rc = ask(of(m), del, 2, true, te_store_until(m), &reply, err);
	if (!rc)
		freeReplyObject(reply);
	return rc;
}

/* A pattern that matches what begins with prefix. malloc'ed. */
static char *pattern(const char *before, const char *prefix)
{
	size_t len = strlen(before);
	char *out = malloc(len + 2 * strlen(prefix) + 2), *to = out;

	if (!out)
		return NULL;
	memcpy(to, before, len);
	for (to += len; *prefix; prefix++) {
		if (strchr("*?[]\\^", *prefix))
			*to++ = '\\';
		*to++ = *prefix;
	}
	*to++ = '*';
	*to = '\0';
	return out;
}

/* One step of SCAN; *cursor moves on. */
static int scan(struct redis *r, const char *match, char cursor[24], uint64_t until,
		struct te_keys *keys, struct te_err *err)
{
	redisReply *reply, *list;
	int rc = ask(
		r,
		ARGS(ARG("SCAN"), ARG(cursor), ARG("MATCH"), ARG(match), ARG("COUNT"), ARG("1000")),
		6, true, until, &reply, err);

	if (rc)
		return rc;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_ARRAY)
		return unexpected(reply, "SCAN", err);
	te_strlcpy(cursor, reply->element[0]->str, 24);
	list = reply->element[1];
	for (size_t i = 0; !rc && i < list->elements; i++) {
		const redisReply *key = list->element[i];

		if (key->type != REDIS_REPLY_STRING)
			return unexpected(reply, "SCAN", err);
		if (te_keys_add(keys, key->str, key->len))
			rc = te_fail(err, -ENOMEM, "out of memory");
	}
	freeReplyObject(reply);
	return rc;
}

static int redis_list(struct te_meta *m, const char *prefix, struct te_keys *keys,
		      struct te_err *err)
{
	char *match = pattern("", prefix);
	uint64_t until = te_store_until(m);
	char cursor[24] = "0";
	int rc;

	if (!match)
		return te_fail(err, -ENOMEM, "out of memory");
	do {
		rc = scan(of(m), match, cursor, until, keys, err);
	} while (!rc && strcmp(cursor, "0") != 0);
	free(match);
	return rc;
}

/* Keyspace events (K) of strings ($), keys (g) and expiry (x), or of all (A). */
static bool events_suffice(const redisReply *reply)
{
	const char *flags;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return false;
	flags = reply->element[1]->str;
	return strchr(flags, 'K') &&
	       (strchr(flags, 'A') ||
		(strchr(flags, '$') && strchr(flags, 'g') && strchr(flags, 'x')));
}

/* Does the server send events? Asked anew for each watch: it may have been restarted with others.
 */
static bool ask_events(struct redis *r)
{
	struct te_err why = { 0 };
	redisReply *reply;
	bool on;
	int rc = ask(r, ARGS(ARG("CONFIG"), ARG("GET"), ARG("notify-keyspace-events")), 3, true,
		     te_store_until(&r->base), &reply, &why);

	/* A server that refuses the question keeps to it; one that is away is asked again. */
	if (rc && rc != -EIO && rc != -EACCES)
		return false;
	on = !rc && events_suffice(reply);
	if (!rc)
		freeReplyObject(reply);
	atomic_store_explicit(&r->events, on ? EVENTS_ON : EVENTS_OFF, memory_order_relaxed);
	return on;
}

static unsigned redis_caps(struct te_meta *m)
{
	int events = atomic_load_explicit(&of(m)->events, memory_order_relaxed);
	bool on = events == EVENTS_UNKNOWN ? ask_events(of(m)) : events == EVENTS_ON;

	return TE_META_LIST | TE_META_TTL | TE_META_CAS | (on ? TE_META_WATCH : 0);
}

/* An event says what happened to a key, but not its value. */
static int on_event(struct te_watch *w, const char *key, const char *what, struct te_err *err)
{
	static const char *const gone[] = { "del", "expired", "evicted", "rename_from",
					    "move_from" };
	static const char *const ttl_only[] = { "expire", "persist", "new" };
	struct te_meta_value v = { 0 };
	int rc;

	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		if (strcmp(what, gone[i]) == 0)
			return te_watch_deleted(w, key);
	for (size_t i = 0; i < ARRAY_SIZE(ttl_only); i++)
		if (strcmp(what, ttl_only[i]) == 0)
			return 0;
	rc = redis_get(w->m, key, &v, err);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	rc = te_watch_put(w, key, v.data, v.len);
	te_meta_value_clear(&v);
	return rc;
}

/*
 * ["pmessage", pattern, "__keyspace@N__:KEY", EVENT]; anything else is an answer to PING or
 * PSUBSCRIBE.
 */
static int on_message(struct te_watch *w, const redisReply *r, struct te_err *err)
{
	const char *key;

	if (r->type == REDIS_REPLY_ERROR)
		return te_fail(err, -EACCES, "the server says '%s'", r->str);
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 4)
		return 0;
	for (size_t i = 0; i < 4; i++)
		if (r->element[i]->type != REDIS_REPLY_STRING)
			return 0;
	key = strchr(r->element[2]->str, ':');
	return key ? on_event(w, key + 1, r->element[3]->str, err) : 0;
}

/* Waits for the next bytes. A server that answers no PING within the time of an operation is lost.
 */
static int wait_for_more(struct te_watch *w, struct te_redis_conn *c, bool *pinged,
			 struct te_err *err)
{
	struct pollfd p[2] = { { .fd = c->fd, .events = POLLIN },
			       { .fd = w->stop_fd, .events = POLLIN } };
	uint64_t until = te_store_until(w->m);

	poll(p, 2, *pinged ? te_ms_until(until) : HEARTBEAT_MS);
	if (p[1].revents)
		return 1;
	if (p[0].revents) {
		*pinged = false;
		return te_redis_read(c, err);
	}
	if (*pinged)
		return te_fail(err, -ETIMEDOUT, "the server is silent");
	*pinged = true;
	return te_redis_send(c, ARGS(ARG("PING")), 1, until, err);
}

static int stream(struct te_watch *w, struct te_redis_conn *c, struct te_err *err)
{
	bool pinged = false;
	int rc = te_watch_resync(w, err);

	while (!rc) {
		redisReply *reply;

		rc = te_redis_buffered(c, &reply, err);
		if (rc > 0) {
			rc = on_message(w, reply, err);
			freeReplyObject(reply);
		} else if (!rc) {
			rc = wait_for_more(w, c, &pinged, err);
		}
	}
	return rc;
}

static int redis_watch(struct te_meta *m, struct te_watch *w, struct te_err *err)
{
	struct redis *r = of(m);
	uint64_t until = te_store_until(m);
	char *match, space[32];
	struct te_redis_conn *c;
	redisReply *reply;
	int rc;

	if (!ask_events(r))
		return te_watch_poll(w, err);
	snprintf(space, sizeof(space), "__keyspace@%d__:", r->pool.db);
	match = pattern(space, w->prefix);
	if (!match)
		return te_fail(err, -ENOMEM, "out of memory");
	rc = te_redis_take(&r->pool, until, &c, err);
	if (rc)
		goto out;
	rc = te_redis_send(c, ARGS(ARG("PSUBSCRIBE"), ARG(match)), 2, until, err);
	if (!rc)
		rc = te_redis_recv(c, until, &reply, err);
	if (!rc) {
		freeReplyObject(reply);
		rc = stream(w, c, err);
	}
	c->broken = true; /* it is subscribed: nothing else can be asked on it */
	te_redis_give(&r->pool, c);
out:
	free(match);
	return rc;
}

static int redis_ping(struct te_meta *m, struct te_err *err)
{
	redisReply *reply;
	int rc = ask(of(m), ARGS(ARG("PING")), 1, true, te_store_until(m), &reply, err);

	if (!rc)
		freeReplyObject(reply);
	return rc;
}

const struct te_meta_ops te_store_redis = {
	.scheme = "redis",
	.open = redis_open,
	.close = redis_close,
	.caps = redis_caps,
	.get = redis_get,
	.put = redis_put,
	.del = redis_del,
	.list = redis_list,
	.watch = redis_watch,
	.ping = redis_ping,
};
