/* test_pattern.c - te-bench's verification pattern: same bytes however cut, and what a wrong byte
 * is called. */
#include "pattern.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

enum { LEN = 4096 };

static const struct pattern now = { .seed = 7, .buffer = 3, .epoch = 5 };

static void fill(uint8_t *to, uint64_t offset, size_t len, uint32_t epoch)
{
	struct pattern p = now;

	p.epoch = epoch;
	pattern_fill(&p, offset, to, len);
}

static void test_cuts(void)
{
	uint8_t whole[LEN], part[LEN];
	struct pattern_mismatch m;
	size_t at, len, same = 0, good = 0, n = 0;

	pattern_fill(&now, 0, whole, LEN);
	for (at = 0; at < 40; at++) {
		for (len = 0; len < 40; len++, n++) {
			memset(part, 0xee, sizeof(part));
			pattern_fill(&now, at, part, len);
			same += memcmp(part, whole + at, len) == 0 && part[len] == 0xee;
			good += pattern_check(&now, at, whole + at, len, &m) == 0;
		}
	}
	ok(same == n,
	   "a range has the same bytes however it is cut, and nothing behind it is written");
	ok(good == n, "any range of the pattern checks as right");
}

static void test_keys(void)
{
	struct pattern other = now;
	uint8_t a[64], b[64];

	pattern_fill(&now, 0, a, sizeof(a));
	other.seed++;
	pattern_fill(&other, 0, b, sizeof(b));
	ok(memcmp(a, b, sizeof(a)) != 0, "another seed gives other bytes");
	other = now;
	other.buffer++;
	pattern_fill(&other, 0, b, sizeof(b));
	ok(memcmp(a, b, sizeof(a)) != 0, "another buffer gives other bytes");
	other = now;
	other.epoch++;
	pattern_fill(&other, 0, b, sizeof(b));
	ok(memcmp(a, b, sizeof(a)) != 0, "another epoch gives other bytes");
	ok(memcmp(a, a + 8, 8) != 0, "the next word is another");
}

static enum pattern_kind kind(const uint8_t *at, uint64_t offset, size_t len,
			      struct pattern_mismatch *m)
{
	return pattern_check(&now, offset, at, len, m) ? m->kind : PATTERN_OK;
}

static void test_kinds(void)
{
	uint8_t b[LEN];
	struct pattern_mismatch m = { 0 };
	struct pattern other = now;
	uint64_t off;
	size_t bad[6] = { 0 }, n = 0;

	for (off = 0; off < 16; off++, n++) {
		fill(b, off, LEN, 4);
		bad[0] += kind(b, off, LEN, &m) != PATTERN_STALE;
		fill(b, off, LEN, 5);
		fill(b + 1001, off + 1001, 500, 4);
		bad[1] += kind(b, off, LEN, &m) != PATTERN_TORN || m.offset < off + 1001 ||
			  m.offset > off + 1003 || m.count > 500 || m.count < 450;
		fill(b, off + 2 * LEN, LEN, 5);
		bad[2] += kind(b, off, LEN, &m) != PATTERN_SWAPPED;
		fill(b, off + 13, LEN, 5);
		bad[3] += kind(b, off, LEN, &m) != PATTERN_SHIFTED;
		other.seed = 8;
		pattern_fill(&other, off, b, LEN);
		bad[4] += kind(b, off, LEN, &m) != PATTERN_FOREIGN;
		other = now;
		other.buffer = 4;
		pattern_fill(&other, off, b, LEN);
		bad[5] += kind(b, off, LEN, &m) != PATTERN_SWAPPED;
	}
	ok(!bad[0], "an older round is stale");
	ok(!bad[1], "part of an older round is torn, and says where and how much");
	ok(!bad[2], "bytes of another request are swapped");
	ok(!bad[3], "bytes of the same request elsewhere are shifted");
	ok(!bad[4], "another seed is foreign");
	ok(!bad[5], "bytes of another buffer are swapped");
}

static void test_small(void)
{
	struct pattern_mismatch m = { 0 };
	uint8_t b[8];
	unsigned seen = 0, i;

	for (i = 0; i < 1000; i++) {
		fill(b, i, 1, 4);
		seen += pattern_check(&now, i, b, 1, &m);
	}
	ok(seen > 980, "single stale bytes are seen but for chance (%u of 1000)", seen);
	fill(b, 16, 3, 4);
	ok(kind(b, 16, 3, &m) == PATTERN_STALE && m.count == 3, "three stale bytes are stale");
	fill(b, 16, 3, 5);
	b[2] ^= 1;
	ok(kind(b, 16, 3, &m) == PATTERN_TORN && m.offset == 18 && m.found == b[2] &&
		   m.expected == (b[2] ^ 1),
	   "one wrong byte of three: torn, with place and values");
	ok(strcmp(pattern_kind_name(PATTERN_TORN), "torn") == 0 &&
		   strcmp(pattern_kind_name(PATTERN_SHIFTED), "shifted") == 0,
	   "kinds have names");
}

int main(void)
{
	test_cuts();
	test_keys();
	test_kinds();
	test_small();
	return tap_end();
}
