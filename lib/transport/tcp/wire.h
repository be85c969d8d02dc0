/*
 * wire.h - the data protocol of Mooncake engines over TCP (INTEROP 3).
 *
 *	request	u64 LE size | u64 LE address in the target | u8 opcode | 7 bytes padding
 *	READ	v1: payload.  v2: status, then (if OK) payload
 *	WRITE	payload follows the request.  v1: no answer.  v2: status once it is applied
 *	status	u64 LE 0x4D435456_cccccccc, cccccccc 0 = OK, else refused, and the server closes
 */
#ifndef TE_TCP_WIRE_H
#define TE_TCP_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <string.h>

enum { TE_TCP_HEADER = 24, TE_TCP_STATUS = 8, TE_TCP_VERSION = 2 };
enum { TE_TCP_READ = 0, TE_TCP_WRITE = 1, TE_TCP_V2 = 0x80 }; /* opcode */
enum { TE_TCP_OK = 0, TE_TCP_REFUSED = 1 };		      /* status code */

#define TE_TCP_MAGIC 0x4D435456ull

struct te_tcp_request {
	uint64_t size, addr;
	uint8_t opcode;
};

static inline void te_tcp_put_request(uint8_t to[TE_TCP_HEADER], uint64_t size, uint64_t addr,
				      unsigned opcode)
{
	size = htole64(size);
	addr = htole64(addr);
	memcpy(to, &size, 8);
	memcpy(to + 8, &addr, 8);
	memset(to + 16, 0, 8); /* zero padding: nothing of ours may leak into it */
	to[16] = (uint8_t)opcode;
}

static inline struct te_tcp_request te_tcp_get_request(const uint8_t from[TE_TCP_HEADER])
{
	struct te_tcp_request r;

	memcpy(&r.size, from, 8);
	memcpy(&r.addr, from + 8, 8);
	r.size = le64toh(r.size);
	r.addr = le64toh(r.addr);
	r.opcode = from[16];
	return r;
}

/* As it lies on the wire. */
static inline uint64_t te_tcp_status(uint32_t code)
{
	return htole64(TE_TCP_MAGIC << 32 | code);
}

static inline bool te_tcp_status_is_valid(uint64_t wire)
{
	return le64toh(wire) >> 32 == TE_TCP_MAGIC;
}

static inline uint32_t te_tcp_status_code(uint64_t wire)
{
	return (uint32_t)le64toh(wire);
}

/* Append to a vector, or lengthen its last part when base follows it. The new number of parts. */
static inline unsigned te_tcp_add_iov(struct iovec *iov, unsigned n, const void *base, uint64_t len)
{
	if (n && (const char *)iov[n - 1].iov_base + iov[n - 1].iov_len == base) {
		iov[n - 1].iov_len += len;
		return n;
	}
	iov[n] = (struct iovec){ .iov_base = (void *)(uintptr_t)base, .iov_len = len };
	return n + 1;
}

#endif
