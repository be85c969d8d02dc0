/* calls.cpp - every method of the C++ interface, and its types as Mooncake's documents have them. Prints TAP. calls CONN */
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <type_traits>

#include <transfer_engine.h>

template <class A, class B> constexpr bool same()
{
	return std::is_same<A, B>::value;
}

static_assert(same<SegmentID, int32_t>() && same<SegmentHandle, int32_t>() && same<BatchID, int64_t>(), "ids");
static_assert(same<TransferEngine, mooncake::TransferEngine>() && same<TransferRequest, TransferEngine::TransferRequest>() &&
		      same<TransferStatus, mooncake::TransferEngine::TransferStatus>() &&
		      same<mooncake::TransferRequest, TransferRequest>(),
	      "one type under each name");
static_assert(same<decltype(TransferRequest::opcode), TransferRequest::OpCode>() &&
		      same<decltype(TransferRequest::source), void *>() &&
		      same<decltype(TransferRequest::target_id), SegmentID>() &&
		      same<decltype(TransferRequest::target_offset), size_t>() &&
		      same<decltype(TransferRequest::length), size_t>() &&
		      same<decltype(TransferStatus::s), TransferEngine::TaskStatus>() &&
		      same<decltype(TransferStatus::transferred), size_t>(),
	      "members");
static_assert(TransferEngine::WAITING == 0 && TransferEngine::PENDING == 1 && TransferEngine::INVALID == 2 &&
		      TransferEngine::CANCELED == 3 && TransferEngine::COMPLETED == 4 && TaskStatus::TIMEOUT == 5 &&
		      TaskStatus::FAILED == 6,
	      "states");
static_assert(!std::is_copy_constructible<TransferEngine>::value && std::is_default_constructible<TransferEngine>::value,
	      "an engine is one");
/* The signatures of the documents. */
static int (TransferEngine::*const submit)(BatchID, const std::vector<TransferRequest> &) = &TransferEngine::submitTransfer;
static int (TransferEngine::*const status_of)(BatchID, size_t, TransferStatus &) = &TransferEngine::getTransferStatus;
static SegmentHandle (TransferEngine::*const open_segment)(const std::string &) = &TransferEngine::openSegment;
static BatchID (TransferEngine::*const allocate)(size_t) = &TransferEngine::allocateBatchID;

static int number;

static void ok(bool good, const char *what)
{
	std::printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
}

static TaskStatus wait_for(mooncake::EngineCalls &e, BatchID batch, size_t task)
{
	TransferStatus status = { TransferEngine::WAITING, 0 };

	while (e.getTransferStatus(batch, task, status) == 0 && status.s == TransferEngine::WAITING)
		std::this_thread::yield();
	return status.s;
}

static void before_init()
{
	TransferEngine e;
	TransferStatus status = { TransferEngine::FAILED, 77 };

	ok(e.registerLocalMemory(&number, 4) < 0 && e.unregisterLocalMemory(&number) < 0 && e.openSegment("x") < 0 &&
		   e.closeSegment(0) < 0 && e.allocateBatchID(1) < 0 && e.submitTransfer(1, {}) < 0 &&
		   e.getTransferStatus(1, 0, status) < 0 && e.freeBatchID(1) < 0 && !e.installTransport("tcp", nullptr) &&
		   e.getLocalIpAndPort().empty() && e.syncSegmentCache() < 0,
	   "before init() everything is negative");
	ok(status.s == TransferEngine::FAILED && status.transferred == 77, "and a status untouched");
	ok(e.init("no://such.store", "x") < -1, "init() that fails is not -1");
	e.enableGracefulShutdown();
}

static void memory_calls(TransferEngine &e, std::vector<char> &m)
{
	std::vector<mooncake::BufferEntry> got;

	ok(e.registerLocalMemoryBatch({ { &m[0], 4096 }, { &m[8192], 4096 } }) == 0 &&
		   e.registerLocalMemory(&m[100], 8) == TE_CODE_ADDRESS_OVERLAPPED,
	   "registered, and not twice");
	ok(e.registerLocalMemory(&m[16384], 4096, "cpu:0", false) == 0, "a source only");
	ok(e.getSegmentBuffers(LOCAL_SEGMENT, got) == 0 && got.size() == 2 && got[1].addr == &m[8192] &&
		   got[1].length == 4096 && e.getSegmentBuffers(99, got) < 0,
	   "buffers of a segment");
	ok(e.unregisterLocalMemoryBatch({ &m[0], &m[8192] }) == 0 && e.unregisterLocalMemory(&m[16384]) == 0 &&
		   e.unregisterLocalMemory(&m[0]) == TE_CODE_ADDRESS_NOT_REGISTERED &&
		   e.registerLocalMemoryBatch({}) == 0 && e.unregisterLocalMemoryBatch({}) == 0,
	   "unregistered");
}

/* As programs do that ask a transport, not the engine. */
static void by_transport(Transport &t, const std::string &name, std::vector<char> &a, std::vector<char> &b)
{
	SegmentHandle seg = t.openSegment(name);
	BatchID batch = t.allocateBatchID(3);
	TransferRequest q = { TransferRequest::WRITE, a.data(), seg, reinterpret_cast<size_t>(b.data()), a.size() };

	ok(seg > 0 && batch >= 0 && t.submitTransfer(batch, { q }) == 0, "a transport: submitted");
	ok(wait_for(t, batch, 0) == TransferEngine::COMPLETED && a == b, "moved");
	q.target_offset = 8;
	ok(t.submitTransfer(batch, { q }) == 0 && wait_for(t, batch, 1) == TransferEngine::INVALID, "INVALID");
	ok(t.submitTransfer(batch, { q, q }) == TE_CODE_TOO_MANY_REQUESTS && t.submitTransfer(batch, {}) == 0, "capacity");
	ok(t.freeBatchID(batch) == 0 && t.freeBatchID(batch) < 0 && t.closeSegment(seg) == 0 && t.closeSegment(seg) < 0,
	   "once each");
}

static void notifications(TransferEngine &a, TransferEngine &b, const std::string &b_name, std::vector<char> &m,
			  std::vector<char> &there)
{
	SegmentHandle seg = (a.*open_segment)(b_name);
	BatchID batch = (a.*allocate)(1);
	std::vector<mooncake::NotifyDesc> got;
	TransferStatus status = {};

	ok(a.sendNotifyByID(seg, { "one", "1" }) == 0 && a.sendNotifyByName(b_name, { "two", "" }) == 0 &&
		   a.sendNotifyByID(-1, { "", "" }) < 0 && a.sendNotifyByName("nobody", { "", "" }) < 0,
	   "notifications");
	ok(a.submitTransferWithNotify(batch,
				      { { TransferRequest::READ, m.data(), seg, reinterpret_cast<size_t>(there.data()), 8 } },
				      { "three", "done" }) == 0 &&
		   wait_for(a, batch, 0) == TransferEngine::COMPLETED && (a.*status_of)(batch, 0, status) == 0 &&
		   status.transferred == 8,
	   "with a transfer");
	for (int i = 0; i < 5000 && got.size() < 3; i++) {
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
		b.getNotifies(got);
	}
	ok(got.size() == 3 && got[0].name == "one" && got[1].notify_msg.empty() && got[2].notify_msg == "done", "arrived");
	ok(a.freeBatchID(batch) == 0 && a.closeSegment(seg) == 0, "freed");
}

static void two(const std::string &conn)
{
	bool p2p = conn == "P2PHANDSHAKE";
	TransferEngine a(false), b;
	std::vector<char> mine(1 << 20, 'a'), theirs(1 << 20, 'b');
	Transport *t;

	ok(a.init(conn, p2p ? "127.0.0.1" : "calls-a", "127.0.0.1", 12345) == 0 &&
		   b.init(conn, p2p ? "127.0.0.1" : "calls-b") == 0,
	   "init");
	ok(a.init(conn, "again") == -1, "-1 the second time");
	t = a.installTransport("tcp", nullptr);
	ok(t && a.installTransport("tcp") == t && !std::strcmp(t->getName(), "tcp") && !a.installTransport("pigeon") &&
		   a.uninstallTransport("tcp") == 0,
	   "transports");
	memory_calls(a, mine);
	ok(a.registerLocalMemory(mine.data(), mine.size()) == 0 && b.registerLocalMemory(theirs.data(), theirs.size()) == 0,
	   "memory");
	by_transport(*t, p2p ? b.getLocalIpAndPort() : "calls-b", mine, theirs);
	notifications(a, b, p2p ? b.getLocalIpAndPort() : "calls-b", mine, theirs);
	ok(a.showLinks(true).find("\"topology\"") != std::string::npos && !a.showLinks().empty(), "showLinks");
	ok(a.syncSegmentCache() == 0 && a.openSegmentNoCache(p2p ? a.getLocalIpAndPort() : "calls-a") == LOCAL_SEGMENT,
	   "caches");
	ok(a.freeEngine() == 0 && a.openSegment("calls-b") < 0 && a.init(conn, p2p ? "127.0.0.1" : "calls-a") == 0,
	   "freed, and open again");
	(void)submit;
}

int main(int argc, char **argv)
{
	before_init();
	two(argc > 1 ? argv[1] : "P2PHANDSHAKE");
	std::printf("1..%d\n", number);
}
