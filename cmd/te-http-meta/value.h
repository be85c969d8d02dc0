/*
 * value.h - the bytes of a value, shared by the store, its event log, replies on their way and the
 * disk's writer. Counted references without atomics: only the server's thread takes and drops them,
 * others just read the bytes.
 */
#ifndef TE_HTTP_META_VALUE_H
#define TE_HTTP_META_VALUE_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct value {
	unsigned refs;
	size_t len;
	char data[];
};

/* One reference; NULL when memory is out. */
static inline struct value *value_new(const void *data, size_t len)
{
	struct value *v = malloc(sizeof(*v) + len);

	if (!v)
		return NULL;
	v->refs = 1;
	v->len = len;
	memcpy(v->data, data, len);
	return v;
}

static inline struct value *value_ref(struct value *v)
{
	v->refs++;
	return v;
}

/* NULL is fine. */
static inline void value_put(struct value *v)
{
	if (v && !--v->refs)
		free(v);
}

#endif
