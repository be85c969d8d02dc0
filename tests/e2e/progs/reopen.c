/*
 * reopen.c - a peer that is restarted on another port is found again by an initiator that never
 * stopped.
 *
 * reopen STORE SEGMENT [TRANSPORT]: transfers, prints "restart it", waits for a line on stdin,
 * transfers again with the segment as it is open.
 */
#include "prog.h"

enum { LENGTH = 64 << 10, SECONDS = 5 };

static struct te_engine *e;
static int32_t seg;
static unsigned char *buf;

static bool write_and_read_back(int byte, struct te_err *why)
{
	struct te_request r = { .op = TE_WRITE, .source = buf, .target = seg, .length = LENGTH };
	int rc;

	r.offset = segment_base(e, seg);
	memset(buf, byte, LENGTH);
	if (one(e, &r, &rc, why).state != TE_COMPLETED)
		return false;
	memset(buf, 0, LENGTH);
	r.op = TE_READ;
	return one(e, &r, &rc, why).state == TE_COMPLETED && all_is(buf, byte, LENGTH);
}

int main(int argc, char **argv)
{
	struct te_engine_options opt = { .initiator_only = true };
	struct te_err why = { 0 };
	uint64_t until;
	bool well = false;
	int tries = 0;
	char line[16];

	if (argc < 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	opt.metadata_server = argv[1];
	opt.transport = argc > 3 ? argv[3] : NULL;
	if (te_engine_open(&e, &opt, &why))
		die("te_engine_open", &why);
	buf = buffer_new(e, LENGTH, false);
	seg = segment_open(e, argv[2]);
	ok(write_and_read_back(1, &why), "before: %s", why.msg);
	printf("# restart it\n");
	if (!fgets(line, sizeof(line), stdin))
		die("stdin", NULL);
	/* The first try may go to the dead one: it fails, and that refreshes what is known. */
	for (until = now_ns() + SECONDS * 1000000000ull; !well && now_ns() < until; tries++)
		well = write_and_read_back(2, &why);
	ok(well, "after the restart, at try %d: %s", tries, why.msg);
	ok(tries <= 3, "at the third try at the latest");
	te_engine_close(e);
	return tap_end();
}
