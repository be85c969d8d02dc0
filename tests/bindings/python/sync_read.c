/* sync_read.c - what transfer_sync_read() of 4 KiB costs a C program: sync_read NAME ADDRESS. For
 * each line of standard input (a count), so many reads one after the other, and a line with their
 * median in ns. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <te.h>

enum { LEN = 4096, MAX = 100000 };

static uint64_t times[MAX];

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static bool read_once(struct te_engine *e, const struct te_request *q)
{
	size_t failed = 1;
	uint64_t id;

	if (te_batch_alloc(e, 1, &id, NULL))
		return false;
	if (!te_batch_submit(e, id, q, 1, NULL))
		te_batch_wait(e, id, -1, &failed);
	te_batch_free(e, id);
	return !failed;
}

static bool run(struct te_engine *e, const struct te_request *q, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t start = now();

		if (!read_once(e, q))
			return false;
		times[i] = now() - start;
	}
	qsort(times, n, sizeof(times[0]), by_size);
	printf("%" PRIu64 "\n", times[n / 2]);
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	struct te_engine_options opt = { .metadata_server = "P2PHANDSHAKE", .protocol = "tcp" };
	struct te_request q = { .op = TE_READ, .length = LEN };
	struct te_engine *e;
	struct te_err err;
	bool good = true;
	size_t n;

	if (argc != 3)
		return 2;
	if (te_engine_open(&e, &opt, &err) || te_alloc(e, LEN, -1, 0, &q.source, &err) ||
	    te_register(e, q.source, LEN, NULL, true, &err) ||
	    (q.target = te_segment_open(e, argv[1], &err)) < 0) {
		fprintf(stderr, "sync_read: %s\n", err.msg);
		return 1;
	}
	q.offset = strtoull(argv[2], NULL, 0);
	while (good && scanf("%zu", &n) == 1)
		good = n && n <= MAX && run(e, &q, n);
	te_engine_close(e);
	return good ? 0 : 1;
}
