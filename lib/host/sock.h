/* sock.h - sockets with bounded waits. All are close-on-exec and non-blocking; SIGPIPE never. */
#ifndef TE_HOST_SOCK_H
#define TE_HOST_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/addr.h"

struct te_conf;
struct te_err;

/*
 * A listening TCP socket, SO_REUSEADDR, TCP_NODELAY inherited by what it accepts. bind_to NULL or "":
 * any address (IPv6 dual stack where there is IPv6, else IPv4). port 0: the kernel's choice.
 * -EADDRINUSE when taken (no other listener is ever shared). The fd, or negative errno.
 */
int te_sock_listen(const char *bind_to, unsigned port, int backlog, struct te_err *err);
/* A listener on a free port of [min, max], tried in random order; *port receives it. */
int te_sock_listen_range(const char *bind_to, unsigned min, unsigned max, int backlog, unsigned *port,
			 struct te_err *err);
/* Starts a non-blocking connect, TCP_NODELAY set. *done: connected already. The fd, or negative errno. */
int te_sock_connect_start(const struct te_addr *to, bool *done);
/* Connects within `until`; tries all addresses of host in order. The fd, or negative errno. */
int te_sock_connect(const char *host, unsigned port, int family, uint64_t until, struct te_err *err);
/* All of len bytes within `until`: 0, -ETIMEDOUT, -ECONNRESET (also: EOF), ... */
int te_sock_send(int fd, const void *buf, size_t len, uint64_t until);
int te_sock_recv(int fd, void *buf, size_t len, uint64_t until);
/* SO_ERROR of a connect that has become writable: 0 or negative errno. */
int te_sock_error(int fd);
unsigned te_sock_port(int fd);
/* Accept one, non-blocking, close-on-exec, TCP_NODELAY; -EAGAIN when none. -EMFILE and the like come
   back as they are: the caller pauses accepting instead of spinning. */
int te_sock_accept(int listener, struct te_addr *from);

#endif
