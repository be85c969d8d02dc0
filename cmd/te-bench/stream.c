/* stream.c - one batch in flight to one segment: submit, wait, collect. */
#include "crew.h"

#include <errno.h>
#include <stdlib.h>

enum { DRAIN_MS = 5000 };

static size_t at_most(size_t n, uint64_t limit)
{
	return n < limit ? n : (size_t)limit;
}

/* Verification needs every request of a batch to have blocks of its own, on both sides. */
static size_t depth_of(const struct stream *s, const struct crew *c, size_t part)
{
	size_t depth = (size_t)c->spec.batch / c->parts + (part < c->spec.batch % c->parts);

	if (!c->session->opt->verify)
		return depth;
	depth = at_most(depth, c->room);
	if (s->writes)
		depth = at_most(depth, s->walk[TE_WRITE].span * (s->reads ? 2 : 1));
	return depth;
}

int stream_open(struct stream *s, struct worker *w, struct segment *g, size_t index,
		struct te_err *err)
{
	struct crew *c = w->crew;
	const size_t seg = (size_t)(g - c->session->segments);
	const uint64_t area = c->area * (w->index * w->nstreams + index);
	const size_t ways = crew_ways(c), within = index % streams_per_segment(c);
	int op;

	*s = (struct stream){ .worker = w, .segment = g, .dead = g->failed };
	s->first = s - within + within % ways;
	if (s->dead)
		return 0;
	s->reads = c->spec.op != BENCH_WRITE && !(c->spec.op == BENCH_BIDIR && index % 2);
	s->writes = c->spec.op != BENCH_READ && !(c->spec.op == BENCH_BIDIR && index % 2 == 0);
	for (op = TE_READ; op <= TE_WRITE; op++)
		s->walk[op] = walk_share(&c->slots[2 * seg + (size_t)op], w->index, c->nworkers);
	if (s->writes && c->lanes[seg].locks)
		s->lane = &c->lanes[seg].locks[s->walk[TE_WRITE].first];
	s->memory = (uint8_t *)c->memory + area;
	if (c->back)
		s->back = (uint8_t *)c->back + area;
	s->depth = depth_of(s, c, within / ways);
	s->req = calloc(s->depth, sizeof(*s->req));
	s->place = calloc(s->depth, sizeof(*s->place));
	s->ok = calloc(s->depth, sizeof(*s->ok));
	s->status = calloc(s->depth, sizeof(*s->status));
	if (!s->req || !s->place || !s->ok || !s->status)
		return te_fail(err, -ENOMEM, "out of memory");
	return 0;
}

void stream_close(struct stream *s)
{
	free(s->req);
	free(s->place);
	free(s->ok);
	free(s->status);
}

/* ---- submitting ------------------------------------------------------------------------------ */

/* How many of `want` requests the round still allows; *last: the final one is among them. */
static size_t take_tickets(struct crew *c, size_t want, bool *last)
{
	const uint64_t all = c->round.tickets;
	uint64_t first;
	size_t n;

	*last = false;
	if (all == UINT64_MAX)
		return want;
	first = atomic_fetch_add_explicit(&c->tickets, want, memory_order_relaxed);
	if (first >= all)
		return 0;
	n = at_most(want, all - first);
	*last = first + n == all;
	return n;
}

static void build(struct stream *s, size_t n, bool last)
{
	const struct crew *c = s->worker->crew;
	struct te_request *r;
	size_t i;

	for (i = s->n; i < s->n + n; i++) {
		r = &s->req[i];
		r->op = s->writes && (!s->reads || s->turn % 2) ? TE_WRITE : TE_READ;
		s->turn++;
		s->place[i] = walk_next(&s->first->walk[r->op]);
		r->source = s->memory + i % c->room * c->spec.block;
		r->target = s->segment->id;
		r->offset = s->place[i].addr;
		r->length = c->spec.block;
	}
	if (last)
		s->req[s->n + n - 1].length = c->round.last;
}

static void unlock(struct stream *s)
{
	if (s->lane)
		pthread_mutex_unlock(s->lane);
}

/* A new batch, if this stream may write where it wants to. */
static bool begin(struct stream *s, struct te_err *err)
{
	struct session *ses = s->worker->crew->session;

	if (s->lane && pthread_mutex_trylock(s->lane))
		return false;
	if (te_batch_alloc(ses->engine, s->depth, &s->batch, err)) {
		unlock(s);
		s->dead = true;
		segment_fail(s->segment, err->msg);
		return false;
	}
	s->n = 0;
	s->epoch = atomic_fetch_add_explicit(&ses->epoch, 1, memory_order_relaxed);
	return true;
}

size_t stream_submit(struct stream *s, size_t n)
{
	struct crew *c = s->worker->crew;
	struct session *ses = c->session;
	const bool fresh = !s->busy;
	struct te_err err = { 0 };
	uint64_t before;
	bool last;

	if (s->dead || s->segment->failed || (fresh && !begin(s, &err)))
		return 0;
	n = take_tickets(c, at_most(n, s->depth - s->n), &last);
	if (n) {
		build(s, n, last);
		s->submitted = now_ns();
		if (ses->opt->verify) {
			before = s->submitted;
			verify_fill(s, s->n, n);
			s->submitted = now_ns();
			s->worker->verify_ns += s->submitted - before;
		}
		s->expected = s->submitted + s->usual;
		if (te_batch_submit(ses->engine, s->batch, s->req + s->n, n, &err)) {
			segment_fail(s->segment, err.msg);
			s->worker->sum.errors += n;
			s->dead = true;
			n = 0;
		}
	}
	s->n += n;
	s->busy = s->n > 0;
	if (fresh && !s->busy) {
		te_batch_free(ses->engine, s->batch);
		unlock(s);
	}
	return n;
}

/* ---- ending ---------------------------------------------------------------------------------- */

bool stream_wait(struct stream *s, int timeout_ms)
{
	return te_batch_wait(s->worker->crew->session->engine, s->batch, timeout_ms, NULL) !=
	       -ETIMEDOUT;
}

static void failed(struct stream *s, size_t task, const struct te_status *st)
{
	struct crew *c = s->worker->crew;
	struct te_err err = { 0 };

	/* What we ended ourselves is no error. */
	if (st->state == TE_CANCELED && crew_stopped(c))
		return;
	s->worker->sum.errors++;
	if (s->segment->failed)
		return;
	if (te_batch_error(c->session->engine, s->batch, task, &err))
		te_fail(&err, st->error, "request failed (status %d)", (int)st->state);
	segment_fail(s->segment, err.msg);
}

static void count(struct stream *s)
{
	struct worker *w = s->worker;
	struct te_engine *e = w->crew->session->engine;
	int n = te_batch_statuses(e, s->batch, 0, s->n, s->status);
	size_t i;

	for (i = 0; i < s->n; i++) {
		s->ok[i] = (int)i < n && s->status[i].state == TE_COMPLETED;
		if (!s->ok[i]) {
			failed(s, i, &s->status[i]);
			continue;
		}
		w->sum.requests++;
		w->sum.bytes += s->req[i].length;
		if (w->crew->round.counted)
			hist_add(&w->latency, s->status[i].latency_ns);
	}
	w->sum.batches++;
	atomic_store_explicit(&w->live_requests, w->sum.requests, memory_order_relaxed);
	atomic_store_explicit(&w->live_bytes, w->sum.bytes, memory_order_relaxed);
}

void stream_collect(struct stream *s)
{
	struct worker *w = s->worker;
	struct session *ses = w->crew->session;
	const uint64_t now = now_ns(), took = now - s->submitted;
	const uint64_t before = w->sum.requests;

	count(s);
	s->usual = s->usual ? (3 * s->usual + took) / 4 : took;
	if (w->sum.requests > before || s->segment->failed)
		worker_ends(w, now);
	if (ses->opt->verify && !crew_stopped(w->crew)) {
		verify_batch(s);
		w->verify_ns += now_ns() - now;
	}
	/* What a failed request may still touch must not be used again. */
	if (te_batch_free(ses->engine, s->batch) == -EBUSY) {
		te_batch_drain(ses->engine, s->batch, crew_stopped(w->crew) ? 0 : DRAIN_MS);
		s->dead = te_batch_free(ses->engine, s->batch) != 0;
		if (s->dead)
			atomic_store_explicit(&w->crew->unquiet, true, memory_order_relaxed);
	}
	s->busy = false;
	s->dead = s->dead || s->segment->failed;
	unlock(s);
}

void stream_abort(struct stream *s)
{
	te_batch_cancel(s->worker->crew->session->engine, s->batch);
	stream_collect(s);
}
