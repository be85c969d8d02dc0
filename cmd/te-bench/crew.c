/* crew.c - the threads of a case and their memory. */
#include "crew.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIGN = 64, PARTS = 2 };
static const uint64_t source_limit = 1 << 30;

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t streams_of(const struct crew *c)
{
	return c->session->nsegments * streams_per_segment(c);
}

/*
 * Where the end of each batch lets a disk's queue run dry, its time is lost: there the requests of
 * a batch are dealt out to two. But verified writes may not meet older ones, which a walk could
 * then overtake.
 */
static size_t count_parts(const struct session *s, const struct case_spec *spec)
{
	size_t i;

	for (i = 0; i < s->nsegments; i++) {
		if (!s->segments[i].failed && !s->segments[i].files)
			return 1;
	}
	if (s->opt->verify && bench_writes(spec->op))
		return 1;
	return spec->batch < PARTS ? (size_t)spec->batch : PARTS;
}

/* Blocks for each stream: a batch's worth, less where --buffer-size says so, at least one. */
static int size_memory(struct crew *c, uint64_t *total, struct te_err *err)
{
	const struct bench_options *o = c->session->opt;
	const uint64_t limit = o->buffer_size ? o->buffer_size : source_limit;
	const uint64_t streams = c->spec.threads * streams_of(c);
	const uint64_t depth = (c->spec.batch + c->parts - 1) / c->parts;
	uint64_t room = limit / streams / c->spec.block;

	room = room < 1 ? 1 : room > depth ? depth : room;
	c->room = (size_t)room;
	c->area = (room * c->spec.block + ALIGN - 1) / ALIGN * ALIGN;
	if (__builtin_mul_overflow(c->area, streams, total) || *total > SIZE_MAX / 2)
		return te_fail(err, -ENOMEM, "blocks of %llu bytes do not fit into memory",
			       (unsigned long long)c->spec.block);
	return 0;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static int init_pair(struct crew *c, const struct te_desc *d, struct slots *pair, bool halves)
{
	int rc = slots_init(&pair[TE_READ], d, c->spec.block, halves ? SLOTS_LOWER : SLOTS_WHOLE);

	if (rc)
		return rc;
	return slots_init(&pair[TE_WRITE], d, c->spec.block, halves ? SLOTS_UPPER : SLOTS_WHOLE);
}

/* Reads and writes of one run keep to a half each, unless the blocks are too large for that. */
static int init_slots(struct crew *c, size_t seg)
{
	const struct te_desc *d = c->session->segments[seg].desc;
	struct slots *pair = &c->slots[2 * seg];
	bool halves = c->spec.op >= BENCH_MIXED;
	int rc = init_pair(c, d, pair, halves);

	if (!rc && halves && !pair[TE_READ].count) {
		slots_clear(&pair[TE_READ]);
		slots_clear(&pair[TE_WRITE]);
		rc = init_pair(c, d, pair, false);
	}
	return rc;
}

static int init_lanes(struct crew *c, size_t seg)
{
	const uint64_t places = c->slots[2 * seg + TE_WRITE].count;
	struct lanes *l = &c->lanes[seg];
	size_t i;

	if (!c->session->opt->verify || places >= c->spec.threads)
		return 0;
	l->locks = calloc((size_t)places, sizeof(*l->locks));
	if (!l->locks)
		return -ENOMEM;
	for (i = 0; i < places; i++)
		pthread_mutex_init(&l->locks[i], NULL);
	l->n = (size_t)places;
	return 0;
}

static int init_places(struct crew *c, struct te_err *err)
{
	const size_t n = c->session->nsegments;
	size_t i;
	int rc = 0;

	c->slots = calloc(2 * n, sizeof(*c->slots));
	c->lanes = calloc(n, sizeof(*c->lanes));
	if (!c->slots || !c->lanes)
		rc = -ENOMEM;
	for (i = 0; !rc && i < n; i++) {
		if (c->session->segments[i].failed)
			continue;
		rc = init_slots(c, i);
		if (!rc)
			rc = init_lanes(c, i);
	}
	return rc ? te_fail(err, rc, "out of memory") : 0;
}

static void clear_places(struct crew *c)
{
	size_t i, k;

	for (i = 0; c->slots && i < 2 * c->session->nsegments; i++)
		slots_clear(&c->slots[i]);
	for (i = 0; c->lanes && i < c->session->nsegments; i++) {
		for (k = 0; k < c->lanes[i].n; k++)
			pthread_mutex_destroy(&c->lanes[i].locks[k]);
		free(c->lanes[i].locks);
	}
	free(c->slots);
	free(c->lanes);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void work(void *arg)
{
	worker_round(arg);
}

static int open_worker(struct worker *w, struct crew *c, unsigned index, struct te_err *err)
{
	const size_t per = streams_per_segment(c);
	size_t i;
	int rc;

	w->crew = c;
	w->index = index;
	w->nstreams = streams_of(c);
	w->streams = calloc(w->nstreams, sizeof(*w->streams));
	if (!w->streams)
		return te_fail(err, -ENOMEM, "out of memory");
	for (i = 0; i < w->nstreams; i++) {
		rc = stream_open(&w->streams[i], w, &c->session->segments[i / per], i, err);
		if (rc)
			return rc;
	}
	return 0;
}

int crew_open(struct crew *c, struct session *s, const struct case_spec *spec, struct te_err *err)
{
	uint64_t total = 0;
	unsigned i;
	int rc;

	*c = (struct crew){ .session = s, .spec = *spec, .parts = count_parts(s, spec) };
	rc = size_memory(c, &total, err);
	if (!rc)
		rc = init_places(c, err);
	if (!rc)
		rc = memory_get(s->engine, total, &c->memory, err);
	if (!rc && s->checker)
		rc = memory_get(s->checker, total, &c->back, err);
	if (!rc) {
		c->nworkers = (size_t)spec->threads;
		c->workers = calloc(c->nworkers, sizeof(*c->workers));
		if (!c->workers)
			rc = te_fail(err, -ENOMEM, "out of memory");
	}
	for (i = 0; !rc && i < c->nworkers; i++)
		rc = open_worker(&c->workers[i], c, i, err);
	if (!rc)
		rc = gang_open(&c->gang, work, c->workers, sizeof(*c->workers), c->nworkers, err);
	if (rc)
		crew_close(c);
	return rc;
}

void crew_close(struct crew *c)
{
	struct worker *w;
	size_t i, k;

	gang_close(&c->gang);
	for (i = 0; c->workers && i < c->nworkers; i++) {
		w = &c->workers[i];
		for (k = 0; w->streams && k < w->nstreams; k++)
			stream_close(&w->streams[k]);
		free(w->streams);
	}
	free(c->workers);
	/* What a dead peer's request holds stays until the engine closes. */
	if (!atomic_load_explicit(&c->unquiet, memory_order_relaxed))
		memory_put(c->session->engine, c->memory);
	memory_put(c->session->checker, c->back);
	clear_places(c);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void progress(const struct crew *c, uint64_t since, double step, uint64_t last[2])
{
	uint64_t now[2] = { 0 };
	size_t i;

	for (i = 0; i < c->nworkers; i++) {
		now[0] += atomic_load_explicit(&c->workers[i].live_requests, memory_order_relaxed);
		now[1] += atomic_load_explicit(&c->workers[i].live_bytes, memory_order_relaxed);
	}
	fprintf(stderr, "%8.1f s %12.0f requests/s %10.*f %s/s\n", (double)(now_ns() - since) / 1e9,
		per_second(now[0] - last[0], step), (int)c->session->opt->precision,
		per_second(now[1] - last[1], step) / c->session->opt->unit->bytes,
		c->session->opt->unit->name);
	last[0] = now[0];
	last[1] = now[1];
}

/* Until the last thread is done; a signal makes them stop. */
static int wait_done(struct crew *c)
{
	const double step = c->round.counted ? c->session->opt->interval : 0;
	struct pollfd fds[] = { { .fd = c->gang.done, .events = POLLIN },
				{ .fd = c->session->signals, .events = POLLIN } };
	uint64_t last[2] = { 0 }, ends = c->begin + (uint64_t)(step * 1e9);
	int timeout = -1, rc = 0;

	for (;;) {
		if (step > 0)
			timeout = ends > now_ns() ? (int)((ends - now_ns()) / 1000000) + 1 : 0;
		if (poll(fds, 2, timeout) == 0) {
			progress(c, c->begin, step, last);
			ends += (uint64_t)(step * 1e9);
		}
		if (fds[0].revents && gang_ended(&c->gang))
			return rc;
		if (fds[1].revents) {
			/* The signal itself is left unread: whoever comes next shall see it too. */
			atomic_store_explicit(&c->stop, true, memory_order_relaxed);
			fds[1].fd = -1;
			rc = -EINTR;
		}
	}
}

static void sum_up(const struct crew *c, struct round_result *out)
{
	uint64_t end = c->begin, verify = 0;
	const struct worker *w;
	size_t i;

	*out = (struct round_result){ 0 };
	for (i = 0; i < c->nworkers; i++) {
		w = &c->workers[i];
		out->requests += w->sum.requests;
		out->bytes += w->sum.bytes;
		out->batches += w->sum.batches;
		out->errors += w->sum.errors;
		out->checked_bytes += w->sum.checked_bytes;
		out->mismatches += w->sum.mismatches;
		verify += w->verify_before_end;
		if (w->end > end)
			end = w->end;
	}
	out->seconds = (double)(end - c->begin) / 1e9 - (double)verify / 1e9 / (double)c->nworkers;
	if (out->seconds < 1e-9)
		out->seconds = 1e-9;
}

int crew_round(struct crew *c, const struct round *r, struct round_result *out)
{
	int rc;

	c->round = *r;
	atomic_store_explicit(&c->tickets, 0, memory_order_relaxed);
	c->begin = now_ns();
	gang_start(&c->gang);
	rc = wait_done(c);
	sum_up(c, out);
	return rc;
}

void round_result_add(struct round_result *sum, const struct round_result *r)
{
	sum->seconds += r->seconds;
	sum->requests += r->requests;
	sum->bytes += r->bytes;
	sum->batches += r->batches;
	sum->errors += r->errors;
	sum->checked_bytes += r->checked_bytes;
	sum->mismatches += r->mismatches;
}
