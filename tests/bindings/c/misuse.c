/* misuse.c - handles and ids that are stale or invented, arguments that are wrong: each call says
 * so by its code. Prints TAP. misuse CONN
 */
#include <stdlib.h>

#include "tap.h"

static char memory[1 << 16], own_name[64];

/* Every call on something that is no engine. */
static void no_engine(transfer_engine_t h, const char *what)
{
	struct transfer_request q = { OPCODE_READ, memory, 0, 0, 1 };
	buffer_entry_t buffer = { memory, sizeof(memory) };
	notify_msg_t msg = { "a", "b" };
	struct transfer_status s;
	void *addr = memory;
	char text[64];
	size_t count;
	int n = 7;
	const int bad = TE_CODE_INVALID_ARGUMENT;

	destroyTransferEngine(h);
	enableGracefulShutdown(h);
	ok(discoverTopology(h) == bad && getLocalIpAndPort(h, text, sizeof(text)) == bad &&
		   !installTransport(h, "tcp", NULL) && uninstallTransport(h, "tcp") == bad &&
		   openSegment(h, "x") == bad && openSegmentNoCache(h, "x") == bad &&
		   closeSegment(h, 0) == bad && warmupEfaSegment(h, "x") == bad &&
		   removeLocalSegment(h, "x") == bad && syncSegmentCache(h) == bad &&
		   getSegmentBuffers(h, 0, &buffer, 1) == bad &&
		   registerLocalMemory(h, memory, 1, "*", 1) == bad &&
		   unregisterLocalMemory(h, memory) == bad &&
		   registerLocalMemoryBatch(h, &buffer, 1, "*") == bad &&
		   unregisterLocalMemoryBatch(h, &addr, 1) == bad &&
		   allocateBatchID(h, 1) == INVALID_BATCH && submitTransfer(h, 1, &q, 1) == bad &&
		   submitTransferWithNotify(h, 1, &q, 1, msg) == bad &&
		   getTransferStatus(h, 1, 0, &s) == bad && freeBatchID(h, 1) == bad &&
		   !getNotifsFromEngine(h, &n) && n == 0 && genNotifyInEngine(h, 0, msg) == bad &&
		   getNicLoadStats(h, NULL, &count) == bad && showLinks(h, text, 64, 1) == bad,
	   what);
}

static void memory_calls(transfer_engine_t e)
{
	buffer_entry_t b[] = { { memory, 4096 }, { memory + 8192, 4096 }, { memory + 9000, 1 } };
	void *addrs[] = { memory, memory + 8192, memory + 1 };
	buffer_entry_t got[3];

	ok(registerLocalMemoryBatch(e, b, 3, "*") == TE_CODE_ADDRESS_OVERLAPPED, "an overlap");
	ok(registerLocalMemory(e, memory, 1, "*", 1) == 0 && unregisterLocalMemory(e, memory) == 0,
	   "of which nothing was registered");
	ok(!registerLocalMemoryBatch(e, b, 2, "cpu:0") &&
		   !registerLocalMemoryBatch(e, NULL, 0, "*") &&
		   registerLocalMemoryBatch(e, NULL, 1, "*") == TE_CODE_INVALID_ARGUMENT,
	   "two at once, none, and a list that is not there");
	ok(registerLocalMemory(e, memory + 16384, 4096, "*", 0) == 0, "a source only");
	ok(getSegmentBuffers(e, LOCAL_SEGMENT, got, 3) == 2 && got[0].addr == memory &&
		   got[1].addr == memory + 8192 && got[1].length == 4096,
	   "peers see the others, in order");
	ok(getSegmentBuffers(e, LOCAL_SEGMENT, NULL, 0) == 2 &&
		   getSegmentBuffers(e, LOCAL_SEGMENT, NULL, 1) == TE_CODE_INVALID_ARGUMENT &&
		   getSegmentBuffers(e, 99, got, 1) == TE_CODE_INVALID_ARGUMENT,
	   "getSegmentBuffers");
	ok(unregisterLocalMemoryBatch(e, addrs, 3) == TE_CODE_ADDRESS_NOT_REGISTERED,
	   "one of three is no start of a buffer");
	ok(registerLocalMemory(e, memory + 24576, 16, "gpu 3", 1) == TE_CODE_INVALID_ARGUMENT &&
		   registerLocalMemory(e, memory + 24576, SIZE_MAX, "*", 1) ==
			   TE_CODE_INVALID_ARGUMENT &&
		   registerLocalMemory(e, memory + 24576, 16, NULL, 1) == 0 &&
		   unregisterLocalMemory(e, memory + 24576) == 0,
	   "locations and lengths");
}

/* Asked for what this host has not: refused, and nothing has changed. */
static void transports(transfer_engine_t e)
{
	char before[64], after[64];
	char *args[] = { (char *)"{ no matrix", NULL };
	buffer_entry_t got[3];

	ok(!getLocalIpAndPort(e, before, sizeof(before)) && !installTransport(e, "pigeon", NULL) &&
		   !installTransport(e, NULL, NULL) && !installTransport(e, "rdma", (void **)args),
	   "transports that cannot be");
	ok(!getLocalIpAndPort(e, after, sizeof(after)) && !strcmp(before, after) &&
		   getSegmentBuffers(e, LOCAL_SEGMENT, got, 3) == 2 && got[0].addr == memory &&
		   got[1].addr == memory + 8192,
	   "leave the engine where it was, with its buffers in order");
	ok(uninstallTransport(e, "tcp") == 0 && uninstallTransport(e, "pigeon") < 0, "uninstall");
}

static void requests(transfer_engine_t e)
{
	segment_id_t own = LOCAL_SEGMENT;
	struct transfer_request q = { OPCODE_WRITE, memory + 16384, own,
				      (uint64_t)(uintptr_t)memory, 64 };
	batch_id_t batch = allocateBatchID(e, 2);
	notify_msg_t msg = { "a", "b" };
	struct transfer_status s;

	ok(allocateBatchID(e, 0) == INVALID_BATCH && allocateBatchID(e, SIZE_MAX) == INVALID_BATCH,
	   "capacities");
	ok(batch < INT64_MAX && submitTransfer(e, batch, NULL, 1) == TE_CODE_INVALID_ARGUMENT &&
		   submitTransferWithNotify(e, batch, NULL, 1, msg) == TE_CODE_INVALID_ARGUMENT &&
		   submitTransferWithNotify(e, batch, &q, 0, msg) == TE_CODE_INVALID_ARGUMENT &&
		   submitTransfer(e, batch + (1 << 24), &q, 1) == TE_CODE_INVALID_ARGUMENT,
	   "no requests, an invented batch");
	q.opcode = 7;
	ok(submitTransfer(e, batch, &q, 1) == TE_CODE_INVALID_ARGUMENT, "an unknown opcode");
	q.opcode = OPCODE_WRITE;
	q.length = UINT64_MAX;
	ok(submitTransfer(e, batch, &q, 1) < 0, "a length that wraps");
	q.length = 64;
	q.target_id = -1;
	ok(submitTransfer(e, batch, &q, 1) == TE_CODE_INVALID_ARGUMENT, "a negative segment");
	q.target_id = own;
	ok(!openSegment(e, own_name) && !submitTransfer(e, batch, &q, 1) &&
		   !wait_task(e, batch, 0, 5000, &s) && s.status == STATUS_COMPLETED,
	   "to ourselves");
	ok(getTransferStatus(e, batch, 0, NULL) == TE_CODE_INVALID_ARGUMENT &&
		   getTransferStatus(e, batch, 1, &s) == TE_CODE_INVALID_ARGUMENT &&
		   getTransferStatus(e, batch, SIZE_MAX, &s) == TE_CODE_INVALID_ARGUMENT,
	   "status");
	ok(!freeBatchID(e, batch) && freeBatchID(e, batch) == TE_CODE_INVALID_ARGUMENT &&
		   freeBatchID(e, INVALID_BATCH) == TE_CODE_INVALID_ARGUMENT &&
		   submitTransfer(e, batch, &q, 1) == TE_CODE_INVALID_ARGUMENT,
	   "a batch is freed once");
	ok(!installTransport(e, "rdma", NULL), "rdma comes too late");
}

static void the_rest(transfer_engine_t e)
{
	notify_msg_t nothing = { NULL, NULL };
	size_t count = 5;

	ok(!openSegment(e, own_name) && openSegment(e, NULL) < 0 && openSegment(e, "") < 0 &&
		   closeSegment(e, -1) < 0 && closeSegment(e, 1 << 16) < 0 &&
		   closeSegment(e, LOCAL_SEGMENT) == 0,
	   "segments");
	ok(genNotifyInEngine(e, 77, nothing) == TE_CODE_INVALID_ARGUMENT &&
		   genNotifyInEngine(e, UINT64_MAX, nothing) == TE_CODE_INVALID_ARGUMENT,
	   "notifications to nobody");
	ok(freeNotifsMsgBuf(NULL, 0) == 0 && freeNotifsMsgBuf(NULL, -1) < 0, "freeNotifsMsgBuf");
	ok(!getNicLoadStats(e, NULL, &count) && count == 0 &&
		   getNicLoadStats(e, NULL, NULL) == TE_CODE_INVALID_ARGUMENT,
	   "getNicLoadStats");
	ok(!warmupEfaSegment(e, "x") && !removeLocalSegment(e, "x") && !discoverTopology(e),
	   "what does nothing");
}

int main(int argc, char **argv)
{
	const char *conn = argc > 1 ? argv[1] : "P2PHANDSHAKE";
	transfer_engine_t e = open_engine(conn, own_name, "misuse");

	ok(e, "an engine");
	ok(!createTransferEngine("no://such.store", "x", "", 0, 1) &&
		   !createTransferEngine("redis://127.0.0.1:1", "x", "", 0, 1),
	   "stores that are not there");
	no_engine(NULL, "NULL");
	no_engine((transfer_engine_t)(uintptr_t)0xdeadbeef, "an invented handle");
	no_engine((transfer_engine_t)((uintptr_t)e + 1), "the one beside");
	no_engine((transfer_engine_t)((uintptr_t)e + 1024), "the next generation");
	memory_calls(e);
	transports(e);
	requests(e);
	the_rest(e);
	destroyTransferEngine(e);
	no_engine(e, "a stale handle");
	return plan();
}
