/* worker.c - what a thread does in a round. */
#include "crew.h"

#include <errno.h>

/* How long a wait may last before a signal is looked for, and a stream that is late is looked at
 * again. */
enum { TICK_NS = 100000000, MS_NS = 1000000 };

static bool over(const struct worker *w, uint64_t now)
{
	const struct crew *c = w->crew;

	return crew_stopped(c) || (c->round.ns && now >= c->begin + c->round.ns);
}

/* The two streams in flight whose batches should end first. */
static struct stream *earliest(struct worker *w, struct stream **second)
{
	struct stream *first = NULL, *s;
	size_t i;

	*second = NULL;
	for (i = 0; i < w->nstreams; i++) {
		s = &w->streams[i];
		if (!s->busy)
			continue;
		if (!first || s->expected < first->expected) {
			*second = first;
			first = s;
		} else if (!*second || s->expected < (*second)->expected) {
			*second = s;
		}
	}
	return first;
}

/*
 * A stream that is late must not hold up the others: it is only looked at while another is waited
 * for, at ever longer intervals.
 */
static int patience_ms(const struct stream *s, const struct stream *second, uint64_t now)
{
	const uint64_t late = now - s->submitted;

	if (!second)
		return TICK_NS / MS_NS;
	if (late > 4 * s->usual + 2 * MS_NS)
		return 0;
	if (second->expected <= now + MS_NS)
		return 1;
	return second->expected - now > TICK_NS ? TICK_NS / MS_NS
						: (int)((second->expected - now) / MS_NS);
}

static void postpone(struct stream *s, uint64_t now)
{
	uint64_t by = now - s->submitted;

	s->expected = now + (by < MS_NS ? MS_NS : by > TICK_NS ? TICK_NS : by);
}

static void abort_all(struct worker *w)
{
	size_t i;

	for (i = 0; i < w->nstreams; i++) {
		if (w->streams[i].busy)
			stream_abort(&w->streams[i]);
	}
}

/* Waits until something happens to a batch in flight. NULL: nothing ended; *idle: nothing is in
 * flight. */
static struct stream *next_ended(struct worker *w, bool *idle)
{
	struct stream *second, *s = earliest(w, &second);
	uint64_t now = now_ns();

	*idle = !s;
	if (!s)
		return NULL;
	if (stream_wait(s, patience_ms(s, second, now)))
		return s;
	postpone(s, now_ns());
	if (crew_stopped(w->crew))
		abort_all(w);
	return NULL;
}

/* ---- as fast as they go ------------------------------------------------------------------------
 */

/* Streams that are not busy because another thread writes where they must: block on the first of
 * them. */
static void wait_for_lane(struct worker *w)
{
	struct timespec until;
	size_t i;

	for (i = 0; i < w->nstreams; i++) {
		if (w->streams[i].dead || !w->streams[i].lane)
			continue;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 10 * MS_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		if (pthread_mutex_timedlock(w->streams[i].lane, &until) == 0)
			pthread_mutex_unlock(w->streams[i].lane);
		return;
	}
}

/* Could anything still be submitted? Tickets are only known to be there by trying. */
static bool start_all(struct worker *w)
{
	struct crew *c = w->crew;
	bool more = false;
	struct stream *s;
	size_t i;

	for (i = 0; i < w->nstreams; i++) {
		s = &w->streams[i];
		if (s->busy || s->dead)
			continue;
		stream_submit(s, s->depth);
		more |= !s->busy && !s->dead && s->lane &&
			atomic_load_explicit(&c->tickets, memory_order_relaxed) < c->round.tickets;
	}
	return more;
}

static void run_full(struct worker *w)
{
	bool idle = false, waiting = false;
	struct stream *s;

	while (!idle || waiting) {
		waiting = !over(w, now_ns()) && start_all(w);
		s = next_ended(w, &idle);
		if (s)
			stream_collect(s);
		else if (idle && waiting)
			wait_for_lane(w);
	}
}

/* ---- at a given rate ---------------------------------------------------------------------------
 */

/* Requests of this thread that are due by now, and when the next will be. */
static uint64_t due(const struct worker *w, uint64_t now, uint64_t done, uint64_t *next)
{
	const struct crew *c = w->crew;
	const double each = 1e9 * (double)c->nworkers / c->session->opt->rate;
	const double first = (double)c->begin + each * w->index / (double)c->nworkers;
	const double passed = (double)now - first;
	const uint64_t n = passed < 0 ? 0 : 1 + (uint64_t)(passed / each);

	*next = (uint64_t)(first + each * (double)n);
	return n > done ? n - done : 0;
}

/* Batches that are full or have nothing to wait for are collected. */
static void reap(struct worker *w)
{
	struct stream *s;
	size_t i;

	for (i = 0; i < w->nstreams; i++) {
		s = &w->streams[i];
		if (s->busy && stream_wait(s, 0))
			stream_collect(s);
	}
}

static bool any_alive(const struct worker *w)
{
	size_t i;

	for (i = 0; i < w->nstreams; i++) {
		if (!w->streams[i].dead)
			return true;
	}
	return false;
}

static void sleep_until(uint64_t ns)
{
	const struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000),
				     .tv_nsec = (long)(ns % 1000000000) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

/* Open loop: a request goes out when it is due, whether earlier ones have ended or not, as long as
   the batch has room. */
static void run_rate(struct worker *w)
{
	struct crew *c = w->crew;
	uint64_t done = 0, now, next, n, k;
	size_t turn = 0, tried;
	bool idle = false;
	struct stream *s;

	for (now = now_ns(); !over(w, now) && any_alive(w); now = now_ns()) {
		n = due(w, now, done, &next);
		for (tried = 0; n && tried < w->nstreams; tried++, turn++) {
			k = stream_submit(&w->streams[turn % w->nstreams],
					  n > SIZE_MAX ? SIZE_MAX : (size_t)n);
			done += k;
			n -= k;
		}
		if (atomic_load_explicit(&c->tickets, memory_order_relaxed) >= c->round.tickets)
			break;
		reap(w);
		sleep_until(next < now + MS_NS ? next : now + MS_NS);
	}
	while (!idle) {
		s = next_ended(w, &idle);
		if (s)
			stream_collect(s);
	}
}

void worker_ends(struct worker *w, uint64_t now)
{
	w->end = now;
	w->verify_before_end = w->verify_ns;
}

/* The round lasts until its time is over, however late the last batch was. A check that then still
   ran lies in it only so far. */
static void lasts_until(struct worker *w, uint64_t end)
{
	uint64_t now = now_ns(), late = now > end ? now - end : 0;
	uint64_t checked = w->verify_ns - w->verify_before_end;

	w->end = end;
	w->verify_before_end = w->verify_ns - (late < checked ? late : checked);
}

void worker_round(struct worker *w)
{
	w->sum = (struct round_result){ 0 };
	atomic_store_explicit(&w->live_requests, 0, memory_order_relaxed);
	atomic_store_explicit(&w->live_bytes, 0, memory_order_relaxed);
	w->verify_ns = w->verify_before_end = 0;
	w->end = 0;
	if (w->crew->session->opt->rate > 0)
		run_rate(w);
	else
		run_full(w);
	if (crew_stopped(w->crew))
		worker_ends(w, now_ns());
	else if (any_alive(w) && w->crew->round.ns && w->end < w->crew->begin + w->crew->round.ns)
		lasts_until(w, w->crew->begin + w->crew->round.ns);
}
