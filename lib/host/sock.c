/* sock.c - sockets with bounded waits. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/util.h"
#include "host/sock.h"
#include "te_err.h"

enum { ADDRS_MAX = 16 };

static int new_socket(int family)
{
	int one = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* SO_REUSEADDR gets over TIME_WAIT only: Linux lets no second socket listen on the port. */
static int listen_at(const struct te_addr *a, int backlog)
{
	int one = 1, zero = 0, rc, fd = new_socket(a->ss.ss_family);

	if (fd < 0)
		return fd;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->ss.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, (const struct sockaddr *)&a->ss, a->len) || listen(fd, backlog)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

/* Is there IPv6 on this host? It may be compiled in and switched off. */
static bool have_ipv6(void)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	int fd = new_socket(AF_INET6);
	bool have = fd >= 0 && !bind(fd, (struct sockaddr *)&any, sizeof(any));

	if (fd >= 0)
		close(fd);
	return have;
}

static int bind_address(const char *bind_to, struct te_addr *out, struct te_err *err)
{
	if (!bind_to || !*bind_to)
		bind_to = have_ipv6() ? "::" : "0.0.0.0";
	return te_addr_resolve(bind_to, 0, AF_UNSPEC, out, 1, err);
}

int te_sock_listen(const char *bind_to, unsigned port, int backlog, struct te_err *err)
{
	char text[TE_ADDR_TEXT];
	struct te_addr a;
	int rc = bind_address(bind_to, &a, err);

	if (rc < 0)
		return rc;
	te_addr_set_port(&a, port);
	rc = listen_at(&a, backlog);
	if (rc < 0)
		return te_fail(err, rc, "cannot listen on '%s': %s", te_addr_text(&a, text),
			       strerror(-rc));
	return rc;
}

static unsigned gcd(unsigned a, unsigned b)
{
	while (b) {
		unsigned t = a % b;

		a = b;
		b = t;
	}
	return a;
}

int te_sock_listen_range(const char *bind_to, unsigned min, unsigned max, int backlog,
			 unsigned *port, struct te_err *err)
{
	unsigned count = max - min + 1, dice[2], at, step;
	char text[TE_ADDR_TEXT];
	struct te_addr a;
	int rc = bind_address(bind_to, &a, err);

	if (rc < 0)
		return rc;
	te_random(dice, sizeof(dice));
	/* A step prime to the count visits every port once. */
	at = dice[0] % count;
	step = dice[1] % count;
	while (gcd(step, count) != 1)
		step = (step + 1) % (count + 1);
	for (unsigned i = 0; i < count; i++, at = (at + step) % count) {
		te_addr_set_port(&a, min + at);
		rc = listen_at(&a, backlog);
		if (rc >= 0) {
			*port = min + at;
			return rc;
		}
		if (rc != -EADDRINUSE && rc != -EACCES)
			return te_fail(err, rc, "cannot listen on '%s': %s", te_addr_text(&a, text),
				       strerror(-rc));
	}
	return te_fail(err, rc, "no free port in %u..%u: %s", min, max, strerror(-rc));
}

/* A connect to a port of the ephemeral range where nobody listens may meet itself. */
static bool met_itself(int fd)
{
	struct te_addr own = { .len = sizeof(own.ss) }, peer = { .len = sizeof(peer.ss) };

	return !getsockname(fd, (struct sockaddr *)&own.ss, &own.len) &&
	       !getpeername(fd, (struct sockaddr *)&peer.ss, &peer.len) && own.len == peer.len &&
	       !memcmp(&own.ss, &peer.ss, own.len);
}

int te_sock_connect_start(const struct te_addr *to, bool *done)
{
	int rc, fd = new_socket(to->ss.ss_family);

	if (fd < 0)
		return fd;
	*done = !connect(fd, (const struct sockaddr *)&to->ss, to->len);
	rc = *done && met_itself(fd)			       ? -ECONNREFUSED
	     : *done || errno == EINPROGRESS || errno == EINTR ? 0
							       : -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

/* 0 when ready, or -ETIMEDOUT. Errors and hang-ups are ready: the call that follows reports them.
 */
static int wait_for(int fd, short events, uint64_t until)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		int n = poll(&p, 1, te_ms_until(until));

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (te_now() >= until)
			return -ETIMEDOUT;
	}
}

static int connect_one(const struct te_addr *to, uint64_t until)
{
	bool done;
	int rc, fd = te_sock_connect_start(to, &done);

	if (fd < 0 || done)
		return fd;
	rc = wait_for(fd, POLLOUT, until);
	if (!rc)
		rc = te_sock_error(fd);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

int te_sock_connect(const char *host, unsigned port, int family, uint64_t until, struct te_err *err)
{
	struct te_addr addrs[ADDRS_MAX];
	char text[TE_ADDR_TEXT];
	int rc, n = te_addr_resolve(host, port, family, addrs, ADDRS_MAX, err);

	if (n < 0)
		return n;
	rc = -ETIMEDOUT;
	for (int i = 0; i < n; i++) {
		uint64_t now = te_now(), share = until;

		/* One black hole must not eat the time of the addresses behind it. */
		if (until > now)
			share = now + (until - now) / (unsigned)(n - i);
		rc = connect_one(&addrs[i], share);
		if (rc >= 0)
			return rc;
	}
	return te_fail(err, rc, "cannot connect to '%s': %s", te_addr_text(&addrs[n - 1], text),
		       strerror(-rc));
}

int te_sock_send(int fd, const void *buf, size_t len, uint64_t until)
{
	const char *p = buf;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n >= 0) {
			p += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			int rc = wait_for(fd, POLLOUT, until);

			if (rc)
				return rc;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

int te_sock_recv(int fd, void *buf, size_t len, uint64_t until)
{
	char *p = buf;

	while (len) {
		ssize_t n = recv(fd, p, len, 0);

		if (!n)
			return -ECONNRESET;
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			int rc = wait_for(fd, POLLIN, until);

			if (rc)
				return rc;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

int te_sock_error(int fd)
{
	int e = 0;
	socklen_t len = sizeof(e);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len))
		return -errno;
	return e ? -e : met_itself(fd) ? -ECONNREFUSED : 0;
}

unsigned te_sock_port(int fd)
{
	struct te_addr a = { .len = sizeof(a.ss) };

	return getsockname(fd, (struct sockaddr *)&a.ss, &a.len) ? 0 : te_addr_port(&a);
}

/* The kernel wants a free descriptor before it looks whether anybody is waiting. */
static bool nobody_waits(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };

	return !poll(&p, 1, 0);
}

int te_sock_accept(int listener, struct te_addr *from)
{
	struct te_addr a;

	for (;;) {
		int fd, rc;

		a.len = sizeof(a.ss);
		fd = accept4(listener, (struct sockaddr *)&a.ss, &a.len,
			     SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			if (from)
				*from = a;
			return fd;
		}
		/* Errors of the connection that was waiting, not of the listener: accept(2). */
		rc = -errno;
		switch (-rc) {
		case EINTR:
		case ECONNABORTED:
		case EPROTO:
		case ENOPROTOOPT:
		case ENETDOWN:
		case EHOSTDOWN:
		case ENONET:
		case EHOSTUNREACH:
		case ENETUNREACH:
		case EOPNOTSUPP:
			continue;
		case EMFILE:
		case ENFILE:
			return nobody_waits(listener) ? -EAGAIN : rc;
		default:
			return rc;
		}
	}
}
