/* test_rail.c - which rail a slice takes now: failures, pauses, shares, and the course of time. */
#include <errno.h>
#include <string.h>

#include "rail_rig.h"
#include "tap.h"

static struct rdma_rail *choose_at(struct rig *g, uint64_t addr, uint64_t len, bool *wait)
{
	struct te_slice s = { .remote = addr, .len = len, .region = &g->here };

	g->p->last_region = NULL;
	return rdma_choose(g->p, &s, wait);
}

static struct rdma_rail *choose(struct rig *g)
{
	bool wait;

	return choose_at(g, ADDR, SLICE, &wait);
}

/* Takes slices until there is no room, or the queue is empty; how many went to each rail. */
static unsigned fill(struct rig *g, unsigned slices, unsigned *each)
{
	unsigned n = 0;

	g->p->queued = (uint64_t)slices * SLICE;
	while (n < slices) {
		struct rdma_rail *r = choose(g);
		unsigned i = 0;

		if (!r)
			break;
		for (const struct rdma_rail *at = g->p->rails; at != r; at = at->next)
			i++;
		each[i]++;
		n++;
		atomic_fetch_add(&r->inflight, SLICE);
		g->p->queued -= SLICE;
	}
	return n;
}

static unsigned count(const struct rig *g, enum rdma_rail_state state)
{
	unsigned n = 0;

	for (const struct rdma_rail *r = g->p->rails; r; r = r->next)
		n += r->state == state;
	return n;
}

static void fail(struct rdma_rail *r, uint64_t failing_for)
{
	static const struct te_err why = { .code = -ETIMEDOUT, .msg = "nothing came back" };

	r->failed_since = failing_for ? te_now() - failing_for : 0;
	rdma_rail_failed(r, &why, false);
}

/* ---- which one now ---- */

static const struct host two_here = { .nic = { "a0/1", "a1/1" } },
			 two_there = { .nic = { "b0/1", "b1/1" } };
static const struct host tiers_here = { { "a0/1", "a1/1" }, "{\"cpu:0\":[[\"a0\"],[\"a1\"]]}" };
static const struct host one_here = { .nic = { "a0/1" } }, one_there = { .nic = { "b0/1" } };

static void tiers(void)
{
	static struct rig g;
	unsigned each[RAILS] = { 0 };
	bool wait;

	rig_open(&g, &tiers_here, &one_there);
	all_ready(&g);
	fill(&g, 10000, each);
	ok(each[0] > 30 && !each[1], "only the preferred NIC, %u slices", each[0]);
	ok(!choose_at(&g, ADDR, SLICE, &wait) && wait, "when it is full, slices wait");
	atomic_store(&g.ctx[0].active, false);
	ok(choose(&g) == rail(&g, "a1", "b0"), "its port is down: the other NIC");
	atomic_store(&g.ctx[1].active, false);
	ok(!choose_at(&g, ADDR, SLICE, &wait) && !wait, "both down: none, and none to wait for");
	ok(count(&g, RAIL_CONNECTING) == 0, "no NIC that is down is connected");
	atomic_store(&g.ctx[0].active, true);
	atomic_store(&g.p->rails->inflight, 0);
	ok(choose(&g) == rail(&g, "a0", "b0"), "up again: the preferred one");
	g.p->rails->listed = false;
	atomic_store(&g.ctx[1].active, true);
	ok(choose(&g) == rail(&g, "a1", "b0"), "a rail that the peer names no more");
	rig_close(&g);
}

static void spares(void)
{
	static struct rig g;
	unsigned each[RAILS] = { 0 };

	rig_open(&g, &two_here, &two_there);
	all_ready(&g);
	fill(&g, 10000, each);
	ok(each[0] && each[3] && !each[1] && !each[2], "2x2: %s and %s only", name(g.p->rails),
	   name(rail(&g, "a1", "b1")));
	rig_close(&g);

	rig_open(&g, &two_here, &two_there);
	all_ready(&g);
	fail(rail(&g, "a0", "b0"), 8000 * MS);
	memset(each, 0, sizeof(each));
	fill(&g, 10000, each);
	ok(each[3] && !each[0] && !each[1] && !each[2], "one failed: the other matched one alone");
	fail(rail(&g, "a1", "b1"), 8000 * MS);
	memset(each, 0, sizeof(each));
	fill(&g, 10000, each);
	ok(each[1] && each[2] && !each[0] && !each[3], "both failed: the spare pairs");
	rig_close(&g);
}

static void starting(void)
{
	static const struct host four_here = { .nic = { "a0/1", "a1/1", "a2/1", "a3/1" } };
	static const struct host four_there = { .nic = { "b0/1", "b1/1", "b2/1", "b3/1" } };
	static struct rig g;
	bool wait;

	rig_open(&g, &four_here, &four_there);
	g.p->queued = 1;
	ok(!choose_at(&g, ADDR, 1, &wait) && wait && count(&g, RAIL_CONNECTING) == 1,
	   "one byte connects one rail");
	g.p->queued = SLICE;
	choose(&g);
	ok(count(&g, RAIL_CONNECTING) == 1, "so does one slice");
	g.p->queued = 3 * SLICE;
	choose(&g);
	ok(count(&g, RAIL_CONNECTING) == 3, "three slices, three rails");
	g.p->queued = 1000 * SLICE;
	choose(&g);
	ok(count(&g, RAIL_CONNECTING) == 4, "many slices: the matched ones, no spare");
	ready(&g, g.p->rails, 0);
	ok(choose(&g) == g.p->rails, "the first that is ready takes slices");
	atomic_store(&g.p->rails->ep->state, EP_RETIRED);
	g.p->queued = SLICE;
	choose(&g);
	ok(!g.p->rails->ep && atomic_load(&g.eps[0]->refs) == 1,
	   "an endpoint that its peer retired is let go of");
	g.p->queued = 1000 * SLICE;
	choose(&g);
	ok(g.p->rails->state == RAIL_CONNECTING, "and connected again");
	ok(!choose_at(&g, ADDR - 1, SLICE, &wait) && !wait, "no buffer is there: no rail");
	rig_close(&g);

	rig_open(&g, &two_here, &two_there);
	ready(&g, g.p->rails, 0);
	choose(&g);
	ok(count(&g, RAIL_CONNECTING) == 0, "one slice at a time needs one rail");
	atomic_store(&g.p->rails->inflight, SLICE);
	ok(choose(&g) == g.p->rails && rail(&g, "a1", "b1")->state == RAIL_CONNECTING,
	   "another one beside it, two");
	rig_close(&g);
}

/* ---- failures ---- */

static void pauses(void)
{
	static struct rig g;
	struct rdma_rail *first, *second;
	bool wait;

	rig_open(&g, &two_here, &two_there);
	first = rail(&g, "a0", "b0");
	second = rail(&g, "a1", "b1");
	all_ready(&g);
	fail(first, 8000 * MS);
	g.p->queued = 1000 * SLICE;
	for (int i = 0; i < 20; i++)
		choose(&g);
	ok(first->state == RAIL_PAUSED && !first->ep, "a paused rail is left alone");
	g.p->now = first->paused_until - 1;
	choose(&g);
	ok(first->state == RAIL_PAUSED, "up to its time");
	g.p->now = first->paused_until;
	ok(choose(&g) == second && first->state == RAIL_CONNECTING,
	   "at its time it is connected beside the others");
	rig_close(&g);

	rig_open(&g, &one_here, &one_there);
	first = g.p->rails;
	ready(&g, first, 0);
	fail(first, 8000 * MS);
	first->tried = g.p->now = te_now();
	ok(!choose_at(&g, ADDR, SLICE, &wait) && !wait && first->state == RAIL_PAUSED,
	   "nothing else: not again within 500 ms");
	g.p->now += 499 * MS;
	choose(&g);
	ok(first->state == RAIL_PAUSED, "nor after 499 ms");
	g.p->now += MS;
	ok(!choose_at(&g, ADDR, SLICE, &wait) && wait && first->state == RAIL_CONNECTING &&
		   g.p->now < first->paused_until,
	   "but then, long before its time");
	ok(first->tried == g.p->now, "and that counts as a try");
	rig_close(&g);
}

/* The pause after a rail has failed for so long, ms. */
static unsigned pause_of(struct rig *g, uint64_t failing_for)
{
	uint64_t before = te_now();

	fail(g->p->rails, failing_for);
	return (unsigned)((g->p->rails->paused_until - MIN(before, g->p->rails->paused_until)) /
			  MS);
}

static void pause_lengths(void)
{
	static const struct {
		unsigned failing_ms, conn_pause_ms, low, high;
	} cases[] = {
		{ 0, 0, 0, 100 },	  { 100, 0, 500, 700 },	      { 4000, 0, 1000, 1200 },
		{ 20000, 0, 5000, 5200 }, { 40000, 0, 10000, 10200 }, { 400000, 0, 10000, 10200 },
		{ 0, 300, 300, 500 },	  { 100, 3000, 3000, 3200 },
	};
	static struct rig g;

	rig_open(&g, &one_here, &one_there);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned pause;

		g.conf.conn_pause_ms = cases[i].conn_pause_ms;
		pause = pause_of(&g, cases[i].failing_ms * MS);
		ok(pause >= cases[i].low && pause <= cases[i].high,
		   "failing for %u ms, MC_CONN_PAUSE_TTL_MS=%u: a pause of %u ms",
		   cases[i].failing_ms, cases[i].conn_pause_ms, pause);
	}
	rig_close(&g);
}

static void reasons(void)
{
	static struct rig g;
	struct te_err err = { 0 };
	char text[420];

	rig_open(&g, &two_here, &two_there);
	rdma_rails_say(g.p, text, sizeof(text));
	ok(!strcmp(text, "none was tried"), "no rail was needed yet: %s", text);
	fail(rail(&g, "a1", "b1"), 0);
	te_strlcpy(g.ctx[0].why, "port 1 is DOWN", sizeof(g.ctx[0].why));
	atomic_store(&g.ctx[0].active, false);
	rdma_rails_why(g.p, &err);
	ok(err.code == -ETIMEDOUT && strstr(err.msg, "a0 to b0: port 1 is DOWN") &&
		   strstr(err.msg, "a1 to b1: nothing came back") && !strstr(err.msg, "a1 to b0"),
	   "no path: each pair with its reason: %s", err.msg);
	rig_close(&g);
}

/* ---- shares ---- */

/* Slices in turn, each done before the next: how often each rail was taken. */
static void in_turn(struct rig *g, int n, unsigned *each)
{
	memset(each, 0, RAILS * sizeof(*each));
	for (int i = 0; i < n; i++) {
		struct rdma_rail *r = choose(g), *at = g->p->rails;
		unsigned k = 0;

		for (; at && at != r; at = at->next)
			k++;
		if (at)
			each[k]++;
	}
}

static void round_robin(void)
{
	static const struct {
		struct host here, there;
		unsigned rails;
	} cases[] = {
		{ { .nic = { "a0/1", "a1/1" } }, { .nic = { "b0/1", "b1/1" } }, 2 },
		{ { .nic = { "a0/1", "a1/1", "a2/1" } }, { .nic = { "b0/1", "b1/1" } }, 3 },
		{ { .nic = { "a0/1", "a1/1", "a2/1", "a3/1" } },
		  { .nic = { "b0/1", "b1/1", "b2/1", "b3/1" } },
		  4 },
	};
	static struct rig g;
	unsigned each[RAILS];

	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		unsigned share, even = 0;

		rig_open(&g, &cases[i / 2].here, &cases[i / 2].there);
		all_ready(&g);
		g.conf.path_roundrobin = i % 2;
		share = 120 / cases[i / 2].rails;
		in_turn(&g, 120, each);
		for (unsigned k = 0; k < RAILS; k++)
			even += each[k] == share;
		ok(even == cases[i / 2].rails, "%s: %u rails, %u of 120 each",
		   i % 2 ? "MC_PATH_ROUNDROBIN" : "idle, as fast as each other", cases[i / 2].rails,
		   share);
		rig_close(&g);
	}
	rig_open(&g, &two_here, &two_there);
	ready(&g, rail(&g, "a0", "b0"), 400000000);
	ready(&g, rail(&g, "a1", "b1"), 100000000);
	g.conf.path_roundrobin = true;
	in_turn(&g, 100, each);
	ok(each[0] == 50 && each[3] == 50, "MC_PATH_ROUNDROBIN asks for no speed: %u and %u",
	   each[0], each[3]);
	rig_close(&g);
}

static void window(void)
{
	static const struct {
		uint64_t rate;
		unsigned slices;
		const char *what;
	} cases[] = {
		{ 400 * SLICE, 10, "25 ms of work" },
		{ 4000 * SLICE, 100, "25 ms of work of a fast one" },
		{ 40 * SLICE, 4, "four slices, where that is more" },
		{ 0, 8, "eight, before it is measured" },
	};
	static struct rig g;
	unsigned each[RAILS];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned n;

		rig_open(&g, &one_here, &one_there);
		ready(&g, g.p->rails, cases[i].rate);
		n = fill(&g, 10000, each);
		ok(n == cases[i].slices, "a rail takes %s: %u slices", cases[i].what, n);
		rig_close(&g);
	}
	rig_open(&g, &one_here, &one_there);
	ready(&g, g.p->rails, 40 * SLICE);
	g.p->queued = 64 * SLICE;
	ok(choose_at(&g, ADDR, 64 * SLICE, &(bool){ 0 }) == g.p->rails,
	   "an idle rail takes a slice of any length");
	atomic_store(&g.p->rails->ep->qps[0].posted, ROOM - RDMA_PARTS);
	ok(choose(&g) == g.p->rails, "the last place in its queue pair");
	atomic_store(&g.p->rails->ep->qps[0].posted, ROOM - RDMA_PARTS + 1);
	ok(!choose(&g), "no place left");
	rig_close(&g);
}

static void last_slices(void)
{
	static struct rig g;
	struct rdma_rail *fast, *slow;

	rig_open(&g, &two_here, &two_there);
	fast = rail(&g, "a0", "b0");
	slow = rail(&g, "a1", "b1");
	ready(&g, fast, 400 * SLICE);
	ready(&g, slow, 20 * SLICE);
	atomic_store(&fast->inflight, 10 * SLICE);
	g.p->queued = SLICE;
	ok(!choose(&g), "a full fast rail is waited for with the last slice");
	g.p->queued = 100 * SLICE;
	ok(choose(&g) == slow, "while much is left the slow one helps");
	atomic_store(&slow->rate, 0);
	g.p->queued = SLICE;
	ok(choose(&g) == slow, "one that nobody has measured is tried");
	rig_close(&g);
}

/* ---- in the course of time ---- */

enum { WIRE = 4096 };

struct wire {
	struct rdma_rail *rail;
	double rate;	   /* bytes a second that it really moves */
	uint64_t free_at;  /* when all that it has is done */
	uint64_t at[WIRE]; /* when each is done */
	unsigned head, n, total;
};

static void wire_take(struct wire *w, uint64_t now)
{
	if (!atomic_fetch_add(&w->rail->inflight, SLICE)) { /* as posting does */
		atomic_store(&w->rail->since, now);
		atomic_store(&w->rail->moved, 0);
	}
	w->free_at = MAX(w->free_at, now) + (uint64_t)(SLICE / w->rate * 1e9);
	w->at[(w->head + w->n++) % WIRE] = w->free_at;
	w->total++;
}

static uint64_t wire_next(const struct wire *w)
{
	return w->n ? w->at[w->head] : UINT64_MAX;
}

static void wire_done(struct wire *w, uint64_t now)
{
	w->head = (w->head + 1) % WIRE;
	w->n--;
	atomic_fetch_sub(&w->rail->inflight, SLICE);
	rdma_rail_moved(w->rail, SLICE, now);
}

static struct wire *wire_of(struct wire *w, const struct rdma_rail *r)
{
	return w[0].rail == r ? &w[0] : &w[1];
}

/* Moves so many slices over two wires; how long that takes, ns. */
static uint64_t move(struct rig *g, struct wire w[2], unsigned slices)
{
	uint64_t begin = g->p->now;
	bool stuck = false;

	g->p->queued = (uint64_t)slices * SLICE;
	w[0].total = w[1].total = 0;
	while (!stuck && (slices || w[0].n || w[1].n)) {
		struct rdma_rail *r;
		struct wire *first;

		while (slices && (r = choose(g))) {
			wire_take(wire_of(w, r), g->p->now);
			g->p->queued -= SLICE;
			slices--;
		}
		first = wire_next(&w[0]) <= wire_next(&w[1]) ? &w[0] : &w[1];
		stuck = !first->n;
		if (!stuck) {
			g->p->now = wire_next(first);
			wire_done(first, g->p->now);
		}
	}
	return stuck ? UINT64_MAX : g->p->now - begin;
}

/* 100 MiB over two rails whose speeds nobody knows at first, then again. */
static void shares(double one, double other)
{
	enum { SLICES = 1600 };
	static struct rig g;
	struct wire w[2] = { { .rate = one }, { .rate = other } };
	double ideal = SLICES * (double)SLICE / (one + other) * 1e9, took[2], share;

	rig_open(&g, &two_here, &two_there);
	w[0].rail = rail(&g, "a0", "b0");
	w[1].rail = rail(&g, "a1", "b1");
	ready(&g, w[0].rail, 0);
	ready(&g, w[1].rail, 0);
	for (int i = 0; i < 2; i++)
		took[i] = (double)move(&g, w, SLICES);
	share = w[0].total / (double)SLICES;
	ok(took[0] < ideal / 0.9, "%.4g and %.4g MB/s: %.3f of the sum, unknown", one / 1e6,
	   other / 1e6, ideal / took[0]);
	ok(took[1] < ideal / 0.97, "%.4g and %.4g MB/s: %.3f of the sum, known", one / 1e6,
	   other / 1e6, ideal / took[1]);
	ok(share > 0.97 * one / (one + other) && share < 1.03 * one / (one + other),
	   "and %.3f of the bytes over the first, whose share is %.3f", share, one / (one + other));
	rig_close(&g);
}

/* A rail that gets slower, then is well again, is found out each time. */
static void changes(void)
{
	static struct rig g;
	struct wire w[2] = { { .rate = 10e6 }, { .rate = 10e6 } };
	unsigned before, slow;

	rig_open(&g, &two_here, &two_there);
	w[0].rail = rail(&g, "a0", "b0");
	w[1].rail = rail(&g, "a1", "b1");
	ready(&g, w[0].rail, 0);
	ready(&g, w[1].rail, 0);
	move(&g, w, 1600);
	before = w[1].total;
	w[1].rate = 1e6;
	move(&g, w, 1600);
	move(&g, w, 1600);
	slow = w[1].total;
	w[1].rate = 10e6;
	move(&g, w, 1600);
	move(&g, w, 1600);
	ok(before > 720 && slow < 200 && w[1].total > 720,
	   "slower and well again: %u, %u, %u of 1600 slices", before, slow, w[1].total);
	rig_close(&g);
}

int main(void)
{
	te_log_set_level(TE_LOG_ERROR);
	tiers();
	spares();
	starting();
	pauses();
	pause_lengths();
	reasons();
	round_robin();
	window();
	last_slices();
	shares(10e6, 10e6);
	shares(10e6, 2.5e6);
	shares(5e6, 20e6);
	shares(1e9, 250e6);
	changes();
	return tap_end();
}
