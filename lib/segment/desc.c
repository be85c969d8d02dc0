/* desc.c - segment descriptors as structs: made, freed, searched. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "segment/ranges.h"
#include "te_segment.h"

struct te_desc *te_desc_new(void)
{
	struct te_desc *d = calloc(1, sizeof(*d));

	if (d) {
		d->tcp_proto_version = 1;
		d->te.ctl_fd = -1;
	}
	return d;
}

static void forget_ranges(struct te_desc *d)
{
	free(d->ranges);
	d->ranges = NULL;
	d->nranges = 0;
}

static void clear_buffer(struct te_desc_buffer *b)
{
	for (size_t i = 0; i < b->nmap; i++) {
		free(b->map[i].host);
		free(b->map[i].path);
	}
	free(b->map);
	free(b->name);
	free(b->rkey);
	free(b->lkey);
	free(b->location);
	free(b->file_path);
}

void te_desc_clear_buffers(struct te_desc *d)
{
	for (size_t i = 0; i < d->nbuffers; i++)
		clear_buffer(&d->buffers[i]);
	free(d->buffers);
	d->buffers = NULL;
	d->nbuffers = 0;
	forget_ranges(d);
}

void te_desc_free(struct te_desc *d)
{
	if (!d)
		return;
	te_desc_clear_buffers(d);
	for (size_t i = 0; i < d->ndevices; i++) {
		free(d->devices[i].name);
		free(d->devices[i].gid);
	}
	free(d->devices);
	free(d->name);
	free(d->server_name);
	free(d->protocol);
	free(d->timestamp);
	free(d->rdma_server_name);
	free(d->priority_matrix);
	free(d);
}

struct te_desc_buffer *te_desc_add_buffer(struct te_desc *d)
{
	size_t n = d->nbuffers;

	/* Room doubles at each power of two. */
	if (!(n & (n - 1))) {
		struct te_desc_buffer *b =
			reallocarray(d->buffers, n ? 2 * n : 1, sizeof(*d->buffers));

		if (!b)
			return NULL;
		d->buffers = b;
	}
	forget_ranges(d);
	memset(&d->buffers[n], 0, sizeof(d->buffers[n]));
	d->nbuffers++;
	return &d->buffers[n];
}

/* ---- which addresses are there ---- */

/* Joined buffers: [first, last]. */
struct te_desc_range {
	uint64_t first, last;
};

static int by_first(const void *a, const void *b)
{
	uint64_t x = ((const struct te_desc_range *)a)->first;
	uint64_t y = ((const struct te_desc_range *)b)->first;

	return (x > y) - (x < y);
}

static bool touches(const struct te_desc_range *a, uint64_t first)
{
	return first <= a->last || first - a->last == 1;
}

int te_desc_build_ranges(struct te_desc *d)
{
	struct te_desc_range *r;
	size_t n = 0, out = 0;

	forget_ranges(d);
	r = calloc(d->nbuffers + 1, sizeof(*r));
	if (!r)
		return -1;
	for (size_t i = 0; i < d->nbuffers; i++)
		if (d->buffers[i].length)
			r[n++] = (struct te_desc_range){ .first = d->buffers[i].addr,
							 .last = d->buffers[i].addr +
								 (d->buffers[i].length - 1) };
	qsort(r, n, sizeof(*r), by_first);
	for (size_t i = 1; i < n; i++) {
		if (touches(&r[out], r[i].first))
			r[out].last = MAX(r[out].last, r[i].last);
		else
			r[++out] = r[i];
	}
	d->ranges = r;
	d->nranges = n ? out + 1 : 0;
	return 0;
}

static bool covered_by_ranges(const struct te_desc *d, uint64_t first, uint64_t last)
{
	size_t lo = 0, hi = d->nranges;

	/* The last range that begins at or before `first`. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (d->ranges[mid].first <= first)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && last <= d->ranges[lo - 1].last;
}

/* Buffer by buffer, for a descriptor that is being put together. */
static bool covered_by_buffers(const struct te_desc *d, uint64_t first, uint64_t last)
{
	size_t i = 0;

	while (i < d->nbuffers) {
		const struct te_desc_buffer *b = &d->buffers[i++];

		if (!b->length || first < b->addr || first - b->addr >= b->length)
			continue;
		if (last - b->addr < b->length)
			return true;
		first = b->addr + b->length;
		i = 0;
	}
	return false;
}

bool te_desc_covers(const struct te_desc *d, uint64_t addr, uint64_t len)
{
	if (!len)
		return true;
	if (te_wraps(addr, len))
		return false;
	return d->ranges ? covered_by_ranges(d, addr, addr + (len - 1))
			 : covered_by_buffers(d, addr, addr + (len - 1));
}
