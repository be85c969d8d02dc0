/*
 * daemon.h - the handshake daemon: answers INTEROP 2 frames on the RPC port.
 *
 * One thread, one epoll set, every client with a state and a deadline of its own, so that idle,
 * dripping or hostile clients delay nobody. Memory grows with what has arrived, never with what was
 * announced; at most 1024 clients, the longest idle one gives way. A request has 5 s from accept to
 * its last byte.
 */
#ifndef TE_ENGINE_DAEMON_H
#define TE_ENGINE_DAEMON_H

#include <stddef.h>

#include "host/rpc.h"

struct te_conf;
struct te_err;
struct te_daemon;

struct te_daemon_ops {
	/* Answer one request: malloc'ed JSON text, NULL to close without a byte, or TE_DAEMON_LATER:
	   te_daemon_reply() will follow for `client`. Runs on the daemon's thread and must not block.
	   body is not NUL-terminated JSON of any type, hostile. type is TE_RPC_OLD for the old form. */
	char *(*handle)(void *arg, enum te_rpc_type type, const char *body, size_t len,
			uint64_t client);
};

extern char te_daemon_later[];
#define TE_DAEMON_LATER te_daemon_later

/* Takes the listening socket `fd` (te_sock_listen*), also on failure. */
int te_daemon_start(const struct te_conf *conf, int fd, const struct te_daemon_ops *ops, void *arg,
		    struct te_daemon **out, struct te_err *err);
/* The answer to a request that was put off: takes text; NULL closes. From any thread, until te_daemon_stop(). A client
   that has gone meanwhile is no error. */
void te_daemon_reply(struct te_daemon *d, uint64_t client, char *text);
/* Closes listener and clients, joins. NULL is fine. */
void te_daemon_stop(struct te_daemon *d);

#endif
