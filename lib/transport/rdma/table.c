/* table.c - a peer's descriptor, digested. */
#include "transport/rdma/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "segment/matrix.h"
#include "te_err.h"
#include "te_log.h"
#include "te_segment.h"

enum { PARTS_MAX = 1024 }; /* of one buffer, "segments:..." */

static int by_addr(const void *a, const void *b)
{
	const struct rdma_range *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static size_t row_of(const struct te_matrix *m, const char *location)
{
	const struct te_matrix_row *row = m ? te_matrix_row(m, location) : NULL;

	return row ? (size_t)(row - m->rows) : m ? m->nrows : 0;
}

/* "segments:PAGE:0,1": equal parts on several nodes. */
static size_t parts_of(const struct te_desc_buffer *b)
{
	size_t n = 1;

	if (!b->name || strncmp(b->name, "segments:", 9) != 0)
		return 1;
	for (const char *c = b->name; *c; c++)
		n += *c == ',';
	return MIN(MIN(n, (size_t)PARTS_MAX), b->length);
}

static bool has_keys(const struct te_desc *d, const struct te_desc_buffer *b)
{
	return b->length && b->nkeys == d->ndevices && b->rkey;
}

static void add_buffer(struct rdma_table *t, const struct te_desc_buffer *b, uint32_t *keys)
{
	size_t parts = parts_of(b);
	uint64_t each = b->length / parts;
	char buf[64];

	memcpy(keys, b->rkey, t->ndevices * sizeof(*keys));
	for (size_t i = 0; i < parts; i++) {
		uint64_t at = i * each;

		t->ranges[t->nranges++] = (struct rdma_range){
			.addr = b->addr + at,
			.len = i + 1 < parts ? each : b->length - at,
			.rkey = keys,
			.row = row_of(t->matrix, te_matrix_location(b->name ? b->name : "*", at,
								    b->length, buf, sizeof(buf))),
		};
	}
}

/* Buffers without keys do not count: what a peer makes us allocate is bounded by what it sends. */
static bool make_room(struct rdma_table *t, const struct te_desc *d)
{
	size_t ranges = 1, buffers = 1;

	for (size_t i = 0; i < d->nbuffers; i++)
		if (has_keys(d, &d->buffers[i])) {
			ranges += parts_of(&d->buffers[i]);
			buffers++;
		}
	t->ranges = calloc(ranges, sizeof(t->ranges[0]));
	t->rkeys = calloc(buffers * (d->ndevices + 1), sizeof(t->rkeys[0]));
	return t->ranges && t->rkeys;
}

static bool copy_devices(struct rdma_table *t, const struct te_desc *d)
{
	t->devices = calloc(d->ndevices + 1, sizeof(t->devices[0]));
	if (!t->devices)
		return false;
	t->ndevices = d->ndevices;
	for (size_t i = 0; i < d->ndevices; i++) {
		te_strlcpy(t->devices[i].name, d->devices[i].name, sizeof(t->devices[i].name));
		te_strlcpy(t->devices[i].gid, d->devices[i].gid, sizeof(t->devices[i].gid));
		t->devices[i].lid = d->devices[i].lid;
	}
	return true;
}

struct rdma_table *rdma_table_new(const struct te_desc *d)
{
	struct rdma_table *t = calloc(1, sizeof(*t));
	struct te_err err;
	size_t n = 0;

	if (!t)
		return NULL;
	if (d->priority_matrix &&
	    te_matrix_parse(d->priority_matrix, strlen(d->priority_matrix), &t->matrix, &err) < 0)
		te_warn("segment '%s': its priority matrix is of no use: %s", d->name, err.msg);
	if (!make_room(t, d) || !copy_devices(t, d)) {
		rdma_table_free(t);
		return NULL;
	}
	for (size_t i = 0; i < d->nbuffers; i++)
		if (has_keys(d, &d->buffers[i]))
			add_buffer(t, &d->buffers[i], t->rkeys + n++ * d->ndevices);
	qsort(t->ranges, t->nranges, sizeof(t->ranges[0]), by_addr);
	return t;
}

void rdma_table_free(struct rdma_table *t)
{
	if (!t)
		return;
	te_matrix_free(t->matrix);
	free(t->devices);
	free(t->ranges);
	free(t->rkeys);
	free(t);
}

const struct rdma_range *rdma_range(const struct rdma_table *t, uint64_t addr)
{
	size_t lo = 0, hi = t->nranges;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->ranges[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && addr - t->ranges[lo - 1].addr < t->ranges[lo - 1].len ? &t->ranges[lo - 1]
									   : NULL;
}
