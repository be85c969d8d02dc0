/*
 * pattern.h - the position-keyed verification pattern of te-bench and te-target.
 *
 * Every 8-byte word is a mix of (seed, offset of the word in its buffer, buffer index, epoch): a word that lies
 * elsewhere, comes from an older round or is half written is told apart. pattern_fill() writes any byte range,
 * not only whole words, and gives the same bytes for a range however it is cut.
 */
#ifndef TE_PATTERN_H
#define TE_PATTERN_H

#include <stddef.h>
#include <stdint.h>

struct pattern {
	uint64_t seed;
	uint32_t buffer;		/* index of the buffer in its segment */
	uint32_t epoch;			/* 0: what a target is filled with; te-bench's writes count from 1 */
};

enum pattern_kind { PATTERN_OK, PATTERN_TORN, PATTERN_STALE, PATTERN_SWAPPED, PATTERN_SHIFTED, PATTERN_FOREIGN };

struct pattern_mismatch {
	uint64_t offset;		/* in the buffer, of the first wrong byte */
	uint64_t count;			/* wrong bytes in the range */
	uint8_t expected, found;
	enum pattern_kind kind;
};

void pattern_fill(const struct pattern *p, uint64_t offset, void *to, size_t len);
/* 0 when all of [at, at+len) is the pattern at `offset`, else 1 with *out filled. */
int pattern_check(const struct pattern *p, uint64_t offset, const void *at, size_t len,
		  struct pattern_mismatch *out);
const char *pattern_kind_name(enum pattern_kind kind);

#endif
