/*
 * ctlpage.h - the control page: which memory of a target other processes may touch, and who is touching it.
 *
 * A serving engine shares one memfd with the initiators of its host: a row for each reachable buffer and a
 * table of hazards. An initiator writes the row that it is going to touch into a hazard of its own, looks
 * whether the row still lives, copies, and takes the hazard away. Unregister kills the row and then waits for
 * the hazards that name it, those of dead processes excepted. (Michael, "Hazard Pointers", 2004, across
 * processes.) Either side may be hostile: an initiator believes no row without bounds, a target believes only
 * what it keeps in its own memory, and a bad hazard delays an unregister up to its time limit at most.
 */
#ifndef TE_TRANSPORT_CTLPAGE_H
#define TE_TRANSPORT_CTLPAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct te_err;
struct te_region;

enum {
	TE_CTL_VERSION = 1,
	TE_CTL_ROWS = 65536,
	TE_CTL_HAZARDS = 1024,
	TE_CTL_HELD = 14, /* rows that one hazard can name: it fills a cache line */
};

#define TE_CTL_MAGIC   0x6c74632d65740a00ull
#define TE_CTL_WAITED  0x80000000u /* in te_ctl_hazard.row: somebody waits on this futex */

struct te_ctl_row {
	_Atomic uint64_t addr, len;		/* in the target's address space */
	_Atomic uint64_t memfd_ino, memfd_offset;	/* where addr lies in memfd */
	_Atomic int32_t memfd;			/* a file descriptor of the target, -1: none */
	_Atomic uint32_t state;			/* odd: live. Goes up by one with each change */
};

struct te_ctl_hazard {
	_Atomic uint64_t owner;			/* te_ctl_owner_self(), 0: free */
	_Atomic uint32_t row[TE_CTL_HELD];	/* number + 1, 0: none */
};

struct te_ctl_page {
	uint64_t magic;				/* constant from here ... */
	uint32_t version;
	int32_t pid;
	char token[40];				/* the engine's, as published */
	uint64_t self;				/* address of this page in the target */
	uint64_t nonce;				/* random: what process_vm_readv finds there if it is still the target */
						/* ... to here */
	_Atomic uint32_t closed;		/* the engine is gone */
	_Atomic uint32_t generation;		/* goes up after each change of a row */
	_Atomic uint32_t rows;			/* rows from here on were never used */
	struct te_ctl_hazard hazards[TE_CTL_HAZARDS] __attribute__((aligned(4096)));
	struct te_ctl_row row[TE_CTL_ROWS] __attribute__((aligned(4096)));
};

struct te_ctl; /* the target's side */

int te_ctl_new(const char *token, struct te_ctl **out, struct te_err *err);
/* All rows removed. NULL is fine. */
void te_ctl_free(struct te_ctl *c);
int te_ctl_fd(const struct te_ctl *c);
/* Gives r a row, and its number to r->page_slot. */
int te_ctl_add(struct te_ctl *c, struct te_region *r, struct te_err *err);
/* 0: nobody copies there any more. -EBUSY: somebody still does at `until`, and the row lives on. */
int te_ctl_remove(struct te_ctl *c, const struct te_region *r, uint64_t until);

/* Who we are, for te_ctl_hazard.owner: pid and start time, so that a recycled pid is another one. 0: /proc does
   not say. */
uint64_t te_ctl_owner_self(void);
/* Has that process certainly ended? */
bool te_ctl_owner_is_dead(uint64_t owner);
/* Make the hazard of a dead owner the new owner's; false: somebody was faster. */
bool te_ctl_hazard_take(struct te_ctl_hazard *h, uint64_t owner, uint64_t new_owner);
/* Give up slot k, and wake who waits for that. */
void te_ctl_hazard_drop(struct te_ctl_hazard *h, unsigned k);

#endif
