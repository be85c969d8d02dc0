/* slots.c - the places of a segment that blocks are read from and written to. */
#include "slots.h"

#include <errno.h>
#include <stdlib.h>

int slots_init(struct slots *s, const struct te_desc *d, uint64_t block, enum slots_part part)
{
	uint64_t half, begin, len, n;
	size_t i;

	*s = (struct slots){ .block = block };
	s->runs = calloc(d->nbuffers ? d->nbuffers : 1, sizeof(*s->runs));
	if (!s->runs)
		return -ENOMEM;
	for (i = 0; i < d->nbuffers; i++) {
		half = d->buffers[i].length / 2;
		begin = part == SLOTS_UPPER ? half : 0;
		len = part == SLOTS_WHOLE ? d->buffers[i].length : half;
		n = len / block;
		if (!n)
			continue;
		s->runs[s->nruns++] = (struct slot_run){
			.first = s->count,
			.addr = d->buffers[i].addr + begin,
			.offset = begin,
			.buffer = (uint32_t)i,
		};
		s->count += n;
	}
	return 0;
}

void slots_clear(struct slots *s)
{
	free(s->runs);
	*s = (struct slots){ 0 };
}

struct place slots_at(const struct slots *s, uint64_t i)
{
	size_t low = 0, high = s->nruns, mid;
	const struct slot_run *r;
	uint64_t by;

	while (high - low > 1) {
		mid = low + (high - low) / 2;
		if (s->runs[mid].first <= i)
			low = mid;
		else
			high = mid;
	}
	r = &s->runs[low];
	by = (i - r->first) * s->block;
	return (struct place){ .addr = r->addr + by,
			       .offset = r->offset + by,
			       .buffer = r->buffer };
}

struct walk walk_share(const struct slots *s, uint64_t i, uint64_t n)
{
	uint64_t share = s->count / n;

	if (!share)
		return (struct walk){ .slots = s, .first = i % s->count, .span = 1 };
	return (struct walk){ .slots = s, .first = i * share, .span = share };
}

struct place walk_next(struct walk *w)
{
	struct place p = slots_at(w->slots, w->first + w->at);

	if (++w->at == w->span)
		w->at = 0;
	return p;
}
