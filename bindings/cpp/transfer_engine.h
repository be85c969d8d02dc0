/*
 * transfer_engine.h - the C++ interface of Mooncake's Transfer Engine, by libte. Header only, C++11.
 *
 * For programs that were written for that library's documentation: its class, its types, its values, in namespace
 * mooncake and at global scope. Link with libtransfer_engine (pkg-config transfer_engine); the C header beside this one
 * is all it needs.
 *
 * A method that returns int or an id returns 0 or the id, else a negative value: TE_CODE_* of transfer_engine_c.h; why it
 * failed is in the log (MC_LOG_LEVEL, te(7)). Nothing throws but what std::string and std::vector throw when memory is out.
 * Lengths and offsets are bytes. Once init() has returned, methods may be called from several threads at once,
 * freeEngine() and the destructor excepted. Stale and invented ids give an error, never a crash.
 */
#ifndef TE_TRANSFER_ENGINE_H
#define TE_TRANSFER_ENGINE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "transfer_engine_c.h"

namespace mooncake {

using SegmentID = int32_t;	/* >= 0; LOCAL_SEGMENT is our own */
using SegmentHandle = int32_t;	/* the same, as openSegment() returns it */
using BatchID = int64_t;	/* >= 0 */

class TransferEngine;

/* What can be asked of an engine, and of each transport of it. Programs use TransferEngine and Transport. */
class EngineCalls {
public:
	/* One transfer. */
	struct TransferRequest {
		/* READ: from the target to source; WRITE: from source to the target. */
		enum OpCode { READ, WRITE };
		OpCode opcode;
		void *source;		/* local side of both, inside one registered buffer */
		SegmentID target_id;	/* of openSegment() */
		size_t target_offset;	/* an address in a RAM segment, an offset in a segment of files */
		size_t length;
	};

	enum TaskStatus {
		WAITING,		/* in flight */
		PENDING,		/* never seen */
		INVALID,		/* the target range is in no buffer there */
		CANCELED,		/* the engine was closed */
		COMPLETED,		/* READ: the bytes are here; WRITE: they are in the target's memory */
		TIMEOUT,		/* MC_TRANSFER_TIMEOUT is over */
		FAILED			/* also after retries */
	};
	using TransferStatusEnum = TaskStatus;

	struct TransferStatus {
		TaskStatus s;
		size_t transferred;	/* a lower bound */
	};

	struct BufferEntry {
		void *addr;
		size_t length;
	};

	/* A message beside the data. */
	struct NotifyDesc {
		std::string name;
		std::string notify_msg;
	};

	EngineCalls(const EngineCalls &) = delete;
	EngineCalls &operator=(const EngineCalls &) = delete;

	/* ---- memory */

	/*
	 * Let transfers use [addr, addr + size), which stays the caller's and must live until it is unregistered. location:
	 * the device it is near ("cpu:0", "cuda:1"), "*": found out. remote_accessible false: a source only, no peer can reach
	 * it. TE_CODE_ADDRESS_OVERLAPPED when a registered buffer has any of it. Blocks until the store knows.
	 */
	int registerLocalMemory(void *addr, size_t size, const std::string &location = "*", bool remote_accessible = true)
	{
		return ::registerLocalMemory(engine_, addr, size, location.c_str(), remote_accessible);
	}

	/* addr: the start that was registered, else TE_CODE_ADDRESS_NOT_REGISTERED. Waits up to 5 s for transfers that use
	   the buffer, then TE_CODE_BATCH_BUSY with the buffer still registered. After 0 nobody touches the memory. */
	int unregisterLocalMemory(void *addr)
	{
		return ::unregisterLocalMemory(engine_, addr);
	}

	/* All of them or none, published at once, for peers to use. */
	int registerLocalMemoryBatch(const std::vector<BufferEntry> &buffers, const std::string &location = "*")
	{
		std::vector<buffer_entry_t> list;

		for (const BufferEntry &b : buffers)
			list.push_back(buffer_entry_t{b.addr, b.length});
		return ::registerLocalMemoryBatch(engine_, list.data(), list.size(), location.c_str());
	}

	/* All of them or none. */
	int unregisterLocalMemoryBatch(const std::vector<void *> &addrs)
	{
		return ::unregisterLocalMemoryBatch(engine_, const_cast<void **>(addrs.data()), addrs.size());
	}

	/* ---- segments */

	/* The segment that a peer serves under this name (its server name); our own name gives LOCAL_SEGMENT. Counted: close
	   as often as opened. Blocks for the store. Negative: nobody has the name, or the store cannot be reached. */
	SegmentHandle openSegment(const std::string &segment_name)
	{
		return ::openSegment(engine_, segment_name.c_str());
	}

	/* The same, and what is known about the segment is fetched again. */
	SegmentHandle openSegmentNoCache(const std::string &segment_name)
	{
		return ::openSegmentNoCache(engine_, segment_name.c_str());
	}

	/* Transfers in flight to it end first. Negative: an id that is not open. */
	int closeSegment(SegmentHandle segment_id)
	{
		return ::closeSegment(engine_, segment_id);
	}

	/* The buffers that an open segment lets peers use: addresses there (in a segment of files: offsets) and lengths. */
	int getSegmentBuffers(SegmentHandle segment_id, std::vector<BufferEntry> &buffers)
	{
		std::vector<buffer_entry_t> list;
		int n = ::getSegmentBuffers(engine_, segment_id, nullptr, 0);

		/* It may have grown between two calls. */
		while (n >= 0 && static_cast<size_t>(n) > list.size()) {
			list.resize(static_cast<size_t>(n));
			n = ::getSegmentBuffers(engine_, segment_id, list.data(), list.size());
		}
		if (n < 0)
			return n;
		list.resize(static_cast<size_t>(n));
		buffers.clear();
		for (const buffer_entry_t &b : list)
			buffers.push_back(BufferEntry{b.addr, b.length});
		return 0;
	}

	/* Fetch what is known about all open segments again. Never needed: it happens by itself. */
	int syncSegmentCache(const std::string &segment_name = "")
	{
		(void)segment_name;
		return ::syncSegmentCache(engine_);
	}

	/* ---- transfers */

	/* A batch for at most batch_size requests (1 to 16777216); negative on failure. */
	BatchID allocateBatchID(size_t batch_size)
	{
		return static_cast<BatchID>(::allocateBatchID(engine_, batch_size));
	}

	/*
	 * Start all of the requests, or none of them and say why by a negative value: TE_CODE_TOO_MANY_REQUESTS beyond the
	 * batch's size, TE_CODE_ADDRESS_NOT_REGISTERED for a source in no registered buffer, TE_CODE_INVALID_ARGUMENT for an
	 * unknown batch or segment. Never waits for the network. May be called again; tasks are counted on.
	 */
	int submitTransfer(BatchID batch_id, const std::vector<TransferRequest> &entries)
	{
		return ::submitTransfer(engine_, static_cast<batch_id_t>(batch_id), requests(entries), entries.size());
	}

	/* The same, and the target of the first request is notified once all of the batch is COMPLETED. */
	int submitTransferWithNotify(BatchID batch_id, const std::vector<TransferRequest> &entries, const NotifyDesc &notify)
	{
		return ::submitTransferWithNotify(engine_, static_cast<batch_id_t>(batch_id), requests(entries), entries.size(),
						  message(notify));
	}

	/* How far task task_id of the batch (0: its first request) is. status is set only when 0 is returned. */
	int getTransferStatus(BatchID batch_id, size_t task_id, TransferStatus &status)
	{
		struct transfer_status s;
		int r = ::getTransferStatus(engine_, static_cast<batch_id_t>(batch_id), task_id, &s);

		if (r == 0)
			status = TransferStatus{static_cast<TaskStatus>(s.status), static_cast<size_t>(s.transferred_bytes)};
		return r;
	}

	/* TE_CODE_BATCH_BUSY while any of its requests is in flight, and only then. */
	int freeBatchID(BatchID batch_id)
	{
		return ::freeBatchID(engine_, static_cast<batch_id_t>(batch_id));
	}

	/* ---- notifications */

	/* Blocks until the owner of the segment has taken it, or the time-out. */
	int sendNotifyByID(SegmentID target_id, const NotifyDesc &notify)
	{
		/* The C name takes 64 bits: a negative id must not become a large one that is valid. */
		if (target_id < 0)
			return TE_CODE_INVALID_ARGUMENT;
		return ::genNotifyInEngine(engine_, static_cast<uint64_t>(target_id), message(notify));
	}

	/* The same to a segment by its name, which is opened for it. */
	int sendNotifyByName(const std::string &segment_name, const NotifyDesc &notify)
	{
		SegmentHandle id = openSegment(segment_name);
		int r;

		if (id < 0)
			return id;
		r = sendNotifyByID(id, notify);
		closeSegment(id);
		return r;
	}

	/* All that have arrived since the last call are appended to notifies. */
	int getNotifies(std::vector<NotifyDesc> &notifies)
	{
		int n = 0;
		notify_msg_t *list = ::getNotifsFromEngine(engine_, &n);

		try {
			for (int i = 0; i < n; i++)
				notifies.push_back(NotifyDesc{list[i].name, list[i].msg});
		} catch (...) {
			::freeNotifsMsgBuf(list, n);
			throw;
		}
		return ::freeNotifsMsgBuf(list, n);
	}

	/* ---- about ourselves */

	/* Where peers reach us, "10.0.0.1:15017" ("[fe80::1]:15017"); "" before init(). */
	std::string getLocalIpAndPort()
	{
		char where[320] = "";

		return ::getLocalIpAndPort(engine_, where, sizeof(where)) == 0 ? where : "";
	}

	/* The NICs of this host and its priority matrix, as text or as JSON; "" on failure. */
	std::string showLinks(bool json = false)
	{
		std::string text(4096, '\0');

		while (::showLinks(engine_, &text[0], text.size(), json) != 0) {
			if (text.size() >= size_t(1) << 24)
				return "";
			text.resize(text.size() * 4);
		}
		return text.c_str();
	}

protected:
	explicit EngineCalls(transfer_engine_t engine) : engine_(engine)
	{
	}
	~EngineCalls() = default;

	transfer_engine_t engine_;	/* a checked handle, not an address; NULL gives errors as well */

private:
	static_assert(sizeof(TransferRequest) == sizeof(struct transfer_request) &&
			      sizeof(TransferRequest::OpCode) == sizeof(int) &&
			      offsetof(TransferRequest, opcode) == offsetof(struct transfer_request, opcode) &&
			      offsetof(TransferRequest, source) == offsetof(struct transfer_request, source) &&
			      offsetof(TransferRequest, target_id) == offsetof(struct transfer_request, target_id) &&
			      offsetof(TransferRequest, target_offset) == offsetof(struct transfer_request, target_offset) &&
			      offsetof(TransferRequest, length) == offsetof(struct transfer_request, length),
		      "requests are passed on as they lie");
	static_assert(int(TransferRequest::READ) == OPCODE_READ && int(TransferRequest::WRITE) == OPCODE_WRITE, "opcodes");
	static_assert(int(WAITING) == STATUS_WAITING && int(INVALID) == STATUS_INVALID && int(CANCELED) == STATUS_CANCELED &&
			      int(COMPLETED) == STATUS_COMPLETED && int(TIMEOUT) == STATUS_TIMEOUT && int(FAILED) == STATUS_FAILED,
		      "states");

	/* The library only reads them. */
	static struct transfer_request *requests(const std::vector<TransferRequest> &entries)
	{
		return reinterpret_cast<struct transfer_request *>(const_cast<TransferRequest *>(entries.data()));
	}

	static notify_msg_t message(const NotifyDesc &notify)
	{
		return notify_msg_t{const_cast<char *>(notify.name.c_str()), const_cast<char *>(notify.notify_msg.c_str())};
	}
};

/* What installTransport() returns: the calls of its engine. Requests take the best way to their target, whichever
   transport they are submitted to. Its engine owns it; once that is gone every call fails. */
class Transport : public EngineCalls {
public:
	/* "tcp", "rdma", ... */
	const char *getName() const
	{
		return name_.c_str();
	}

private:
	friend class TransferEngine;
	Transport(transfer_engine_t engine, const std::string &name) : EngineCalls(engine), name_(name)
	{
	}

	std::string name_;
};

/* A member of the cluster: one segment of ours, and the way to those of others. */
class TransferEngine : public EngineCalls {
public:
	/* auto_discover false: init() installs tcp only, and installTransport() says by what else to serve. */
	explicit TransferEngine(bool auto_discover = true) : EngineCalls(nullptr), auto_discover_(auto_discover)
	{
	}

	/* Cancels what is in flight and takes our entries out of the store. No other call may run. */
	~TransferEngine()
	{
		freeEngine();
	}

	/*
	 * Join the cluster as segment local_server_name ("": the host name; a port in it is the RPC port) by a metadata store:
	 * "etcd://H:P", "redis://H:P", "http://H:P/metadata", "H:P" (etcd), "P2PHANDSHAKE" for none, "" for
	 * MC_METADATA_SERVER. Finds the NICs and serves by rdma where there are any, else by tcp. ip_or_host_name and
	 * rpc_port are there for programs that pass them; they are ignored, as they are by Mooncake. -1 when init() has
	 * succeeded before; another negative value when the engine cannot be opened, after which it may be tried again.
	 */
	int init(const std::string &metadata_conn_string, const std::string &local_server_name,
		 const std::string &ip_or_host_name = "", uint64_t rpc_port = 12345)
	{
		std::lock_guard<std::mutex> guard(lock_);

		if (engine_)
			return -1;
		engine_ = ::createTransferEngine(metadata_conn_string.c_str(), local_server_name.c_str(),
						 ip_or_host_name.c_str(), rpc_port, auto_discover_);
		return engine_ ? 0 : TE_CODE_CONTEXT;
	}

	/* What the destructor does, now. init() may follow. */
	int freeEngine()
	{
		std::lock_guard<std::mutex> guard(lock_);

		transports_.clear();
		if (engine_)
			::destroyTransferEngine(engine_);
		engine_ = nullptr;
		return 0;
	}

	/*
	 * "tcp", "rdma"; "nvmeof", "local" and "shm" are always there. args: NULL, or {priority matrix as JSON text, NULL}.
	 * Installed already: the same pointer. Before the first openSegment() and allocateBatchID() only, where it changes
	 * anything; buffers that are registered already stay so. NULL on failure. Owned by the engine.
	 */
	Transport *installTransport(const std::string &proto, void **args)
	{
		std::lock_guard<std::mutex> guard(lock_);

		if (!::installTransport(engine_, proto.c_str(), args))
			return nullptr;
		for (const std::unique_ptr<Transport> &t : transports_)
			if (t->name_ == proto)
				return t.get();
		transports_.push_back(std::unique_ptr<Transport>(new Transport(engine_, proto)));
		return transports_.back().get();
	}

	/* The same by a matrix as JSON text; "": this host's own. */
	Transport *installTransport(const std::string &proto, const std::string &nic_priority_matrix = "")
	{
		void *args[] = { const_cast<char *>(nic_priority_matrix.c_str()), nullptr };

		return installTransport(proto, nic_priority_matrix.empty() ? nullptr : args);
	}

	/* 0 for a transport that exists, though it stays. */
	int uninstallTransport(const std::string &proto)
	{
		return ::uninstallTransport(engine_, proto.c_str());
	}

	/* On SIGINT, SIGTERM and exit() the engine's entries are taken out of the store; the signals end the process with 128
	   + their number. Takes both signals over, for the whole process. */
	void enableGracefulShutdown()
	{
		::enableGracefulShutdown(engine_);
	}

private:
	bool auto_discover_;
	std::mutex lock_;	/* init, freeEngine, transports_ */
	std::vector<std::unique_ptr<Transport>> transports_;
};

using TransferRequest = TransferEngine::TransferRequest;
using TransferStatus = TransferEngine::TransferStatus;
using TaskStatus = TransferEngine::TaskStatus;
using TransferStatusEnum = TransferEngine::TransferStatusEnum;
using BufferEntry = TransferEngine::BufferEntry;
using NotifyDesc = TransferEngine::NotifyDesc;

} // namespace mooncake

using mooncake::BatchID;
using mooncake::SegmentHandle;
using mooncake::SegmentID;
using mooncake::TaskStatus;
using mooncake::TransferEngine;
using mooncake::TransferRequest;
using mooncake::TransferStatus;
using mooncake::Transport;

#endif
