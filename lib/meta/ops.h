/*
 * ops.h - the inside of te_meta.h: what a store must do, and what stores share.
 *
 * A store is one file and one table. Its object begins with a struct te_meta, which points to the
 * table. Operations run on the caller's thread; several run side by side, so that a store locks
 * only to take a connection and to give it back.
 */
#ifndef TE_META_OPS_H
#define TE_META_OPS_H

#include <stdint.h>

#include "te_conf.h"
#include "te_err.h"
#include "te_meta.h"

/* ---- where a store is --------------------------------------------------------------------- */

struct te_uri {
	char *scheme;
	char *user, *password; /* percent-decoded, NULL when absent */
	char *authority;       /* "h:p[,h:p...]", without user and password */
	char *path;	       /* from the first '/' after the authority on, or "" */
	char *shown;	       /* all of it without user and password */
};

struct te_endpoint {
	char host[256];
	unsigned port;
};

/* No "://" in text: scheme is "etcd". -ENOMEM, -EINVAL. */
int te_uri_parse(const char *text, struct te_uri *out, struct te_err *err);
void te_uri_clear(struct te_uri *u);
/* The authority split at ',' and ';'. *out is malloc'ed; the count (>= 1), or -EINVAL. */
int te_uri_endpoints(const struct te_uri *u, unsigned default_port, struct te_endpoint **out,
		     struct te_err *err);
/* Everything but A-Za-z0-9-._~ as %XX, upper case. malloc'ed. */
char *te_uri_escape(const char *text);

/* ---- a store ------------------------------------------------------------------------------ */

struct te_watch;
struct te_keys;

struct te_meta_ops {
	const char *scheme; /* what te_meta_scheme() says */
	/* All required but those marked. open takes nothing of u; close frees the object. */
	int (*open)(const struct te_uri *u, const struct te_conf *conf, struct te_meta **out,
		    struct te_err *err);
	void (*close)(struct te_meta *m);
	unsigned (*caps)(struct te_meta *m);
	/* out->data and tag are filled on success. -ENOENT "no such key". */
	int (*get)(struct te_meta *m, const char *key, struct te_meta_value *out,
		   struct te_err *err);
	/* opt and tag_out are never NULL; tag_out comes in as "". */
	int (*put)(struct te_meta *m, const char *key, const char *data, size_t len,
		   const struct te_meta_put *opt, char *tag_out, struct te_err *err);
	int (*del)(struct te_meta *m, const char *key, const char *if_match, struct te_err *err);
	/* Adds the keys in any order, repeated ones too. */
	int (*list)(struct te_meta *m, const char *prefix, struct te_keys *keys,
		    struct te_err *err);
	/* Optional: begin to receive changes, call te_watch_resync(), then report them by
	   te_watch_put() and te_watch_deleted(). 1 when one of these or the stop_fd asked for the
	   end; negative when the stream broke: it is called again. NULL: te_watch_poll(). */
	int (*watch)(struct te_meta *m, struct te_watch *w, struct te_err *err);
	int (*ping)(struct te_meta *m, struct te_err *err);
};

struct te_meta {
	const struct te_meta_ops *ops;
	struct te_conf conf;
	char *uri;			/* without credentials */
	char *prefix;
};

extern const struct te_meta_ops te_store_http, te_store_redis, te_store_etcd, te_store_p2p;

/*
 * te_wrap() where the failure means something else further up: code is what the caller shall see.
 * Returns it.
 */
int te_recode(struct te_err *err, int code, const char *context);
/* When an operation that begins now must end (te_now() scale). */
uint64_t te_store_until(const struct te_meta *m);
/* malloc'ed copy with a NUL after it. -ENOMEM. */
int te_store_value(struct te_meta_value *v, const char *data, size_t len, struct te_err *err);

/* ---- sets of keys ------------------------------------------------------------------------- */

struct te_key {
	char *key;
	char *print;			/* fingerprint of the value; NULL: not known */
};

struct te_keys {
	struct te_key *v;
	size_t n, cap;
};

/* A key with a NUL in it, which te's calls cannot name, is left out. -ENOMEM. */
int te_keys_add(struct te_keys *k, const char *key, size_t len);
/* Bytewise order, each key once. */
void te_keys_sort(struct te_keys *k);
/* Of a sorted set; NULL when it is not there. */
struct te_key *te_keys_find(const struct te_keys *k, const char *key);
/* Insert into or change a sorted set. -ENOMEM. */
int te_keys_set(struct te_keys *k, const char *key, const char *print);
void te_keys_remove(struct te_keys *k, const char *key);
void te_keys_clear(struct te_keys *k);

/* A short word for a value: equal values give equal words. */
void te_fingerprint(const char *data, size_t len, char out[TE_META_TAG_MAX]);

/* ---- watching ----------------------------------------------------------------------------- */

struct te_watch {			/* one te_meta_watch() call; its thread owns it */
	struct te_meta *m;
	const char *prefix;
	int (*cb)(void *arg, const struct te_meta_event *ev);
	void *arg;
	int stop_fd;
	struct te_keys known;		/* what the callback has been told, sorted */
	bool synced;			/* known was filled once: differences are reported from now on */
	bool healthy;			/* resync has worked since the last try to connect */
};

/* List, compare with what is known, report the differences (none the first time). 0; 1: the
   callback wants the end; negative. */
int te_watch_resync(struct te_watch *w, struct te_err *err);
/* Tell the callback, unless it knows: engines put the same bytes again to keep a key alive. 0, or 1:
   it wants the end; -ENOMEM. */
int te_watch_put(struct te_watch *w, const char *key, const char *data, size_t len);
int te_watch_deleted(struct te_watch *w, const char *key);
/* resync once a second until the end. As ops->watch. */
int te_watch_poll(struct te_watch *w, struct te_err *err);
/* Wait for stop_fd or ms: 1 when stop_fd is readable, else 0. */
int te_watch_wait(const struct te_watch *w, int ms);

#endif
