/* buddy.c - a buddy allocator over arenas. What it knows of a block lies outside of the block,
 * which peers may write to. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "buddy.h"

enum { ORDERS = 32, NONE = -1 };

enum state { INSIDE, FREE, USED }; /* INSIDE: of a block that starts elsewhere */

struct block {	    /* one a page; only that of a block's first page says something */
	size_t len; /* as it was asked for */
	int32_t next, prev;
	uint8_t order, state;
};

struct buddy_arena {
	struct buddy_arena *next;
	char *base;
	size_t unit; /* bytes of a block of order 0: a page, or the whole of a block's own arena */
	size_t used; /* blocks */
	unsigned order;	      /* of the whole arena */
	int32_t free[ORDERS]; /* the first of each list */
	struct block blocks[];
};

/* ---- lists -------------------------------------------------------------------------------- */

static void list_add(struct buddy_arena *a, int32_t i, unsigned order)
{
	struct block *x = &a->blocks[i];

	x->state = FREE;
	x->order = (uint8_t)order;
	x->prev = NONE;
	x->next = a->free[order];
	if (x->next != NONE)
		a->blocks[x->next].prev = i;
	a->free[order] = i;
}

static void list_remove(struct buddy_arena *a, int32_t i)
{
	struct block *x = &a->blocks[i];

	if (x->prev == NONE)
		a->free[x->order] = x->next;
	else
		a->blocks[x->prev].next = x->next;
	if (x->next != NONE)
		a->blocks[x->next].prev = x->prev;
	x->state = INSIDE;
}

/* ---- arenas ------------------------------------------------------------------------------- */

static struct buddy_arena *arena_new(struct buddy *b, size_t unit, unsigned order)
{
	size_t n = (size_t)1 << order;
	struct buddy_arena *a = calloc(1, sizeof(*a) + n * sizeof(a->blocks[0]));
	void *base;

	if (!a || b->ops->get(b->arg, unit << order, &base) < 0) {
		free(a);
		return NULL;
	}
	a->base = base;
	a->unit = unit;
	a->order = order;
	for (unsigned i = 0; i < ORDERS; i++)
		a->free[i] = NONE;
	list_add(a, 0, order);
	return a;
}

static size_t arena_len(const struct buddy_arena *a)
{
	return a->unit << a->order;
}

static void arena_link(struct buddy *b, struct buddy_arena *a)
{
	a->next = b->arenas;
	b->arenas = a;
}

static void arena_unlink(struct buddy *b, struct buddy_arena *a)
{
	struct buddy_arena **at = &b->arenas;

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
}

static struct buddy_arena *arena_of(const struct buddy *b, const char *addr)
{
	struct buddy_arena *a = b->arenas;

	while (a && (addr < a->base || addr >= a->base + arena_len(a)))
		a = a->next;
	return a;
}

/* One that nothing is in is kept for the next block, and no more. */
static bool is_superfluous(const struct buddy *b, const struct buddy_arena *a)
{
	if (a->used)
		return false;
	if (a->unit != BUDDY_PAGE)
		return true;
	for (const struct buddy_arena *x = b->arenas; x; x = x->next)
		if (x != a && x->unit == BUDDY_PAGE && !x->used)
			return true;
	return false;
}

/* ---- blocks ------------------------------------------------------------------------------- */

/* The smallest free block that is large enough, its rest cut off; NULL: none. */
static void *take(struct buddy_arena *a, unsigned order, size_t len)
{
	unsigned found = order;
	int32_t i;

	while (found <= a->order && a->free[found] == NONE)
		found++;
	if (found > a->order)
		return NULL;
	i = a->free[found];
	list_remove(a, i);
	while (found-- > order)
		list_add(a, i + ((int32_t)1 << found), found);
	a->blocks[i].state = USED;
	a->blocks[i].order = (uint8_t)order;
	a->blocks[i].len = len;
	a->used++;
	return a->base + (size_t)i * a->unit;
}

/* Back to the lists, joined with its buddies as far as they are free. */
static void give(struct buddy_arena *a, int32_t i)
{
	unsigned order = a->blocks[i].order;

	a->blocks[i].state = INSIDE;
	for (; order < a->order; order++) {
		int32_t buddy = i ^ ((int32_t)1 << order);

		if (a->blocks[buddy].state != FREE || a->blocks[buddy].order != order)
			break;
		list_remove(a, buddy);
		i &= ~((int32_t)1 << order);
	}
	list_add(a, i, order);
	a->used--;
}

static unsigned order_of(size_t len)
{
	unsigned order = 0;

	while (((size_t)BUDDY_PAGE << order) < len)
		order++;
	return order;
}

static void *alloc_in_new(struct buddy *b, size_t unit, unsigned arena_order, unsigned order,
			  size_t len)
{
	struct buddy_arena *a = arena_new(b, unit, arena_order);
	void *addr;

	if (!a)
		return NULL;
	addr = take(a, order, len);
	pthread_mutex_lock(&b->lock);
	arena_link(b, a);
	pthread_mutex_unlock(&b->lock);
	return addr;
}

void *buddy_alloc(struct buddy *b, size_t len)
{
	void *addr = NULL;
	unsigned order;

	if (!len || len > SIZE_MAX / 2)
		return NULL;
	if (len > b->largest)
		return alloc_in_new(b, (len + BUDDY_PAGE - 1) & ~((size_t)BUDDY_PAGE - 1), 0, 0,
				    len);
	order = order_of(len);
	pthread_mutex_lock(&b->lock);
	for (struct buddy_arena *a = b->arenas; a && !addr; a = a->next)
		if (a->unit == BUDDY_PAGE)
			addr = take(a, order, len);
	pthread_mutex_unlock(&b->lock);
	if (addr)
		return addr;
	return alloc_in_new(b, BUDDY_PAGE, order_of(b->arena_len), order, len);
}

/* Lock held. The block's place in its arena, or negative errno. */
static int32_t find_used(const struct buddy_arena *a, const char *addr, size_t len)
{
	size_t off = (size_t)(addr - a->base);
	const struct block *x = &a->blocks[off / a->unit];

	if (off % a->unit || x->state != USED || x->len != len)
		return -EINVAL;
	return (int32_t)(off / a->unit);
}

/* An arena that is linked no more; in again where it must stay. */
static int arena_put(struct buddy *b, struct buddy_arena *a, size_t len)
{
	int r = b->ops->put(b->arg, a->base);

	if (!r) {
		free(a);
		return 0;
	}
	pthread_mutex_lock(&b->lock);
	if (a->unit != BUDDY_PAGE)
		take(a, 0, len);
	arena_link(b, a);
	pthread_mutex_unlock(&b->lock);
	return a->unit != BUDDY_PAGE ? r : 0;
}

int buddy_free(struct buddy *b, void *addr, size_t len)
{
	struct buddy_arena *a, *leaving = NULL;
	int32_t i = -ENOENT;

	pthread_mutex_lock(&b->lock);
	a = arena_of(b, addr);
	if (a)
		i = find_used(a, addr, len);
	if (i >= 0) {
		give(a, i);
		if (is_superfluous(b, a)) {
			arena_unlink(b, a);
			leaving = a;
		}
	}
	pthread_mutex_unlock(&b->lock);
	if (i < 0)
		return i;
	return leaving ? arena_put(b, leaving, len) : 0;
}

void buddy_init(struct buddy *b, const struct buddy_ops *ops, void *arg, size_t len, size_t largest)
{
	*b = (struct buddy){ .ops = ops, .arg = arg, .arena_len = len, .largest = largest };
	pthread_mutex_init(&b->lock, NULL);
}

void buddy_clear(struct buddy *b)
{
	while (b->arenas) {
		struct buddy_arena *next = b->arenas->next;

		free(b->arenas);
		b->arenas = next;
	}
	pthread_mutex_destroy(&b->lock);
}
