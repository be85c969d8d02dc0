/*
 * meet.c - two engines that open towards each other at the same moment get one set of queue pairs,
 * and no failure.
 *
 * meet DEVICE DEVICE ROUNDS: an engine on the first device; each round opens one on the second, and
 * starts a WRITE of each into the other at a barrier. `rdma` counts the queue pairs.
 */
#include <pthread.h>

#include "prog.h"

enum { LEN = 4096 };

struct end {
	const char *device;
	struct te_engine *engine;
	unsigned char *shown, *source;
	int32_t other;
	uint64_t at;
	pthread_barrier_t *barrier;
	struct te_err why;
	bool well;
};

static void end_open(struct end *e, const char *device)
{
	struct te_engine_options opt = {
		.metadata_server = "P2PHANDSHAKE",
		.local_server_name = "127.0.0.1",
		.protocol = "rdma",
		.transport = "rdma",
		.device_name = device,
	};

	memset(e, 0, sizeof(*e));
	e->device = device;
	if (te_engine_open(&e->engine, &opt, &e->why))
		die("te_engine_open", &e->why);
	e->shown = buffer_new(e->engine, LEN, true);
	e->source = buffer_new(e->engine, LEN, false);
}

static void end_close(struct end *e)
{
	te_engine_close(e->engine);
	munmap(e->shown, LEN);
	munmap(e->source, LEN);
}

static void *go(void *arg)
{
	struct end *e = arg;
	struct te_request r = {
		.op = TE_WRITE, .target = e->other, .offset = e->at, .length = LEN
	};
	int rc;

	r.source = e->source;
	pthread_barrier_wait(e->barrier);
	e->well = one(e->engine, &r, &rc, &e->why).state == TE_COMPLETED;
	return NULL;
}

static int count_qps(const char *device)
{
	char command[128], line[256];
	int n = 0;
	FILE *f;

	snprintf(command, sizeof(command), "rdma resource show qp link %s", device);
	f = popen(command, "r");
	if (!f)
		die("popen", NULL);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "type RC") != NULL;
	pclose(f);
	return n;
}

/* The other half of it; true: all went well. */
static bool meet(struct end *a, struct end *b, int round)
{
	pthread_barrier_t barrier;
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	a->barrier = b->barrier = &barrier;
	memset(a->source, 2 * round + 1, LEN);
	memset(b->source, 2 * round + 2, LEN);
	a->other = segment_open(a->engine, engine_name(b->engine));
	b->other = segment_open(b->engine, engine_name(a->engine));
	a->at = segment_base(a->engine, a->other);
	b->at = segment_base(b->engine, b->other);
	if (pthread_create(&thread, NULL, go, b))
		die("pthread_create", NULL);
	go(a);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&barrier);
	for (int i = 0; i < 2; i++) {
		const struct end *e = i ? b : a;

		if (!e->well)
			printf("# round %d, %s: %s\n", round, e->device, e->why.msg);
	}
	te_segment_close(a->engine, a->other);
	return a->well && b->well && all_is(a->shown, (unsigned char)(2 * round + 2), LEN) &&
	       all_is(b->shown, (unsigned char)(2 * round + 1), LEN);
}

/* Within 5 s; those of an engine that has closed are given up by its peer. */
static bool falls_to(const char *device, int n)
{
	struct timespec nap = { .tv_nsec = 50000000 };
	int i = 0;

	while (count_qps(device) != n && i++ < 50)
		nanosleep(&nap, NULL);
	return i < 50;
}

int main(int argc, char **argv)
{
	int rounds = argc == 4 ? atoi(argv[3]) : 0, bad = 0, other = 0, set = 0;
	struct end a, b;

	if (rounds < 1)
		return 2;
	end_open(&a, argv[1]);
	for (int i = 0; i < rounds; i++) {
		int na, nb;

		end_open(&b, argv[2]);
		bad += !meet(&a, &b, i % 100);
		na = count_qps(argv[1]);
		nb = count_qps(argv[2]);
		if (!i)
			set = na;
		if (na != set || nb != set) {
			printf("# round %d: %d and %d queue pairs, not %d\n", i, na, nb, set);
			other++;
		}
		end_close(&b);
		other += !falls_to(argv[1], 0);
	}
	end_close(&a);
	ok(!bad, "%d rounds without a failure", rounds);
	ok(set > 0, "a set of queue pairs: %d", set);
	ok(!other, "one set a pair in each, and none once one engine has closed");
	ok(!count_qps(argv[1]) && !count_qps(argv[2]), "none is left");
	return tap_end();
}
