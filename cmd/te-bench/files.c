/* files.c - segments of files: one buffer, all there?, filled with the pattern. */
#include "bench.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"

enum {
	PIECE = 1 << 20, /* bytes of a request that fills */
	PIECES = 16,	 /* in flight */
	POLL_MS = 100,
	DRAIN_MS = 5000,
};

int files_join(struct segment *g, struct te_err *err)
{
	struct te_desc *whole;
	struct te_desc_buffer *b;
	size_t i;

	if (strcmp(g->desc->protocol, "nvmeof") != 0 || !g->desc->nbuffers)
		return 0;
	whole = te_desc_new();
	b = whole ? te_desc_add_buffer(whole) : NULL;
	if (!b) {
		te_desc_free(whole);
		return te_fail(err, -ENOMEM, "out of memory");
	}
	for (i = 0; i < g->desc->nbuffers; i++)
		b->length += g->desc->buffers[i].length;
	g->files = g->desc;
	g->desc = whole;
	return 0;
}

const char *files_at(const struct segment *g, uint64_t offset, uint64_t *within)
{
	const struct te_desc_buffer *b;
	size_t i;

	for (i = 0; g->files && i < g->files->nbuffers; i++) {
		b = &g->files->buffers[i];
		*within = offset - b->addr;
		if (offset >= b->addr && *within < b->length)
			return b->file_path;
	}
	return NULL;
}

/* ---- one batch and its end ------------------------------------------------------------------- */

static bool has_signal(const struct session *s)
{
	struct pollfd in = { .fd = s->signals, .events = POLLIN };

	return poll(&in, 1, 0) > 0;
}

static int wait_all(struct session *s, uint64_t batch, size_t n, struct te_err *err)
{
	size_t bad = 0, i;

	while (te_batch_wait(s->engine, batch, POLL_MS, &bad) < 0) {
		if (has_signal(s)) {
			te_batch_cancel(s->engine, batch);
			return te_fail(err, -EINTR, "interrupted");
		}
	}
	for (i = 0; bad && i < n; i++) {
		if (te_batch_error(s->engine, batch, i, err) == 0)
			return err->code ? err->code : -EIO;
	}
	return 0;
}

static int carry_out(struct session *s, const struct te_request *req, size_t n, struct te_err *err)
{
	uint64_t batch;
	int rc = te_batch_alloc(s->engine, n, &batch, err);

	if (rc)
		return rc;
	rc = te_batch_submit(s->engine, batch, req, n, err);
	if (!rc)
		rc = wait_all(s, batch, n, err);
	if (te_batch_free(s->engine, batch) == -EBUSY) {
		te_batch_drain(s->engine, batch, rc == -EINTR ? 0 : DRAIN_MS);
		te_batch_free(s->engine, batch);
	}
	return rc;
}

/* ---- all there? ------------------------------------------------------------------------------ */

int files_check(struct session *s, struct segment *g, struct te_err *err)
{
	const struct te_desc *d = g->files;
	struct te_request *req;
	void *memory = NULL;
	size_t n = 0, i;
	int rc;

	if (!d)
		return 0;
	req = calloc(d->nbuffers, sizeof(*req));
	if (!req)
		return te_fail(err, -ENOMEM, "out of memory");
	rc = memory_get(s->engine, d->nbuffers, &memory, err);
	for (i = 0; !rc && i < d->nbuffers; i++) {
		if (d->buffers[i].length)
			req[n++] = (struct te_request){ .op = TE_READ,
							.source = (char *)memory + i,
							.target = g->id,
							.offset = d->buffers[i].addr,
							.length = 1 };
	}
	if (!rc && n)
		rc = carry_out(s, req, n, err);
	memory_put(s->engine, memory);
	free(req);
	return rc;
}

/* ---- filled ---------------------------------------------------------------------------------- */

static size_t build(struct session *s, const struct segment *g, uint64_t at, uint8_t *memory,
		    struct te_request *req)
{
	const struct pattern p = { .seed = s->opt->fill_seed };
	const uint64_t end = g->desc->buffers[0].length;
	size_t n;

	for (n = 0; n < PIECES && at < end; n++, at += req[n - 1].length) {
		req[n] = (struct te_request){ .op = TE_WRITE,
					      .source = memory + n * PIECE,
					      .target = g->id,
					      .offset = at,
					      .length = end - at < PIECE ? end - at : PIECE };
		pattern_fill(&p, at, req[n].source, req[n].length);
	}
	return n;
}

int files_fill(struct session *s, struct segment *g, struct te_err *err)
{
	const uint64_t end = g->desc->buffers[0].length;
	struct te_request req[PIECES];
	void *memory;
	uint64_t at;
	size_t n;
	int rc = memory_get(s->engine, (uint64_t)PIECES * PIECE, &memory, err);

	for (at = 0; !rc && at < end; at = req[n - 1].offset + req[n - 1].length) {
		n = build(s, g, at, memory, req);
		rc = carry_out(s, req, n, err);
		if (!rc && has_signal(s))
			rc = te_fail(err, -EINTR, "interrupted");
	}
	memory_put(s->engine, memory);
	return rc;
}
