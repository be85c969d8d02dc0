/* cost.c - what a call by its C name costs above the same call of te.h. Prints TAP: medians;
 * fails where the quickest rounds differ by more than NS (150). cost [NS]. Linked with
 * libtransfer_engine.a and with libte.a: two libraries in one program.
 */
#include <stdlib.h>
#include <time.h>

#include <te.h>

#include "tap.h"

enum { ROUNDS = 101, CALLS = 4000 };

static transfer_engine_t engine;
static struct te_engine *te;
static batch_id_t c_batch;
static uint64_t te_batch;
static char memory[4096];
static struct te_request te_req = { TE_READ, memory, 0, 0, 0 };
static struct transfer_request c_req = { OPCODE_READ, memory, 0, 0, 0 };

static void c_status(void)
{
	struct transfer_status s;

	getTransferStatus(engine, c_batch, 0, &s);
}

static void te_status(void)
{
	struct te_status s;

	te_batch_status(te, te_batch, 0, &s);
}

/* A batch from beginning to end; of no bytes, so that it is all calls: four of them. */
static void c_life(void)
{
	batch_id_t b = allocateBatchID(engine, 1);
	struct transfer_status s;

	submitTransfer(engine, b, &c_req, 1);
	getTransferStatus(engine, b, 0, &s);
	freeBatchID(engine, b);
}

static void te_life(void)
{
	struct te_status s;
	struct te_err err;
	uint64_t b;

	te_batch_alloc(te, 1, &b, &err);
	te_batch_submit(te, b, &te_req, 1, &err);
	te_batch_status(te, b, 0, &s);
	te_batch_free(te, b);
}

static double round_ns(void (*call)(void))
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < CALLS; i++)
		call();
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / CALLS;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Alternating, so that what disturbs one disturbs the other. */
static void compare(const char *what, void (*c_call)(void), void (*te_call)(void), int calls,
		    double limit)
{
	double c[ROUNDS], t[ROUNDS], more, least;

	for (int i = 0; i < ROUNDS; i++) {
		c[i] = round_ns(c_call);
		t[i] = round_ns(te_call);
	}
	qsort(c, ROUNDS, sizeof(c[0]), by_value);
	qsort(t, ROUNDS, sizeof(t[0]), by_value);
	more = (c[ROUNDS / 2] - t[ROUNDS / 2]) / calls;
	/* Others on this machine make the median what it is: the quickest rounds were left alone.
	 */
	least = (c[ROUNDS / 10] - t[ROUNDS / 10]) / calls;
	printf("# %s: %.1f ns, te.h %.1f ns, %.1f ns more a call (quickest tenth %.1f)\n", what,
	       c[ROUNDS / 2], t[ROUNDS / 2], more, least);
	ok(least <= limit, what);
}

int main(int argc, char **argv)
{
	const struct te_engine_options opt = { .metadata_server = "P2PHANDSHAKE",
					       .local_server_name = "127.0.0.1",
					       .protocol = "tcp" };
	double limit = argc > 1 ? atof(argv[1]) : 150;
	struct te_engine_info info;
	struct te_err err;
	char name[64];

	engine = open_engine("P2PHANDSHAKE", name, "");
	ok(engine && !te_engine_open(&te, &opt, &err), "two engines");
	te_engine_info(te, &info);
	ok(!openSegment(engine, name) && !te_segment_open(te, info.name, &err),
	   "their own segments");
	ok(!registerLocalMemory(engine, memory, 4096, "*", 1) &&
		   !te_register(te, memory, 4096, "*", true, &err),
	   "registered");
	c_req.target_offset = te_req.offset = (uint64_t)(uintptr_t)memory;
	c_batch = allocateBatchID(engine, 1);
	ok(!te_batch_alloc(te, 1, &te_batch, &err) && !submitTransfer(engine, c_batch, &c_req, 1) &&
		   !te_batch_submit(te, te_batch, &te_req, 1, &err),
	   "a batch of each");
	compare("getTransferStatus", c_status, te_status, 1, limit);
	compare("allocate, submit, status, free", c_life, te_life, 4, limit);
	destroyTransferEngine(engine);
	te_engine_close(te);
	return plan();
}
