/* task.c - what happens when slices come back: counting, retrying, ending tasks, waking who waits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"

static enum te_state state_of(int status)
{
	switch (status) {
	case 0:
		return TE_COMPLETED;
	case -ECANCELED:
		return TE_CANCELED;
	case -ETIMEDOUT:
		return TE_TIMEOUT;
	case -EFAULT: /* nobody registered the range */
		return TE_INVALID;
	default:
		return TE_FAILED;
	}
}

/* Worth another try after the descriptor has been fetched again? */
static bool retryable(const struct te_slice *s, uint64_t now)
{
	const struct te_engine *e = s->task->batch->e;

	switch (s->status) {
	case -ECANCELED:
	case -ETIMEDOUT:
	case -EFAULT:
	case -ENOMEM:
	case -EMSGSIZE:
		return false;
	default:
		return s->attempt + 1 < e->conf.retry_cnt && now < s->deadline &&
		       !atomic_load(&s->task->stopped) && !atomic_load(&e->closing);
	}
}

static struct te_err *name_segment(const struct te_task *t, const struct te_err *why)
{
	struct te_err *err = malloc(sizeof(*err));

	if (!err)
		return NULL;
	if (why && strstr(why->msg, t->seg->name))
		*err = *why;
	else
		te_fail(err, why ? why->code : -EIO, "segment '%s': %s", t->seg->name,
			why ? why->msg : "failed");
	return err;
}

bool te_task_end(struct te_task *t, enum te_state state, int error, const struct te_err *why,
		 uint64_t now)
{
	int ending = -1, waiting = TE_WAITING;

	/* -1 keeps readers out until error and why are in place; they see it as WAITING. */
	if (!atomic_compare_exchange_strong(&t->state, &waiting, ending))
		return false;
	t->error = error;
	t->ended = now;
	if (state != TE_COMPLETED) {
		t->why = name_segment(t, why);
		atomic_fetch_add(&t->batch->nfailed, 1);
		atomic_fetch_add(&t->batch->e->failed, 1);
	}
	atomic_store_explicit(&t->state, state, memory_order_release);
	return true;
}

static void wake_batch(struct te_batch *b)
{
	struct te_engine *e = b->e;
	uint64_t one = 1;
	int efd = atomic_load(&b->efd), engine_efd = atomic_load(&e->efd);

	if (atomic_load(&b->sleepers))
		te_futex_wake(&b->pending, INT32_MAX);
	/* A full counter is as readable as a written one. */
	if (efd >= 0 && write(efd, &one, sizeof(one)) < 0)
		te_trace("eventfd of a batch is full");
	if (engine_efd >= 0 && write(engine_efd, &one, sizeof(one)) < 0)
		te_trace("eventfd of the engine is full");
}

static void send_notification(struct te_batch *b)
{
	char *name, *msg;

	pthread_mutex_lock(&b->lock);
	name = b->notify_name;
	msg = b->notify_msg;
	b->notify_name = b->notify_msg = NULL;
	pthread_mutex_unlock(&b->lock);
	if (msg && !atomic_load(&b->nfailed)) {
		te_courier_post(b->e, b->notify_target, name, msg);
		return;
	}
	free(name);
	free(msg);
}

void te_batch_ended(struct te_batch *b, uint32_t count)
{
	if (!count || atomic_fetch_sub(&b->pending, count) != count)
		return;
	atomic_fetch_add_explicit(&b->e->batches, 1, memory_order_relaxed);
	send_notification(b);
	wake_batch(b);
}

/* Slices of one submit, one after the other in a chain: counted together, since each atomic
   operation on what threads share costs as much as copying some hundred bytes. */
struct run {
	struct te_batch *batch;
	struct te_seg *seg;
	struct te_region *region;
	uint64_t submitted;
	uint32_t back, ended;
	uint32_t regions;  /* references to give back */
	uint32_t requests; /* that ended COMPLETED */
	uint64_t bytes;
};

static void close_run(struct run *r, uint64_t now)
{
	struct te_batch *b = r->batch;
	struct te_engine *e;

	if (!b)
		return;
	e = b->e;
	atomic_fetch_add_explicit(&e->bytes, r->bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&e->requests, r->requests, memory_order_relaxed);
	if (r->requests)
		te_hist_add_n(&e->latency, now - r->submitted, r->requests);
	if (r->regions)
		te_region_put_n(r->region, r->regions);
	te_seg_release(r->seg, r->back);
	if (atomic_fetch_sub(&b->inflight, r->back) == r->back && atomic_load(&b->sleepers))
		te_futex_wake(&b->inflight, INT32_MAX);
	te_batch_ended(b, r->ended);
	te_batch_put(b);
	memset(r, 0, sizeof(*r));
}

static void open_run(struct run *r, const struct te_task *t, uint64_t now)
{
	close_run(r, now);
	r->batch = t->batch;
	r->seg = t->seg;
	r->region = t->region;
	r->submitted = t->submitted;
	te_batch_ref(r->batch);
}

/* Only the pieces of a request that was cut may come back at the same time. */
static void add_transferred(struct te_task *t, uint64_t len)
{
	if (t->nmore)
		atomic_fetch_add_explicit(&t->transferred, len, memory_order_relaxed);
	else
		atomic_store_explicit(&t->transferred, len, memory_order_relaxed);
}

/* One slice is back for good. */
static void account(struct run *r, struct te_slice *s, const struct te_err *why, uint64_t now)
{
	struct te_task *t = s->task;
	bool ended = false;

	if (t->batch != r->batch || t->seg != r->seg || t->region != r->region ||
	    t->submitted != r->submitted)
		open_run(r, t, now);
	r->back++;
	atomic_store_explicit(&s->lent, false, memory_order_relaxed);
	if (!s->status) {
		add_transferred(t, s->len);
		r->bytes += s->len;
	} else {
		atomic_store(&t->stopped, true); /* its other pieces need not start */
		ended = te_task_end(t, state_of(s->status), s->status, why, now);
	}
	if (!t->nmore || atomic_fetch_sub_explicit(&t->left, 1, memory_order_acq_rel) == 1) {
		r->regions++;
		if (te_task_end(t, TE_COMPLETED, 0, NULL, now)) {
			ended = true;
			r->requests++;
		}
	}
	r->ended += ended;
}

void te_task_finish(struct te_slice *list, const struct te_err *why)
{
	struct run run = { 0 };
	uint64_t now = te_now();

	for (struct te_slice *s = list, *next; s; s = next) {
		next = s->next; /* s may be gone once its batch is told */
		account(&run, s, why, now);
	}
	close_run(&run, now);
}

/* Park a chain of slices that may belong to several segments. */
static void retry(struct te_engine *e, struct te_slice *list, const struct te_err *why)
{
	while (list) {
		struct te_seg *seg = list->task->seg;
		struct te_slice *mine = NULL, *others = NULL, *next;

		for (struct te_slice *s = list; s; s = next) {
			struct te_slice **to = s->task->seg == seg ? &mine : &others;

			next = s->next;
			s->next = *to;
			*to = s;
			if (to == &mine)
				atomic_fetch_add_explicit(&e->retries, 1, memory_order_relaxed);
		}
		te_seg_park(seg, mine, why);
		list = others;
	}
}

void te_task_done(struct te_sink *sink, struct te_slice *list, const struct te_err *why)
{
	struct te_engine *e = container_of(sink, struct te_engine, sink);
	struct te_slice *again = NULL;
	struct run run = { 0 };
	uint64_t now = te_now();

	for (struct te_slice *s = list, *next; s; s = next) {
		next = s->next;
		if (s->status && retryable(s, now)) {
			s->attempt++;
			atomic_fetch_add_explicit(&s->peer->retries, 1, memory_order_relaxed);
			atomic_store_explicit(&s->lent, false, memory_order_relaxed);
			s->next = again;
			again = s;
			continue;
		}
		account(&run, s, why, now);
	}
	close_run(&run, now);
	if (again)
		retry(e, again, why);
}

void te_task_expired(struct te_sink *sink, struct te_slice *s, const struct te_err *why)
{
	struct te_task *t = s->task;
	struct te_batch *b = t->batch;

	(void)sink;
	te_batch_ref(b);
	atomic_store(&t->stopped, true); /* its other pieces need not start */
	te_batch_ended(b, te_task_end(t, TE_TIMEOUT, -ETIMEDOUT, why, te_now()));
	te_batch_put(b);
}
