/* http_listen.c - the listening sockets of an HTTP server. */
#include "http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http.h"

/* Splits "ADDR:PORT" or "[V6]:PORT"; an empty ADDR is all addresses. */
static int split(const char *spec, char *host, size_t size, unsigned *port, struct te_err *err)
{
	const char *colon = strrchr(spec, ':');
	const char *from = spec, *to = colon;
	char *end;
	unsigned long n;

	if (!colon)
		return te_fail(err, -EINVAL, "'%s' is not ADDR:PORT", spec);
	n = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || n > 65535)
		return te_fail(err, -EINVAL, "'%s' does not end in a port (0 to 65535)", spec);
	if (*from == '[' && to > from + 1 && to[-1] == ']') {
		from++;
		to--;
	} else if (memchr(from, ':', (size_t)(to - from))) {
		return te_fail(err, -EINVAL, "'%s': an IPv6 address needs brackets", spec);
	}
	if ((size_t)(to - from) >= size)
		return te_fail(err, -EINVAL, "'%s': host name is too long", spec);
	memcpy(host, from, (size_t)(to - from));
	host[to - from] = '\0';
	*port = (unsigned)n;
	return 0;
}

int http_check_listen(const char *text, struct te_err *err)
{
	char host[256];
	unsigned port;

	return split(text, host, sizeof(host), &port, err);
}

static void describe(struct http_socket *sock)
{
	struct sockaddr_storage ss;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ss;
	socklen_t len = sizeof(ss);
	char text[INET6_ADDRSTRLEN] = "";

	if (getsockname(sock->fd, (struct sockaddr *)&ss, &len) < 0)
		return;
	if (ss.ss_family == AF_INET) {
		sock->port = ntohs(v4->sin_port);
		sock->loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
		inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
		snprintf(sock->address, sizeof(sock->address), "%s:%u", text, sock->port);
	} else {
		sock->port = ntohs(v6->sin6_port);
		sock->loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
		inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
		snprintf(sock->address, sizeof(sock->address), "[%s]:%u", text, sock->port);
	}
}

/* A listening socket, or negative errno. */
static int listen_on(const struct sockaddr *sa, socklen_t len, bool any)
{
	int one = 1, only = !any, rc;
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (sa->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
	if (!bind(fd, sa, len) && !listen(fd, 4096))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int add(struct http_listeners *l, size_t spec, const struct sockaddr *sa, socklen_t len,
	       bool any)
{
	struct http_socket *sock = &l->at[l->count];
	int fd;

	if (l->count == HTTP_SOCKETS)
		return -ENOSPC;
	fd = listen_on(sa, len, any);
	if (fd < 0)
		return fd;
	*sock = (struct http_socket){ .fd = fd, .spec = spec };
	describe(sock);
	l->count++;
	return 0;
}

/* One socket for IPv6 and IPv4, or IPv4 alone where the kernel has no IPv6. */
static int add_any(struct http_listeners *l, size_t spec, unsigned port)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int rc = add(l, spec, (struct sockaddr *)&v6, sizeof(v6), true);

	if (rc == -EAFNOSUPPORT || rc == -EADDRNOTAVAIL)
		rc = add(l, spec, (struct sockaddr *)&v4, sizeof(v4), true);
	return rc;
}

static void set_port(struct sockaddr *sa, unsigned port)
{
	if (sa->sa_family == AF_INET)
		((struct sockaddr_in *)sa)->sin_port = htons((uint16_t)port);
	else
		((struct sockaddr_in6 *)sa)->sin6_port = htons((uint16_t)port);
}

/* All addresses of a name, on one port; those that this host lacks are passed over if one is left.
 */
static int add_name(struct http_listeners *l, size_t spec, const char *host, unsigned port,
		    struct te_err *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *list, *a;
	size_t first = l->count;
	int rc, bad = 0;

	rc = getaddrinfo(host, NULL, &hints, &list);
	if (rc)
		return te_fail(err, -EINVAL, "cannot resolve '%s': %s", host, gai_strerror(rc));
	for (a = list; a; a = a->ai_next) {
		set_port(a->ai_addr, port);
		rc = add(l, spec, a->ai_addr, a->ai_addrlen, false);
		if (!rc && !port)
			port = l->at[first].port;
		if (rc && (rc != -EADDRNOTAVAIL && rc != -EAFNOSUPPORT))
			break;
		if (rc)
			bad = rc;
		rc = 0;
	}
	freeaddrinfo(list);
	return rc ? rc : l->count == first ? bad : 0;
}

int http_listen(struct http_listeners *l, const char *const *specs, struct te_err *err)
{
	char host[256] = "";
	struct te_err why = { 0 };
	unsigned port = 0;
	size_t i;
	int rc;

	l->count = 0;
	for (i = 0; specs[i]; i++) {
		rc = split(specs[i], host, sizeof(host), &port, err);
		if (!rc) {
			rc = *host ? add_name(l, i, host, port, &why) : add_any(l, i, port);
			if (rc)
				te_fail(err, rc, "cannot listen on '%s': %s", specs[i],
					why.code ? why.msg : strerror(-rc));
		}
		if (rc) {
			http_unlisten(l);
			return rc;
		}
	}
	return 0;
}

void http_unlisten(struct http_listeners *l)
{
	while (l->count)
		close(l->at[--l->count].fd);
}
