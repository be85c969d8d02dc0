/* slices.h - for the tests of transports: an environment without an engine, and chains of slices.
 */
#ifndef SLICES_H
#define SLICES_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_segment.h"
#include "transport/transport.h"

/* One engine's worth of a transport. The sink is first: sink_done() finds the rest by it. */
struct side {
	struct te_sink sink;
	_Atomic uint32_t pending; /* slices that are not back; futex word */
	_Atomic uint32_t failed;
	_Atomic int status; /* of the last that failed */
	struct te_err why;
	struct te_conf conf;
	struct te_transport_env env;
	struct te_transport *t;
	struct te_desc desc;
};

static void sink_done(struct te_sink *sink, struct te_slice *list, const struct te_err *why)
{
	struct side *s = container_of(sink, struct side, sink);
	uint32_t n = 0;

	for (struct te_slice *next; list; list = next, n++) {
		next = list->next;
		if (!list->status)
			continue;
		atomic_store(&s->status, list->status);
		if (atomic_fetch_add(&s->failed, 1) == 0 && why)
			s->why = *why;
	}
	if (atomic_fetch_sub(&s->pending, n) == n)
		te_futex_wake(&s->pending, 1);
}

static int side_open(struct side *s, const struct te_transport_ops *ops, bool serve)
{
	int rc;

	memset(s, 0, sizeof(*s));
	s->sink.done = sink_done;
	s->conf.spin_us = 50;
	s->env.conf = &s->conf;
	s->env.regions = te_regions_new();
	s->env.sink = &s->sink;
	s->env.serve = serve;
	s->env.token = "0123456789abcdef";
	rc = ops->open(&s->env, &s->t, NULL);
	if (!rc && ops->describe)
		ops->describe(s->t, &s->desc);
	return rc;
}

static inline void side_close(struct side *s)
{
	s->t->ops->close(s->t);
	te_regions_free(s->env.regions);
}

static inline struct te_region *side_reg(struct side *s, void *addr, size_t len, bool remote,
					 int memfd)
{
	struct te_region plan = { .addr = (uintptr_t)addr,
				  .len = len,
				  .remote = remote,
				  .memfd = memfd,
				  .page_slot = -1 };
	struct te_region *r = NULL;

	if (te_regions_add(s->env.regions, &plan, &r, NULL))
		return NULL;
	if (s->t->ops->reg && s->t->ops->reg(s->t, r, NULL))
		return NULL;
	return r;
}

static inline int side_unreg(struct side *s, struct te_region *r, uint64_t ms)
{
	uint64_t until = te_now() + ms * TE_NSEC_PER_MSEC;
	int rc = s->t->ops->unreg ? s->t->ops->unreg(s->t, r, until) : 0;

	if (!rc)
		rc = te_regions_remove(s->env.regions, r, until);
	if (!rc)
		te_region_free(r);
	return rc;
}

static inline int side_peer(struct side *s, const char *host, const struct te_desc *desc,
			    struct te_peer **out, struct te_err *err)
{
	const struct te_peer_info info = { .name = "peer", .host = host, .desc = desc };
	int rc = s->t->ops->peer_open(s->t, &info, out, err);

	if (!rc) {
		(*out)->ops = s->t->ops;
		(*out)->transport = s->t;
	}
	return rc;
}

static inline void fill(struct te_slice *s, int op, void *local, uint64_t remote, uint64_t len)
{
	memset(s, 0, sizeof(*s));
	s->op = (uint8_t)op;
	s->local = local;
	s->remote = remote;
	s->len = len;
	s->deadline = te_now() + 60 * TE_NSEC_PER_SEC;
}

static inline void submit(struct side *s, struct te_peer *p, struct te_slice *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		v[i].peer = p;
		v[i].next = i + 1 < n ? &v[i + 1] : NULL;
	}
	atomic_store(&s->failed, 0);
	atomic_store(&s->status, 0);
	memset(&s->why, 0, sizeof(s->why));
	atomic_fetch_add(&s->pending, n);
	p->ops->submit(p, v);
}

/* Until all are back, with or without our help; the status of the last that failed. */
static inline int await(struct side *s, struct te_peer *p, struct te_slice *v, bool help)
{
	uint64_t until = te_now() + 30 * TE_NSEC_PER_SEC;
	uint32_t left;

	if (help)
		p->ops->help(p, v, &s->pending, until);
	while ((left = atomic_load(&s->pending)) && te_now() < until)
		te_futex_wait(&s->pending, left, until);
	return left ? -ETIME : atomic_load(&s->status);
}

static inline int transfer(struct side *s, struct te_peer *p, int op, void *local, uint64_t remote,
			   uint64_t len)
{
	struct te_slice one;

	fill(&one, op, local, remote, len);
	submit(s, p, &one, 1);
	return await(s, p, &one, false);
}

#endif
