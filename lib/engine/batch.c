/* batch.c - batches: generation-checked ids, status, wait, cancel, drain, free. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/engine.h"

enum {
	MAX_CAPACITY = 1 << 24,
	INDEX_BITS = 24, /* of an id: slot below, generation above */
	SETTLE_MS = 1000,
};
#define HELP_AGAIN (2ull * TE_NSEC_PER_MSEC) /* sleep between two offers of help */

/* ---- the table ---------------------------------------------------------------------------- */

void te_batch_ref(struct te_batch *b)
{
	atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
}

static void batch_delete(struct te_batch *b)
{
	size_t n = atomic_load(&b->n);

	for (size_t i = 0; i < n; i++)
		free(b->tasks[i].why);
	while (b->pieces) {
		struct te_pieces *next = b->pieces->next;

		free(b->pieces);
		b->pieces = next;
	}
	for (size_t i = 0; i < b->npeers; i++)
		te_peer_put(b->e, b->peers[i]);
	free(b->peers);
	free(b->notify_name);
	free(b->notify_msg);
	if (atomic_load(&b->efd) >= 0)
		close(atomic_load(&b->efd));
	pthread_mutex_destroy(&b->lock);
	pthread_mutex_destroy(&b->submit_lock);
	free(b);
}

void te_batch_put(struct te_batch *b)
{
	if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
		batch_delete(b);
}

struct te_batch *te_batch_get(struct te_engine *e, uint64_t id)
{
	uint64_t index = id & ((1u << INDEX_BITS) - 1);
	struct te_batch *b = NULL;

	pthread_rwlock_rdlock(&e->batches_lock);
	if (index < e->nslots && e->slots[index].generation == id >> INDEX_BITS)
		b = e->slots[index].batch;
	if (b)
		te_batch_ref(b);
	pthread_rwlock_unlock(&e->batches_lock);
	return b;
}

/* batches_lock held for writing. */
static int grow_slots(struct te_engine *e)
{
	size_t n = e->nslots ? e->nslots * 2 : 64;
	struct te_batch_slot *slots;
	uint32_t *stack;

	if (n > 1u << INDEX_BITS)
		return -EMFILE;
	slots = realloc(e->slots, n * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	e->slots = slots;
	stack = realloc(e->free_slots, n * sizeof(*stack));
	if (!stack)
		return -ENOMEM;
	e->free_slots = stack;
	for (size_t i = n; i-- > e->nslots;) {
		e->slots[i] = (struct te_batch_slot){ .generation = 1 };
		e->free_slots[e->nfree++] = (uint32_t)i;
	}
	e->nslots = n;
	return 0;
}

int te_batch_alloc(struct te_engine *e, size_t capacity, uint64_t *id, struct te_err *err)
{
	struct te_batch *b;
	uint32_t index;
	int r = 0;

	if (!capacity || capacity > MAX_CAPACITY)
		return te_fail(err, -EINVAL, "batch capacity %zu is not in 1..%d", capacity,
			       MAX_CAPACITY);
	/* Tasks are cleared when they are used. */
	b = malloc(sizeof(*b) + capacity * sizeof(b->tasks[0]));
	if (!b)
		return te_fail(err, -ENOMEM, "out of memory for a batch of %zu", capacity);
	memset(b, 0, sizeof(*b));
	b->e = e;
	b->capacity = capacity;
	atomic_store(&b->refs, 1);
	atomic_store(&b->efd, -1);
	pthread_mutex_init(&b->submit_lock, NULL);
	pthread_mutex_init(&b->lock, NULL);
	pthread_rwlock_wrlock(&e->batches_lock);
	if (!e->nfree)
		r = grow_slots(e);
	if (!r) {
		index = e->free_slots[--e->nfree];
		e->slots[index].batch = b;
		b->id = e->slots[index].generation << INDEX_BITS | index;
		*id = b->id;
	}
	pthread_rwlock_unlock(&e->batches_lock);
	if (!r)
		return 0;
	te_batch_put(b);
	return te_fail(err, r, "cannot allocate a batch: %s", strerror(-r));
}

bool te_batches_clear(struct te_engine *e)
{
	uint64_t until = te_now() + (uint64_t)((e->conf.transfer_timeout_s + TE_CLOSE_S) * 1e9);

	for (size_t i = 0; i < e->nslots; i++)
		if (e->slots[i].batch &&
		    te_batch_drain(e, e->slots[i].batch->id, te_ms_until(until)))
			return false;
	for (size_t i = 0; i < e->nslots; i++)
		if (e->slots[i].batch)
			te_batch_put(e->slots[i].batch);
	free(e->slots);
	free(e->free_slots);
	e->slots = NULL;
	e->nslots = e->nfree = 0;
	return true;
}

int te_batch_keep_peer(struct te_batch *b, struct te_peer *p)
{
	struct te_peer **peers;
	int r = 0;

	pthread_mutex_lock(&b->lock);
	for (size_t i = 0; i < b->npeers; i++)
		if (b->peers[i] == p)
			goto out;
	peers = realloc(b->peers, (b->npeers + 1) * sizeof(*peers));
	if (!peers) {
		r = -ENOMEM;
		goto out;
	}
	b->peers = peers;
	te_peer_ref(p);
	b->peers[b->npeers++] = p;
out:
	pthread_mutex_unlock(&b->lock);
	return r;
}

/* ---- looking ------------------------------------------------------------------------------ */

static void status_of(const struct te_task *t, struct te_status *out)
{
	int state = atomic_load_explicit(&t->state, memory_order_acquire);
	bool ended = state > TE_WAITING;

	*out = (struct te_status){
		.state = ended ? (enum te_state)state : TE_WAITING,
		.error = ended ? t->error : 0,
		.transferred = atomic_load_explicit(&t->transferred, memory_order_relaxed),
		.latency_ns = ended ? t->ended - t->submitted : 0,
	};
}

int te_batch_statuses(struct te_engine *e, uint64_t id, size_t first, size_t n,
		      struct te_status *out)
{
	struct te_batch *b = te_batch_get(e, id);
	size_t have;

	if (!b)
		return -EBADF;
	have = atomic_load_explicit(&b->n, memory_order_acquire);
	n = first < have ? MIN(n, have - first) : 0;
	for (size_t i = 0; i < n; i++)
		status_of(&b->tasks[first + i], &out[i]);
	te_batch_put(b);
	return (int)n;
}

int te_batch_status(struct te_engine *e, uint64_t id, size_t task, struct te_status *out)
{
	int r = te_batch_statuses(e, id, task, 1, out);

	return r < 0 ? r : r ? 0 : -EINVAL;
}

int te_batch_error(struct te_engine *e, uint64_t id, size_t task, struct te_err *out)
{
	struct te_batch *b = te_batch_get(e, id);
	int r = -ENODATA;

	if (!b)
		return -EBADF;
	if (task >= atomic_load_explicit(&b->n, memory_order_acquire)) {
		r = -EINVAL;
	} else if (atomic_load_explicit(&b->tasks[task].state, memory_order_acquire) > TE_WAITING &&
		   b->tasks[task].why) {
		*out = *b->tasks[task].why;
		r = 0;
	}
	te_batch_put(b);
	return r;
}

/* ---- waiting ------------------------------------------------------------------------------ */

static struct te_slice *lent_piece(struct te_task *t)
{
	if (atomic_load_explicit(&t->slice.lent, memory_order_acquire))
		return &t->slice;
	for (uint32_t i = 0; i < t->nmore; i++)
		if (atomic_load_explicit(&t->more[i].lent, memory_order_acquire))
			return &t->more[i];
	return NULL;
}

/* A slice that a transport has, from task *cursor on; tasks before it have ended. */
static struct te_slice *find_lent(struct te_batch *b, size_t *cursor)
{
	size_t n = atomic_load_explicit(&b->n, memory_order_acquire);
	bool ended = true;

	for (size_t i = *cursor; i < n; i++) {
		struct te_task *t = &b->tasks[i];
		struct te_slice *s;

		if (atomic_load_explicit(&t->state, memory_order_acquire) > TE_WAITING) {
			if (ended)
				*cursor = i + 1;
			continue;
		}
		ended = false;
		s = lent_piece(t);
		if (s)
			return s;
	}
	return NULL;
}

static void sleep_on(struct te_batch *b, const _Atomic uint32_t *word, uint32_t seen,
		     uint64_t until)
{
	atomic_fetch_add(&b->sleepers, 1);
	if (atomic_load(word) == seen)
		te_futex_wait(word, seen, until);
	atomic_fetch_sub(&b->sleepers, 1);
}

/* Offer our thread to the transport of one unfinished slice, else sleep. */
static void help_or_sleep(struct te_batch *b, size_t *cursor, uint32_t seen, uint64_t until)
{
	struct te_slice *s = find_lent(b, cursor);
	uint64_t soon = te_now() + HELP_AGAIN;

	if (s && s->peer->ops->help) {
		s->peer->ops->help(s->peer, s, &b->pending, until);
		if (!atomic_load_explicit(&s->lent, memory_order_acquire))
			return;
	}
	sleep_on(b, &b->pending, seen, MIN(soon, until));
}

static uint64_t until_of(int timeout_ms)
{
	if (timeout_ms < 0)
		return UINT64_MAX;
	return te_now() + (uint64_t)timeout_ms * TE_NSEC_PER_MSEC;
}

int te_batch_wait(struct te_engine *e, uint64_t id, int timeout_ms, size_t *failed)
{
	struct te_batch *b = te_batch_get(e, id);
	uint64_t until = until_of(timeout_ms);
	uint32_t seen;
	size_t cursor = 0;

	if (!b)
		return -EBADF;
	while ((seen = atomic_load(&b->pending))) {
		if (te_now() >= until)
			break;
		help_or_sleep(b, &cursor, seen, until);
	}
	if (failed)
		*failed = atomic_load(&b->nfailed);
	te_batch_put(b);
	return seen ? -ETIMEDOUT : 0;
}

int te_batch_drain(struct te_engine *e, uint64_t id, int timeout_ms)
{
	struct te_batch *b = te_batch_get(e, id);
	uint64_t until = until_of(timeout_ms);
	uint32_t seen;

	if (!b)
		return -EBADF;
	while ((seen = atomic_load(&b->inflight)) && te_now() < until)
		sleep_on(b, &b->inflight, seen, MIN(until, te_now() + TE_NSEC_PER_SEC));
	te_batch_put(b);
	return seen ? -ETIMEDOUT : 0;
}

int te_batch_cancel(struct te_engine *e, uint64_t id)
{
	struct te_batch *b = te_batch_get(e, id);
	uint64_t now = te_now();
	uint32_t count = 0;
	struct te_err why;
	size_t n;

	if (!b)
		return -EBADF;
	te_fail(&why, -ECANCELED, "cancelled by the program");
	n = atomic_load_explicit(&b->n, memory_order_acquire);
	for (size_t i = 0; i < n; i++) {
		atomic_store(&b->tasks[i].stopped, true);
		count += te_task_end(&b->tasks[i], TE_CANCELED, -ECANCELED, &why, now);
	}
	te_batch_ended(b, count);
	te_batch_put(b);
	return 0;
}

static int free_now(struct te_engine *e, uint64_t id)
{
	uint64_t index = id & ((1u << INDEX_BITS) - 1);
	struct te_batch *b = NULL;
	int r = -EBADF;

	pthread_rwlock_wrlock(&e->batches_lock);
	if (index < e->nslots && e->slots[index].generation == id >> INDEX_BITS)
		b = e->slots[index].batch;
	if (b && (atomic_load(&b->pending) || atomic_load(&b->inflight))) {
		r = -EBUSY;
		b = NULL;
	} else if (b) {
		e->slots[index].batch = NULL;
		e->slots[index].generation++;
		e->free_slots[e->nfree++] = (uint32_t)index;
	}
	pthread_rwlock_unlock(&e->batches_lock);
	if (!b)
		return r;
	te_batch_put(b);
	return 0;
}

/* Have all tasks ended, and are all their slices back? Then who brings them back is about to have
 * counted them. */
static bool is_settling(struct te_engine *e, uint64_t id)
{
	struct te_batch *b = te_batch_get(e, id);
	size_t n = b ? atomic_load_explicit(&b->n, memory_order_acquire) : 0;
	bool settling = b;

	for (size_t i = 0; settling && i < n; i++) {
		int state = atomic_load_explicit(&b->tasks[i].state, memory_order_acquire);

		settling = (state == TE_COMPLETED || state == TE_INVALID || state == TE_FAILED) &&
			   !lent_piece(&b->tasks[i]);
	}
	if (b)
		te_batch_put(b);
	return settling;
}

int te_batch_free(struct te_engine *e, uint64_t id)
{
	int r = free_now(e, id);

	/* A program that has seen the last task end may free the batch. */
	if (r == -EBUSY && is_settling(e, id)) {
		te_batch_drain(e, id, SETTLE_MS);
		te_batch_wait(e, id, SETTLE_MS, NULL);
		r = free_now(e, id);
	}
	return r;
}

static int make_eventfd(_Atomic int *slot)
{
	int none = -1, fd = atomic_load(slot);

	if (fd >= 0)
		return fd;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (atomic_compare_exchange_strong(slot, &none, fd))
		return fd;
	close(fd);
	return none;
}

int te_batch_eventfd(struct te_engine *e, uint64_t id)
{
	struct te_batch *b = te_batch_get(e, id);
	uint64_t one = 1;
	int fd;

	if (!b)
		return -EBADF;
	fd = make_eventfd(&b->efd);
	/* Everything may have ended before the eventfd was there to be told. */
	if (fd >= 0 && !atomic_load(&b->pending) && write(fd, &one, sizeof(one)) < 0)
		fd = -errno;
	te_batch_put(b);
	return fd;
}

int te_engine_eventfd(struct te_engine *e)
{
	return make_eventfd(&e->efd);
}
