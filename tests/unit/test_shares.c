/* test_shares.c - two rails in the course of time: the bytes divide as the wires can carry them. */
#include "rail_rig.h"
#include "tap.h"

static const struct host two_here = { .nic = { "a0/1", "a1/1" } };
static const struct host two_there = { .nic = { "b0/1", "b1/1" } };

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
	if (!atomic_fetch_add(&w->rail->meter.inflight, SLICE)) { /* as posting does */
		atomic_store(&w->rail->meter.since, now);
		atomic_store(&w->rail->meter.moved, 0);
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
	atomic_fetch_sub(&w->rail->meter.inflight, SLICE);
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
	shares(10e6, 10e6);
	shares(10e6, 2.5e6);
	shares(5e6, 20e6);
	shares(1e9, 250e6);
	changes();
	return tap_end();
}
