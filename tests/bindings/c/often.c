/* often.c - a batch whose tasks have all been seen to end can be freed at once, however often.
 * Prints TAP. often CONN */
#include "tap.h"

enum { TASKS = 32, BLOCK = 4096, BATCHES = 1000 };

static char mine[TASKS * BLOCK], theirs[TASKS * BLOCK];

/* Polled from the last to the first, which the transport ends last: what has ended is seen as early
 * as can be. */
static int poll_all(transfer_engine_t e, batch_id_t batch, int expected)
{
	struct transfer_status s;

	for (size_t i = TASKS; i-- > 0;) {
		do {
			if (getTransferStatus(e, batch, i, &s))
				return -1;
		} while (s.status == STATUS_WAITING);
		if (s.status != expected)
			return -1;
	}
	return 0;
}

/* How many batches could not be freed at once; bad: of requests that end INVALID. */
static int run(transfer_engine_t e, segment_id_t seg, bool bad)
{
	struct transfer_request q[TASKS];
	int busy = 0;

	for (size_t i = 0; i < TASKS; i++)
		q[i] = (struct transfer_request){ i % 2 ? OPCODE_READ : OPCODE_WRITE,
						  mine + i * BLOCK, seg,
						  (uint64_t)(uintptr_t)theirs + i * BLOCK, BLOCK };
	for (size_t i = 0; bad && i < TASKS; i++)
		q[i].target_offset = 8;
	for (int n = 0; n < (bad ? 20 : BATCHES); n++) {
		batch_id_t batch = allocateBatchID(e, TASKS);

		if (submitTransfer(e, batch, q, TASKS) ||
		    poll_all(e, batch, bad ? STATUS_INVALID : STATUS_COMPLETED))
			return -1;
		busy += freeBatchID(e, batch) != 0;
	}
	return busy;
}

int main(int argc, char **argv)
{
	const char *conn = argc > 1 ? argv[1] : "P2PHANDSHAKE";
	char a_name[64], b_name[64];
	transfer_engine_t a = open_engine(conn, a_name, "often-a"),
			  b = open_engine(conn, b_name, "often-b");
	segment_id_t seg;

	ok(a && b && !registerLocalMemory(a, mine, sizeof(mine), "*", 1) &&
		   !registerLocalMemory(b, theirs, sizeof(theirs), "*", 1),
	   "two engines");
	seg = openSegment(a, b_name);
	ok(run(a, seg, false) == 0, "completed");
	ok(run(a, seg, true) == 0, "invalid");
	destroyTransferEngine(a);
	destroyTransferEngine(b);
	return plan();
}
