/* watch.c - long polls: requests that wait until something below their prefix changes. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "api.h"

enum {
	TIMEOUT_DEFAULT_S = 30,
	TIMEOUT_MAX_S = 60,
	/* A reply that reaches one of these says how far it goes, and the client asks on. */
	REPLY_EVENTS = 1000,
	REPLY_BYTES = 8 << 20,
};

struct watcher {
	struct watcher *next;
	struct http_request *r;
	const char *prefix; /* r's */
	uint64_t since, deadline;
	bool hit;
};

static bool begins(const char *key, const char *prefix)
{
	return !strncmp(key, prefix, strlen(prefix));
}

static char *base64(const char *data, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = (const unsigned char *)data;
	char *text = malloc((len + 2) / 3 * 4 + 1), *out = text;
	unsigned v;
	size_t i;

	if (!text)
		return NULL;
	for (i = 0; i < len; i += 3) {
		v = (unsigned)in[i] << 16;
		v |= i + 1 < len ? (unsigned)in[i + 1] << 8 : 0;
		v |= i + 2 < len ? in[i + 2] : 0;
		*out++ = digits[v >> 18];
		*out++ = digits[v >> 12 & 63];
		*out++ = i + 1 < len ? digits[v >> 6 & 63] : '=';
		*out++ = i + 2 < len ? digits[v & 63] : '=';
	}
	*out = '\0';
	return text;
}

static json_t *event_json(const struct event *ev)
{
	json_t *o;
	char *text;

	if (!ev->value)
		return json_pack("{s:s, s:s}", "type", "delete", "key", ev->key);
	text = base64(ev->value->data, ev->value->len);
	if (!text)
		return NULL;
	o = json_pack("{s:s, s:s, s:s}", "type", "put", "key", ev->key, "value_base64", text);
	free(text);
	return o;
}

/* Events below prefix after `first`; *upto becomes the revision that they reach. NULL: memory is
 * out. */
static json_t *collect(struct api *a, const char *prefix, size_t first, uint64_t *upto)
{
	const struct events *log = &a->store.events;
	json_t *list = json_array();
	const struct event *ev;
	size_t i, bytes = 0;

	*upto = a->store.visible;
	for (i = first; i < log->count; i++) {
		ev = events_at(log, i);
		if (!begins(ev->key, prefix))
			continue;
		if (json_array_append_new(list, event_json(ev)) < 0) {
			json_decref(list);
			return NULL;
		}
		bytes += ev->value ? ev->value->len : 0;
		if (json_array_size(list) == REPLY_EVENTS || bytes >= REPLY_BYTES) {
			*upto = ev->rev;
			break;
		}
	}
	return list;
}

/* Takes events. malloc'ed, NULL: memory is out. */
static char *reply_text(json_t *events, uint64_t revision)
{
	json_t *doc =
		events ? json_pack("{s:I, s:o}", "revision", (json_int_t)revision, "events", events)
		       : NULL;
	char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;

	json_decref(doc);
	return text;
}

/* Takes events. */
static void reply(struct http_request *r, json_t *events, uint64_t revision)
{
	char *text = reply_text(events, revision);

	if (text)
		http_reply(r, 200, API_JSON, text, strlen(text), NULL);
	else
		api_text(r, 503, "out of memory");
	free(text);
}

static void reply_since(struct api *a, struct http_request *r, const char *prefix, uint64_t since)
{
	long first = events_since(&a->store.events, since);
	uint64_t upto;
	json_t *events;

	if (first < 0) {
		api_text(r, 410, "that revision is too old: list again");
		return;
	}
	events = collect(a, prefix, (size_t)first, &upto);
	reply(r, events, upto);
}

static bool has_news(const struct events *log, const char *prefix, size_t first)
{
	for (; first < log->count; first++) {
		if (begins(events_at(log, first)->key, prefix))
			return true;
	}
	return false;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *out <= max;
}

static void wait_for_news(struct api *a, struct http_request *r, const char *prefix, uint64_t since,
			  uint64_t timeout_s)
{
	struct watcher *w = calloc(1, sizeof(*w));

	if (!w) {
		api_text(r, 503, "out of memory");
		return;
	}
	w->r = r;
	w->prefix = prefix;
	w->since = since;
	w->deadline = api_now() + timeout_s * 1000;
	w->next = a->watchers;
	a->watchers = w;
	a->watcher_count++;
	if (w->deadline < a->watch_next)
		a->watch_next = w->deadline;
}

void watch_request(struct api *a, struct http_request *r)
{
	const char *prefix = http_param(r, "prefix"), *text = http_param(r, "since");
	const char *timeout = http_param(r, "timeout");
	uint64_t since, timeout_s = TIMEOUT_DEFAULT_S;
	long first;

	prefix = prefix ? prefix : "";
	if (!text) {
		reply(r, json_array(), a->store.visible);
		return;
	}
	if (!parse_number(text, INT64_MAX, &since)) {
		api_text(r, 400, "since is no revision");
		return;
	}
	if (timeout && !parse_number(timeout, TIMEOUT_MAX_S, &timeout_s)) {
		api_text(r, 400, "timeout must be 0 to 60 seconds");
		return;
	}
	/* A revision that this server has not reached comes from another one. */
	first = since > a->store.visible ? -1 : events_since(&a->store.events, since);
	if (first < 0)
		api_text(r, 410, "that revision is not known any more: list again");
	else if (!timeout_s || has_news(&a->store.events, prefix, (size_t)first))
		reply_since(a, r, prefix, since);
	else
		wait_for_news(a, r, prefix, since, timeout_s);
}

void watch_changed(struct api *a, const char *key)
{
	struct watcher *w;

	for (w = a->watchers; w; w = w->next) {
		if (!w->hit && begins(key, w->prefix))
			w->hit = a->watcher_hit = true;
	}
}

/* What the last watcher of a round was told: many that wait for the same are told the same, made
 * once. */
struct told {
	char *prefix;
	uint64_t since;
	char *text;
};

static void forget(struct told *t)
{
	free(t->prefix);
	free(t->text);
	t->prefix = t->text = NULL;
}

static void tell(struct api *a, struct told *t, const struct watcher *w)
{
	uint64_t since = w->hit ? w->since : a->store.visible, upto;
	long first = events_since(&a->store.events, since);
	json_t *events;

	if (!t->text || t->since != since || strcmp(t->prefix, w->prefix) != 0) {
		forget(t);
		t->since = since;
		t->prefix = strdup(w->prefix);
		if (t->prefix && first >= 0) {
			events = collect(a, w->prefix, (size_t)first, &upto);
			t->text = reply_text(events, upto);
		}
	}
	if (t->text)
		http_reply(w->r, 200, API_JSON, t->text, strlen(t->text), NULL);
	else
		reply_since(a, w->r, w->prefix, since);
}

uint64_t watch_round(struct api *a, uint64_t now)
{
	struct watcher **at = &a->watchers, *w;
	struct told told = { 0 };

	if (!a->watcher_hit && now < a->watch_next && !a->stopping)
		return a->watch_next;
	a->watcher_hit = false;
	a->watch_next = UINT64_MAX;
	while ((w = *at)) {
		if (w->hit || now >= w->deadline || a->stopping) {
			*at = w->next;
			a->watcher_count--;
			tell(a, &told, w);
			free(w);
			continue;
		}
		if (w->deadline < a->watch_next)
			a->watch_next = w->deadline;
		at = &w->next;
	}
	forget(&told);
	return a->watch_next;
}

void watch_clear(struct api *a)
{
	struct watcher *w;

	while ((w = a->watchers)) {
		a->watchers = w->next;
		free(w);
	}
}
