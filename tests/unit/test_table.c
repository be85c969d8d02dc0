/* test_table.c - a peer's descriptor, digested: odd and hostile ones, and lookups at the edges. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "segment/matrix.h"
#include "tap.h"
#include "te_log.h"
#include "te_segment.h"
#include "transport/rdma/table.h"

#define MATRIX "{\"cpu:0\":[[\"b0\"],[\"b1\"]],\"cpu:1\":[[\"b1\"],[\"b0\"]]}"

enum { CPU0, CPU1, NO_ROW }; /* rows of MATRIX */

static uint32_t keys[4096] = { 11, 12 };

static struct te_desc_device two[] = {
	{ .name = (char *)"b0", .gid = (char *)"00:01", .lid = 7 },
	{ .name = (char *)"b1", .gid = (char *)"00:02" },
};

static struct te_desc_buffer buffer(const char *name, uint64_t addr, uint64_t length)
{
	return (struct te_desc_buffer){
		.name = (char *)name, .addr = addr, .length = length, .rkey = keys, .nkeys = 2
	};
}

static struct rdma_table *table(struct te_desc_buffer *buffers, size_t n, const char *matrix)
{
	const struct te_desc d = { .name = (char *)"there",
				   .devices = two,
				   .ndevices = 2,
				   .buffers = buffers,
				   .nbuffers = n,
				   .priority_matrix = (char *)matrix };
	struct rdma_table *t = rdma_table_new(&d);

	if (!t) {
		printf("Bail out! no table\n");
		exit(1);
	}
	return t;
}

static bool holds(const struct rdma_range *r, uint64_t addr)
{
	return addr - r->addr < r->len;
}

static void plain(void)
{
	struct te_desc_buffer b[] = { buffer("cpu:1", 0x9000, 0x1000),
				      buffer("cpu:0", 0x1000, 0x1000),
				      buffer("cpu:0", 0x2000, 0x800) };
	struct rdma_table *t = table(b, 3, MATRIX);

	ok(t->nranges == 3 && t->ranges[0].addr == 0x1000 && t->ranges[2].addr == 0x9000,
	   "buffers by address");
	ok(t->ndevices == 2 && !strcmp(t->devices[1].name, "b1") && t->devices[0].lid == 7,
	   "devices in their order");
	ok(rdma_range(t, 0x1800)->rkey[1] == 12 && t->ranges[1].row == CPU0 &&
		   t->ranges[2].row == CPU1,
	   "keys and rows");
	ok(!rdma_range(t, 0xfff) && rdma_range(t, 0x1000) == &t->ranges[0], "the first byte");
	ok(rdma_range(t, 0x1fff) == &t->ranges[0] && rdma_range(t, 0x2000) == &t->ranges[1],
	   "two that touch");
	ok(rdma_range(t, 0x27ff) == &t->ranges[1] && !rdma_range(t, 0x2800), "the last byte");
	ok(!rdma_range(t, 0x5000) && !rdma_range(t, 0) && !rdma_range(t, UINT64_MAX),
	   "between, before and behind all");
	rdma_table_free(t);
}

static void left_out(void)
{
	struct te_desc_buffer b[] = {
		buffer("cpu:0", 0x1000, 0x1000), buffer("cpu:0", 0x2000, 0x1000),
		buffer("cpu:0", 0x3000, 0x1000), buffer("cpu:0", 0x4000, 0),
		buffer("cpu:0", 0x5000, 0x1000),
	};
	struct rdma_table *t;

	b[0].nkeys = 1;
	b[1].nkeys = 3;
	b[2].rkey = NULL;
	b[2].nkeys = 0;
	t = table(b, 5, MATRIX);
	ok(t->nranges == 1 && t->ranges[0].addr == 0x5000,
	   "a key for each device and a byte: else a buffer does not count");
	ok(!rdma_range(t, 0x1000) && !rdma_range(t, 0x3000) && !rdma_range(t, 0x4000),
	   "and is not found");
	rdma_table_free(t);
	t = table(NULL, 0, NULL);
	ok(t->nranges == 0 && !rdma_range(t, 0) && !rdma_range(t, UINT64_MAX), "no buffer at all");
	rdma_table_free(t);
}

static void no_devices(void)
{
	struct te_desc_buffer b = { .name = (char *)"cpu:0", .addr = 0x1000, .length = 0x1000 };
	const struct te_desc d = { .name = (char *)"there", .buffers = &b, .nbuffers = 1 };
	struct rdma_table *t = rdma_table_new(&d);

	ok(t && !t->ndevices && !rdma_range(t, 0x1000), "no device and no key: nothing to reach");
	rdma_table_free(t);
}

static void matrices(void)
{
	static const struct {
		const char *matrix, *location;
		size_t row;
		bool is;
	} cases[] = {
		{ MATRIX, "cpu:0", CPU0, true },
		{ MATRIX, "cpu:1", CPU1, true },
		{ MATRIX, "cpu:2", NO_ROW, true },
		{ MATRIX, "*", NO_ROW, true },
		{ MATRIX, "", NO_ROW, true },
		{ MATRIX, NULL, NO_ROW, true },
		{ NULL, "cpu:0", 0, false },
		{ "{}", "cpu:0", 0, true },
		{ "", "cpu:0", 0, false },
		{ "[]", "cpu:0", 0, false },
		{ "{\"cpu:0\":", "cpu:0", 0, false },
		{ "{\"cpu:0\":[[1],[]]}", "cpu:0", 0, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct te_desc_buffer b = buffer(cases[i].location, 0x1000, 0x1000);
		struct rdma_table *t = table(&b, 1, cases[i].matrix);

		ok(t->nranges == 1 && t->ranges[0].row == cases[i].row &&
			   (t->matrix != NULL) == cases[i].is,
		   "matrix '%s', memory at '%s'", cases[i].matrix ? cases[i].matrix : "(none)",
		   cases[i].location ? cases[i].location : "(no name)");
		rdma_table_free(t);
	}
}

/* Every byte of the buffer is in exactly one range, in order, each with the buffer's keys. */
static bool whole(const struct rdma_table *t, uint64_t addr, uint64_t length)
{
	for (size_t i = 0; i < t->nranges; i++) {
		if (t->ranges[i].addr != addr || !t->ranges[i].len || t->ranges[i].rkey[1] != 12)
			return false;
		addr += t->ranges[i].len;
		length -= t->ranges[i].len;
	}
	return t->nranges && !length;
}

static void segments(void)
{
	static char long_list[2 * 5000] = "segments:4096:";
	static const struct {
		const char *name;
		uint64_t length;
		size_t ranges, first, last; /* rows */
	} cases[] = {
		{ "segments:4096:0,1", 8192, 2, CPU0, CPU1 },
		{ "segments:4096:1,0", 8192, 2, CPU1, CPU0 },
		{ "segments:4096:0,1,0", 100, 3, CPU0, CPU0 },
		{ "segments:4096:0,1,7", 99, 3, CPU0, NO_ROW },
		{ "segments:4096:0", 4096, 1, CPU0, CPU0 },
		{ "segments:4096:0,1,0", 2, 2, CPU0, CPU1 },
		{ "segments:4096:0,1", 1, 1, CPU0, CPU0 },
		{ "segments:4096:", 4096, 1, NO_ROW, NO_ROW },
		{ "segments:4096", 4096, 1, NO_ROW, NO_ROW },
		{ "segments:", 4096, 1, NO_ROW, NO_ROW },
		{ "segments:4096:,", 4096, 2, NO_ROW, NO_ROW },
		{ "segments:,,,:0", 4096, 4, CPU0, CPU0 },
		{ "segments:x:0,1", 4096, 2, CPU0, CPU1 },
		{ "segment:4096:0,1", 4096, 1, NO_ROW, NO_ROW },
		{ long_list, 1 << 20, 1024, CPU0, CPU0 },
	};

	for (size_t i = strlen(long_list); i + 2 < sizeof(long_list); i += 2)
		memcpy(long_list + i, "0,", 2);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct te_desc_buffer b = buffer(cases[i].name, 0x1000, cases[i].length);
		struct rdma_table *t = table(&b, 1, MATRIX);

		ok(t->nranges == cases[i].ranges && t->ranges[0].row == cases[i].first &&
			   t->ranges[t->nranges - 1].row == cases[i].last &&
			   whole(t, 0x1000, cases[i].length),
		   "'%.20s', %llu bytes: %zu ranges, rows %zu to %zu", cases[i].name,
		   (unsigned long long)cases[i].length, t->nranges, t->ranges[0].row,
		   t->ranges[t->nranges - 1].row);
		rdma_table_free(t);
	}
}

static void wrapping(void)
{
	struct te_desc_buffer b[] = { buffer("cpu:0", UINT64_MAX - 0xfff, 0x1000),
				      buffer("segments:4096:0,1", UINT64_MAX - 0x1fff, 0x4000),
				      buffer("*", 0x1000, UINT64_MAX) };
	struct rdma_table *t = table(b, 1, MATRIX);
	unsigned bad = 0;

	ok(rdma_range(t, UINT64_MAX) == &t->ranges[0] && !rdma_range(t, 0) &&
		   !rdma_range(t, UINT64_MAX - 0x1000),
	   "the last bytes of all");
	rdma_table_free(t);
	t = table(&b[1], 2, MATRIX);
	for (uint64_t addr = 0; addr < 0x4000; addr += 0x800) {
		const struct rdma_range *low = rdma_range(t, addr), *high = rdma_range(t, ~addr);

		bad += (low && !holds(low, addr)) || (high && !holds(high, ~addr));
	}
	ok(!bad, "beyond the end of addresses: no range that does not hold the byte");
	rdma_table_free(t);
}

/* Random buffers, which overlap or (apart) do not: what is found holds the byte; without overlaps
   it is found wherever there is one. */
static void random_ones(bool apart)
{
	enum { N = 200, SPAN = 64 };
	struct te_desc_buffer b[N];
	unsigned seed = 1 + apart, wrong = 0, missed = 0, found = 0;
	struct rdma_table *t;

	for (size_t i = 0; i < N; i++) {
		uint64_t at = apart ? i * SPAN : (uint64_t)(rand_r(&seed) % (N * SPAN));

		b[i] = buffer("cpu:0", 0x1000 + at, (uint64_t)(rand_r(&seed) % (SPAN + 1)));
	}
	t = table(b, N, MATRIX);
	for (uint64_t addr = 0xff0; addr < 0x1010 + N * SPAN; addr++) {
		const struct rdma_range *r = rdma_range(t, addr);
		bool in_one = false;

		for (size_t i = 0; i < N; i++)
			in_one |= addr - b[i].addr < b[i].length;
		wrong += r && !holds(r, addr);
		missed += in_one && !r;
		found += r != NULL;
	}
	ok(!wrong && found > 1000 && !(apart && missed),
	   "%s: %u bytes found, %u wrong, %u not found", apart ? "apart" : "overlapping", found,
	   wrong, missed);
	rdma_table_free(t);
}

static void many(void)
{
	enum { N = 20000 };
	struct te_desc_buffer *b = calloc(N, sizeof(*b));
	struct rdma_table *t;
	unsigned found = 0;

	for (size_t i = 0; b && i < N; i++)
		b[i] = buffer("cpu:0", (N - i) * 0x1000, 0x800);
	t = table(b, N, MATRIX);
	for (uint64_t i = 1; i <= N; i++) {
		const struct rdma_range *r = rdma_range(t, i * 0x1000 + 0x7ff);

		found += r && r->addr == i * 0x1000 && r->rkey[0] == 11 &&
			 !rdma_range(t, i * 0x1000 + 0x800);
	}
	ok(found == N, "20000 buffers, the last one first");
	rdma_table_free(t);
	free(b);
}

/* Some MB of descriptor that would take many GB if all of it were believed. */
static void greedy(void)
{
	enum { BUFFERS = 4000, DEVICES = ARRAY_SIZE(keys) };
	static struct te_desc_device devices[DEVICES];
	static struct te_desc_buffer b[BUFFERS];
	static char name[1100] = "segments:4096:0";
	struct te_desc d = { .name = (char *)"there",
			     .devices = devices,
			     .ndevices = DEVICES,
			     .buffers = b,
			     .nbuffers = BUFFERS };
	struct rdma_table *t;

	memset(name + 15, ',', sizeof(name) - 16);
	for (size_t i = 0; i < DEVICES; i++)
		devices[i] = two[0];
	for (size_t i = 0; i < BUFFERS; i++) {
		b[i] = buffer(name, (i + 1) * 0x10000, 0x10000);
		b[i].nkeys = 0;
		b[i].rkey = NULL;
	}
	b[9].nkeys = DEVICES;
	b[9].rkey = keys;
	t = rdma_table_new(&d);
	ok(t && t->nranges == 1024 && rdma_range(t, 0xa0000)->rkey[1] == 12 &&
		   rdma_range(t, 0xaffff)->rkey == t->ranges[0].rkey && !rdma_range(t, 0x90000),
	   "4096 devices, and 3999 buffers of 1024 parts that have no key");
	rdma_table_free(t);
}

int main(void)
{
	te_log_set_level(TE_LOG_ERROR);
	plain();
	left_out();
	no_devices();
	matrices();
	segments();
	wrapping();
	random_ones(true);
	random_ones(false);
	many();
	greedy();
	rdma_table_free(NULL);
	return tap_end();
}
