/* ids.c - stale and invented ids of batches and segments are refused by every call and never crash.
 */
#include "prog.h"

static struct te_engine *e, *peer;
static unsigned char *src;

/* Every call that takes a batch id says no. */
static bool batch_refused(uint64_t id, int32_t seg)
{
	struct te_request req = {
		.op = TE_READ, .source = src, .target = seg, .offset = 4096, .length = 16
	};
	struct te_status st;
	struct te_err err;

	return te_batch_submit(e, id, &req, 1, NULL) == -EBADF &&
	       te_batch_submit_notify(e, id, &req, 1, "a", "b", NULL) == -EBADF &&
	       te_batch_status(e, id, 0, &st) == -EBADF &&
	       te_batch_error(e, id, 0, &err) == -EBADF &&
	       te_batch_wait(e, id, 0, NULL) == -EBADF && te_batch_cancel(e, id) == -EBADF &&
	       te_batch_drain(e, id, 0) == -EBADF && te_batch_eventfd(e, id) == -EBADF &&
	       te_batch_free(e, id) == -EBADF;
}

static bool segment_refused(int32_t seg)
{
	struct te_request req = {
		.op = TE_READ, .source = src, .target = seg, .offset = 4096, .length = 16
	};
	uint64_t b = batch_new(e, 1);
	struct te_desc *d = NULL;
	bool no = te_batch_submit(e, b, &req, 1, NULL) == -EBADF &&
		  te_segment_refresh(e, seg, NULL) == -EBADF &&
		  te_segment_desc(e, seg, &d, NULL) == -EBADF &&
		  te_segment_transport(e, seg) == NULL &&
		  te_notify_send(e, seg, "a", "b", NULL) == -EBADF &&
		  te_segment_close(e, seg) == -EBADF;

	te_batch_free(e, b);
	return no;
}

static uint64_t random64(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	return *x ^= *x << 17;
}

static void batches(int32_t seg)
{
	uint64_t live = batch_new(e, 1), stale = batch_new(e, 1), other, x = 88172645463325252u;
	const uint64_t known[] = { 0, 1, 2, UINT64_MAX, UINT64_MAX - 1, 1ull << 63, (uintptr_t)&x };
	int no = 0, n = 0;

	ok(te_batch_free(e, stale) == 0, "a batch is freed");
	ok(batch_refused(stale, seg), "its id is refused by every call");
	other = batch_new(e, 1);
	ok(other != stale && batch_refused(stale, seg), "also once its place is taken by another");
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (known[i] != live && known[i] != other) {
			n++;
			no += batch_refused(known[i], seg);
		}
	ok(no == n, "obvious inventions");
	for (no = n = 0; n < 20000; n++)
		no += batch_refused(random64(&x), seg);
	ok(no == n, "random ones: %d of %d refused", no, n);
	for (no = n = 0; n < 64; n++)
		no += (live ^ 1ull << n) == other || batch_refused(live ^ 1ull << n, seg);
	ok(no == n, "one bit changed in a live one");
	ok(te_batch_wait(e, live, 0, NULL) == 0 && te_batch_free(e, live) == 0,
	   "the live one is unharmed");
	ok(te_batch_free(e, other) == 0, "and so is the other");
}

static void segments(int32_t seg)
{
	const int32_t known[] = { -1, -2, INT32_MAX, INT32_MIN, 1 << 16, 1 << 24 };
	int32_t again = segment_open(e, engine_name(peer));
	int no = 0, n = 0;

	ok(again == seg, "the same name gives the same id");
	ok(te_segment_close(e, seg) == 0 && te_segment_transport(e, seg),
	   "closed once of two: still open");
	ok(te_segment_close(e, seg) == 0, "closed twice");
	ok(segment_refused(seg), "now its id is refused by every call");
	again = segment_open(e, engine_name(peer));
	ok(again != seg && segment_refused(seg), "also once the name is open again");
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (known[i] != again) {
			n++;
			no += segment_refused(known[i]);
		}
	ok(no == n, "inventions: %d of %d refused", no, n);
	ok(te_segment_open(e, engine_name(e), NULL) == TE_LOCAL_SEGMENT,
	   "our own name is segment 0");
	ok(te_segment_open(e, "127.0.0.1:1", NULL) < 0, "nobody listens there: an error");
	ok(te_segment_close(e, again) == 0, "close");
}

/* The other order: the batch outlives its segment, and what it did is still told. */
static void segment_closed_first(void)
{
	int32_t seg = segment_open(e, engine_name(peer));
	struct te_request req = { .op = TE_READ,
				  .source = src,
				  .target = seg,
				  .offset = segment_base(e, seg),
				  .length = 4096 };
	uint64_t b = batch_new(e, 1);
	struct te_path path[8];
	struct te_status st;
	bool told = false;
	size_t n;

	ok(te_batch_submit(e, b, &req, 1, NULL) == 0 && te_batch_wait(e, b, 5000, NULL) == 0,
	   "a transfer");
	ok(te_segment_close(e, seg) == 0, "its segment is closed");
	ok(te_batch_status(e, b, 0, &st) == 0 && st.state == TE_COMPLETED, "its status is there");
	ok(te_batch_free(e, b) == 0, "then its batch is freed");
	n = te_engine_paths(e, path, 8) > 0 ? (size_t)te_engine_paths(e, path, 8) : 0;
	for (size_t i = 0; i < n; i++)
		told |= path[i].bytes == 4096 && strstr(path[i].remote, engine_name(peer));
	ok(told, "and its path is still told by name");
}

int main(void)
{
	uint64_t b;
	int32_t seg;

	e = engine_new(NULL, false);
	peer = engine_new(NULL, false);
	src = buffer_new(e, 4096, false);
	buffer_new(peer, 4096, true);
	seg = segment_open(e, engine_name(peer));
	batches(seg);
	segments(seg);
	segment_closed_first();
	ok(te_batch_alloc(e, 1, &b, NULL) == 0, "a batch");
	te_engine_close(peer);
	te_engine_close(e);
	ok(true, "an engine with a batch left can be closed");
	return tap_end();
}
