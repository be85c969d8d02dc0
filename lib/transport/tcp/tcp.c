/* tcp.c - the transport tcp: Mooncake's data protocol over few kept connections. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/util.h"
#include "te_err.h"
#include "te_segment.h"
#include "transport/tcp/io.h"
#include "transport/tcp/peer.h"
#include "transport/tcp/server.h"

struct tcp {
	struct te_transport base;
	struct te_tcp_server *server; /* NULL: serves nobody */
	pthread_mutex_t lock;
	struct te_io *io; /* under lock: started with the first peer */
};

static int tcp_open(const struct te_transport_env *env, struct te_transport **out,
		    struct te_err *err)
{
	struct tcp *t = calloc(1, sizeof(*t));

	if (!t)
		return te_fail(err, -ENOMEM, "no memory for the transport tcp");
	t->base.ops = &te_transport_tcp;
	t->base.env = env;
	pthread_mutex_init(&t->lock, NULL);
	*out = &t->base;
	return 0;
}

static void tcp_close(struct te_transport *base)
{
	struct tcp *t = container_of(base, struct tcp, base);

	te_io_stop(t->io);
	te_tcp_server_stop(t->server);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static int tcp_listen(struct te_transport *base, struct te_err *err)
{
	struct tcp *t = container_of(base, struct tcp, base);

	return te_tcp_server_start(base->env, &t->server, err);
}

static void tcp_describe(struct te_transport *base, struct te_desc *desc)
{
	struct tcp *t = container_of(base, struct tcp, base);

	if (!t->server)
		return;
	desc->tcp_data_port = te_tcp_server_port(t->server);
	desc->tcp_proto_version = TE_TCP_VERSION;
}

static int tcp_peer_open(struct te_transport *base, const struct te_peer_info *info,
			 struct te_peer **out, struct te_err *err)
{
	struct tcp *t = container_of(base, struct tcp, base);
	int rc = 0;

	if (!info->desc->tcp_data_port)
		return te_fail(err, -EOPNOTSUPP, "its descriptor has no tcp_data_port");
	if (!info->host)
		return te_fail(err, -EOPNOTSUPP, "no address to connect to");
	pthread_mutex_lock(&t->lock);
	if (!t->io)
		rc = te_io_start(&t->io, err);
	pthread_mutex_unlock(&t->lock);
	return rc ? rc : te_tcp_peer_new(base, t->io, info, out, err);
}

const struct te_transport_ops te_transport_tcp = {
	.name = "tcp",
	.open = tcp_open,
	.close = tcp_close,
	.listen = tcp_listen,
	.describe = tcp_describe,
	.peer_open = tcp_peer_open,
	.peer_close = te_tcp_peer_close,
	.submit = te_tcp_submit,
	.help = te_tcp_help,
	.abort = te_tcp_abort,
};
