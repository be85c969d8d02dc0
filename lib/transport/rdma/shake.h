/*
 * shake.h - what two engines tell each other to connect queue pairs: the JSON of handshake types 0 and 0x10 (INTEROP 2.4, 4.4).
 *
 * Texts come from anybody who can reach the handshake port. What parses is bounded: paths fit and have no control characters,
 * numbers are integers in range, lists are short. Whether a path or a GID means anything is for the reader to find out.
 */
#ifndef TE_RDMA_SHAKE_H
#define TE_RDMA_SHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct te_err;

enum { TE_SHAKE_PATH = 256, TE_SHAKE_QPS = 256 };

struct te_shake {
	char local_path[TE_SHAKE_PATH];	/* the sender's NIC path, SERVER@NIC */
	char peer_path[TE_SHAKE_PATH];	/* the receiver's, as the sender knows it */
	unsigned lid;			/* 16 bits */
	char gid[48];			/* as in descriptors; "": look into the descriptor */
	uint32_t qp[TE_SHAKE_QPS];	/* 24 bits each; number i of one side pairs with number i of the other */
	size_t nqp;
	bool has_ready_ack;		/* the sender knows ready-acks (older engines do not) */
	bool ready_ack;			/* this message is one */
	bool te;			/* the sender is te: it understands type 0x10 */
	unsigned mtu;			/* te only, 0 unknown: its path MTU at the most; both take the smaller */
	char reply[256];		/* in replies: "" accepted, else why not; too long a text is cut */
};

/* Absent and null members are empty. -EINVAL: no JSON object, a wrong type, a number out of range, too long. */
int te_shake_parse(const char *text, size_t len, struct te_shake *out, struct te_err *err);
/* As a real engine writes and reads it: compact, without newline, malloc'ed; NULL when memory is out.
   All empty it is what a tcp engine answers, and the answer to a ready-ack. */
char *te_shake_format(const struct te_shake *s);
/* Make it the refusal of a request: the reason, and all else empty. */
void te_shake_refuse(struct te_shake *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Type 0x10, "I have retired the endpoint of these queue pairs": the two paths and qp, all three required. */
int te_shake_parse_retire(const char *text, size_t len, struct te_shake *out, struct te_err *err);
char *te_shake_format_retire(const struct te_shake *s);

#endif
