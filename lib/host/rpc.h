/*
 * rpc.h - the handshake frame of Mooncake engines and one call of it (INTEROP 2).
 *
 *	u64 LE length (counts the type byte) | u8 type | JSON text, normally ending in '\n'
 *
 * The old form (v0.2.0) has no type byte; it is told apart by its first byte being > 3
 * (no JSON text begins with 0x10, which te uses between its own).
 */
#ifndef TE_HOST_RPC_H
#define TE_HOST_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct te_conf;
struct te_err;

enum te_rpc_type {
	TE_RPC_CONNECTION = 0, TE_RPC_METADATA = 1, TE_RPC_NOTIFY = 2, TE_RPC_PROBE = 3,
	TE_RPC_RETIRE = 0x10,		/* between te engines: an endpoint was retired (transport/rdma/shake.h) */
	TE_RPC_OLD = 0xff,		/* connection in the old form; never a byte on the wire */
};
enum { TE_RPC_HEADER = 8 };

/* malloc'ed frame around text (a '\n' is added); *len receives its size. NULL: out of memory. */
char *te_rpc_frame(enum te_rpc_type type, const char *text, size_t *len);
/*
 * How much of a frame lies in buf[0..len)? 0: whole, and type, body and body_len are set (into buf);
 * > 0: so many bytes more are needed before it is worth asking again (never more than the header or the
 * announced rest); -EPROTO: length 0 or above max_length, or a type byte in 0x80..0xff.
 */
int64_t te_rpc_decode(const char *buf, size_t len, uint64_t max_length, enum te_rpc_type *type,
		      const char **body, size_t *body_len);
/*
 * Connect to host:port, send one frame, read the reply, close: bounded by conf's connect time-out and
 * `until` (te_now() scale). *reply is malloc'ed and NUL-terminated. The message names stage and address.
 */
int te_rpc_call(const struct te_conf *conf, const char *host, unsigned port, enum te_rpc_type type,
		const char *text, uint64_t until, char **reply, size_t *reply_len, struct te_err *err);

#endif
