/* segments.c - segments and memory under the names of transfer_engine_c.h. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "compat/compat.h"

/* ---- segments ----------------------------------------------------------------------------- */

/* lock held. */
static struct compat_open *find_open(struct compat_engine *e, int32_t id)
{
	for (size_t i = 0; i < e->nopen; i++)
		if (e->open[i].id == id)
			return &e->open[i];
	return NULL;
}

static int note_open(struct compat_engine *e, int32_t id)
{
	struct compat_open *o, *grown;

	pthread_mutex_lock(&e->lock);
	o = find_open(e, id);
	if (!o) {
		grown = realloc(e->open, (e->nopen + 1) * sizeof(*grown));
		if (grown) {
			e->open = grown;
			o = &grown[e->nopen++];
			*o = (struct compat_open){ .id = id };
		}
	}
	if (o)
		o->count++;
	pthread_mutex_unlock(&e->lock);
	return o ? 0 : -ENOMEM;
}

static void note_closed(struct compat_engine *e, int32_t id)
{
	struct compat_open *o;

	pthread_mutex_lock(&e->lock);
	o = find_open(e, id);
	if (o && --o->count == 0)
		*o = e->open[--e->nopen];
	pthread_mutex_unlock(&e->lock);
}

static segment_id_t open_segment(transfer_engine_t h, const char *name, bool anew, const char *call)
{
	struct compat_engine *e = compat_get(h);
	struct te_err err;
	int32_t id;
	int r;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	id = te_segment_open(e->te, name, &err);
	r = id;
	if (id >= 0 && anew)
		r = te_segment_refresh(e->te, id, &err);
	if (id >= 0 && r >= 0 && note_open(e, id))
		r = te_fail(&err, -ENOMEM, "out of memory");
	if (id >= 0 && r < 0)
		te_segment_close(e->te, id);
	if (r >= 0)
		atomic_store(&e->used, true);
	compat_put(h);
	return r < 0 ? compat_fail(r, call, &err) : id;
}

segment_id_t openSegment(transfer_engine_t h, const char *name)
{
	return open_segment(h, name, false, "openSegment");
}

segment_id_t openSegmentNoCache(transfer_engine_t h, const char *name)
{
	return open_segment(h, name, true, "openSegmentNoCache");
}

int closeSegment(transfer_engine_t h, segment_id_t id)
{
	struct compat_engine *e = compat_get(h);
	int r;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	r = te_segment_close(e->te, id);
	if (!r)
		note_closed(e, id);
	compat_put(h);
	return compat_code(r);
}

int warmupEfaSegment(transfer_engine_t h, const char *name)
{
	(void)name;
	return compat_check(h);
}

int removeLocalSegment(transfer_engine_t h, const char *name)
{
	(void)name; /* what is cached is fetched again when it turns out to be stale */
	return compat_check(h);
}

int syncSegmentCache(transfer_engine_t h)
{
	struct compat_engine *e = compat_get(h);
	struct compat_open *open = NULL;
	size_t n;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	pthread_mutex_lock(&e->lock);
	n = e->nopen;
	if (n)
		open = malloc(n * sizeof(*open));
	if (open)
		memcpy(open, e->open, n * sizeof(*open));
	pthread_mutex_unlock(&e->lock);
	for (size_t i = 0; open && i < n; i++) {
		struct te_err err;

		if (te_segment_refresh(e->te, open[i].id, &err))
			te_info("syncSegmentCache: %s", err.msg);
	}
	compat_put(h);
	free(open);
	return n && !open ? TE_CODE_MEMORY : 0;
}

int getSegmentBuffers(transfer_engine_t h, segment_id_t id, buffer_entry_t *buffers, size_t max)
{
	struct compat_engine *e = compat_get(h);
	struct te_desc *d = NULL;
	struct te_err err;
	int r;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	r = max && !buffers ? te_fail(&err, -EINVAL, "nowhere to put %zu buffers", max)
			    : te_segment_desc(e->te, id, &d, &err);
	compat_put(h);
	if (r)
		return compat_fail(r, "getSegmentBuffers", &err);
	for (size_t i = 0; i < d->nbuffers && i < max; i++)
		buffers[i] = (buffer_entry_t){ (void *)(uintptr_t)d->buffers[i].addr,
					       d->buffers[i].length };
	r = (int)MIN(d->nbuffers, INT_MAX);
	te_desc_free(d);
	return r;
}

/* ---- memory ------------------------------------------------------------------------------- */

void compat_buffers_free(struct compat_buffer *list)
{
	while (list) {
		struct compat_buffer *next = list->next;

		free(list->location);
		free(list);
		list = next;
	}
}

/* A list of what is to be registered, before it is. */
static struct compat_buffer *plan(const struct buffer_entry *b, size_t n, const char *location,
				  bool remote)
{
	struct compat_buffer *list = NULL;

	for (size_t i = 0; i < n; i++) {
		struct compat_buffer *c = calloc(1, sizeof(*c));

		if (!c)
			goto no_memory;
		*c = (struct compat_buffer){ .next = list,
					     .addr = b[i].addr,
					     .len = b[i].length,
					     .location = te_strdup(location),
					     .remote = remote };
		list = c;
		if (location && !c->location)
			goto no_memory;
	}
	return list;
no_memory:
	compat_buffers_free(list);
	return NULL;
}

int compat_register(struct compat_engine *e, const struct compat_buffer *list, struct te_err *err)
{
	struct te_buffer *v;
	size_t n = 0;
	int r;

	for (const struct compat_buffer *b = list; b; b = b->next)
		n++;
	if (!n)
		return 0;
	v = calloc(n, sizeof(*v));
	if (!v)
		return te_fail(err, -ENOMEM, "out of memory");
	for (size_t i = n; list; list = list->next)
		v[--i] = (struct te_buffer){ list->addr, list->len, list->location, list->remote };
	r = te_register_batch(e->te, v, n, err);
	free(v);
	return r;
}

static int register_all(transfer_engine_t h, const struct buffer_entry *b, size_t n,
			const char *location, bool remote, const char *call)
{
	struct compat_engine *e = compat_get(h);
	struct compat_buffer *list, *last;
	struct te_err err;
	int r;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	list = n ? plan(b, n, location, remote) : NULL;
	r = n && !list ? te_fail(&err, -ENOMEM, "out of memory") : compat_register(e, list, &err);
	if (r) {
		compat_buffers_free(list);
	} else if (list) {
		for (last = list; last->next; last = last->next)
			;
		pthread_mutex_lock(&e->lock);
		last->next = e->buffers;
		e->buffers = list;
		pthread_mutex_unlock(&e->lock);
	}
	compat_put(h);
	return r ? compat_fail(r, call, &err) : 0;
}

int registerLocalMemory(transfer_engine_t h, void *addr, size_t length, const char *location,
			int remote_accessible)
{
	const struct buffer_entry b = { addr, length };

	return register_all(h, &b, 1, location, remote_accessible, "registerLocalMemory");
}

int registerLocalMemoryBatch(transfer_engine_t h, buffer_entry_t *buffers, size_t n,
			     const char *location)
{
	if (n && !buffers)
		return TE_CODE_INVALID_ARGUMENT;
	return register_all(h, buffers, n, location, true, "registerLocalMemoryBatch");
}

static void forget(struct compat_engine *e, const void *addr)
{
	struct compat_buffer **at, *found = NULL;

	pthread_mutex_lock(&e->lock);
	for (at = &e->buffers; *at && (*at)->addr != addr; at = &(*at)->next)
		;
	if (*at) {
		found = *at;
		*at = found->next;
		found->next = NULL;
	}
	pthread_mutex_unlock(&e->lock);
	compat_buffers_free(found);
}

static int unregister_all(transfer_engine_t h, void *const *addrs, size_t n, const char *call)
{
	struct compat_engine *e = compat_get(h);
	struct te_err err;
	int r;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	r = n ? te_unregister_batch(e->te, addrs, n, &err) : 0;
	for (size_t i = 0; !r && i < n; i++)
		forget(e, addrs[i]);
	compat_put(h);
	if (r)
		te_warn("%s: %s", call, err.msg);
	return compat_memory_code(r);
}

int unregisterLocalMemory(transfer_engine_t h, void *addr)
{
	return unregister_all(h, &addr, 1, "unregisterLocalMemory");
}

int unregisterLocalMemoryBatch(transfer_engine_t h, void **addrs, size_t n)
{
	if (n && !addrs)
		return TE_CODE_INVALID_ARGUMENT;
	return unregister_all(h, addrs, n, "unregisterLocalMemoryBatch");
}
