/* peer.h - a segment reached over tcp. */
#ifndef TE_TCP_PEER_H
#define TE_TCP_PEER_H

#include "transport/transport.h"

struct te_io;

int te_tcp_peer_new(struct te_transport *t, struct te_io *io, const struct te_peer_info *info,
		    struct te_peer **out, struct te_err *err);
/* The rest as in te_transport_ops. */
void te_tcp_peer_close(struct te_peer *p);
void te_tcp_submit(struct te_peer *p, struct te_slice *list);
void te_tcp_help(struct te_peer *p, struct te_slice *s, const _Atomic uint32_t *pending,
		 uint64_t until);
void te_tcp_abort(struct te_peer *p, int status, const struct te_err *why);

#endif
