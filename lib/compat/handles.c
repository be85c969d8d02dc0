/* handles.c - the table of engines: a stale or an invented handle finds nothing. */
#include <stdint.h>
#include <stdlib.h>

#include "base/util.h"
#include "compat/compat.h"

enum { ENGINES = 1024, INDEX_BITS = 10 };
#define ALONE 0x80000000u

/* Calls on an engine only count themselves: two atomic operations a call, where a lock would cost
 * more than the call. */
static struct slot {
	/* How many calls are on, and ALONE while somebody is alone with the engine, or waits to be.
	   Who finds ALONE steps back, so that threads which poll cannot keep out for ever who
	   installs or destroys. */
	_Alignas(64) _Atomic uint32_t calls;
	_Atomic uintptr_t handle; /* 0: free. Its release is what an acquire in is_current() sees */
	struct compat_engine *engine; /* set before handle */
	uintptr_t generation;	      /* changed by who is alone */
	pthread_mutex_t lock;	      /* held by who is alone */
} slots[ENGINES];

static struct slot *slot_of(transfer_engine_t h)
{
	return &slots[(uintptr_t)h % ENGINES];
}

static bool is_current(struct slot *s, transfer_engine_t h)
{
	return h && atomic_load_explicit(&s->handle, memory_order_acquire) == (uintptr_t)h;
}

transfer_engine_t compat_handle_new(struct compat_engine *e)
{
	uintptr_t h = 0;

	for (unsigned i = 0; i < ENGINES && !h; i++) {
		/* One that is locked is in use: what goes on there may take long. */
		if (pthread_mutex_trylock(&slots[i].lock))
			continue;
		if (!slots[i].handle) {
			h = ++slots[i].generation << INDEX_BITS | i;
			slots[i].engine = e;
			atomic_store(&slots[i].handle, h);
		}
		pthread_mutex_unlock(&slots[i].lock);
	}
	return (void *)h;
}

/* ---- among others ------------------------------------------------------------------------- */

static void leave(struct slot *s)
{
	/* Release: what the call did is done for who will be alone. */
	if (atomic_fetch_sub_explicit(&s->calls, 1, memory_order_release) == (ALONE | 1))
		te_futex_wake(&s->calls, INT32_MAX);
}

static void step_back(struct slot *s)
{
	uint32_t seen;

	leave(s);
	while ((seen = atomic_load(&s->calls)) & ALONE)
		te_futex_wait(&s->calls, seen, te_now() + TE_NSEC_PER_SEC);
}

struct compat_engine *compat_get(transfer_engine_t h)
{
	struct slot *s = slot_of(h);

	while (atomic_fetch_add_explicit(&s->calls, 1, memory_order_acquire) & ALONE)
		step_back(s);
	if (is_current(s, h) && s->engine->te)
		return s->engine;
	leave(s);
	return NULL;
}

void compat_put(transfer_engine_t h)
{
	leave(slot_of(h));
}

int compat_check(transfer_engine_t h)
{
	if (!compat_get(h))
		return TE_CODE_INVALID_ARGUMENT;
	compat_put(h);
	return 0;
}

/* ---- alone -------------------------------------------------------------------------------- */

struct compat_engine *compat_get_alone(transfer_engine_t h)
{
	struct slot *s = slot_of(h);
	uint32_t seen;

	pthread_mutex_lock(&s->lock);
	atomic_fetch_or(&s->calls, ALONE);
	while ((seen = atomic_load(&s->calls)) != ALONE)
		te_futex_wait(&s->calls, seen, te_now() + TE_NSEC_PER_SEC);
	if (is_current(s, h))
		return s->engine;
	compat_put_alone(h);
	return NULL;
}

void compat_put_alone(transfer_engine_t h)
{
	struct slot *s = slot_of(h);

	atomic_fetch_and(&s->calls, ~ALONE);
	te_futex_wake(&s->calls, INT32_MAX);
	pthread_mutex_unlock(&s->lock);
}

void compat_handle_free(transfer_engine_t h, void (*destroy)(struct compat_engine *e))
{
	struct compat_engine *e = compat_get_alone(h);

	if (!e)
		return;
	destroy(e);
	atomic_store(&slot_of(h)->handle, 0);
	compat_put_alone(h);
}

transfer_engine_t compat_next(unsigned *at)
{
	uintptr_t h = 0;

	for (; *at < ENGINES && !h; ++*at) {
		pthread_mutex_lock(&slots[*at].lock);
		h = slots[*at].handle;
		pthread_mutex_unlock(&slots[*at].lock);
	}
	return (void *)h;
}
