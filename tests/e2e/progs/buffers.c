/* buffers.c - 10,000 registered buffers: published, found, written and read back, one by one and at
 * once. */
#include "prog.h"

enum { BUFFERS = 10000, LENGTH = 4096 };

static struct te_engine *e, *peer;
static unsigned char *src, *mem;
static int32_t seg;

static size_t run(enum te_op op)
{
	struct te_request *req = calloc(BUFFERS, sizeof(*req));
	uint64_t b = batch_new(e, BUFFERS);
	size_t failed = BUFFERS;
	struct te_err err = { 0 };

	/* Every second page of mem is a buffer, so that none touches its neighbour. */
	for (size_t i = 0; i < BUFFERS; i++)
		req[i] = (struct te_request){ .op = op,
					      .source = src + i * LENGTH,
					      .target = seg,
					      .offset = (uintptr_t)mem + 2 * i * LENGTH,
					      .length = LENGTH };
	if (te_batch_submit(e, b, req, BUFFERS, &err))
		die("te_batch_submit", &err);
	te_batch_wait(e, b, 30000, &failed);
	te_batch_drain(e, b, -1);
	te_batch_free(e, b);
	free(req);
	return failed;
}

static bool as_written(void)
{
	for (size_t i = 0; i < BUFFERS; i++)
		if (!all_is(mem + 2 * i * LENGTH, (int)(i % 251) + 1, LENGTH) ||
		    !all_is(mem + (2 * i + 1) * LENGTH, 0, LENGTH))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	struct te_buffer *b = calloc(BUFFERS, sizeof(*b));
	void **addrs = calloc(BUFFERS, sizeof(*addrs));
	struct te_err err = { 0 };
	uint64_t began = now_ns();

	setenv("MC_HANDSHAKE_MAX_LENGTH", "16777216", 1);
	peer = engine_new(NULL, false);
	mem = mmap(NULL, 2ul * BUFFERS * LENGTH, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < BUFFERS; i++) {
		addrs[i] = mem + 2 * i * LENGTH;
		b[i] = (struct te_buffer){
			.addr = addrs[i], .len = LENGTH, .location = "cpu:0", .remote = true
		};
	}
	ok(te_register_batch(peer, b, BUFFERS, &err) == 0, "register %d at once: %s", BUFFERS,
	   err.msg);
	e = engine_new(argc > 1 ? argv[1] : "tcp", true);
	src = buffer_new(e, (size_t)BUFFERS * LENGTH, false);
	seg = segment_open(e, engine_name(peer));
	for (size_t i = 0; i < BUFFERS; i++)
		memset(src + i * LENGTH, (int)(i % 251) + 1, LENGTH);
	ok(run(TE_WRITE) == 0, "a WRITE to each");
	ok(as_written(), "each holds its own, and nothing lies between");
	memset(src, 0, (size_t)BUFFERS * LENGTH);
	ok(run(TE_READ) == 0 && all_is(src, 1, LENGTH) && all_is(src + 250 * LENGTH, 251, LENGTH),
	   "a READ of each");
	ok(te_unregister_batch(peer, addrs, BUFFERS, &err) == 0, "unregister all: %s", err.msg);
	ok(run(TE_READ) == BUFFERS, "then none is reachable");
	for (size_t i = 0; i < BUFFERS; i++)
		if (te_register(peer, addrs[i], LENGTH, "cpu:0", true, &err))
			die("te_register", &err);
	ok(run(TE_WRITE) == 0, "registered again, one by one, all are found");
	ok(now_ns() - began < 30000000000u, "all this within 30 s");
	te_engine_close(e);
	te_engine_close(peer);
	free(b);
	free(addrs);
	return tap_end();
}
