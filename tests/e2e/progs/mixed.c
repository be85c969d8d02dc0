/*
 * mixed.c - one batch to three segments with READ and WRITE mixed; what submit refuses and what
 * ends badly later.
 *
 * mixed SEGMENT FILE SEGMENT FILE SEGMENT FILE [TRANSPORT]: three te-targets and the files they
 * serve, at least 1 MiB each.
 */
#include "prog.h"

enum { SEGMENTS = 3, EACH = 8, LENGTH = 4096, REQUESTS = SEGMENTS * EACH * 2 };

struct end {
	int32_t id;
	uint64_t base;
	unsigned char *mem;
	size_t len;
};

static struct te_engine *e;
static struct end ends[SEGMENTS];
static unsigned char *buf; /* REQUESTS pieces */

/* Even requests WRITE into the first half of a target, odd ones READ from its second half. */
static void fill(struct te_request *req)
{
	for (int i = 0; i < REQUESTS; i++) {
		struct end *t = &ends[i % SEGMENTS];
		bool is_write = (i / SEGMENTS) % 2 == 0;
		size_t at = (size_t)(i / SEGMENTS) * LENGTH + (is_write ? 0 : t->len / 2);

		memset(buf + i * LENGTH, is_write ? i + 1 : 0, LENGTH);
		memset(t->mem + at, is_write ? 0 : 0x80 | i, LENGTH);
		req[i] = (struct te_request){ .op = is_write ? TE_WRITE : TE_READ,
					      .source = buf + i * LENGTH,
					      .target = t->id,
					      .offset = t->base + at,
					      .length = LENGTH };
	}
}

/* How many requests did what they should; -1 in `except` means all count. */
static int moved(const struct te_request *req, int except)
{
	int n = 0;

	for (int i = 0; i < REQUESTS; i++) {
		struct end *t = &ends[i % SEGMENTS];
		bool is_write = req[i].op == TE_WRITE;
		const void *at = is_write ? t->mem + (req[i].offset - t->base) : req[i].source;

		n += i != except && all_is(at, is_write ? i + 1 : 0x80 | i, LENGTH);
	}
	return n;
}

static void all_well(void)
{
	struct te_request req[REQUESTS];
	uint64_t b = batch_new(e, REQUESTS);
	size_t failed = 99;

	fill(req);
	ok(te_batch_submit(e, b, req, REQUESTS, NULL) == 0,
	   "one batch to three segments, both ways");
	ok(te_batch_wait(e, b, 10000, &failed) == 0 && failed == 0, "ends well");
	ok(moved(req, -1) == REQUESTS, "all %d ranges are where they belong", REQUESTS);
	ok(te_batch_submit(e, b, req, 1, NULL) == -ENOSPC, "one more than the capacity is refused");
	ok(te_batch_free(e, b) == 0, "free");
}

/* Each must leave the batch as it was: nothing submitted, the capacity whole. */
static void refused_at_submit(void)
{
	struct te_request req[REQUESTS], bad;
	uint64_t b = batch_new(e, REQUESTS);
	struct te_status st;
	struct te_err err = { 0 };
	unsigned char not_registered[LENGTH];

	fill(req);
	bad = req[REQUESTS / 2];
	req[REQUESTS / 2].source = not_registered;
	ok(te_batch_submit(e, b, req, REQUESTS, &err) == -EFAULT && err.msg[0],
	   "a source that is not registered: -EFAULT, %s", err.msg);
	req[REQUESTS / 2].source = buf + REQUESTS * LENGTH - LENGTH / 2;
	ok(te_batch_submit(e, b, req, REQUESTS, &err) == -EFAULT,
	   "a source that leaves its buffer: -EFAULT");
	req[REQUESTS / 2] = bad;
	req[REQUESTS / 2].target = 12345;
	ok(te_batch_submit(e, b, req, REQUESTS, &err) == -EBADF && err.msg[0],
	   "an unknown segment: -EBADF, %s", err.msg);
	req[REQUESTS / 2] = bad;
	req[REQUESTS / 2].offset = UINT64_MAX - 100;
	ok(te_batch_submit(e, b, req, REQUESTS, &err) == -EINVAL && err.msg[0],
	   "a range that wraps: -EINVAL, %s", err.msg);
	req[REQUESTS / 2] = bad;
	ok(te_batch_status(e, b, 0, &st) < 0, "no task has come to be");
	ok(moved(req, -1) == 0, "nothing was moved");
	ok(te_batch_submit(e, b, req, REQUESTS, NULL) == 0 &&
		   te_batch_wait(e, b, 10000, NULL) == 0 && moved(req, -1) == REQUESTS,
	   "the whole capacity is still there");
	ok(te_batch_free(e, b) == 0, "free");
}

static void one_bad_target(void)
{
	struct te_request req[REQUESTS];
	uint64_t b = batch_new(e, REQUESTS + 1), began;
	struct te_status st;
	struct te_err err = { 0 };
	size_t failed = 99;
	int bad = 7;

	fill(req);
	req[bad].offset = ends[bad % SEGMENTS].base + ends[bad % SEGMENTS].len;
	began = now_ns();
	ok(te_batch_submit(e, b, req, REQUESTS, NULL) == 0,
	   "a target range that is not registered is taken");
	ok(te_batch_wait(e, b, 10000, &failed) == 0 && failed == 1, "one task ends badly");
	ok(now_ns() - began < 3000000000u, "within three seconds");
	ok(te_batch_status(e, b, (size_t)bad, &st) == 0 && st.state == TE_INVALID && st.error < 0,
	   "it is INVALID");
	ok(te_batch_error(e, b, (size_t)bad, &err) == 0 && strstr(err.msg, "not registered"), "%s",
	   err.msg);
	ok(te_batch_error(e, b, 0, &err) == -ENODATA, "the others have no error");
	ok(moved(req, bad) == REQUESTS - 1, "all others are done");
	req[0].length = 0;
	ok(te_batch_submit(e, b, req, 1, NULL) == 0 && te_batch_status(e, b, REQUESTS, &st) == 0 &&
		   st.state == TE_COMPLETED,
	   "length 0 completes at once");
	ok(te_batch_free(e, b) == 0, "free");
}

int main(int argc, char **argv)
{
	if (argc < 7)
		return 2;
	e = engine_new(argc > 7 ? argv[7] : NULL, true);
	buf = buffer_new(e, REQUESTS * LENGTH, false);
	for (int i = 0; i < SEGMENTS; i++) {
		ends[i].id = segment_open(e, argv[1 + 2 * i]);
		ends[i].base = segment_base(e, ends[i].id);
		ends[i].mem = file_map(argv[2 + 2 * i], &ends[i].len);
	}
	all_well();
	refused_at_submit();
	one_bad_target();
	te_engine_close(e);
	return tap_end();
}
