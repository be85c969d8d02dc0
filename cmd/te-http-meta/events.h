/* events.h - what changed lately, by revision: a bounded log that watchers read. */
#ifndef TE_HTTP_META_EVENTS_H
#define TE_HTTP_META_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "value.h"

enum { EVENTS_MAX = 65536, EVENTS_BYTES = 64 << 20 };

struct event {
	uint64_t rev; /* ascending */
	char *key;
	struct value *value; /* NULL: deleted */
};

struct events {
	struct event *ring; /* size of them */
	size_t size, first, count;
	size_t bytes, max_bytes; /* of the values; the newest event stays whatever its size */
	uint64_t base; /* changes up to this revision are no longer (or were never) in the log */
};

/* False when memory is out. max_events and max_bytes: EVENTS_* but for tests. */
bool events_init(struct events *e, uint64_t base, size_t max_events, size_t max_bytes);
void events_clear(struct events *e);
/* Takes a reference to value (NULL: deleted). When memory is out, the log starts anew after rev. */
void events_add(struct events *e, uint64_t rev, const char *key, struct value *value);
/* Number of the first event after revision `since`, events_at(count) is beyond the last; -1: not
 * known any more. */
long events_since(const struct events *e, uint64_t since);
const struct event *events_at(const struct events *e, size_t i);

#endif
