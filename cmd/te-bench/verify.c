/* verify.c - is every byte where it belongs? */
#include "crew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"

enum {
	EPOCH_TARGET = 0,	       /* what a target is filled with */
	EPOCH_SPOILED = (1 << 18) - 1, /* what lies where a READ shall write */
	TOLD_MAX = 10,		       /* mismatches that are printed */
	POLL_MS = 100,
};

static struct pattern pattern_of(const struct stream *s, size_t i, uint32_t epoch)
{
	return (struct pattern){
		.seed = s->worker->crew->session->opt->seed,
		.buffer = s->place[i].buffer,
		.epoch = epoch,
	};
}

/* Neither of the two above. */
static uint32_t write_epoch(const struct stream *s)
{
	return 1 + s->epoch % (EPOCH_SPOILED - 1);
}

void verify_fill(struct stream *s, size_t from, size_t n)
{
	struct pattern p;
	size_t i;

	for (i = from; i < from + n; i++) {
		p = pattern_of(s, i, s->req[i].op == TE_WRITE ? write_epoch(s) : EPOCH_SPOILED);
		pattern_fill(&p, s->place[i].offset, s->req[i].source, s->req[i].length);
	}
}

static const char *place_text(const struct stream *s, size_t i, const struct pattern_mismatch *m,
			      char *buf, size_t size)
{
	uint64_t within;
	const char *file = files_at(s->segment, m->offset, &within);

	if (file)
		snprintf(buf, size, "offset %llu (byte %llu of '%s')",
			 (unsigned long long)m->offset, (unsigned long long)within, file);
	else
		snprintf(buf, size, "buffer %u, offset %llu", s->place[i].buffer,
			 (unsigned long long)m->offset);
	return buf;
}

/* What READs are compared with must have been put there. */
static void ask(const struct stream *s, enum pattern_kind kind)
{
	const unsigned long long seed = s->worker->crew->session->opt->seed;

	if (s->segment->files && (kind == PATTERN_FOREIGN || kind == PATTERN_STALE))
		cli_fail(0,
			 "were the files filled (te-bench --pattern=%llu), and not written since?",
			 seed);
	else if (kind == PATTERN_FOREIGN)
		cli_fail(0, "was the target filled with --pattern=%llu?", seed);
}

static void tell(struct stream *s, size_t i, const struct pattern_mismatch *m)
{
	struct crew *c = s->worker->crew;
	const char *by = te_segment_transport(c->session->engine, s->segment->id);
	char where[512];
	unsigned told = atomic_fetch_add_explicit(&c->told, 1, memory_order_relaxed);

	if (told == TOLD_MAX)
		cli_fail(0, "further mismatches are only counted");
	if (told >= TOLD_MAX)
		return;
	cli_fail(0,
		 "wrong bytes after %s: segment '%s', %s: expected 0x%02x, found 0x%02x "
		 "(%s, %llu of %llu bytes at offset %llu, path %s)",
		 s->req[i].op == TE_WRITE ? "WRITE" : "READ", s->segment->name,
		 place_text(s, i, m, where, sizeof(where)), m->expected, m->found,
		 pattern_kind_name(m->kind), (unsigned long long)m->count,
		 (unsigned long long)s->req[i].length, (unsigned long long)s->place[i].offset,
		 by ? by : "unknown");
	if (s->req[i].op == TE_READ && told == 0)
		ask(s, m->kind);
}

static void check(struct stream *s, size_t i, uint32_t epoch, const void *at)
{
	const struct pattern p = pattern_of(s, i, epoch);
	struct pattern_mismatch m;

	s->worker->sum.checked_bytes += s->req[i].length;
	if (!pattern_check(&p, s->place[i].offset, at, s->req[i].length, &m))
		return;
	s->worker->sum.mismatches++;
	tell(s, i, &m);
}

/* ---- reading back ---------------------------------------------------------------------------- */

/* Waits for the read-back of req[0..n). */
static int finish(struct stream *s, uint64_t batch, size_t n, struct te_err *err)
{
	struct crew *c = s->worker->crew;
	struct te_engine *e = c->session->checker;
	size_t bad = 0, i;

	while (te_batch_wait(e, batch, POLL_MS, &bad) < 0) {
		if (crew_stopped(c)) {
			te_batch_cancel(e, batch);
			return -EINTR;
		}
	}
	for (i = 0; bad && i < n; i++) {
		if (te_batch_error(e, batch, i, err) == 0)
			return err->code ? err->code : -EIO;
	}
	return 0;
}

/* The blocks that were written come back into s->back. */
static int read_back(struct stream *s, struct te_err *err)
{
	struct crew *c = s->worker->crew;
	struct te_engine *e = c->session->checker;
	struct te_request *req = calloc(s->n, sizeof(*req));
	uint64_t batch;
	size_t i, n = 0;
	int rc;

	if (!req)
		return te_fail(err, -ENOMEM, "out of memory");
	for (i = 0; i < s->n; i++) {
		if (!s->ok[i] || s->req[i].op != TE_WRITE)
			continue;
		req[n] = s->req[i];
		req[n].op = TE_READ;
		req[n].target = s->segment->check_id;
		req[n++].source = s->back + i * c->spec.block;
	}
	rc = n ? te_batch_alloc(e, n, &batch, err) : 0;
	if (!rc && n) {
		rc = te_batch_submit(e, batch, req, n, err);
		if (!rc)
			rc = finish(s, batch, n, err);
		if (te_batch_free(e, batch) == -EBUSY && !te_batch_drain(e, batch, 5000))
			te_batch_free(e, batch);
	}
	free(req);
	return rc;
}

void verify_batch(struct stream *s)
{
	struct crew *c = s->worker->crew;
	struct te_err err = { 0 };
	size_t i;

	if (s->writes && c->session->checker && read_back(s, &err)) {
		if (!crew_stopped(c)) {
			te_wrap(&err, err.code, "cannot read back what was written");
			s->worker->sum.errors++;
			segment_fail(s->segment, err.msg);
		}
		return;
	}
	for (i = 0; i < s->n; i++) {
		if (!s->ok[i])
			continue;
		if (s->req[i].op == TE_READ)
			check(s, i, EPOCH_TARGET, s->req[i].source);
		else if (c->session->checker)
			check(s, i, write_epoch(s), s->back + i * c->spec.block);
		else /* our own memory */
			check(s, i, write_epoch(s), (const void *)(uintptr_t)s->place[i].addr);
	}
}
