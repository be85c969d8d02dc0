/* test_rail.c - which rail a slice takes now: failures, pauses, turns and shares. */
#include <errno.h>
#include <string.h>

#include "rail_rig.h"
#include "tap.h"

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
		atomic_fetch_add(&r->meter.inflight, SLICE);
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
	atomic_store(&g.p->rails->meter.inflight, 0);
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
	atomic_store(&g.p->rails->meter.inflight, SLICE);
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

/* Which way a slice failed on is told for that way only. */
static void retries(void)
{
	static struct rig g;
	const _Atomic bool cancelled = false;
	_Atomic uint64_t total = 0;
	struct te_path path[RAILS];
	struct te_slice s = { .len = SLICE, .status = -EIO, .deadline = UINT64_MAX };
	struct rdma_done done;
	unsigned n = 0, told = 0;

	rig_open(&g, &two_here, &two_there);
	g.conf.retry_cnt = 2;
	g.env.retries = &total;
	g.p->queued = 0;
	s.cancelled = &cancelled;
	s.scratch = (uintptr_t)rail(&g, "a1", "b1");
	rdma_done_init(&done);
	rdma_again(g.p, &s, &done);
	ok(g.p->queue == &s && g.p->queued == SLICE && s.attempt == 1 && !done.ill && total == 1,
	   "a slice that failed is tried again");
	memset(path, 0, sizeof(path));
	while (n < RAILS && rdma_path(&g.p->base, n, &path[n]))
		n++;
	for (unsigned i = 0; i < n; i++)
		if (path[i].retries)
			told += !strcmp(path[i].local, "a1") && !strcmp(path[i].remote, "b1") ? 1
											      : 10;
	ok(n == 4 && told == 1, "and counts for its own path");
	g.p->queue = NULL;
	g.p->queue_end = &g.p->queue;
	rdma_again(g.p, &s, &done);
	ok(!g.p->queue && done.ill == &s && s.status == -EIO && strstr(done.why.msg, "here@a1") &&
		   total == 1,
	   "MC_RETRY_CNT tries in all: %s", done.why.msg);
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

/* The line that says which rail a slice was given is the moment at which its endpoint is retired.
 */
static void retire_meanwhile(void *arg, enum te_log_level level, const char *text)
{
	struct rig *g = arg;

	if (level == TE_LOG_INFO && !strncmp(text, "slice: ", 7))
		atomic_store(&g->eps[0]->state, EP_RETIRED);
}

static void lost_once_chosen(void)
{
	static struct rig g;
	atomic_bool no = false;
	struct te_slice s[2];

	rig_open(&g, &one_here, &one_there);
	ready(&g, g.p->rails, 0);
	g.conf.log_slice_affinity = true;
	g.p->queued = 0;
	for (size_t i = 0; i < ARRAY_SIZE(s); i++)
		s[i] = (struct te_slice){ .next = i ? NULL : &s[1],
					  .remote = ADDR,
					  .len = SLICE,
					  .region = &g.here,
					  .deadline = UINT64_MAX,
					  .cancelled = &no };
	te_log_set_level(TE_LOG_INFO);
	te_log_set_sink(&(struct te_log_sink){ .line = retire_meanwhile, .arg = &g });
	rdma_submit(&g.p->base, s);
	te_log_set_sink(NULL);
	te_log_set_level(TE_LOG_ERROR);
	ok(g.p->rails->state == RAIL_CONNECTING && !g.p->rails->ep,
	   "a rail is lost between two slices: connected again");
	ok(g.p->queue == &s[0] && s[0].next == &s[1] && !s[1].next && g.p->queued == 2 * SLICE,
	   "the slice that it was chosen for is back in its place");
	rig_close(&g);
}

/* An endpoint goes that had WRITEs of more peers than one farewell is for, and none can be sent. */
static void no_farewell(void)
{
	enum { PEERS = RDMA_WRITERS + 1 };
	static const struct te_err why = { .code = -EIO, .msg = "cut" };
	static struct rdma_peer peers[PEERS];
	struct rdma_rail rails[PEERS] = { 0 };
	struct te_slice s[PEERS] = { 0 };
	static struct rig g;
	unsigned fenced = 0;

	rig_open(&g, &one_here, &one_there);
	ready(&g, g.p->rails, 0);
	g.t.byes = UINT16_MAX;
	g.t.reaper.wake = -1;
	g.eps[0]->te = true;
	for (size_t i = 0; i < PEERS; i++) {
		rails[i].peer = &peers[i];
		s[i].next = i + 1 < PEERS ? &s[i + 1] : NULL;
		s[i].op = TE_WRITE;
		s[i].scratch = (uint64_t)(uintptr_t)&rails[i];
		atomic_store(&s[i].conn, g.eps[0]);
	}
	rdma_ep_retire(g.eps[0], &why, s);
	for (size_t i = 0; i < PEERS; i++)
		fenced += rdma_is_fenced(&peers[i]) && !atomic_load(&peers[i].jobs);
	ok(fenced == PEERS, "no farewell can be sent: %u peers wait all the same", fenced);
	rig_close(&g);
}

static void fence(void)
{
	static struct rig g;
	struct te_slice s = { .status = 0 };
	struct rdma_done done;

	rig_open(&g, &one_here, &one_there);
	rdma_done_init(&done);
	rdma_fence(g.p);
	g.p->fenced = &s;
	g.p->closing = true;
	ok(rdma_peer_tick(g.p, &done) && !done.well && !rdma_peer_over(g.p),
	   "a WRITE waits for its fence, and its peer with it");
	atomic_store(&g.p->fence_until, te_now());
	rdma_peer_tick(g.p, &done);
	ok(done.well == &s && rdma_peer_over(g.p), "until it is over");
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
	atomic_store(&fast->meter.inflight, 10 * SLICE);
	g.p->queued = SLICE;
	ok(!choose(&g), "a full fast rail is waited for with the last slice");
	g.p->queued = 100 * SLICE;
	ok(choose(&g) == slow, "while much is left the slow one helps");
	atomic_store(&slow->rate, 0);
	g.p->queued = SLICE;
	ok(choose(&g) == slow, "one that nobody has measured is tried");
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
	retries();
	round_robin();
	window();
	lost_once_chosen();
	no_farewell();
	fence();
	last_slices();
	return tap_end();
}
