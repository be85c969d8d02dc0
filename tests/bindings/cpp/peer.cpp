/* peer.cpp - tests/bindings/c/peer.c in C++: moves verified data to and from whoever serves a segment of 1 MiB.
 *
 *	peer target CONN NAME             serve 1 MiB, print "ready SEGMENT ADDRESS"; at the end of standard input see what it holds
 *	peer initiator CONN NAME SEGMENT  WRITE the pattern there, READ it back, compare
 */
#include <iostream>
#include <stdexcept>
#include <vector>

#include <transfer_engine.h>

static const size_t len = 1 << 20, blocks = 16, block = len / blocks;

static void check(bool good, const char *what)
{
	if (!good)
		throw std::runtime_error(std::string(what) + " failed");
}

static unsigned char pattern(size_t i)
{
	return static_cast<unsigned char>(i * 31 + i / 251);
}

static void check_pattern(const std::vector<unsigned char> &v)
{
	for (size_t i = 0; i < len; i++)
		check(v[i] == pattern(i), "the comparison");
}

static void move(TransferEngine &engine, TransferRequest::OpCode opcode, std::vector<unsigned char> &v, SegmentID seg,
		 size_t base)
{
	BatchID batch = engine.allocateBatchID(blocks);
	std::vector<TransferRequest> requests;
	TransferStatus status = {};

	for (size_t i = 0; i < blocks; i++)
		requests.push_back(TransferRequest{opcode, &v[i * block], seg, base + i * block, block});
	check(batch >= 0 && engine.submitTransfer(batch, requests) == 0, "submitTransfer");
	for (size_t i = 0; i < blocks; i++) {
		do
			check(engine.getTransferStatus(batch, i, status) == 0, "getTransferStatus");
		while (status.s == TaskStatus::WAITING);
		check(status.s == TaskStatus::COMPLETED && status.transferred == block, "the transfer");
	}
	check(engine.freeBatchID(batch) == 0, "freeBatchID");
}

static void initiator(TransferEngine &engine, const std::string &segment)
{
	std::vector<unsigned char> mine(len), back(len);
	std::vector<mooncake::BufferEntry> buffers;
	SegmentHandle seg;
	size_t base;

	check(engine.registerLocalMemory(mine.data(), len, "*", false) == 0 &&
		      engine.registerLocalMemory(back.data(), len, "*", false) == 0,
	      "registerLocalMemory");
	seg = engine.openSegment(segment);
	check(seg >= 0 && engine.getSegmentBuffers(seg, buffers) == 0 && !buffers.empty(), "openSegment");
	base = reinterpret_cast<size_t>(buffers[0].addr);
	for (size_t i = 0; i < len; i++)
		mine[i] = pattern(i);
	move(engine, TransferRequest::WRITE, mine, seg, base);
	move(engine, TransferRequest::READ, back, seg, base);
	check_pattern(back);
	check(engine.closeSegment(seg) == 0, "closeSegment");
	check(engine.unregisterLocalMemory(mine.data()) == 0 && engine.unregisterLocalMemory(back.data()) == 0,
	      "unregisterLocalMemory");
	std::cout << "moved 1 MiB and back\n";
}

static void target(TransferEngine &engine, const std::string &conn, const std::string &name)
{
	std::vector<unsigned char> mine(len);

	check(engine.registerLocalMemory(mine.data(), len) == 0, "registerLocalMemory");
	std::cout << "ready " << (conn == "P2PHANDSHAKE" ? engine.getLocalIpAndPort() : name) << " "
		  << static_cast<void *>(mine.data()) << std::endl;
	while (std::cin.get() != std::char_traits<char>::eof())
		;
	check(engine.unregisterLocalMemory(mine.data()) == 0, "unregisterLocalMemory");
	check_pattern(mine);
}

int main(int argc, char **argv)
{
	const std::vector<std::string> args(argv, argv + argc);

	if (argc < 4) {
		std::cerr << "Usage: peer target|initiator CONN NAME [SEGMENT]\n";
		return 2;
	}
	try {
		TransferEngine engine;

		check(engine.init(args[2], args[3]) == 0, "init");
		check(engine.init(args[2], args[3]) == -1, "the second init");
		if (args[1] == "target")
			target(engine, args[2], args[3]);
		else
			initiator(engine, argc > 4 ? args[4] : "");
		return 0;
	} catch (const std::exception &e) {
		std::cerr << "peer: " << e.what() << "\n";
		return 1;
	}
}
