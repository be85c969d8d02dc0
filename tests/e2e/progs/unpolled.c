/*
 * unpolled.c - a batch that is submitted and never polled goes to its end.
 *
 * unpolled SEGMENT FILE [TRANSPORT]: FILE is what the te-target SEGMENT serves, at least 8 MiB.
 */
#include "prog.h"

enum { REQUESTS = 128, LENGTH = 64 << 10, SECONDS = 10 };

static struct te_engine *e;
static int32_t seg;
static uint64_t base;
static unsigned char *src;

static uint64_t submit_all(int byte)
{
	struct te_request req[REQUESTS];
	uint64_t b = batch_new(e, REQUESTS);
	struct te_err err = { 0 };

	memset(src, byte, REQUESTS * LENGTH);
	for (int i = 0; i < REQUESTS; i++)
		req[i] = (struct te_request){ .op = TE_WRITE,
					      .source = src + i * LENGTH,
					      .target = seg,
					      .offset = base + (uint64_t)i * LENGTH,
					      .length = LENGTH };
	if (te_batch_submit(e, b, req, REQUESTS, &err))
		die("te_batch_submit", &err);
	return b;
}

static bool all_completed(uint64_t b)
{
	struct te_status st;

	for (size_t i = 0; i < REQUESTS; i++)
		if (te_batch_status(e, b, i, &st) || st.state != TE_COMPLETED ||
		    st.transferred != LENGTH)
			return false;
	return true;
}

static void watch_memory(const unsigned char *mem)
{
	uint64_t b = submit_all(0x5a), until = now_ns() + SECONDS * 1000000000ull;
	bool there = false;

	while (!there && now_ns() < until)
		there = all_is(mem, 0x5a, REQUESTS * LENGTH);
	ok(there, "all bytes arrive although nobody waits or asks");
	te_batch_wait(e, b, SECONDS * 1000, NULL);
	ok(all_completed(b), "and every task is COMPLETED afterwards");
	ok(te_batch_free(e, b) == 0, "its batch can be freed");
}

static void watch_eventfd(const unsigned char *mem)
{
	int any = te_engine_eventfd(e); /* tells what ends from now on */
	uint64_t b = submit_all(0xa5);
	struct pollfd fds[2] = { { .fd = te_batch_eventfd(e, b), .events = POLLIN },
				 { .fd = any, .events = POLLIN } };

	ok(poll(fds, 1, SECONDS * 1000) == 1, "the batch's eventfd becomes readable");
	ok(all_completed(b), "every task is COMPLETED then, at the first look");
	ok(all_is(mem, 0xa5, REQUESTS * LENGTH), "and the bytes are in the target");
	ok(poll(fds + 1, 1, 1000) == 1, "the engine's eventfd is readable too");
	ok(te_batch_free(e, b) == 0, "its batch can be freed");
}

int main(int argc, char **argv)
{
	size_t len;
	unsigned char *mem;

	if (argc < 3)
		return 2;
	mem = file_map(argv[2], &len);
	e = engine_new(argc > 3 ? argv[3] : NULL, true);
	src = buffer_new(e, REQUESTS * LENGTH, false);
	seg = segment_open(e, argv[1]);
	base = segment_base(e, seg);
	watch_memory(mem);
	watch_eventfd(mem);
	te_engine_close(e);
	return tap_end();
}
