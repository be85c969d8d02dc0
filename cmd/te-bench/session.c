/* session.c - the engine of a te-bench run and the segments it reads and writes. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "matrix.h"
#include "pattern.h"

bool session_is_local(const struct session *s)
{
	return strcmp(s->opt->protocol, "local") == 0;
}

size_t session_alive(const struct session *s)
{
	size_t i, n = 0;

	for (i = 0; i < s->nsegments; i++)
		n += !s->segments[i].failed;
	return n;
}

void segment_fail(struct segment *g, const char *reason)
{
	char name[300];

	if (atomic_exchange(&g->failed, true))
		return;
	/* Some reasons begin so themselves. */
	snprintf(name, sizeof(name), "segment '%s'", g->name);
	if (strncmp(reason, name, strlen(name)) == 0)
		cli_fail(0, "%s", reason);
	else
		cli_fail(0, "%s: %s", name, reason);
}

/* ---- engines -------------------------------------------------------------------------------- */

static int open_engine(struct session *s, struct te_engine **out, bool checker, struct te_err *err)
{
	const struct bench_options *o = s->opt;
	const bool served = strcmp(o->protocol, "tcp") == 0 || strcmp(o->protocol, "rdma") == 0;
	const bool named = !checker && !s->files && o->cli.name;
	struct te_conf conf = s->conf;
	struct te_engine_options eo = {
		.metadata_server = o->cli.metadata,
		/* Files may be found by it, which publishes nothing. */
		.local_server_name = named || s->files ? o->cli.name
				     : checker	       ? s->checker_name
						       : s->own_name,
		.protocol = served ? o->protocol : NULL,
		.transport = strcmp(o->protocol, "auto") == 0 ? NULL : o->protocol,
		.device_name = o->device_name,
		.nic_priority_matrix = s->matrix,
		.auto_discovery = o->auto_discovery,
		.initiator_only = !named && !s->rdma,
		.conf = &conf,
	};

	/* A name of our own making has no port that could be meant. */
	if (!named)
		conf.legacy_rpc_port = false;
	return te_engine_open(out, &eo, err);
}

/* ---- segments ------------------------------------------------------------------------------- */

static bool is_named(const struct session *s, const char *name)
{
	size_t i;

	for (i = 0; i < s->nsegments; i++) {
		if (strcmp(s->segments[i].name, name) == 0)
			return true;
	}
	return false;
}

static int split_names(struct session *s, const char *list, struct te_err *err)
{
	char *rest, *name;
	size_t n = 1, i;

	for (i = 0; list[i]; i++)
		n += list[i] == ',';
	s->names = strdup(list);
	s->segments = calloc(n, sizeof(*s->segments));
	if (!s->names || !s->segments)
		return te_fail(err, -ENOMEM, "out of memory");
	rest = s->names;
	while ((name = strsep(&rest, ","))) {
		/* Each has places of its own, which a name given twice would share unawares. */
		if (*name && !is_named(s, name))
			s->segments[s->nsegments++].name = name;
	}
	return 0;
}

/* Is b what comes after a, whose first piece had `piece` bytes, of a registration that was too long
 * for the NICs? */
static bool continues(const struct te_desc_buffer *a, const struct te_desc_buffer *b,
		      uint64_t piece)
{
	return a->addr + a->length == b->addr && a->length % piece == 0 && b->length <= piece &&
	       a->location && b->location && !strcmp(a->location, b->location);
}

/* rdma: one buffer each registration, as the target counts them. */
static void join_pieces(struct te_desc *d)
{
	uint64_t piece = 1;
	size_t n = 0, i;

	if (strcmp(d->protocol, "rdma") != 0)
		return;
	for (i = 0; i < d->nbuffers; i++) {
		struct te_desc_buffer *b = &d->buffers[i];

		if (n && continues(&d->buffers[n - 1], b, piece)) {
			d->buffers[n - 1].length += b->length;
			free(b->name);
			free(b->location);
			free(b->rkey);
			free(b->lkey);
			continue;
		}
		piece = b->length ? b->length : 1;
		d->buffers[n++] = *b;
	}
	d->nbuffers = n;
}

static int open_segment(struct session *s, struct segment *g, struct te_err *err)
{
	int32_t id = te_segment_open(s->engine, g->name, err);
	int rc;

	if (id < 0)
		return id;
	g->id = id;
	rc = te_segment_desc(s->engine, id, &g->desc, err);
	if (rc)
		return rc;
	join_pieces(g->desc);
	rc = files_join(g, err);
	if (rc)
		return rc;
	if (!g->desc->nbuffers)
		return te_fail(err, -ENODATA, "it has no buffers");
	rc = files_check(s, g, err);
	if (rc || !s->checker)
		return rc;
	g->check_id = te_segment_open(s->checker, g->name, err);
	return g->check_id < 0 ? g->check_id : 0;
}

/* A segment that cannot be opened is one that failed: the others run. */
static void open_segments(struct session *s)
{
	struct te_err err = { 0 };
	size_t i;

	for (i = 0; i < s->nsegments; i++) {
		if (open_segment(s, &s->segments[i], &err))
			segment_fail(&s->segments[i], err.msg);
	}
}

/* --pattern. Memory is filled by its own target. */
static int fill_segments(struct session *s, struct te_err *err)
{
	struct segment *g;
	size_t i;
	int rc = 0;

	for (i = 0; s->opt->fill && !rc && i < s->nsegments; i++) {
		g = &s->segments[i];
		if (g->failed)
			continue;
		if (g->files)
			rc = files_fill(s, g, err);
		else
			rc = te_fail(err, -EOPNOTSUPP,
				     "it is memory, which is filled by its target (te-target "
				     "--pattern)");
		if (rc && rc != -EINTR) {
			segment_fail(g, err->msg);
			rc = 0;
		}
	}
	return rc;
}

/* --protocol=local: our own memory is the target. */
static int open_own(struct session *s, struct te_err *err)
{
	const uint64_t len = options_memory(s->opt);
	const struct pattern p = { .seed = s->opt->verify ? s->opt->seed : 1 };
	struct segment *g;
	struct te_desc_buffer *b;
	int rc;

	rc = split_names(s, "local", err);
	if (!rc)
		rc = te_alloc(s->engine, len, -1, 0, &s->own, err);
	if (rc)
		return rc;
	pattern_fill(&p, 0, s->own, len);
	rc = te_register(s->engine, s->own, len, NULL, true, err);
	if (rc)
		return rc;
	g = &s->segments[0];
	g->id = TE_LOCAL_SEGMENT;
	g->desc = te_desc_new();
	b = g->desc ? te_desc_add_buffer(g->desc) : NULL;
	if (!b)
		return te_fail(err, -ENOMEM, "out of memory");
	b->addr = (uintptr_t)s->own;
	b->length = len;
	return 0;
}

/* --require-transport, before anything moves. */
static void check_transports(struct session *s)
{
	const char *want = s->opt->require, *is;
	char reason[96];
	size_t i;

	for (i = 0; want && i < s->nsegments; i++) {
		if (s->segments[i].failed)
			continue;
		is = te_segment_transport(s->engine, s->segments[i].id);
		if (is && strcmp(is, want) == 0)
			continue;
		snprintf(reason, sizeof(reason), "it is reached by %s, not by the required %s",
			 is ? is : "nothing", want);
		segment_fail(&s->segments[i], reason);
	}
}

static uint64_t largest_buffer(const struct te_desc *d)
{
	uint64_t most = 0;
	size_t i;

	for (i = 0; i < d->nbuffers; i++) {
		if (d->buffers[i].length > most)
			most = d->buffers[i].length;
	}
	return most;
}

/* Blocks that fit nowhere are the user's mistake, told before anything moves. */
static int check_blocks(const struct session *s)
{
	const struct bench_options *o = s->opt;
	/* Verified reads and writes at once need a half each. */
	const unsigned parts = o->verify && o->op >= BENCH_MIXED ? 2 : 1;
	uint64_t block = 0, room;
	size_t i;

	for (i = 0; i < o->block.n; i++) {
		if (o->block.at[i] > block)
			block = o->block.at[i];
	}
	for (i = 0; i < s->nsegments; i++) {
		if (s->segments[i].failed)
			continue;
		room = largest_buffer(s->segments[i].desc) / parts;
		if (block > room)
			return cli_fail(
				CLI_USAGE,
				"--block-size=%llu: segment '%s' has %llu bytes%s at the most",
				(unsigned long long)block, s->segments[i].name,
				(unsigned long long)room, parts == 2 ? " (half of a buffer)" : "");
	}
	return CLI_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int open_all(struct session *s, struct te_err *err)
{
	const struct bench_options *o = s->opt;
	struct te_engine_info info;
	int rc;

	/* Our own engine first: what this build cannot do is told without a target. */
	rc = matrix_read(o->nic_priority_matrix, o->protocol, &s->matrix, err);
	if (!rc)
		rc = publish_choose(s, err);
	if (!rc)
		rc = open_engine(s, &s->engine, false, err);
	if (!rc && o->self && !session_is_local(s))
		rc = self_start(&s->self, o, s->signals, err);
	if (!rc && o->verify && bench_writes(o->op) && !session_is_local(s))
		rc = open_engine(s, &s->checker, true, err);
	if (rc)
		return rc;
	te_engine_info(s->engine, &info);
	s->store = info.metadata_server;
	if (session_is_local(s)) {
		rc = open_own(s, err);
		check_transports(s);
		return rc;
	}
	rc = split_names(s, o->self ? s->self.segment : o->segment_id, err);
	if (rc)
		return rc;
	open_segments(s);
	check_transports(s);
	return fill_segments(s, err);
}

int session_open(struct session *s, const struct bench_options *opt, int signals)
{
	struct te_err err = { 0 };
	int rc;

	*s = (struct session){ .opt = opt, .signals = signals, .self = { .out = -1 } };
	s->epoch = (uint32_t)now_ns() ^ (uint32_t)getpid() << 16;
	cli_conf(&opt->cli, &s->conf);
	s->conf.file_sync |= opt->sync;
	rc = open_all(s, &err);
	if (rc) {
		session_close(s);
		s->interrupted = rc == -EINTR;
		if (s->interrupted)
			return CLI_OK;
		/* Options that make no sense: an unknown kind of store, transports that exclude
		 * each other. */
		return cli_fail(rc == -EINVAL ? CLI_USAGE : CLI_FAIL, "%s", err.msg);
	}
	rc = check_blocks(s);
	if (!rc && !session_alive(s))
		rc = CLI_FAIL;
	if (rc)
		session_close(s);
	return rc;
}

void session_close(struct session *s)
{
	size_t i;

	/* Its end ends what is in flight to it. */
	self_stop(&s->self);
	if (s->checker)
		te_engine_close(s->checker);
	if (s->own && !te_unregister(s->engine, s->own, NULL))
		te_free(s->engine, s->own);
	if (s->engine)
		te_engine_close(s->engine);
	for (i = 0; i < s->nsegments; i++) {
		te_desc_free(s->segments[i].desc);
		te_desc_free(s->segments[i].files);
	}
	free(s->segments);
	free(s->names);
	free(s->matrix);
	free(s->own_name);
	free(s->checker_name);
	*s = (struct session){ .opt = s->opt, .signals = s->signals, .self = { .out = -1 } };
}
