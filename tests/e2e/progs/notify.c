/* notify.c - notifications come after the bytes, never for a batch that failed, and their queue is
 * bounded. */
#include "prog.h"

enum { LENGTH = 1 << 20, QUEUE = 4096, EXTRA = 10 };

static struct te_engine *a, *b;
static unsigned char *src, *dst;
static int32_t seg;

/* Waits at most ms for the next notifications; their count. */
static int receive(struct te_notify **list, int ms)
{
	uint64_t until = now_ns() + (uint64_t)ms * 1000000u;
	struct timespec pause = { .tv_nsec = 1000000 };
	int n;

	while ((n = te_notify_recv(b, list, NULL)) == 0 && now_ns() < until)
		nanosleep(&pause, NULL);
	return n;
}

static void after_completion(void)
{
	struct te_request req = { .op = TE_WRITE,
				  .source = src,
				  .target = seg,
				  .offset = (uintptr_t)dst,
				  .length = LENGTH };
	struct te_notify *list = NULL;
	uint64_t batch = batch_new(a, 1);
	int n;

	memset(src, 0x42, LENGTH);
	ok(te_batch_submit_notify(a, batch, &req, 1, "me", "it is there", NULL) == 0,
	   "submit with a notification");
	n = receive(&list, 5000);
	ok(n == 1, "one arrives though nobody polls the batch");
	ok(n == 1 && !strcmp(list[0].name, "me") && !strcmp(list[0].msg, "it is there"),
	   "with name and text");
	ok(all_is(dst, 0x42, LENGTH), "and the bytes are there before it");
	te_notify_free(list, n > 0 ? (size_t)n : 0);
	te_batch_wait(a, batch, 5000, NULL);
	te_batch_free(a, batch);
}

static void not_after_failure(void)
{
	struct te_request req[2] = {
		{ .op = TE_WRITE,
		  .source = src,
		  .target = seg,
		  .offset = (uintptr_t)dst,
		  .length = LENGTH },
		{ .op = TE_WRITE, .source = src, .target = seg, .offset = 4096, .length = 4096 }
	};
	struct te_notify *list = NULL;
	uint64_t batch = batch_new(a, 2);
	size_t failed = 0;
	int n;

	ok(te_batch_submit_notify(a, batch, req, 0, "me", "x", NULL) == -EINVAL,
	   "no request: -EINVAL");
	ok(te_batch_submit_notify(a, batch, req, 2, "me", "half", NULL) == 0,
	   "a batch that will fail by half");
	ok(te_batch_wait(a, batch, 10000, &failed) == 0 && failed == 1, "it does");
	ok(te_notify_send(a, seg, "me", "last", NULL) == 0, "a notification by hand");
	n = receive(&list, 5000);
	ok(n == 1 && !strcmp(list[0].msg, "last"), "is the only one that arrives");
	te_notify_free(list, n > 0 ? (size_t)n : 0);
	te_batch_free(a, batch);
}

static void bounded(void)
{
	struct te_notify *list = NULL;
	uint64_t dropped = 99;
	int sent = 0, n;

	for (int i = 0; i < QUEUE + EXTRA; i++)
		sent += te_notify_send(a, seg, "me", "again", NULL) == 0;
	ok(sent >= QUEUE, "%d were taken", sent);
	n = te_notify_recv(b, &list, &dropped);
	ok(n == QUEUE && dropped == EXTRA, "the queue keeps %d and counts %lu as dropped", n,
	   (unsigned long)dropped);
	te_notify_free(list, n > 0 ? (size_t)n : 0);
	ok(te_notify_recv(b, &list, &dropped) == 0 && dropped == EXTRA, "then it is empty");
	ok(te_notify_send(a, seg, "me", "and", NULL) == 0 && receive(&list, 5000) == 1,
	   "and takes more");
	te_notify_free(list, 1);
}

int main(void)
{
	a = engine_new("tcp", false);
	b = engine_new("tcp", false);
	src = buffer_new(a, LENGTH, false);
	dst = buffer_new(b, LENGTH, true);
	seg = segment_open(a, engine_name(b));
	after_completion();
	not_after_failure();
	bounded();
	te_engine_close(a);
	te_engine_close(b);
	return tap_end();
}
