/* etcd.h - one call of etcd's v3 JSON gateway, for etcd.c and etcd_watch.c. */
#ifndef TE_META_ETCD_H
#define TE_META_ETCD_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/json.h"
#include "meta/curl.h"
#include "meta/ops.h"

enum { TE_ETCD_LEASES_MAX = 8 };

struct te_etcd_lease {
	unsigned ttl_s;
	int64_t id;	    /* 0: none */
	uint64_t refreshed; /* te_now() scale */
};

struct te_etcd {
	struct te_meta base;
	struct te_curl_pool *pool;
	char *url[64]; /* "http://host:port" */
	unsigned nurl;
	char *user, *password;	  /* NULL: none */
	_Atomic unsigned current; /* the endpoint that answered last. Relaxed: a hint */
	pthread_mutex_t lock;	  /* owns what follows */
	bool open; /* it said that it needs no login */
	char *token;		  /* of a login; NULL: none yet */
	struct te_etcd_lease lease[TE_ETCD_LEASES_MAX];
};

/* May the call be made twice? After a failure that leaves open whether it was done, only a
   REPEATABLE call goes to the next endpoint. */
enum te_etcd_repeat { TE_ETCD_ONCE, TE_ETCD_REPEATABLE };

/* POST /v3/METHOD, by `until`. Takes request (NULL: out of memory, reported here). *reply is an object:
   json_decref() it. -EACCES, -ENOENT (no such lease), -EIO with etcd's own text. */
int te_etcd_call(struct te_etcd *e, const char *method, json_t *request, enum te_etcd_repeat repeat, uint64_t until,
		 json_t **reply, struct te_err *err);
/*
 * The same for one that never ends: on_data gets the bytes. 1: stop_fd; else what on_data returned
 * or negative.
 */
int te_etcd_stream(struct te_etcd *e, const char *method, json_t *request, int stop_fd,
		   int (*on_data)(void *arg, const char *data, size_t len), void *arg,
		   struct te_err *err);

/* etcd writes 64-bit numbers as strings and leaves zeros out: 0 when absent or of no use. */
int64_t te_etcd_int(const json_t *obj, const char *member);
/* header.revision */
int64_t te_etcd_revision(const json_t *reply);
/* A key or value, base64 in JSON, absent when empty. malloc'ed. -EBADMSG, -ENOMEM. */
int te_etcd_bytes(const json_t *obj, const char *member, char **out, size_t *len,
		  struct te_err *err);
/* {"key":..., "range_end":...} for all keys that begin with prefix and are > after (NULL: all). */
json_t *te_etcd_range(const char *prefix, const char *after, size_t after_len);
/* A base64 JSON string. */
json_t *te_etcd_text(const char *data, size_t len);

int te_etcd_watch(struct te_meta *m, struct te_watch *w, struct te_err *err);

#endif
