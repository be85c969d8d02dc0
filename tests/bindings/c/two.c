/* two.c - a program of the C interface alone: two engines, verified data both ways, and what must
 * be refused. Prints TAP. two CONN [PROTOCOL]: the metadata store, and "tcp" (default) or "rdma".
 */
#include "tap.h"

enum { LEN = 1 << 20, TASKS = 16 };

static char source[LEN], target[LEN];

static int wait_for(transfer_engine_t e, batch_id_t batch, size_t task, struct transfer_status *s)
{
	return wait_task(e, batch, task, 10000, s);
}

/* All tasks COMPLETED? */
static bool move(transfer_engine_t e, segment_id_t seg, int opcode)
{
	struct transfer_request q[TASKS];
	batch_id_t batch = allocateBatchID(e, TASKS);
	struct transfer_status s;
	bool good = batch != INVALID_BATCH;

	for (int i = 0; i < TASKS; i++)
		q[i] = (struct transfer_request){ opcode, source + i * (LEN / TASKS), seg,
						  (uint64_t)(uintptr_t)target + i * (LEN / TASKS),
						  LEN / TASKS };
	good = good && submitTransfer(e, batch, q, TASKS) == 0 &&
	       submitTransfer(e, batch, q, 1) == TE_CODE_TOO_MANY_REQUESTS;
	for (int i = 0; good && i < TASKS; i++)
		good = wait_for(e, batch, i, &s) == 0 && s.status == STATUS_COMPLETED &&
		       s.transferred_bytes == LEN / TASKS;
	return good && freeBatchID(e, batch) == 0 &&
	       freeBatchID(e, batch) == TE_CODE_INVALID_ARGUMENT;
}

static void fill(char *p, int seed)
{
	for (int i = 0; i < LEN; i++)
		p[i] = (char)(i * seed + i / 251);
}

static void transfers(transfer_engine_t a, segment_id_t seg)
{
	struct transfer_status s;
	struct transfer_request q = { OPCODE_READ, source, seg, 8, 64 };
	batch_id_t batch;

	fill(source, 3);
	ok(move(a, seg, OPCODE_WRITE) && !memcmp(source, target, LEN), "WRITE");
	fill(target, 5);
	ok(move(a, seg, OPCODE_READ) && !memcmp(source, target, LEN), "READ");
	batch = allocateBatchID(a, 2);
	ok(!submitTransfer(a, batch, &q, 1) && !wait_for(a, batch, 0, &s) &&
		   s.status == STATUS_INVALID,
	   "a range in no buffer is INVALID");
	ok(getTransferStatus(a, batch, 1, &s) == TE_CODE_INVALID_ARGUMENT, "no such task");
	ok(!freeBatchID(a, batch), "free");
	q.source = &q;
	batch = allocateBatchID(a, 1);
	ok(submitTransfer(a, batch, &q, 1) == TE_CODE_ADDRESS_NOT_REGISTERED,
	   "a source that is not registered");
	q.source = source;
	q.target_id = 77;
	ok(submitTransfer(a, batch, &q, 1) == TE_CODE_INVALID_ARGUMENT,
	   "a segment that is not open");
	ok(!freeBatchID(a, batch), "free what was never used");
}

static void notifications(transfer_engine_t a, transfer_engine_t b, segment_id_t seg)
{
	notify_msg_t msg = { "name", "text" }, *got = NULL;
	int n = 0;

	ok(!genNotifyInEngine(a, (uint64_t)seg, msg), "a notification is sent");
	for (int i = 0; i < 1000 && !got; i++) {
		got = getNotifsFromEngine(b, &n);
		usleep(1000);
	}
	ok(n == 1 && got && !strcmp(got->name, "name") && !strcmp(got->msg, "text"), "and arrives");
	ok(!freeNotifsMsgBuf(got, n), "freed");
}

static void refused(transfer_engine_t a)
{
	void *nothing = source + 1;
	char small[4], text[4096];

	ok(registerLocalMemory(a, source, LEN, "*", 1) == TE_CODE_ADDRESS_OVERLAPPED, "twice");
	ok(registerLocalMemory(a, target + 1, 0, "*", 1) == TE_CODE_INVALID_ARGUMENT, "no length");
	ok(unregisterLocalMemory(a, nothing) == TE_CODE_ADDRESS_NOT_REGISTERED, "not registered");
	ok(openSegment(a, "nobody-of-this-name") < 0, "an unknown segment");
	ok(closeSegment(a, 4711) < 0, "an id that nobody has");
	ok(!installTransport(a, "pigeon", NULL), "an unknown transport");
	ok(showLinks(a, small, sizeof(small), 1) == TE_CODE_INVALID_ARGUMENT &&
		   !showLinks(a, text, sizeof(text), 1) && strstr(text, "\"topology\""),
	   "showLinks");
	ok(allocateBatchID((transfer_engine_t)12345, 1) == INVALID_BATCH &&
		   openSegment(NULL, "x") < 0 && submitTransfer(NULL, 1, NULL, 0) < 0,
	   "invented handles");
}

int main(int argc, char **argv)
{
	const char *conn = argc > 1 ? argv[1] : "P2PHANDSHAKE",
		   *protocol = argc > 2 ? argv[2] : "tcp";
	char a_name[64], b_name[64], where[64] = "";
	transfer_engine_t a = open_engine(conn, a_name, "two-a"),
			  b = open_engine(conn, b_name, "two-b");
	transport_t t;
	segment_id_t seg;

	ok(a && b, "two engines");
	ok(!getLocalIpAndPort(b, where, sizeof(where)) && strchr(where, ':'), where);
	ok(!registerLocalMemory(a, source, LEN, "*", 1), "registered before the transport");
	t = installTransport(a, protocol, NULL);
	ok(t && installTransport(a, protocol, NULL) == t && installTransport(b, protocol, NULL),
	   "a transport, twice the same");
	ok(!registerLocalMemory(b, target, LEN, "cpu:0", 1), "registered");
	seg = openSegment(a, b_name);
	ok(seg > 0 && openSegmentNoCache(a, b_name) == seg && !closeSegment(a, seg) &&
		   openSegment(a, a_name) == LOCAL_SEGMENT,
	   "segments");
	transfers(a, seg);
	notifications(a, b, seg);
	refused(a);
	ok(!syncSegmentCache(a) && !closeSegment(a, seg) && closeSegment(a, seg) < 0, "closed");
	ok(!unregisterLocalMemory(b, target), "unregistered");
	destroyTransferEngine(a);
	destroyTransferEngine(b);
	destroyTransferEngine(b);
	ok(openSegment(a, b_name) < 0, "a stale handle");
	return plan();
}
