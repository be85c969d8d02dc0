/* fatal.c NIC,NIC NIC,NIC - a NIC that fails for good in the middle of transfers: the other one
 * goes on, and it is opened anew with all its memory. No software device can be made to fail, so
 * this says to the transport what the device would. */
#include "engine/engine.h"
#include "prog.h"
#include "transport/rdma/rdma.h"

enum { LENGTH = 4 << 20, REQUESTS = 64, ROUNDS_MAX = 4000 };

static struct te_engine *open_on(const char *nics)
{
	struct te_engine_options opt = {
		.metadata_server = "P2PHANDSHAKE",
		.local_server_name = "127.0.0.1",
		.protocol = "rdma",
		.transport = "rdma",
		.device_name = nics,
	};
	struct te_engine *e;
	struct te_err err;

	if (te_engine_open(&e, &opt, &err))
		die("te_engine_open", &err);
	return e;
}

static struct rdma *rdma_in(struct te_engine *e)
{
	for (size_t i = 0; i < TE_MAX_TRANSPORTS; i++)
		if (e->transports[i] && e->transports[i]->ops == &te_transport_rdma)
			return rdma_of(e->transports[i]);
	return NULL;
}

/* All of it in pieces; how many failed. */
static size_t write_all(struct te_engine *e, int32_t seg, unsigned char *from, unsigned char *to)
{
	struct te_request req[REQUESTS];
	uint64_t b = batch_new(e, REQUESTS);
	size_t failed = REQUESTS;
	struct te_err err;

	for (size_t i = 0; i < REQUESTS; i++)
		req[i] = (struct te_request){ .op = TE_WRITE,
					      .source = from + i * (LENGTH / REQUESTS),
					      .target = seg,
					      .offset = (uintptr_t)to + i * (LENGTH / REQUESTS),
					      .length = LENGTH / REQUESTS };
	if (te_batch_submit(e, b, req, REQUESTS, &err))
		die("te_batch_submit", &err);
	te_batch_wait(e, b, 30000, &failed);
	te_batch_drain(e, b, -1);
	te_batch_free(e, b);
	return failed;
}

static uint64_t bytes_over(struct te_engine *e, const char *nic)
{
	struct te_path path[64];
	int n = te_engine_paths(e, path, 64);
	uint64_t bytes = 0;

	for (int i = 0; i < n && i < 64; i++)
		if (!strcmp(path[i].local, nic))
			bytes += path[i].bytes;
	return bytes;
}

int main(int argc, char **argv)
{
	struct te_engine *target = open_on(argc > 2 ? argv[2] : "rxb0,rxb1");
	struct te_engine *e = open_on(argc > 1 ? argv[1] : "rxa0,rxa1");
	struct rdma_ctx *c = rdma_in(e)->ctx[0];
	unsigned char *from = buffer_new(e, LENGTH, false), *to = buffer_new(target, LENGTH, true);
	uint64_t before, until;
	size_t failed = 0, wrong = 0;
	int32_t seg = segment_open(e, target->name);

	ok(write_all(e, seg, from, to) == 0, "all is well at first");
	before = bytes_over(e, c->name);
	rdma_ctx_fatal(c, "said by the test");
	until = now_ns() + 40000000000ull;
	for (int i = 0; i < ROUNDS_MAX && now_ns() < until; i++) {
		memset(from, i % 255 + 1, LENGTH);
		failed += write_all(e, seg, from, to);
		wrong += !all_is(to, i % 255 + 1, LENGTH);
		if (bytes_over(e, c->name) > before)
			until = 0;
	}
	ok(!failed, "no request failed: %zu", failed);
	ok(!wrong, "every byte arrived: %zu rounds with others", wrong);
	ok(bytes_over(e, c->name) > before, "%s is used again", c->name);
	te_engine_close(e);
	te_engine_close(target);
	return tap_end();
}
