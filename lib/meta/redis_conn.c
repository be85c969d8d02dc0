/*
 * redis_conn.c - connections to one redis server: commands with bounded waits, a pool, backoff.
 *
 * hiredis only formats commands and reads replies: its own sockets have no overall time-out and
 * would raise SIGPIPE.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "host/sock.h"
#include "meta/redis_conn.h"

enum { IDLE_MAX = 16, BACKOFF_MIN_MS = 20, BACKOFF_MAX_MS = 1000, ELEMENTS_MAX = 1 << 20 };
static const size_t reply_max = 600u << 20; /* a redis string ends at 512 MiB */

#define ARG(s)                                                                                     \
	{                                                                                          \
		(s), strlen(s)                                                                     \
	}

void te_redis_pool_init(struct te_redis_pool *p)
{
	pthread_mutex_init(&p->lock, NULL);
	p->idle = NULL;
	p->nidle = 0;
	p->backoff_ms = 0;
	p->retry_at = 0;
}

static void conn_close(struct te_redis_conn *c)
{
	if (c->reader)
		redisReaderFree(c->reader);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

void te_redis_pool_clear(struct te_redis_pool *p)
{
	struct te_redis_conn *c, *next;

	for (c = p->idle; c; c = next) {
		next = c->next;
		conn_close(c);
	}
	pthread_mutex_destroy(&p->lock);
}

/* hiredis 0.14 would allocate for as many elements as a server announces. */
static redisReplyObjectFunctions bounded;
static void *(*make_array)(const redisReadTask *, int);
static pthread_once_t bounded_once = PTHREAD_ONCE_INIT;

static void *bounded_array(const redisReadTask *task, int elements)
{
	return elements >= 0 && elements <= ELEMENTS_MAX ? make_array(task, elements) : NULL;
}

static void make_bounded(void)
{
	redisReader *r = redisReaderCreate();

	if (!r)
		return;
	bounded = *r->fn;
	make_array = bounded.createArray;
	bounded.createArray = bounded_array;
	redisReaderFree(r);
}

static struct te_redis_conn *conn_new(int fd)
{
	struct te_redis_conn *c = calloc(1, sizeof(*c));

	pthread_once(&bounded_once, make_bounded);
	if (!c)
		return NULL;
	c->fd = -1;
	c->reader = make_array ? redisReaderCreateWithFunctions(&bounded) : NULL;
	if (!c->reader) {
		conn_close(c);
		return NULL;
	}
	c->fd = fd;
	return c;
}

int te_redis_send(struct te_redis_conn *c, const struct te_redis_arg *args, size_t n,
		  uint64_t until, struct te_err *err)
{
	const char *argv[TE_REDIS_ARGS_MAX];
	size_t lens[TE_REDIS_ARGS_MAX];
	char *text;
	int len, rc;

	for (size_t i = 0; i < n; i++) {
		argv[i] = args[i].data;
		lens[i] = args[i].len;
	}
	len = redisFormatCommandArgv(&text, (int)n, argv, lens);
	if (len < 0)
		return te_fail(err, -ENOMEM, "out of memory");
	rc = te_sock_send(c->fd, text, (size_t)len, until);
	redisFreeCommand(text);
	if (!rc)
		return 0;
	c->broken = true;
	return te_fail(err, rc, "cannot send '%s': %s", args[0].data, strerror(-rc));
}

int te_redis_buffered(struct te_redis_conn *c, redisReply **out, struct te_err *err)
{
	void *reply = NULL;

	if (redisReaderGetReply(c->reader, &reply) != REDIS_OK) {
		c->broken = true;
		return te_fail(err, -EPROTO, "this is no redis server: %s", c->reader->errstr);
	}
	*out = reply;
	return reply != NULL;
}

int te_redis_read(struct te_redis_conn *c, struct te_err *err)
{
	char buf[65536];
	ssize_t n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0 && c->reader->len + (size_t)n <= reply_max &&
	    redisReaderFeed(c->reader, buf, (size_t)n) == REDIS_OK)
		return 0;
	c->broken = true;
	if (n == 0)
		return te_fail(err, -ECONNRESET, "the server closed the connection");
	if (n < 0)
		return te_fail(err, -errno, "cannot read: %s", strerror(errno));
	return te_fail(err, -EMSGSIZE, "the reply is longer than %zu MiB", reply_max >> 20);
}

static int server_error(redisReply *r, struct te_err *err)
{
	static const char *const denied[] = {
		"NOAUTH",  "WRONGPASS", "NOPERM", "ERR invalid password", "ERR Client sent AUTH",
		"ERR AUTH"
	};
	int rc = -EIO;

	for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
		if (strncmp(r->str, denied[i], strlen(denied[i])) == 0)
			rc = -EACCES;
	rc = te_fail(err, rc, "the server says '%.*s'", (int)MIN(r->len, 200u), r->str);
	freeReplyObject(r);
	return rc;
}

int te_redis_recv(struct te_redis_conn *c, uint64_t until, redisReply **out, struct te_err *err)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	int rc;

	while ((rc = te_redis_buffered(c, out, err)) == 0) {
		int ms = te_ms_until(until);

		if (!ms || poll(&p, 1, ms) == 0) {
			c->broken = true;
			return te_fail(err, -ETIMEDOUT, "no reply in time");
		}
		rc = te_redis_read(c, err);
		if (rc)
			return rc;
	}
	if (rc < 0)
		return rc;
	return (*out)->type == REDIS_REPLY_ERROR ? server_error(*out, err) : 0;
}

static int command(struct te_redis_conn *c, const struct te_redis_arg *args, size_t n,
		   uint64_t until, struct te_err *err)
{
	redisReply *r;
	int rc = te_redis_send(c, args, n, until, err);

	if (!rc)
		rc = te_redis_recv(c, until, &r, err);
	if (!rc)
		freeReplyObject(r);
	return rc;
}

static int log_in(struct te_redis_pool *p, struct te_redis_conn *c, uint64_t until,
		  struct te_err *err)
{
	char db[16];
	int rc = 0;

	if (p->password && p->user)
		rc = command(c,
			     (struct te_redis_arg[]){ ARG("AUTH"), ARG(p->user), ARG(p->password) },
			     3, until, err);
	else if (p->password)
		rc = command(c, (struct te_redis_arg[]){ ARG("AUTH"), ARG(p->password) }, 2, until,
			     err);
	if (rc)
		return te_wrap(err, rc, "cannot log in");
	if (p->db) {
		snprintf(db, sizeof(db), "%d", p->db);
		rc = command(c, (struct te_redis_arg[]){ ARG("SELECT"), ARG(db) }, 2, until, err);
	}
	return rc ? te_wrap(err, rc, "cannot select database %d", p->db) : 0;
}

/* A backoff, not an order of events: nobody wakes us when a server comes back. */
static void wait_for_turn(struct te_redis_pool *p, uint64_t until)
{
	uint64_t at;

	pthread_mutex_lock(&p->lock);
	at = MIN(p->retry_at, until);
	pthread_mutex_unlock(&p->lock);
	if (at > te_now())
		poll(NULL, 0, te_ms_until(at));
}

static void note_connect(struct te_redis_pool *p, bool good)
{
	pthread_mutex_lock(&p->lock);
	if (good)
		p->backoff_ms = 0;
	else
		p->backoff_ms = MIN(MAX(2 * p->backoff_ms, BACKOFF_MIN_MS), BACKOFF_MAX_MS);
	p->retry_at = te_now() + (uint64_t)p->backoff_ms * TE_NSEC_PER_MSEC;
	pthread_mutex_unlock(&p->lock);
}

static int conn_open(struct te_redis_pool *p, uint64_t until, struct te_redis_conn **out,
		     struct te_err *err)
{
	struct te_redis_conn *c;
	int fd, rc;

	wait_for_turn(p, until);
	fd = te_sock_connect(p->at.host, p->at.port, AF_UNSPEC, until, err);
	note_connect(p, fd >= 0);
	if (fd < 0)
		return fd;
	c = conn_new(fd);
	if (!c) {
		close(fd);
		return te_fail(err, -ENOMEM, "out of memory");
	}
	rc = log_in(p, c, until, err);
	if (rc) {
		conn_close(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* Nothing may have arrived on an idle connection, not even its end. */
static bool is_usable(const struct te_redis_conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

int te_redis_take(struct te_redis_pool *p, uint64_t until, struct te_redis_conn **out,
		  struct te_err *err)
{
	for (;;) {
		struct te_redis_conn *c;

		pthread_mutex_lock(&p->lock);
		c = p->idle;
		if (c) {
			p->idle = c->next;
			p->nidle--;
		}
		pthread_mutex_unlock(&p->lock);
		if (!c)
			return conn_open(p, until, out, err);
		if (is_usable(c)) {
			*out = c;
			return 0;
		}
		conn_close(c);
	}
}

void te_redis_give(struct te_redis_pool *p, struct te_redis_conn *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&p->lock);
	if (!c->broken && p->nidle < IDLE_MAX) {
		c->next = p->idle;
		p->idle = c;
		p->nidle++;
		c = NULL;
	}
	pthread_mutex_unlock(&p->lock);
	if (c)
		conn_close(c);
}
