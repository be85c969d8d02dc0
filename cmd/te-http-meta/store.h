/*
 * store.h - keys and values in memory, with revisions, time to live and conditions. No I/O, no
 * clock, no lock: one thread owns it, and times are milliseconds that the caller passes in (any
 * monotonic scale).
 *
 * A change goes through two steps, so that memory never runs ahead of the disk: store_stage()
 * checks its condition against what is committed and what is staged before it, and gives it a
 * revision; store_commit() makes it visible, in the order of staging, or store_abort() drops it,
 * together with all that was staged after it.
 */
#ifndef TE_HTTP_META_STORE_H
#define TE_HTTP_META_STORE_H

#include "events.h"

enum { STORE_TAG = 24 };

struct store_entry;

struct store_op {
	struct store_op *next; /* the caller's */
	void *owner;	       /* the caller's */
	enum { STORE_PUT, STORE_DELETE } type;
	char *key;
	struct value *value; /* of a put */
	uint64_t ttl;	     /* of a put: ms, 0 = for ever */
	bool if_absent;
	char *if_match; /* text of If-Match, NULL: none */

	/* Set by store_stage(). */
	enum store_result {
		STORE_STAGED,	/* to be committed or aborted */
		STORE_NOTHING,	/* delete of what is not there */
		STORE_CONFLICT, /* condition failed */
		STORE_NO_MEMORY,
	} result;
	bool depends;	       /* the result rests on an op that is staged and not yet committed */
	uint64_t rev, expires; /* expires: moment, 0 = never */
	struct store_entry *entry;
};

struct store_entry {
	char *key;
	struct value *value; /* NULL: nothing committed */
	uint64_t rev, expires;
	struct store_op *staged; /* the last one */
	void *memo;		 /* what a reader made of the value, to be found again; goes with the value */
};

struct store {
	void *root; /* tsearch tree: ordered, and no key can be chosen to make it slow */
	struct events events;
	uint64_t rev;	      /* the last one given out */
	uint64_t visible;     /* the last one committed */
	size_t keys, bytes;   /* committed; bytes of values */
	uint64_t next_expiry; /* no key expires before; UINT64_MAX */
	/* Optional: called for each change that becomes visible. */
	void (*changed)(void *arg, const char *key);
	/* Frees a memo; needed where memos are made. */
	void (*forget)(void *arg, void *memo);
	void *arg;
};

/* base: the first revision is greater; must grow from one run to the next (tags and watchers rely
 * on it). */
bool store_init(struct store *s, uint64_t base);
void store_clear(struct store *s);
/* At start: a key as it was. Takes value. */
bool store_load(struct store *s, const char *key, struct value *value, uint64_t rev,
		uint64_t expires);

/* NULL when absent or expired. The caller may set memo. */
struct store_entry *store_find(const struct store *s, const char *key, uint64_t now);
/* All keys that begin with prefix, bytewise sorted. */
void store_list(const struct store *s, const char *prefix, uint64_t now,
		void (*cb)(void *arg, const struct store_entry *e), void *arg);

enum store_result store_stage(struct store *s, struct store_op *op, uint64_t now);
void store_commit(struct store *s, struct store_op *op);
void store_abort(struct store *s, struct store_op *op);

/* Drop what has expired (but for keys with something staged). Nothing may be staged with a lower
   revision than the last. cb is called before each goes, NULL: not. Returns the moment of the next
   call, UINT64_MAX for none. */
uint64_t store_expire(struct store *s, uint64_t now,
		      void (*cb)(void *arg, const struct store_entry *e), void *arg);

/* The opaque word for a revision. */
const char *store_tag(uint64_t rev, char buf[STORE_TAG]);

#endif
