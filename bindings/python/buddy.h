/* buddy.h - a buddy allocator: blocks of powers of two, cut from arenas that its owner provides. */
#ifndef TE_PY_BUDDY_H
#define TE_PY_BUDDY_H

#include <pthread.h>
#include <stddef.h>

enum { BUDDY_PAGE = 4096 };	/* the smallest block, and what every block is aligned to */

/* Where arenas come from and go to. Called without a lock; may block. */
struct buddy_ops {
	int (*get)(void *arg, size_t len, void **out);	/* len: a multiple of BUDDY_PAGE; negative errno */
	int (*put)(void *arg, void *addr);	/* -EBUSY: somebody uses it, and it stays */
};

struct buddy {
	const struct buddy_ops *ops;
	void *arg;
	size_t arena_len;		/* bytes, a power of two times BUDDY_PAGE */
	size_t largest;			/* of a block in an arena: longer ones have an arena of their own */

	pthread_mutex_t lock;
	struct buddy_arena *arenas;
};

void buddy_init(struct buddy *b, const struct buddy_ops *ops, void *arg, size_t arena_len,
		size_t largest);
/* Frees what the allocator keeps about its arenas, not the arenas. */
void buddy_clear(struct buddy *b);

/* Not cleared, unless it was never used before. NULL: no bytes wanted, or none left. */
void *buddy_alloc(struct buddy *b, size_t len);
/*
 * len: as it was asked for. -ENOENT: not from here. -EINVAL: not the start of a block, another length, or it is free
 * already. -EBUSY: a block with an arena of its own, still in use.
 */
int buddy_free(struct buddy *b, void *addr, size_t len);

#endif
