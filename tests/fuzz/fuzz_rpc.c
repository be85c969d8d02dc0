/* fuzz_rpc.c - any bytes as a handshake frame, arriving at once and piece by piece. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "host/rpc.h"

enum { LIMIT = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *buf = (const char *)data, *body = NULL;
	enum te_rpc_type type = TE_RPC_PROBE;
	size_t have = 0, body_len = 0;

	for (;;) {
		int64_t want = te_rpc_decode(buf, have, LIMIT, &type, &body, &body_len);

		if (want < 0) {
			if (want != -EPROTO)
				abort();
			return 0;
		}
		if (!want)
			break;
		if (want > LIMIT || (have < TE_RPC_HEADER && want > TE_RPC_HEADER))
			abort();
		if (size - have < (size_t)want)
			return 0;
		have += (size_t)want;
	}
	/* The body ends where the frame does, and nothing behind it was asked for. */
	if (body < buf + TE_RPC_HEADER || body + body_len != buf + have)
		abort();
	if (type > TE_RPC_PROBE && type != TE_RPC_RETIRE && type != TE_RPC_OLD)
		abort();
	return 0;
}
