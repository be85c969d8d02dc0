/*
 * raw_tcp.c - the limit of tcp: a pipelined loop over one loopback connection a lane, with the
 * frames of the wire protocol (24-byte header, 8-byte status, payload) and no checks.
 */
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	VECTOR = 1024,	     /* IOV_MAX */
	WINDOW = VECTOR / 2, /* requests a call: header or status and payload each */
	SPIN = 4096,	     /* empty looks before it sleeps, some milliseconds */
	YIELD = 16,	     /* empty looks before the other side may have this processor */
	SERVER_FD = 3,
};

struct header {
	uint64_t size, addr;
	uint8_t op, pad[7];
};
_Static_assert(sizeof(struct header) == 24, "as on the wire");

/* Both sides have one of these. */
struct side {
	int fd;
	bool spin; /* one request at a time: neither side sleeps, while the other is quick */
	struct header headers[WINDOW];
	uint64_t statuses[WINDOW];
	struct iovec iov[VECTOR];
};

/* ---- moving vectors -------------------------------------------------------------------------- */

/* More bytes are there, or were sent. 0: the peer is gone. */
static ssize_t once(struct side *s, bool out, struct iovec *iov, size_t n)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	int tries = 0;
	ssize_t got;

	if (out)
		return sendmsg(s->fd, &msg, MSG_NOSIGNAL);
	if (!s->spin)
		return recvmsg(s->fd, &msg, 0);
	for (;;) {
		got = recvmsg(s->fd, &msg, MSG_DONTWAIT);
		if (got >= 0 || errno != EAGAIN)
			return got;
		if (++tries == SPIN) {
			poll(&p, 1, -1);
			tries = 0;
		} else if (tries % YIELD == 0) {
			sched_yield();
		}
	}
}

static int move(struct side *s, bool out, struct iovec *iov, size_t n)
{
	ssize_t got;

	while (n) {
		got = once(s, out, iov, n);
		if (got <= 0)
			return got < 0 ? -errno : -ECONNRESET;
		for (; n && (size_t)got >= iov->iov_len; iov++, n--)
			got -= (ssize_t)iov->iov_len;
		if (n) {
			iov->iov_base = (char *)iov->iov_base + got;
			iov->iov_len -= (size_t)got;
		}
	}
	return 0;
}

static int move_one(struct side *s, bool out, void *at, size_t len)
{
	struct iovec iov = { at, len };

	return move(s, out, &iov, 1);
}

/* head[i], body, head[i+1], ... */
static void interleave(struct side *s, void *heads, size_t head_len, size_t i, void *body,
		       size_t len)
{
	s->iov[2 * i] = (struct iovec){ (char *)heads + i * head_len, head_len };
	s->iov[2 * i + 1] = (struct iovec){ body, len };
}

/* ---- the server ------------------------------------------------------------------------------ */

static int serve_read(struct raw_lane *l, struct side *s, size_t n)
{
	size_t i;
	int rc = move_one(s, false, s->headers, n * sizeof(*s->headers));

	if (rc)
		return rc;
	for (i = 0; i < n; i++)
		interleave(s, s->statuses, sizeof(*s->statuses), i, l->target + s->headers[i].addr,
			   s->headers[i].size);
	return move(s, true, s->iov, 2 * n);
}

/* It may know beforehand what comes: the limit is what counts, not generality. */
static int serve_write(struct raw_lane *l, struct side *s, size_t n)
{
	size_t i;
	int rc;

	for (i = 0; i < n; i++)
		interleave(s, s->headers, sizeof(*s->headers), i, raw_next(l), l->piece);
	rc = move(s, false, s->iov, 2 * n);
	return rc ? rc : move_one(s, true, s->statuses, n * sizeof(*s->statuses));
}

static size_t window(size_t left)
{
	return left < WINDOW ? left : WINDOW;
}

static void serve(struct raw_lane *l, struct side *s, bool turns)
{
	size_t left;
	int rc = 0;

	while (!rc) {
		for (left = l->depth; !rc && left; left -= window(left))
			rc = l->writes ? serve_write(l, s, window(left))
				       : serve_read(l, s, window(left));
		l->writes ^= turns;
	}
}

/* ---- the client ------------------------------------------------------------------------------ */

static void fill_headers(struct raw_lane *l, struct side *s, size_t n, bool write)
{
	size_t i;

	for (i = 0; i < n; i++) {
		s->headers[i].size = l->piece;
		s->headers[i].addr = (uint64_t)(raw_next(l) - l->target);
		s->headers[i].op = write ? 0x81 : 0x80;
	}
}

static int do_read(struct raw_lane *l, struct side *s, size_t from, size_t n)
{
	size_t i;
	int rc;

	fill_headers(l, s, n, false);
	rc = move_one(s, true, s->headers, n * sizeof(*s->headers));
	if (rc)
		return rc;
	for (i = 0; i < n; i++)
		interleave(s, s->statuses, sizeof(*s->statuses), i,
			   l->source + (from + i) * l->piece, l->piece);
	return move(s, false, s->iov, 2 * n);
}

static int do_write(struct raw_lane *l, struct side *s, size_t from, size_t n)
{
	size_t i;
	int rc;

	fill_headers(l, s, n, true);
	for (i = 0; i < n; i++)
		interleave(s, s->headers, sizeof(*s->headers), i, l->source + (from + i) * l->piece,
			   l->piece);
	rc = move(s, true, s->iov, 2 * n);
	return rc ? rc : move_one(s, false, s->statuses, n * sizeof(*s->statuses));
}

static int tcp_batch(struct raw_lane *l, bool write)
{
	struct side s = { .fd = l->fd, .spin = l->depth == 1 };
	size_t done, n;
	int rc = 0;

	for (done = 0; !rc && done < l->depth; done += n) {
		n = window(l->depth - done);
		rc = write ? do_write(l, &s, done, n) : do_read(l, &s, done, n);
	}
	return rc;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

/* A connected pair over loopback TCP: [0] ours, [1] the server's. */
static int connect_pair(int fds[2])
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	const int on = 1;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = 0;

	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fds[1] = -1;
	if (listener < 0 || fds[0] < 0 || bind(listener, (struct sockaddr *)&sa, sizeof(sa)) ||
	    listen(listener, 1) || getsockname(listener, (struct sockaddr *)&sa, &len) ||
	    connect(fds[0], (struct sockaddr *)&sa, sizeof(sa)))
		rc = -errno;
	if (!rc) {
		fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fds[1] < 0)
			rc = -errno;
	}
	if (!rc) {
		setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
	if (listener >= 0)
		close(listener);
	return rc;
}

static int tcp_open(struct raw_lane *l, struct te_err *err)
{
	static struct side s; /* the child's own copy; 30 KB are much for its stack */
	int fds[2] = { -1, -1 }, rc = connect_pair(fds);

	l->fd = fds[0];
	if (!rc) {
		l->server = raw_fork();
		rc = l->server < 0 ? (int)l->server : 0;
	}
	if (!rc && l->server == 0) {
		/* Nothing of the engine's may stay open here, or its peers would not see it close.
		 */
		if (dup2(fds[1], SERVER_FD) < 0 || close_range(SERVER_FD + 1, ~0u, 0) < 0)
			_exit(CLI_FAIL);
		s.fd = SERVER_FD;
		s.spin = l->depth == 1;
		serve(l, &s, raw_takes_turns(l));
		_exit(0);
	}
	if (fds[1] >= 0)
		close(fds[1]);
	if (!rc)
		return 0;
	l->server = 0;
	return te_fail(err, rc, "loopback connection: %s", strerror(-rc));
}

static void tcp_close(struct raw_lane *l)
{
	if (l->fd >= 0)
		close(l->fd);
	raw_reap(&l->server);
}

const struct raw_ops raw_tcp_ops = {
	.open = tcp_open,
	.batch = tcp_batch,
	.close = tcp_close,
};
