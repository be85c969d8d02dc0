/* peer.c - moves verified data to and from whoever serves a segment of 1 MiB; in C as a stranger
 *would write it.
 *
 *	peer target CONN NAME             serve 1 MiB, print "ready SEGMENT ADDRESS"; at the end of
 *standard input see what it holds peer initiator CONN NAME SEGMENT  WRITE the pattern there, READ
 *it back, compare CONN: the metadata store, or P2PHANDSHAKE. There is one in each language, and all
 *have the same pattern.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <transfer_engine_c.h>

enum { LEN = 1 << 20, BLOCKS = 16, BLOCK = LEN / BLOCKS };

static unsigned char mine[LEN], back[LEN];

static int fail(const char *what)
{
	fprintf(stderr, "peer: %s failed\n", what);
	return 1;
}

static unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 31 + i / 251);
}

static int is_pattern(const unsigned char *p)
{
	for (size_t i = 0; i < LEN; i++)
		if (p[i] != pattern(i)) {
			fprintf(stderr, "peer: wrong byte at %zu\n", i);
			return 0;
		}
	return 1;
}

/* All blocks of buf to or from base in the segment. */
static int move(transfer_engine_t e, int opcode, unsigned char *buf, segment_id_t seg,
		uint64_t base)
{
	struct transfer_request requests[BLOCKS];
	struct transfer_status status;
	batch_id_t batch = allocateBatchID(e, BLOCKS);

	for (size_t i = 0; i < BLOCKS; i++)
		requests[i] = (struct transfer_request){ opcode, buf + i * BLOCK, seg,
							 base + i * BLOCK, BLOCK };
	if (batch == INVALID_BATCH || submitTransfer(e, batch, requests, BLOCKS))
		return fail("submitTransfer");
	for (size_t i = 0; i < BLOCKS; i++) {
		do {
			if (getTransferStatus(e, batch, i, &status))
				return fail("getTransferStatus");
		} while (status.status == STATUS_WAITING);
		if (status.status != STATUS_COMPLETED)
			return fail("the transfer");
	}
	return freeBatchID(e, batch) ? fail("freeBatchID") : 0;
}

static int initiator(transfer_engine_t e, const char *segment)
{
	buffer_entry_t buffer;
	segment_id_t seg;

	if (registerLocalMemory(e, mine, LEN, "*", 0) || registerLocalMemory(e, back, LEN, "*", 0))
		return fail("registerLocalMemory");
	seg = openSegment(e, segment);
	if (seg < 0 || getSegmentBuffers(e, seg, &buffer, 1) < 1)
		return fail("openSegment");
	for (size_t i = 0; i < LEN; i++)
		mine[i] = pattern(i);
	if (move(e, OPCODE_WRITE, mine, seg, (uint64_t)(uintptr_t)buffer.addr) ||
	    move(e, OPCODE_READ, back, seg, (uint64_t)(uintptr_t)buffer.addr))
		return 1;
	if (!is_pattern(back) || closeSegment(e, seg))
		return fail("the comparison");
	puts("moved 1 MiB and back");
	return 0;
}

static int target(transfer_engine_t e, const char *conn, const char *name)
{
	char where[64];

	if (registerLocalMemory(e, mine, LEN, "*", 1) || getLocalIpAndPort(e, where, sizeof(where)))
		return fail("registerLocalMemory");
	printf("ready %s 0x%" PRIxPTR "\n", strcmp(conn, "P2PHANDSHAKE") ? name : where,
	       (uintptr_t)mine);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return is_pattern(mine) ? 0 : 1;
}

int main(int argc, char **argv)
{
	transfer_engine_t e;
	int rc;

	if (argc < 4) {
		fprintf(stderr, "Usage: peer target|initiator CONN NAME [SEGMENT]\n");
		return 2;
	}
	e = createTransferEngine(argv[2], argv[3], "", 0, 1);
	if (!e)
		return fail("createTransferEngine");
	rc = strcmp(argv[1], "target") ? initiator(e, argc > 4 ? argv[4] : "")
				       : target(e, argv[2], argv[3]);
	destroyTransferEngine(e);
	return rc;
}
