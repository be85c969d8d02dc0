/*
 * stalled.c - a target that is stopped in the middle: cancel, time-out and drain say when memory is
 * quiet again.
 *
 * stalled SEGMENT FILE PID: the te-target PID serves FILE, at least 64 MiB. Over tcp.
 */
#include <signal.h>

#include "prog.h"

enum { REQUESTS = 64, LENGTH = 1 << 20, TIMEOUT_S = 2 };

static struct te_engine *e;
static int32_t seg;
static uint64_t base;
static unsigned char *src, *mem;
static const char *name;
static pid_t target;

static uint64_t submit_all(void)
{
	struct te_request req[REQUESTS];
	uint64_t b = batch_new(e, REQUESTS);
	struct te_err err = { 0 };

	for (int i = 0; i < REQUESTS; i++)
		req[i] = (struct te_request){ .op = TE_WRITE,
					      .source = src + (size_t)i * LENGTH,
					      .target = seg,
					      .offset = base + (uint64_t)i * LENGTH,
					      .length = LENGTH };
	if (te_batch_submit(e, b, req, REQUESTS, &err))
		die("te_batch_submit", &err);
	return b;
}

static size_t count(uint64_t b, enum te_state state)
{
	struct te_status st;
	size_t n = 0;

	for (size_t i = 0; i < REQUESTS; i++)
		n += te_batch_status(e, b, i, &st) == 0 && st.state == state;
	return n;
}

static void works_again(const char *when)
{
	uint64_t b = submit_all();
	size_t failed = REQUESTS;

	ok(te_batch_wait(e, b, 20000, &failed) == 0 && failed == 0, "%s: a batch goes through",
	   when);
	ok(te_batch_free(e, b) == 0, "and is freed");
}

static void cancelled(void)
{
	uint64_t b, began;
	size_t done;

	memset(src, 1, (size_t)REQUESTS * LENGTH);
	memset(mem, 0, (size_t)REQUESTS * LENGTH);
	kill(target, SIGSTOP);
	b = submit_all();
	ok(te_batch_wait(e, b, 200, NULL) == -ETIMEDOUT, "a stopped target: the wait ends in time");
	ok(te_batch_free(e, b) == -EBUSY, "what is in flight cannot be freed");
	began = now_ns();
	ok(te_batch_cancel(e, b) == 0, "cancel");
	done = count(b, TE_COMPLETED);
	ok(count(b, TE_CANCELED) + done == REQUESTS && done < REQUESTS, "%zu tasks are CANCELED",
	   count(b, TE_CANCELED));
	ok(te_batch_wait(e, b, 0, NULL) == 0, "every task has ended");
	ok(te_batch_drain(e, b, 10000) == 0, "drained after %lu ms",
	   (unsigned long)((now_ns() - began) / 1000000));
	/* Now the source is ours: nothing of what we write to it may arrive. */
	memset(src, 0xee, (size_t)REQUESTS * LENGTH);
	kill(target, SIGCONT);
	ok(te_batch_free(e, b) == 0, "then it can be freed");
	memset(src, 2, LENGTH);
	works_again("continued");
	ok(memchr(mem + LENGTH, 1, (size_t)(REQUESTS - 1) * LENGTH) == NULL,
	   "and nothing old comes after it");
}

static void timed_out(void)
{
	struct te_err why = { 0 };
	size_t failed = 0;
	uint64_t b, began;

	kill(target, SIGSTOP);
	b = submit_all();
	began = now_ns();
	ok(te_batch_wait(e, b, -1, &failed) == 0 && failed > 0, "%zu tasks end badly", failed);
	ok(now_ns() - began < (TIMEOUT_S + 2) * 1000000000ull, "after %lu ms",
	   (unsigned long)((now_ns() - began) / 1000000));
	ok(count(b, TE_TIMEOUT) == failed, "as TIMEOUT");
	te_batch_error(e, b, REQUESTS - 1, &why);
	ok(why.code < 0 && strstr(why.msg, name), "with names: %s", why.msg);
	ok(te_batch_drain(e, b, 10000) == 0 && te_batch_free(e, b) == 0, "drained and freed");
	kill(target, SIGCONT);
	works_again("continued");
}

int main(int argc, char **argv)
{
	char timeout[16];
	size_t len;

	if (argc < 4)
		return 2;
	snprintf(timeout, sizeof(timeout), "%d", TIMEOUT_S);
	setenv("MC_TRANSFER_TIMEOUT", timeout, 1);
	name = argv[1];
	target = (pid_t)strtol(argv[3], NULL, 10);
	mem = file_map(argv[2], &len);
	e = engine_new("tcp", true);
	src = buffer_new(e, (size_t)REQUESTS * LENGTH, false);
	seg = segment_open(e, argv[1]);
	base = segment_base(e, seg);
	works_again("at first");
	cancelled();
	timed_out();
	te_engine_close(e);
	return tap_end();
}
