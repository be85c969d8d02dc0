/*
 * te_meta.h - the metadata store: small values under string keys.
 *
 * The same calls for http, redis, etcd and P2PHANDSHAKE; te_meta_caps() says what a store cannot
 * do, and the call then fails with -EOPNOTSUPP and one clear sentence. All calls block, at most
 * min(5 s, MC_TRANSFER_TIMEOUT) for each operation, and may be made from several threads at once,
 * which run side by side. Errors carry the store's own text; never a credential.
 */
#ifndef TE_META_H
#define TE_META_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct te_conf;
struct te_err;
struct te_meta;

enum te_meta_caps {
	TE_META_LIST = 1 << 0,
	TE_META_WATCH = 1 << 1,		/* the store tells us; without it te_meta_watch() polls, if it can list */
	TE_META_TTL = 1 << 2,
	TE_META_CAS = 1 << 3,		/* if_absent and if_match are atomic */
	TE_META_P2P = 1 << 4,		/* no store: values come from the owners, nothing is kept */
};

enum { TE_META_TAG_MAX = 96 };

struct te_meta_value {
	char *data;			/* malloc'ed, NUL after the last byte; te_meta_value_clear() */
	size_t len;
	char tag[TE_META_TAG_MAX];	/* opaque word for if_match; "" where the store has none */
};

struct te_meta_put {
	unsigned ttl_s;			/* 0 = for ever */
	bool if_absent;			/* conflict: -EEXIST */
	const char *if_match;		/* tag; conflict (also: key gone): -ESTALE */
};

enum te_meta_event_type { TE_META_PUT, TE_META_DELETED };
struct te_meta_event {
	enum te_meta_event_type type;
	const char *key;
	const char *data;		/* NULL when deleted; else len bytes */
	size_t len;
};

/*
 * uri: "http(s)://host:port[/path]", "redis://host:port", "etcd://h:p[,h:p...]", bare "host:port"
 * (etcd), "P2PHANDSHAKE". NULL or "" is conf->metadata_server, and P2PHANDSHAKE if that is empty
 * too. Does not connect. -EINVAL: unknown scheme, the message lists those built in.
 */
int te_meta_open(const char *uri, const struct te_conf *conf, struct te_meta **out, struct te_err *err);
void te_meta_close(struct te_meta *m);
/* As given, with any user:password@ removed; valid until close. */
const char *te_meta_uri(const struct te_meta *m);
/* "http", "redis", "etcd", "p2p". */
const char *te_meta_scheme(const struct te_meta *m);
/* "mooncake/" or "mooncake/CLUSTER/"; valid until close. */
const char *te_meta_prefix(const struct te_meta *m);
/* May ask the store once (http: whether it is te-http-meta). Unreachable: what is certain. */
unsigned te_meta_caps(struct te_meta *m);

/* -ENOENT when absent. *out is set only on success. */
int te_meta_get(struct te_meta *m, const char *key, struct te_meta_value *out, struct te_err *err);
/*
 * Writes the bytes as they are (Mooncake engines end a value with '\n' in redis and etcd, and not over http).
 * ttl_s on a store without TTL is left out: te_meta_caps() tells. etcd: all keys that one handle puts with the same
 * ttl_s share a lease, which each such put prolongs for all of them.
 * opt may be NULL. tag_out (TE_META_TAG_MAX bytes, may be NULL) receives the new tag or "".
 */
int te_meta_put(struct te_meta *m, const char *key, const char *data, size_t len,
		const struct te_meta_put *opt, char *tag_out, struct te_err *err);
/* 0 also when there was none. if_match (may be NULL): -ESTALE unless the tag is still that. */
int te_meta_del(struct te_meta *m, const char *key, const char *if_match, struct te_err *err);
/* Whole keys with that prefix, sorted bytewise. cb returns non-zero to stop. */
int te_meta_list(struct te_meta *m, const char *prefix, int (*cb)(void *arg, const char *key),
		 void *arg, struct te_err *err);
/* Calls cb for each change below prefix from now on, until it returns non-zero (0 comes back),
   stop_fd (-1: none) becomes readable (0), or the store is lost for longer than a bounded reconnect. */
int te_meta_watch(struct te_meta *m, const char *prefix,
		  int (*cb)(void *arg, const struct te_meta_event *ev), void *arg, int stop_fd,
		  struct te_err *err);
int te_meta_ping(struct te_meta *m, struct te_err *err);

void te_meta_value_clear(struct te_meta_value *v);

/* "mooncake/rpc_meta/NAME" and "mooncake/ram/NAME" (or "mooncake/NAME" if NAME has a '/'), leading
   '/' of NAME stripped. malloc'ed; NULL when NAME is empty or memory is out. */
char *te_meta_key_rpc(const struct te_meta *m, const char *name);
char *te_meta_key_segment(const struct te_meta *m, const char *name);

/* The value of rpc_meta. */
struct te_rpc_meta {
	char host[256];
	unsigned port;
};
int te_rpc_meta_parse(const char *text, size_t len, struct te_rpc_meta *out, struct te_err *err);
/* malloc'ed compact JSON without newline. */
char *te_rpc_meta_format(const struct te_rpc_meta *r);

/* Bytes that are no text, as JSON can carry them: RFC 4648 with padding. malloc'ed; NULL when memory is out. */
char *te_base64_encode(const void *data, size_t len);
/* *out is malloc'ed with a NUL after it. -EINVAL: not base64. */
int te_base64_decode(const char *text, size_t len, char **out, size_t *out_len);

#ifdef __cplusplus
}
#endif

#endif
