/* copier.c - a queue of slices to copy, the worker that empties it, and the waiting threads that
 * help. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "te_conf.h"
#include "te_err.h"
#include "transport/copier.h"

enum {
	INLINE_BYTES = 1 << 20, /* what submit copies itself: a worker takes longer to wake */
	RUN_BYTES = 256 << 10,
};

/* In a run's first slice: conn is its last one. */
static struct te_slice *run_last(const struct te_slice *first)
{
	return atomic_load_explicit(&first->conn, memory_order_relaxed);
}

/* Slices that must not begin any more get their status. */
static void check(struct te_slice *list, struct te_err *why)
{
	uint64_t now = te_now();

	for (struct te_slice *s = list; s; s = s->next) {
		s->status = 0;
		if (s->cancelled && atomic_load_explicit(s->cancelled, memory_order_relaxed))
			s->status = te_fail(why, -ECANCELED, "canceled before it was copied");
		else if (now >= s->deadline)
			s->status =
				te_fail(why, -ETIMEDOUT, "its time was over before it was copied");
	}
}

static void run(struct te_copier *c, struct te_slice *list)
{
	struct te_peer *p = list->peer;
	struct te_err why = { 0 };
	uint64_t n = 0, bytes = 0;

	check(list, &why);
	c->copy(p, list, &why);
	for (const struct te_slice *s = list; s; s = s->next)
		if (!s->status) {
			n++;
			bytes += s->len;
		}
	atomic_fetch_add_explicit(&p->slices, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&p->bytes, bytes, memory_order_relaxed);
	c->env->sink->done(c->env->sink, list, why.code ? &why : NULL);
}

/* Under the lock. */
static struct te_slice *take(struct te_copier *c)
{
	struct te_slice *first = c->head, *last;

	if (!first)
		return NULL;
	last = run_last(first);
	c->head = last->next;
	if (!c->head)
		c->tail = NULL;
	last->next = NULL;
	atomic_fetch_add(&c->active, 1);
	return first;
}

static void *work(void *arg)
{
	struct te_copier *c = arg;
	struct te_slice *list;

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		list = take(c);
		if (!list) {
			c->asleep = true;
			pthread_cond_wait(&c->wake, &c->lock);
			c->asleep = false;
			continue;
		}
		pthread_mutex_unlock(&c->lock);
		run(c, list);
		atomic_fetch_sub(&c->active, 1);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* Under the lock. */
static bool start(struct te_copier *c)
{
	if (!c->started)
		c->started = !te_thread_start(&c->worker, "te-copy", work, c);
	return c->started;
}

/* Mark the runs of a chain; its last slice. *whole: all of it is small. */
static struct te_slice *cut(struct te_slice *list, bool *whole)
{
	struct te_slice *first = list, *last = list;
	uint64_t bytes = list->len, all = list->len;

	for (struct te_slice *s = list->next; s; last = s, s = s->next) {
		if (bytes + s->len > RUN_BYTES) {
			atomic_store_explicit(&first->conn, last, memory_order_relaxed);
			first = s;
			bytes = 0;
		}
		bytes += s->len;
		all += s->len;
	}
	atomic_store_explicit(&first->conn, last, memory_order_relaxed);
	*whole = all <= INLINE_BYTES;
	return last;
}

void te_copier_submit(struct te_copier *c, struct te_slice *list)
{
	struct te_slice *last;
	bool small, queued, wake = false;

	last = cut(list, &small);
	if (small) {
		run(c, list);
		return;
	}
	pthread_mutex_lock(&c->lock);
	queued = start(c);
	if (queued) {
		if (c->tail)
			c->tail->next = list;
		else
			c->head = list;
		c->tail = last;
		wake = c->asleep;
	}
	pthread_mutex_unlock(&c->lock);
	if (wake)
		pthread_cond_signal(&c->wake);
	if (!queued)
		run(c, list); /* no thread to be had: late is better than never */
}

/* The rest of what we wait for is in other hands: it takes less long than to sleep and be woken. */
static void spin(struct te_copier *c, const _Atomic uint32_t *pending, uint64_t until)
{
	uint64_t end = te_now() + (uint64_t)c->env->conf->spin_us * 1000;

	end = MIN(end, until);
	while (atomic_load_explicit(pending, memory_order_acquire) && atomic_load(&c->active) &&
	       te_now() < end)
		;
}

void te_copier_help(struct te_copier *c, const _Atomic uint32_t *pending, uint64_t until)
{
	struct te_slice *list;

	while (atomic_load_explicit(pending, memory_order_acquire) && te_now() < until) {
		pthread_mutex_lock(&c->lock);
		list = take(c);
		pthread_mutex_unlock(&c->lock);
		if (!list) {
			spin(c, pending, until);
			return;
		}
		run(c, list);
		atomic_fetch_sub(&c->active, 1);
	}
}

void te_copier_abort(struct te_copier *c, struct te_peer *p, int status, const struct te_err *why)
{
	struct te_slice *out = NULL, **out_end = &out, **at = &c->head;

	pthread_mutex_lock(&c->lock);
	c->tail = NULL;
	while (*at) {
		struct te_slice *first = *at, *last = run_last(first);

		if (first->peer != p) {
			c->tail = last;
			at = &last->next;
			continue;
		}
		*at = last->next;
		last->next = NULL;
		*out_end = first;
		out_end = &last->next;
	}
	pthread_mutex_unlock(&c->lock);
	for (struct te_slice *s = out; s; s = s->next)
		s->status = status;
	if (out)
		c->env->sink->done(c->env->sink, out, why);
}

void te_copier_init(struct te_copier *c, const struct te_transport_env *env, te_copy_fn *copy)
{
	memset(c, 0, sizeof(*c));
	c->env = env;
	c->copy = copy;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->wake, NULL);
}

void te_copier_clear(struct te_copier *c)
{
	bool started;

	pthread_mutex_lock(&c->lock);
	c->stop = true;
	started = c->started;
	pthread_mutex_unlock(&c->lock);
	pthread_cond_signal(&c->wake);
	if (started)
		pthread_join(c->worker, NULL);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
}
