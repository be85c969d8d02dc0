/* handles.c - the table of engines: a stale or an invented handle finds nothing. */
#include <stdint.h>
#include <stdlib.h>

#include "compat/compat.h"

enum { ENGINES = 1024, INDEX_BITS = 10 };

static struct slot {
	pthread_rwlock_t lock; /* readers: calls on the engine */
	uintptr_t generation;
	struct compat_engine *engine;
} slots[ENGINES];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
	for (unsigned i = 0; i < ENGINES; i++) {
		pthread_rwlock_init(&slots[i].lock, NULL);
		slots[i].generation = 1;
	}
}

static struct slot *slot_of(transfer_engine_t h)
{
	return &slots[(uintptr_t)h % ENGINES];
}

/* Its lock held. */
static bool is_current(const struct slot *s, transfer_engine_t h)
{
	return s->engine && s->generation == (uintptr_t)h >> INDEX_BITS;
}

transfer_engine_t compat_handle_new(struct compat_engine *e)
{
	void *h = NULL;

	pthread_once(&once, init);
	pthread_mutex_lock(&table_lock);
	for (unsigned i = 0; i < ENGINES && !h; i++) {
		pthread_rwlock_wrlock(&slots[i].lock);
		if (!slots[i].engine) {
			slots[i].engine = e;
			h = (void *)(slots[i].generation << INDEX_BITS | i);
		}
		pthread_rwlock_unlock(&slots[i].lock);
	}
	pthread_mutex_unlock(&table_lock);
	return h;
}

static struct compat_engine *checked(struct slot *s, transfer_engine_t h, bool open)
{
	if (is_current(s, h) && (!open || s->engine->te))
		return s->engine;
	pthread_rwlock_unlock(&s->lock);
	return NULL;
}

struct compat_engine *compat_get(transfer_engine_t h)
{
	struct slot *s = slot_of(h);

	pthread_once(&once, init);
	pthread_rwlock_rdlock(&s->lock);
	return checked(s, h, true);
}

struct compat_engine *compat_get_alone(transfer_engine_t h)
{
	struct slot *s = slot_of(h);

	pthread_once(&once, init);
	pthread_rwlock_wrlock(&s->lock);
	return checked(s, h, false);
}

void compat_put(transfer_engine_t h)
{
	pthread_rwlock_unlock(&slot_of(h)->lock);
}

struct compat_engine *compat_handle_free(transfer_engine_t h)
{
	struct compat_engine *e = compat_get_alone(h);

	if (!e)
		return NULL;
	slot_of(h)->engine = NULL;
	slot_of(h)->generation++;
	compat_put(h);
	return e;
}

transfer_engine_t compat_next(unsigned *at)
{
	void *h = NULL;

	pthread_once(&once, init);
	for (; *at < ENGINES && !h; ++*at) {
		pthread_rwlock_rdlock(&slots[*at].lock);
		if (slots[*at].engine)
			h = (void *)(slots[*at].generation << INDEX_BITS | *at);
		pthread_rwlock_unlock(&slots[*at].lock);
	}
	return h;
}
