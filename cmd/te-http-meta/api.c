/* api.c - the metadata service: requests to operations on the store, and how they reach the disk.
 */
#include "api.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "te_log.h"

enum { TTL_MAX_S = INT32_MAX, MEMOS_MAX = 10000, GATHER_MAX_MS = 10 };

/* Clients that see it know that this server can list, watch, expire and compare. */
static const char *const headers[] = { "TE-Meta", "1", NULL };

void api_text(struct http_request *r, unsigned status, const char *text)
{
	http_reply(r, status, API_TEXT, text, strlen(text), NULL);
}

/* ---- reading ------------------------------------------------------------------------------ */

static void release_value(void *arg)
{
	value_put(arg);
}

static struct http_answer *value_answer(struct api *a, const struct store_entry *e)
{
	char tag[STORE_TAG], etag[STORE_TAG + 2];
	const char *const more[] = { "ETag", etag, NULL };

	snprintf(etag, sizeof(etag), "\"%s\"", store_tag(e->rev, tag));
	return http_answer_new(a->http, 200, API_JSON, e->value->data, e->value->len, release_value,
			       value_ref(e->value), more);
}

static void get(struct api *a, struct http_request *r)
{
	struct store_entry *e = store_find(&a->store, http_param(r, "key"), api_now());
	struct http_answer *answer;

	if (!e) {
		http_reply(r, 404, API_JSON, "metadata not found", 18, NULL);
		return;
	}
	answer = e->memo ? e->memo : value_answer(a, e);
	if (!answer) {
		api_text(r, 503, "out of memory");
		return;
	}
	http_reply_with(r, answer);
	if (e->memo)
		return;
	/* Answers of keys that are read often are worth keeping, not those of any number of keys.
	 */
	if (a->memos < MEMOS_MAX) {
		a->memos++;
		e->memo = answer;
	} else {
		http_answer_free(answer);
	}
}

/* The store is about to drop a value. */
static void forget(void *arg, void *memo)
{
	struct api *a = arg;

	a->memos--;
	http_answer_free(memo);
}

static void add_key(void *arg, const struct store_entry *e)
{
	/* Never fails for want of UTF-8: put() lets nothing else in. */
	json_array_append_new(arg, json_string(e->key));
}

static void list(struct api *a, struct http_request *r)
{
	const char *prefix = http_param(r, "prefix");
	json_t *keys = json_array(), *doc;
	char *text;

	store_list(&a->store, prefix ? prefix : "", api_now(), add_key, keys);
	doc = json_pack("{s:o, s:I}", "keys", keys, "revision", (json_int_t)a->store.visible);
	text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
	json_decref(doc);
	if (text)
		http_reply(r, 200, API_JSON, text, strlen(text), NULL);
	else
		api_text(r, 503, "out of memory");
	free(text);
}

/* ---- writing ------------------------------------------------------------------------------ */

static void op_free(struct store_op *op)
{
	if (!op)
		return;
	free(op->key);
	free(op->if_match);
	value_put(op->value);
	free((struct disk_op *)op);
}

static struct store_op *op_new(const char *key, const char *if_match)
{
	struct disk_op *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->op.key = strdup(key);
	d->op.if_match = if_match ? strdup(if_match) : NULL;
	if (d->op.key && (d->op.if_match || !if_match))
		return &d->op;
	op_free(&d->op);
	return NULL;
}

static void reply_updated(struct http_request *r, uint64_t rev)
{
	char tag[STORE_TAG], etag[STORE_TAG + 2];
	const char *const more[] = { "ETag", etag, NULL };

	snprintf(etag, sizeof(etag), "\"%s\"", store_tag(rev, tag));
	http_reply(r, 200, API_JSON, "metadata updated", 16, more);
}

/* Tell the client how its change went; frees op. err: why it did not get to the disk, NULL for
 * well. */
static void op_done(struct store_op *op, const struct te_err *err)
{
	struct http_request *r = op->owner;

	/* Nobody waits for an expired key. */
	if (!r)
		goto out;
	if (err)
		api_text(r, err->code == -ENOSPC ? 507 : 500, err->msg);
	else if (op->result == STORE_CONFLICT)
		api_text(r, 412, "the condition does not hold");
	else if (op->result == STORE_NO_MEMORY)
		api_text(r, 503, "out of memory");
	else if (op->type == STORE_PUT)
		reply_updated(r, op->rev);
	else
		http_reply(r, 200, API_JSON, "metadata deleted", 16, NULL);
out:
	op_free(op);
}

static void enqueue(struct api *a, struct store_op *op)
{
	op->next = NULL;
	*a->queue_end = op;
	a->queue_end = &op->next;
	a->queued++;
}

static void submit(struct api *a, struct store_op *op, struct http_request *r)
{
	op->owner = r;
	if (a->disk) {
		enqueue(a, op);
		return;
	}
	if (store_stage(&a->store, op, api_now()) == STORE_STAGED)
		store_commit(&a->store, op);
	op_done(op, NULL);
}

static bool is_utf8(const char *text)
{
	json_t *j = json_string(text);

	json_decref(j);
	return j;
}

/* false: it has been answered. */
static bool parse_ttl(struct http_request *r, uint64_t *ms)
{
	const char *text = http_header(r, "TE-TTL");
	unsigned long long s;
	char *end;

	if (!text)
		return true;
	errno = 0;
	s = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !s || s > TTL_MAX_S) {
		api_text(r, 400, "TE-TTL must be whole seconds, 1 to 2147483647");
		return false;
	}
	*ms = s * 1000;
	return true;
}

static void put(struct api *a, struct http_request *r)
{
	const char *none = http_header(r, "If-None-Match"), *key = http_param(r, "key");
	uint64_t ttl = 0;
	struct store_op *op;
	const char *body;
	size_t len;

	if (none && strcmp(none, "*") != 0) {
		api_text(r, 400, "If-None-Match can only be *");
		return;
	}
	if (!is_utf8(key)) {
		api_text(r, 400, "key is not UTF-8");
		return;
	}
	if (!parse_ttl(r, &ttl))
		return;
	op = op_new(key, http_header(r, "If-Match"));
	body = http_body(r, &len);
	if (op)
		op->value = value_new(body, len);
	if (!op || !op->value) {
		op_free(op);
		api_text(r, 503, "out of memory");
		return;
	}
	op->type = STORE_PUT;
	op->if_absent = none;
	op->ttl = ttl;
	submit(a, op, r);
}

static void del(struct api *a, struct http_request *r)
{
	struct store_op *op = op_new(http_param(r, "key"), http_header(r, "If-Match"));

	if (!op) {
		api_text(r, 503, "out of memory");
		return;
	}
	op->type = STORE_DELETE;
	submit(a, op, r);
}

/* ---- batches ------------------------------------------------------------------------------ */

/* Said once when it begins, and once when it is over. */
static void note_disk(struct api *a, const struct te_err *err)
{
	bool failing = err->code;

	if (failing && !a->disk_failing)
		te_error("%s; writes are refused until that works again", err->msg);
	else if (!failing && a->disk_failing)
		te_warn("writing to the disk works again");
	a->disk_failing = failing;
}

static void finish_batch(struct api *a, uint64_t now)
{
	struct te_err err;
	struct store_op *op = disk_take(a->disk, &err), *next;
	uint64_t half;
	bool staged;

	if (!op)
		return;
	note_disk(a, &err);
	/*
	 * Clients that wait for each reply split into two crowds that take turns. Where a batch
	 * takes several ms it pays to wait a little for those who are answered now, so that the
	 * next one takes all.
	 */
	half = (now - a->batch_began) / 2;
	a->gather_until = now + (half < GATHER_MAX_MS ? half : GATHER_MAX_MS);
	a->crowd = a->queued;
	for (; op; op = next) {
		next = op->next;
		staged = op->result == STORE_STAGED && op->entry;
		if (staged && !err.code)
			store_commit(&a->store, op);
		else if (staged)
			store_abort(&a->store, op);
		op_done(op, err.code ? &err : NULL);
		a->crowd++;
	}
}

/* Returns the moment to try again, UINT64_MAX: no need. */
static uint64_t start_batch(struct api *a, uint64_t now)
{
	struct store_op *op = a->queue, *next, *batch = NULL, **end = &batch;

	if (op && a->queued < a->crowd && now < a->gather_until)
		return a->gather_until;
	a->queue = NULL;
	a->queue_end = &a->queue;
	a->queued = 0;
	for (; op; op = next) {
		next = op->next;
		op->next = NULL;
		if (!((struct disk_op *)op)->expired &&
		    store_stage(&a->store, op, now) != STORE_STAGED && !op->depends) {
			op_done(op, NULL);
			continue;
		}
		*end = op;
		end = &op->next;
	}
	a->batch_began = now;
	if (batch)
		disk_write(a->disk, batch, now);
	return UINT64_MAX;
}

/* An expired key is about to leave memory: the row follows in the next batch. If that fails,
   nothing is wrong: the next start leaves the row out. */
static void expire_row(void *arg, const struct store_entry *e)
{
	struct store_op *op = op_new(e->key, NULL);

	if (!op)
		return;
	op->rev = e->rev;
	((struct disk_op *)op)->expired = true;
	enqueue(arg, op);
}

/* ---- the server's hooks ------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int api_round(void *arg)
{
	struct api *a = arg;
	uint64_t now = api_now(), next = UINT64_MAX;

	if (a->disk)
		finish_batch(a, now);
	/* Revisions of expiry must not overtake those that are staged. */
	if (!a->disk || !disk_is_busy(a->disk)) {
		next = store_expire(&a->store, now, a->disk ? expire_row : NULL, a);
		if (a->disk)
			next = earlier(next, start_batch(a, now));
	}
	next = earlier(next, watch_round(a, now));
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : next - now > 60000 ? 60000 : (int)(next - now);
}

/* What Allow says where a method may not be used; NULL where it may. */
static const char *allowed(const char *path, enum api_method m)
{
	if (!strcmp(path, "/metadata"))
		return m == API_GET || m == API_PUT || m == API_DELETE ? NULL : "GET, PUT, DELETE";
	return m == API_GET || m == API_HEAD ? NULL : "GET, HEAD";
}

static bool is_on(struct http_request *r, const char *param)
{
	const char *text = http_param(r, param);

	return text && !strcmp(text, "1");
}

/* Why this request to /metadata is malformed, NULL when it is not. */
static const char *metadata_fault(struct http_request *r, enum api_method m)
{
	const char *key = http_param(r, "key");

	if (!key && m == API_GET && (is_on(r, "list") || is_on(r, "watch")))
		return NULL;
	if (!key || !*key)
		return "missing key";
	return strlen(key) > API_KEY_MAX ? "key is longer than 4096 bytes" : NULL;
}

static bool admit(void *arg, struct http_request *r)
{
	static const char *const challenge[] = { "WWW-Authenticate", "Bearer", NULL };
	struct api *a = arg;
	const char *path = http_path(r), *fault;
	enum api_method m = metrics_method(http_method(r));
	const char *allow[] = { "Allow", allowed(path, m), NULL };
	bool metadata = !strcmp(path, "/metadata"), health = !strcmp(path, "/health");

	if (!metadata && !health && strcmp(path, "/metrics") != 0) {
		api_text(r, 404, "no such path: /metadata, /metrics and /health are here");
	} else if (a->token && !health &&
		   !token_matches(a->token, http_header(r, "Authorization"))) {
		http_reply(r, 401, API_TEXT, "a bearer token is needed", 24, challenge);
	} else if (allow[1]) {
		http_reply(r, 405, API_TEXT, "method not allowed", 18, allow);
	} else if (metadata && (fault = metadata_fault(r, m))) {
		api_text(r, 400, fault);
	} else {
		return true;
	}
	return false;
}

static void handle(void *arg, struct http_request *r)
{
	struct api *a = arg;
	const char *path = http_path(r);
	enum api_method m = metrics_method(http_method(r));

	if (!strcmp(path, "/health"))
		api_text(r, 200, "OK");
	else if (!strcmp(path, "/metrics"))
		metrics_request(a, r);
	else if (m == API_PUT)
		put(a, r);
	else if (m == API_DELETE)
		del(a, r);
	else if (http_param(r, "key"))
		get(a, r);
	else if (is_on(r, "list"))
		list(a, r);
	else
		watch_request(a, r);
}

static void replied(void *arg, const struct http_request *r, unsigned status)
{
	struct api *a = arg;

	if (status < API_STATUS_MAX)
		a->replies[metrics_method(http_method(r))][status]++;
}

static void changed(void *arg, const char *key)
{
	watch_changed(arg, key);
}

void api_init(struct api *a)
{
	a->queue_end = &a->queue;
	a->watch_next = UINT64_MAX;
	a->store.changed = changed;
	a->store.forget = forget;
	a->store.arg = a;
}

void api_options(struct api *a, struct http_options *opt)
{
	opt->headers = headers;
	opt->admit = admit;
	opt->handle = handle;
	opt->round = api_round;
	opt->replied = replied;
	opt->arg = a;
}

void api_stop(struct api *a)
{
	struct te_err err;
	struct store_op *op, *next;

	a->stopping = true;
	http_stop(a->http);
	/* What is left belongs to requests that are gone: it was never acknowledged. */
	watch_clear(a);
	if (a->disk)
		disk_stop(a->disk);
	for (op = a->disk ? disk_take(a->disk, &err) : NULL; op; op = next) {
		next = op->next;
		op_free(op);
	}
	for (op = a->queue; op; op = next) {
		next = op->next;
		op_free(op);
	}
}
