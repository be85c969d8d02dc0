/* slots.h - the places of a segment that blocks are read from and written to. */
#ifndef BENCH_SLOTS_H
#define BENCH_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "te_segment.h"

/* Reads and writes that must not meet each have a half of every buffer. */
enum slots_part { SLOTS_WHOLE, SLOTS_LOWER, SLOTS_UPPER };

struct slots {			/* every buffer cut into blocks, in order; what is left over is not used */
	uint64_t block, count;
	struct slot_run {	/* one buffer */
		uint64_t first;	/* number of its first slot */
		uint64_t addr;	/* of that slot */
		uint64_t offset;	/* of that slot in the buffer */
		uint32_t buffer;	/* index in the segment */
	} *runs;
	size_t nruns;
};

struct place {
	uint64_t addr, offset;
	uint32_t buffer;
};

/* -ENOMEM, or 0, also when no block fits (count 0). */
int slots_init(struct slots *s, const struct te_desc *d, uint64_t block, enum slots_part part);
void slots_clear(struct slots *s);
struct place slots_at(const struct slots *s, uint64_t i);

struct walk {			/* goes round in a range of slots */
	const struct slots *slots;
	uint64_t first, span, at;
};

/* The share of walker i of n: a range of its own, or (with fewer slots than walkers) one slot shared. */
struct walk walk_share(const struct slots *s, uint64_t i, uint64_t n);
struct place walk_next(struct walk *w);

#endif
