/*
 * served.h - one accepted connection: requests in, bytes between socket and regions, replies out.
 *
 * Nothing is buffered for a peer beyond this struct: while replies cannot be sent, nothing is read.
 */
#ifndef TE_TCP_SERVED_H
#define TE_TCP_SERVED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "transport/tcp/wire.h"
#include "transport/transport.h"

enum {
	TE_SERVED_REQUESTS = 128, /* read and answered at once */
	TE_SERVED_HELD = 16,	  /* regions in use by one burst */
	TE_SERVED_SMALL = TE_SERVED_REQUESTS * TE_TCP_HEADER,
	TE_SERVED_BIG = 64 * 1024,
	TE_SERVED_IOV = 2 * TE_SERVED_REQUESTS,
};

struct te_served_reply {
	uint64_t addr, len; /* READ: what to send; len 0 otherwise */
	uint32_t code;
	bool has_status; /* v2 */
};

/* How much to read after the bytes that are ours for certain. */
enum te_served_appetite {
	TE_SERVED_HEADERS, /* many headers */
	TE_SERVED_FRUGAL,  /* one header: payload may follow, which is not ours to copy */
	TE_SERVED_BULK,	   /* small WRITEs: copying them is cheaper than a system call for each */
};

struct te_served {
	struct te_served *next, *prev; /* the worker's list, under its lock */
	_Atomic uint64_t moved; /* te_now() of the last byte, for whoever looks for idle ones */
	_Atomic bool half;	/* in the middle of something: not idle, watched by the clock */

	/* The worker's own from here. */
	struct te_served *next_ready;
	bool is_ready;
	int fd;
	bool hung_up;  /* no edge will tell of the end of the input: read until it comes */
	bool dry;      /* the socket gave less than asked for */
	bool blocked;  /* the socket did not take all replies */
	bool refusing; /* answer, then close gracefully */
	bool draining; /* our side is shut: throw away until the peer closes too */
	bool answer_now;
	bool ended; /* the peer will send no more */
	enum te_served_appetite appetite;
	uint64_t drained;
	uint64_t traffic; /* bytes in both directions */

	uint8_t *in; /* what was read and not yet looked at: in small, in the worker's scratch, or
			in rest */
	unsigned in_at, in_end;
	uint8_t small[TE_SERVED_SMALL];
	uint8_t *rest; /* of a big read, while replies are blocked */

	uint64_t to, left, size; /* WRITE whose payload is arriving */
	bool v2;

	struct te_served_reply out[TE_SERVED_REQUESTS];
	unsigned out_at, out_end, out_reads;
	uint64_t out_off;    /* bytes of out[out_at] already sent */
	uint64_t unanswered; /* bytes written since the last answer */
	uint64_t requests, bytes;

	struct te_region *held[TE_SERVED_HELD];
	unsigned nheld;
};

/* A worker's, for the time of one call. */
struct te_served_scratch {
	struct iovec iov[TE_SERVED_IOV];
	uint64_t status[TE_SERVED_REQUESTS];
	struct iovec copy_from[TE_SERVED_REQUESTS], copy_to[TE_SERVED_REQUESTS];
	unsigned ncopies;
	uint8_t big[TE_SERVED_BIG];
};

enum te_served_next {
	TE_SERVED_WAIT, /* for the socket */
	TE_SERVED_MORE, /* call again when others had their turn */
	TE_SERVED_CLOSE,
};

struct te_served *te_served_new(int fd, uint64_t now); /* takes fd on success */
/* Puts its regions back and closes the socket. */
void te_served_free(struct te_served *c);
/* Serve until the socket is dry or blocked. *moved: something was done. */
enum te_served_next te_served_run(struct te_served *c, const struct te_transport_env *env,
				  struct te_served_scratch *w, uint64_t now, bool *moved);
/* Has it been stuck in the middle of something for too long? */
bool te_served_is_stuck(const struct te_served *c, const struct te_conf *conf, uint64_t now);

#endif
