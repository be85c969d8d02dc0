/* engines.c - four engines in one process are independent: each reaches each, by each transport;
 * one may leave. */
#include <pthread.h>

#include "prog.h"

enum { ENGINES = 4, LENGTH = 1 << 20, PIECES = 16, PIECE = LENGTH / PIECES };

static struct te_engine *engines[ENGINES];
static unsigned char *outs[ENGINES], *ins[ENGINES];

/* Engine a reads all that b offers. */
static bool read_from(int a, int b)
{
	int32_t seg = segment_open(engines[a], engine_name(engines[b]));
	struct te_request req[PIECES];
	uint64_t batch = batch_new(engines[a], PIECES);
	size_t failed = 99;
	bool well;

	for (int i = 0; i < PIECES; i++)
		req[i] = (struct te_request){ .op = TE_READ,
					      .source = ins[a] + i * PIECE,
					      .target = seg,
					      .offset = (uintptr_t)outs[b] + (uint64_t)i * PIECE,
					      .length = PIECE };
	fill_shared(ins[a], 0, LENGTH);
	fill_shared(outs[b], 0x10 + b, LENGTH);
	well = te_batch_submit(engines[a], batch, req, PIECES, NULL) == 0 &&
	       te_batch_wait(engines[a], batch, 10000, &failed) == 0 && failed == 0 &&
	       all_is(ins[a], 0x10 + b, LENGTH);
	te_batch_free(engines[a], batch);
	te_segment_close(engines[a], seg);
	return well;
}

static void open_all(const char *transport)
{
	for (int i = 0; i < ENGINES; i++) {
		engines[i] = engine_new(transport, false);
		outs[i] = buffer_new(engines[i], LENGTH, true);
		ins[i] = buffer_new(engines[i], LENGTH, false);
	}
}

static void all_pairs(const char *transport)
{
	int well = 0;

	open_all(transport);
	for (int a = 0; a < ENGINES; a++)
		for (int b = 0; b < ENGINES; b++)
			well += a != b && read_from(a, b);
	ok(well == ENGINES * (ENGINES - 1), "%s: %d of %d pairs moved their bytes",
	   transport ? transport : "best", well, ENGINES * (ENGINES - 1));
	te_engine_close(engines[0]);
	ok(read_from(1, 2) && read_from(3, 1), "the others go on when one is closed");
	for (int i = 1; i < ENGINES; i++)
		te_engine_close(engines[i]);
	for (int i = 0; i < ENGINES; i++) {
		munmap(outs[i], LENGTH);
		munmap(ins[i], LENGTH);
	}
}

static void *many_reads(void *arg)
{
	int a = (int)(intptr_t)arg;
	intptr_t well = 0;

	/* Pairs (0,1) and (2,3): nobody writes what another reads. */
	for (int n = 0; n < 50; n++)
		well += read_from(a, a + 1);
	return (void *)well;
}

static void side_by_side(void)
{
	pthread_t t[2];
	void *well[2];

	open_all("tcp");
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, many_reads, (void *)(intptr_t)(2 * i));
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], &well[i]);
	ok((intptr_t)well[0] == 50 && (intptr_t)well[1] == 50, "two pairs at the same time");
	for (int i = 0; i < ENGINES; i++)
		te_engine_close(engines[i]);
}

int main(void)
{
	all_pairs(NULL);
	all_pairs("tcp");
	side_by_side();
	return tap_end();
}
