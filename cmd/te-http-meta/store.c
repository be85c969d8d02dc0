/* store.c - keys and values in memory, with revisions, time to live and conditions. */
#include "store.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>

/* Expired keys are invisible at once; how late they may be removed (and watchers told). */
enum { EXPIRY_GRAIN_MS = 100 };

static int compare(const void *a, const void *b)
{
	const struct store_entry *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static struct store_entry *lookup(const struct store *s, const char *key)
{
	struct store_entry probe = { .key = (char *)(uintptr_t)key };
	struct store_entry **found = tfind(&probe, &s->root, compare);

	return found ? *found : NULL;
}

static void entry_free(void *arg)
{
	struct store_entry *e = arg;

	free(e->key);
	free(e);
}

/* The entry of key, made if there is none; NULL when memory is out. */
static struct store_entry *need(struct store *s, const char *key)
{
	struct store_entry *e = lookup(s, key);

	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->key = strdup(key);
	if (!e->key || !tsearch(e, &s->root, compare)) {
		entry_free(e);
		return NULL;
	}
	return e;
}

/* Forget an entry that holds nothing any more. */
static void drop_empty(struct store *s, struct store_entry *e)
{
	if (e->value || e->staged)
		return;
	tdelete(e, &s->root, compare);
	entry_free(e);
}

static bool is_live(const struct store_entry *e, uint64_t now)
{
	return e->value && (!e->expires || e->expires > now);
}

bool store_init(struct store *s, uint64_t base)
{
	*s = (struct store){ .rev = base, .visible = base, .next_expiry = UINT64_MAX };
	return events_init(&s->events, base, EVENTS_MAX, EVENTS_BYTES);
}

static void set_value(struct store *s, struct store_entry *e, struct value *value, uint64_t rev,
		      uint64_t expires)
{
	if (e->memo)
		s->forget(s->arg, e->memo);
	e->memo = NULL;
	if (e->value) {
		s->keys--;
		s->bytes -= e->value->len;
		value_put(e->value);
	}
	e->value = value;
	e->rev = rev;
	e->expires = expires;
	if (value) {
		s->keys++;
		s->bytes += value->len;
	}
	if (expires && expires < s->next_expiry)
		s->next_expiry = expires;
}

static void walk_clear(const void *node, VISIT which, void *arg)
{
	if (which == postorder || which == leaf)
		set_value(arg, *(struct store_entry *const *)node, NULL, 0, 0);
}

void store_clear(struct store *s)
{
	twalk_r(s->root, walk_clear, s);
	tdestroy(s->root, entry_free);
	events_clear(&s->events);
	*s = (struct store){ 0 };
}

bool store_load(struct store *s, const char *key, struct value *value, uint64_t rev,
		uint64_t expires)
{
	struct store_entry *e = need(s, key);

	if (!e) {
		value_put(value);
		return false;
	}
	set_value(s, e, value, rev, expires);
	return true;
}

struct store_entry *store_find(const struct store *s, const char *key, uint64_t now)
{
	struct store_entry *e = lookup(s, key);

	return e && is_live(e, now) ? e : NULL;
}

/* ---- walks -------------------------------------------------------------------------------- */

struct walk {
	const char *prefix;
	size_t len;
	uint64_t now;
	void (*cb)(void *arg, const struct store_entry *e);
	void *arg;
};

static void walk_list(const void *node, VISIT which, void *arg)
{
	const struct store_entry *e = *(struct store_entry *const *)node;
	struct walk *w = arg;

	if ((which == postorder || which == leaf) && is_live(e, w->now) &&
	    !strncmp(e->key, w->prefix, w->len))
		w->cb(w->arg, e);
}

void store_list(const struct store *s, const char *prefix, uint64_t now,
		void (*cb)(void *arg, const struct store_entry *e), void *arg)
{
	struct walk w = { prefix, strlen(prefix), now, cb, arg };

	twalk_r(s->root, walk_list, &w);
}

struct expiry {
	uint64_t now, next;
	struct store_entry **gone;
	size_t count, size;
};

static void walk_expiry(const void *node, VISIT which, void *arg)
{
	struct store_entry *e = *(struct store_entry *const *)node, **more;
	struct expiry *x = arg;

	if ((which != postorder && which != leaf) || !e->value || !e->expires)
		return;
	if (e->expires <= x->now && !e->staged) {
		if (x->count == x->size) {
			more = reallocarray(x->gone, x->size * 2 + 64, sizeof(*more));
			if (!more) {
				x->next = x->now; /* try again soon */
				return;
			}
			x->gone = more;
			x->size = x->size * 2 + 64;
		}
		x->gone[x->count++] = e;
	} else if (e->expires < x->next) {
		x->next = e->expires;
	}
}

uint64_t store_expire(struct store *s, uint64_t now,
		      void (*cb)(void *arg, const struct store_entry *e), void *arg)
{
	struct expiry x = { .now = now, .next = UINT64_MAX };
	struct store_entry *e;
	size_t i;

	if (now < s->next_expiry)
		return s->next_expiry;
	twalk_r(s->root, walk_expiry, &x);
	for (i = 0; i < x.count; i++) {
		e = x.gone[i];
		if (cb)
			cb(arg, e);
		s->visible = ++s->rev;
		events_add(&s->events, s->rev, e->key, NULL);
		if (s->changed)
			s->changed(s->arg, e->key);
		set_value(s, e, NULL, s->rev, 0);
		drop_empty(s, e);
	}
	free(x.gone);
	/* Not for every single key of a crowd: the walk goes over all. */
	s->next_expiry = x.next < now + EXPIRY_GRAIN_MS ? now + EXPIRY_GRAIN_MS : x.next;
	return s->next_expiry;
}

/* ---- changes ------------------------------------------------------------------------------ */

const char *store_tag(uint64_t rev, char buf[STORE_TAG])
{
	snprintf(buf, STORE_TAG, "%" PRIx64, rev);
	return buf;
}

/* Is the tag of rev in an If-Match list ("*", or "TAG", "TAG"...; a bare word counts as well)? */
static bool tag_matches(const char *list, uint64_t rev)
{
	char tag[STORE_TAG];
	size_t len;

	store_tag(rev, tag);
	for (;;) {
		list += strspn(list, " \t,");
		if (!*list)
			return false;
		if (*list == '*')
			return true;
		len = strcspn(list, " \t,");
		if (len >= 2 && *list == '"' && list[len - 1] == '"') {
			if (len - 2 == strlen(tag) && !memcmp(list + 1, tag, len - 2))
				return true;
		} else if (len == strlen(tag) && !memcmp(list, tag, len)) {
			return true;
		}
		list += len;
	}
}

enum store_result store_stage(struct store *s, struct store_op *op, uint64_t now)
{
	struct store_entry *e = lookup(s, op->key);
	const struct store_op *last = e ? e->staged : NULL;
	bool exists = last ? last->type == STORE_PUT : e && is_live(e, now);
	uint64_t rev = last ? last->rev : e ? e->rev : 0;

	op->depends = last;
	if ((op->if_absent && exists) ||
	    (op->if_match && !(exists && tag_matches(op->if_match, rev))))
		return op->result = STORE_CONFLICT;
	if (op->type == STORE_DELETE && !exists)
		return op->result = STORE_NOTHING;
	e = need(s, op->key);
	if (!e)
		return op->result = STORE_NO_MEMORY;
	op->entry = e;
	op->rev = ++s->rev;
	op->expires = op->ttl ? now + op->ttl : 0;
	e->staged = op;
	return op->result = STORE_STAGED;
}

/* A heartbeat writes the same bytes with a new time to live: nothing that a watcher wants to hear.
 */
static bool is_heartbeat(const struct store_entry *e, const struct store_op *op)
{
	return e->value && e->expires && op->expires && e->value->len == op->value->len &&
	       !memcmp(e->value->data, op->value->data, op->value->len);
}

void store_commit(struct store *s, struct store_op *op)
{
	struct store_entry *e = op->entry;
	bool put = op->type == STORE_PUT;
	bool silent = put && is_heartbeat(e, op);

	set_value(s, e, put ? value_ref(op->value) : NULL, op->rev, op->expires);
	s->visible = op->rev;
	if (!silent) {
		events_add(&s->events, op->rev, e->key, e->value);
		if (s->changed)
			s->changed(s->arg, e->key);
	}
	if (e->staged == op)
		e->staged = NULL;
	op->entry = NULL;
	drop_empty(s, e);
}

void store_abort(struct store *s, struct store_op *op)
{
	struct store_entry *e = op->entry;

	op->entry = NULL;
	if (e->staged != op)
		return;
	e->staged = NULL;
	drop_empty(s, e);
}
