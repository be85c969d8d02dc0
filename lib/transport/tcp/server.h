/* server.h - the serving side of tcp: a listener and its workers. */
#ifndef TE_TCP_SERVER_H
#define TE_TCP_SERVER_H

#include "transport/transport.h"

struct te_tcp_server;

/* Listens on a free port of conf's range, keeps that socket, starts the workers. */
int te_tcp_server_start(const struct te_transport_env *env, struct te_tcp_server **out,
			struct te_err *err);
/* Joins the workers and closes all connections; no region is referenced after it. NULL is fine. */
void te_tcp_server_stop(struct te_tcp_server *s);
unsigned te_tcp_server_port(const struct te_tcp_server *s);

#endif
