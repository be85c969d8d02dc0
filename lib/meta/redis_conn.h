/* redis_conn.h - connections to one redis server: commands with bounded waits, a pool, backoff. */
#ifndef TE_META_REDIS_CONN_H
#define TE_META_REDIS_CONN_H

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "meta/ops.h"

struct te_redis_conn {
	int fd;
	redisReader *reader;
	bool broken; /* out of step with the server: not to be used again */
	struct te_redis_conn *next;
};

struct te_redis_pool {
	struct te_endpoint at;
	char *user, *password; /* NULL: none */
	int db;
	pthread_mutex_t lock; /* owns what follows */
	struct te_redis_conn *idle;
	unsigned nidle;
	int backoff_ms;	   /* after the last failed connect, else 0 */
	uint64_t retry_at; /* no connect before (te_now() scale) */
};

/* Everything but the connections is the caller's to fill in before and to free after. */
void te_redis_pool_init(struct te_redis_pool *p);
void te_redis_pool_clear(struct te_redis_pool *p);
/* An idle connection that is still open, or a new one that is logged in. While the server refuses
   connections this waits a little first, longer each time. */
int te_redis_take(struct te_redis_pool *p, uint64_t until, struct te_redis_conn **out,
		  struct te_err *err);
/* Closes it when broken. NULL is fine. */
void te_redis_give(struct te_redis_pool *p, struct te_redis_conn *c);

struct te_redis_arg {
	const char *data;
	size_t len;
};
enum { TE_REDIS_ARGS_MAX = 8 };

/* Send a command without waiting: commands may be sent one behind the other. */
int te_redis_send(struct te_redis_conn *c, const struct te_redis_arg *args, size_t n,
		  uint64_t until, struct te_err *err);
/* The next reply, freeReplyObject() it. An error reply of the server is a failure with its text:
   -EACCES for credentials, -EIO else; the connection stays good then. */
int te_redis_recv(struct te_redis_conn *c, uint64_t until, redisReply **out, struct te_err *err);
/* A whole reply that lies in the reader already: 1 with *out, 0: none; negative. */
int te_redis_buffered(struct te_redis_conn *c, redisReply **out, struct te_err *err);
/* Read once what has arrived. 0, or negative (also: closed by the server). Does not wait. */
int te_redis_read(struct te_redis_conn *c, struct te_err *err);

#endif
