/* stalled.c - what is in flight: a batch that is busy, a segment that closes, an engine that is
 * destroyed. Prints TAP. stalled CONN SEGMENT PID: the process PID serves at least 32 MiB; it is
 * stopped and continued. Over tcp.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "tap.h"

enum { LEN = 32 << 20 };

static char source[LEN];
static transfer_engine_t engine;
static segment_id_t seg;
static buffer_entry_t there;
static pid_t target;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static bool open_all(const char *conn, const char *segment)
{
	char name[64];

	engine = open_engine(conn, name, "stalled");
	seg = openSegment(engine, segment);
	return engine && !registerLocalMemory(engine, source, LEN, "*", 0) && seg > 0 &&
	       getSegmentBuffers(engine, seg, &there, 1) == 1 && there.length >= LEN;
}

/* A WRITE of everything to a target that does not read. */
static batch_id_t stall(void)
{
	struct transfer_request q = { OPCODE_WRITE, source, seg, (uint64_t)(uintptr_t)there.addr,
				      LEN };
	batch_id_t batch = allocateBatchID(engine, 2);

	kill(target, SIGSTOP);
	return submitTransfer(engine, batch, &q, 1) ? INVALID_BATCH : batch;
}

static void *close_it(void *arg)
{
	*(int *)arg = closeSegment(engine, seg);
	return NULL;
}

static void busy(void)
{
	struct transfer_status s;
	batch_id_t batch = stall();
	bool always = batch != INVALID_BATCH;
	int r;

	for (int i = 0; i < 100; i++) {
		always = always && freeBatchID(engine, batch) == TE_CODE_BATCH_BUSY;
		usleep(1000);
	}
	ok(always, "busy while in flight");
	kill(target, SIGCONT);
	/* Nobody asks for the status: that must not matter. */
	for (r = TE_CODE_BATCH_BUSY; r == TE_CODE_BATCH_BUSY; usleep(1000))
		r = freeBatchID(engine, batch);
	ok(r == 0, "and free as soon as nothing is, though nobody has looked");
	ok(getTransferStatus(engine, batch, 0, &s) == TE_CODE_INVALID_ARGUMENT, "its id is stale");
}

static void closing(void)
{
	struct transfer_status s = { 0 };
	batch_id_t batch = stall();
	int r = 1, more = 1;
	pthread_t thread;

	pthread_create(&thread, NULL, close_it, &r);
	usleep(200000);
	ok(r == 1, "closeSegment waits for what is in flight");
	more = openSegment(engine, "nobody-of-this-name");
	ok(more < 0 && !getTransferStatus(engine, batch, 0, &s) && s.status == STATUS_WAITING,
	   "other calls go on meanwhile");
	ok(createTransferEngine("no://such.store", "x", "", 0, 0) == NULL, "new engines too");
	kill(target, SIGCONT);
	pthread_join(thread, NULL);
	ok(r == 0 && !getTransferStatus(engine, batch, 0, &s) && s.status == STATUS_COMPLETED &&
		   s.transferred_bytes == LEN,
	   "and what was in flight has completed");
	ok(closeSegment(engine, seg) < 0, "closed");
	ok(!freeBatchID(engine, batch), "the batch is freed later");
}

static void destroying(const char *conn, const char *segment)
{
	transfer_engine_t old = engine;
	double start;

	destroyTransferEngine(engine);
	ok(open_all(conn, segment), "an engine");
	ok(stall() != INVALID_BATCH, "in flight");
	start = now();
	destroyTransferEngine(engine);
	ok(now() - start < 5, "destroyed within 5 s");
	memset(source, 1, LEN); /* ours again: valgrind and ASan would see who touches it */
	kill(target, SIGCONT);
	ok(openSegment(old, segment) < 0 && openSegment(engine, segment) < 0, "both are stale");
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	target = (pid_t)atoi(argv[3]);
	ok(open_all(argv[1], argv[2]), "an engine");
	busy();
	closing();
	destroying(argv[1], argv[2]);
	return plan();
}
