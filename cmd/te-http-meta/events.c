/* events.c - what changed lately, by revision: a bounded log that watchers read. */
#include "events.h"

bool events_init(struct events *e, uint64_t base, size_t max_events, size_t max_bytes)
{
	*e = (struct events){ .size = max_events, .max_bytes = max_bytes, .base = base };
	e->ring = calloc(max_events, sizeof(*e->ring));
	return e->ring;
}

static void drop_first(struct events *e)
{
	struct event *old = &e->ring[e->first];

	e->base = old->rev;
	e->bytes -= old->value ? old->value->len : 0;
	free(old->key);
	value_put(old->value);
	e->first = (e->first + 1) % e->size;
	e->count--;
}

void events_clear(struct events *e)
{
	while (e->count)
		drop_first(e);
	free(e->ring);
	e->ring = NULL;
}

void events_add(struct events *e, uint64_t rev, const char *key, struct value *value)
{
	char *copy = strdup(key);

	if (!copy) {
		while (e->count)
			drop_first(e);
		e->base = rev;
		return;
	}
	if (e->count == e->size)
		drop_first(e);
	e->ring[(e->first + e->count++) % e->size] = (struct event){
		.rev = rev,
		.key = copy,
		.value = value ? value_ref(value) : NULL,
	};
	e->bytes += value ? value->len : 0;
	while (e->bytes > e->max_bytes && e->count > 1)
		drop_first(e);
}

const struct event *events_at(const struct events *e, size_t i)
{
	return &e->ring[(e->first + i) % e->size];
}

long events_since(const struct events *e, uint64_t since)
{
	size_t low = 0, high = e->count, middle;

	if (since < e->base)
		return -1;
	while (low < high) {
		middle = low + (high - low) / 2;
		if (events_at(e, middle)->rev > since)
			high = middle;
		else
			low = middle + 1;
	}
	return (long)low;
}
