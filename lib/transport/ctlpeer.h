/*
 * ctlpeer.h - the initiator's side of a control page: which memory the target offers, and touching it safely.
 *
 *	te_ctl_use_begin(&use, peer)
 *	te_ctl_use_row(&use, addr, len, &row)	as often as wanted; copy
 *	te_ctl_use_end(&use)
 *
 * A row that te_ctl_use_row() gave stays registered until renew or end, provided that the target does its part.
 */
#ifndef TE_TRANSPORT_CTLPEER_H
#define TE_TRANSPORT_CTLPEER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/ctlpage.h"

struct te_ctl_map;
struct te_ctl_peer;
struct te_ctl_view;
struct te_desc;
struct te_err;

/* A row as it was seen; its content holds as long as the page's row has this state. */
struct te_ctl_seen {
	uint64_t addr, len, memfd_ino, memfd_offset;
	uint32_t number, state;
	int memfd;
	_Atomic(struct te_ctl_map *) map;	/* once it was needed */
};

/* One thread's copying for a while. */
struct te_ctl_use {
	struct te_ctl_peer *peer;
	struct te_ctl_view *view;
	struct te_ctl_hazard *hazard;
	struct te_ctl_seen *row[TE_CTL_HELD];
	unsigned n;
};

/* Maps the page of desc's engine, which must run on this host. -EOPNOTSUPP with the reason. */
int te_ctl_peer_open(const struct te_desc *desc, struct te_ctl_peer **out, struct te_err *err);
/* NULL is fine. */
void te_ctl_peer_close(struct te_ctl_peer *p);
int te_ctl_peer_pid(const struct te_ctl_peer *p);
/* Where the target has its nonce, and what it is. */
uint64_t te_ctl_peer_nonce(const struct te_ctl_peer *p, uint64_t *addr);
/* Has the target's engine said that it is closed? */
bool te_ctl_peer_is_closed(const struct te_ctl_peer *p);
/* Does one live row hold all of [addr, addr+len)? */
bool te_ctl_peer_covers(struct te_ctl_peer *p, uint64_t addr, uint64_t len);
/* How many rows there are now, and how many of them are memory that we could map. */
void te_ctl_peer_count(struct te_ctl_peer *p, unsigned *rows, unsigned *mappable);

/* -EBUSY: no hazard is free. */
int te_ctl_use_begin(struct te_ctl_use *u, struct te_ctl_peer *p);
/* -EFAULT: not registered. -EAGAIN: end what is being copied, te_ctl_use_renew(), try again (once). */
int te_ctl_use_row(struct te_ctl_use *u, uint64_t addr, uint64_t len, struct te_ctl_seen **out);
void te_ctl_use_renew(struct te_ctl_use *u);
void te_ctl_use_end(struct te_ctl_use *u);
/* Address here of [addr, addr+len) of a row in use, by the memfd it lies in; NULL when it cannot be mapped. */
void *te_ctl_use_map(struct te_ctl_use *u, struct te_ctl_seen *row, uint64_t addr, uint64_t len);

#endif
