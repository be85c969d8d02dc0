/* test_http_meta.c - te-http-meta's store and event log, and the URLs of the HTTP server. */
#include <string.h>

#include "http_uri.h"
#include "tap.h"
#include "te-http-meta/store.h"

/* ---- URLs --------------------------------------------------------------------------------- */

static void test_uri(void)
{
	static const char *const bad[] = { "/m?key=%",	  "/m?key=%4",	 "/m?key=%zz", "/m?key=%0g",
					   "/m?key=a%00", "/m%00?key=a", "/m?%00=a" };
	struct http_uri u;
	char many[200] = "/m?";
	size_t i;

	ok(http_uri_parse(&u, "/metadata?key=mooncake%2Fram%2F127.0.0.1%3A1&x&y=&key=2"), "a URL");
	ok(!strcmp(u.path, "/metadata"), "path");
	ok(!strcmp(http_uri_param(&u, "key"), "mooncake/ram/127.0.0.1:1"),
	   "decoded, the first counts");
	ok(!strcmp(http_uri_param(&u, "x"), ""), "a name alone");
	ok(!strcmp(http_uri_param(&u, "y"), ""), "an empty value");
	ok(!http_uri_param(&u, "z"), "an absent one");
	http_uri_clear(&u);

	ok(http_uri_parse(&u, "/a%2fb+c?k=a+b%2B%c3%a4?&&q=1"), "odd characters");
	ok(!strcmp(u.path, "/a/b+c"), "plus in a path is plus");
	ok(!strcmp(http_uri_param(&u, "k"), "a b+\xc3\xa4?"), "plus in a query is a space");
	ok(!strcmp(http_uri_param(&u, "q"), "1"), "empty parameters do not count");
	http_uri_clear(&u);

	ok(http_uri_parse(&u, "HTTP://host:80/metadata?key=a") && !strcmp(u.path, "/metadata"),
	   "absolute form");
	http_uri_clear(&u);
	ok(http_uri_parse(&u, "http://host?key=a") && !strcmp(u.path, ""),
	   "absolute form without path");
	http_uri_clear(&u);
	ok(http_uri_parse(&u, "") && !strcmp(u.path, ""), "nothing at all");
	http_uri_clear(&u);

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ok(!http_uri_parse(&u, bad[i]) && !u.params && !*u.path, "refused: %s", bad[i]);
		http_uri_clear(&u);
	}
	for (i = 0; i < HTTP_URI_PARAMS; i++)
		memcpy(many + 3 + i * 4, "a=1&", 5);
	ok(http_uri_parse(&u, many) && u.params == HTTP_URI_PARAMS, "as many parameters as fit");
	http_uri_clear(&u);
	memcpy(many + 3 + i * 4, "a=1", 4);
	ok(!http_uri_parse(&u, many), "one more is refused");
	http_uri_clear(&u);
}

/* ---- events ------------------------------------------------------------------------------- */

static void test_events(void)
{
	struct value *v = value_new("0123456789", 10);
	struct events e;
	unsigned rev;

	ok(events_init(&e, 100, 4, 25), "a log of 4 events, 25 bytes");
	ok(events_since(&e, 100) == 0 && events_since(&e, 99) == -1, "empty: knows its base only");
	for (rev = 102; rev <= 108; rev += 2)
		events_add(&e, rev, "k", NULL);
	ok(events_since(&e, 100) == 0 && events_since(&e, 101) == 0, "from the base on");
	ok(events_since(&e, 102) == 1 && events_since(&e, 105) == 2, "in the middle");
	ok(events_since(&e, 108) == 4 && events_since(&e, 200) == 4, "nothing new");
	events_add(&e, 110, "k5", NULL);
	ok(e.count == 4 && events_at(&e, 3)->rev == 110, "full: the oldest goes");
	ok(events_since(&e, 101) == -1 && events_since(&e, 102) == 0, "and is not known any more");
	events_add(&e, 112, "v1", v);
	events_add(&e, 114, "v2", v);
	events_add(&e, 116, "v3", v);
	ok(e.bytes == 20 && e.count == 2 && events_since(&e, 112) == 0, "the bytes are bounded");
	ok(v->refs == 3, "references are dropped with the events");
	events_clear(&e);
	ok(v->refs == 1, "all of them");

	events_init(&e, 0, 4, 5);
	events_add(&e, 1, "big", v);
	ok(e.count == 1, "the newest stays even if it is too big");
	events_clear(&e);
	value_put(v);
}

/* ---- the store ---------------------------------------------------------------------------- */

struct seen {
	char keys[200];
};

static void note_key(void *arg, const char *key)
{
	struct seen *s = arg;
	size_t len = strlen(s->keys);

	snprintf(s->keys + len, sizeof(s->keys) - len, "%s ", key);
}

static void note_entry(void *arg, const struct store_entry *e)
{
	note_key(arg, e->key);
}

static struct store_op make_put(const char *key, const char *text, uint64_t ttl)
{
	return (struct store_op){
		.type = STORE_PUT,
		.key = (char *)(uintptr_t)key,
		.value = value_new(text, strlen(text)),
		.ttl = ttl,
	};
}

static void put(struct store *s, const char *key, const char *text, uint64_t ttl, uint64_t now)
{
	struct store_op op = make_put(key, text, ttl);

	if (store_stage(s, &op, now) == STORE_STAGED)
		store_commit(s, &op);
	value_put(op.value);
}

static bool holds(const struct store *s, const char *key, const char *text, uint64_t now)
{
	const struct store_entry *e = store_find(s, key, now);

	if (!text)
		return !e;
	return e && e->value->len == strlen(text) && !memcmp(e->value->data, text, strlen(text));
}

static void test_basics(void)
{
	struct store s;
	struct seen seen = { "" }, all = { "" };
	struct store_op del = { .type = STORE_DELETE, .key = (char[]){ "b" } };
	uint64_t rev;

	ok(store_init(&s, 1000), "a store");
	s.changed = note_key;
	s.arg = &seen;
	put(&s, "b", "1", 0, 5);
	put(&s, "a/\xc3\xa4", "2", 0, 5);
	put(&s, "a/b", "33", 0, 5);
	put(&s, "a/", "", 0, 5);
	ok(holds(&s, "b", "1", 5) && holds(&s, "a/", "", 5) && holds(&s, "a", NULL, 5),
	   "what was put");
	ok(s.keys == 4 && s.bytes == 4 && s.visible == 1004, "counted");
	store_list(&s, "a/", 5, note_entry, &all);
	ok(!strcmp(all.keys, "a/ a/b a/\xc3\xa4 "), "listed bytewise: %s", all.keys);
	ok(!strcmp(seen.keys, "b a/\xc3\xa4 a/b a/ "), "changes are told in order");
	put(&s, "b", "one", 0, 6);
	ok(holds(&s, "b", "one", 6) && s.keys == 4 && s.bytes == 6, "overwritten");
	rev = s.rev;
	ok(store_stage(&s, &del, 7) == STORE_STAGED && holds(&s, "b", "one", 7),
	   "staged: not yet seen");
	store_commit(&s, &del);
	ok(holds(&s, "b", NULL, 7) && s.keys == 3 && s.visible == rev + 1, "deleted");
	ok(store_stage(&s, &del, 7) == STORE_NOTHING && s.rev == rev + 1,
	   "deleting nothing is nothing");
	store_clear(&s);
}

static enum store_result try_put(struct store *s, const char *key, bool absent, const char *match)
{
	struct store_op op = make_put(key, "x", 0);

	op.if_absent = absent;
	op.if_match = (char *)(uintptr_t)match;
	if (store_stage(s, &op, 0) == STORE_STAGED)
		store_commit(s, &op);
	value_put(op.value);
	return op.result;
}

static void test_conditions(void)
{
	struct store s;
	char tag[STORE_TAG], list[100];

	store_init(&s, 0x1234567890);
	ok(try_put(&s, "k", false, "*") == STORE_CONFLICT, "If-Match: * needs a key");
	ok(try_put(&s, "k", true, NULL) == STORE_STAGED, "put if absent");
	ok(try_put(&s, "k", true, NULL) == STORE_CONFLICT, "only once");
	ok(!strcmp(store_tag(s.rev, tag), "1234567891"), "a tag is the revision");
	snprintf(list, sizeof(list), "\"%s\"", tag);
	ok(try_put(&s, "k", false, list) == STORE_STAGED, "If-Match holds");
	ok(try_put(&s, "k", false, list) == STORE_CONFLICT, "and then no more");
	snprintf(list, sizeof(list), "\"zz\", \"%s\"", store_tag(s.rev, tag));
	ok(try_put(&s, "k", false, list) == STORE_STAGED, "one of a list");
	ok(try_put(&s, "k", false, store_tag(s.rev, tag)) == STORE_STAGED, "a bare word");
	snprintf(list, sizeof(list), "W/\"%s\"", store_tag(s.rev, tag));
	ok(try_put(&s, "k", false, list) == STORE_CONFLICT, "a weak tag never");
	tag[3] = '\0';
	ok(try_put(&s, "k", false, tag) == STORE_CONFLICT, "the beginning of a tag is not enough");
	ok(try_put(&s, "k", false, "") == STORE_CONFLICT, "nor is nothing");
	ok(try_put(&s, "k", false, "\"") == STORE_CONFLICT, "nor a lone quote");
	ok(try_put(&s, "k", false, "*") == STORE_STAGED, "*: any");
	store_clear(&s);
}

static void test_batches(void)
{
	struct store s;
	struct store_op first = make_put("k", "1", 0), second = make_put("k", "2", 0);
	struct store_op third = make_put("k", "3", 0);
	struct store_op del = { .type = STORE_DELETE, .key = (char[]){ "k" } };

	store_init(&s, 0);
	first.if_absent = second.if_absent = true;
	store_stage(&s, &first, 0);
	ok(store_stage(&s, &second, 0) == STORE_CONFLICT && second.depends,
	   "a condition sees what is staged, and says so");
	ok(store_stage(&s, &del, 0) == STORE_STAGED, "so does a delete");
	second.if_absent = false;
	ok(store_stage(&s, &second, 0) == STORE_STAGED, "and a put after that");
	store_commit(&s, &first);
	ok(holds(&s, "k", "1", 0) && s.visible == 1, "the first is seen");
	store_commit(&s, &del);
	ok(holds(&s, "k", NULL, 0), "then the delete");
	store_commit(&s, &second);
	ok(holds(&s, "k", "2", 0) && s.keys == 1, "then the second put");
	ok(s.events.count == 3, "three events");

	store_stage(&s, &del, 0);
	store_stage(&s, &third, 0);
	store_abort(&s, &del);
	store_abort(&s, &third);
	ok(holds(&s, "k", "2", 0) && s.visible == 3, "aborted: as before");
	third.if_match = (char[]){ "\"3\"" };
	ok(store_stage(&s, &third, 0) == STORE_STAGED, "conditions do not see aborted changes");
	store_abort(&s, &third);

	value_put(first.value);
	first = make_put("new", "1", 0);
	store_stage(&s, &first, 0);
	ok(holds(&s, "new", NULL, 0), "a new key that is staged is not seen");
	store_abort(&s, &first);
	ok(holds(&s, "new", NULL, 0) && s.keys == 1, "nor when aborted");
	value_put(first.value);
	value_put(second.value);
	value_put(third.value);
	store_clear(&s);
}

static void test_expiry(void)
{
	struct store s;
	struct seen gone = { "" }, list = { "" };
	struct store_op refresh;
	size_t events;

	store_init(&s, 0);
	put(&s, "a", "1", 1000, 0);
	put(&s, "b", "1", 5000, 0);
	put(&s, "c", "1", 0, 0);
	put(&s, "d", "1", 1000, 0);
	put(&s, "d", "2", 0, 10);
	ok(store_expire(&s, 999, note_entry, &gone) == 1000 && !*gone.keys, "not yet");
	ok(holds(&s, "a", "1", 999) && holds(&s, "a", NULL, 1000), "expired keys are not seen");
	store_list(&s, "", 1000, note_entry, &list);
	ok(!strcmp(list.keys, "b c d "), "nor listed: %s", list.keys);
	events = s.events.count;
	ok(store_expire(&s, 1000, note_entry, &gone) == 5000, "the next one is known");
	ok(!strcmp(gone.keys, "a ") && s.keys == 3, "one is gone");
	ok(s.events.count == events + 1 && !events_at(&s.events, events)->value,
	   "watchers hear of it");
	ok(holds(&s, "d", "2", 1000000), "a put without time to live makes it permanent");

	events = s.events.count;
	put(&s, "b", "1", 5000, 4000);
	ok(s.events.count == events, "a heartbeat is no event");
	put(&s, "b", "2", 5000, 4000);
	ok(s.events.count == events + 1, "another value is");
	put(&s, "c", "1", 0, 4000);
	ok(s.events.count == events + 2, "and so is a put of a permanent key");

	refresh = make_put("b", "2", 5000);
	store_stage(&s, &refresh, 8999);
	*gone.keys = '\0';
	ok(store_expire(&s, 9500, note_entry, &gone) > 9500 && !*gone.keys,
	   "a key with something staged stays");
	store_commit(&s, &refresh);
	ok(holds(&s, "b", "2", 9500) && store_expire(&s, 9700, NULL, NULL) == 13999,
	   "and lives on");
	ok(store_expire(&s, 20000, note_entry, &gone) == UINT64_MAX && !strcmp(gone.keys, "b "),
	   "until its time has come");
	ok(try_put(&s, "e", true, NULL) == STORE_STAGED, "a new key");
	put(&s, "f", "1", 10, 0);
	refresh.key = (char[]){ "f" };
	refresh.if_absent = true;
	ok(store_stage(&s, &refresh, 10) == STORE_STAGED, "an expired key is absent");
	store_commit(&s, &refresh);
	value_put(refresh.value);
	store_clear(&s);
}

static void test_many(void)
{
	enum { N = 20000 };
	struct store s;
	char key[32];
	int i;

	store_init(&s, 0);
	for (i = 0; i < N; i++) {
		snprintf(key, sizeof(key), "key/%d", i);
		put(&s, key, key, i % 2 ? 100 : 0, 0);
	}
	ok(s.keys == N, "%d keys", N);
	store_expire(&s, 200, NULL, NULL);
	ok(s.keys == N / 2, "half of them expire");
	ok(holds(&s, "key/0", "key/0", 200) && holds(&s, "key/1", NULL, 200), "the right ones");
	store_clear(&s);
}

int main(void)
{
	test_uri();
	test_events();
	test_basics();
	test_conditions();
	test_batches();
	test_expiry();
	test_many();
	return tap_end();
}
