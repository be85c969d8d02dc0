/*
 * steps.c - an initiator over rdma that a script leads by the hand.
 *
 * steps DEVICES: reads commands, one a line, and answers each with one line: "ok MILLISECONDS" with
 * "evictions N retries N failed N", totals of the engine, or "failed MILLISECONDS: WHY". Bytes go
 * to offset 0 of the segment's first buffer.
 *
 *	write SEGMENT BYTES			a new pattern
 *	check SEGMENT BYTES			reads it back; fails, too, where it has changed
 *	rotate BYTES ROUNDS SEGMENT...		writes and checks each in turn
 *	look SEGMENT				fetches its descriptor again
 *	end
 */
#include <inttypes.h>

#include "prog.h"

enum { ROOM = 104 << 20, SEGMENTS = 8, WORDS = 16 };

struct target {
	char name[128];
	int32_t id;
	uint64_t base, seed;
};

struct steps {
	struct te_engine *engine;
	unsigned char *out, *in;
	struct target targets[SEGMENTS];
	size_t n;
	uint64_t seed;
	struct te_err why;
};

static uint64_t word_at(uint64_t seed, size_t i)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + i;

	x ^= x >> 31;
	return x * 0xbf58476d1ce4e5b9u;
}

static void fill(unsigned char *p, uint64_t seed, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word_at(seed, i / 8);

		memcpy(p + i, &w, len - i < 8 ? len - i : 8);
	}
}

static bool same(const unsigned char *p, uint64_t seed, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word_at(seed, i / 8);

		if (memcmp(p + i, &w, len - i < 8 ? len - i : 8) != 0)
			return false;
	}
	return true;
}

static struct target *find(struct steps *s, const char *name)
{
	struct target *t;

	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->targets[i].name, name))
			return &s->targets[i];
	if (s->n == SEGMENTS) {
		snprintf(s->why.msg, sizeof(s->why.msg), "too many segments");
		return NULL;
	}
	t = &s->targets[s->n];
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->id = te_segment_open(s->engine, name, &s->why);
	if (t->id < 0)
		return NULL;
	s->n++;
	return t;
}

/* Where its first buffer is now: a target that was restarted has another one. */
static bool look(struct steps *s, struct target *t)
{
	struct te_desc *d = NULL;

	if (te_segment_refresh(s->engine, t->id, &s->why) ||
	    te_segment_desc(s->engine, t->id, &d, &s->why))
		return false;
	t->base = d->nbuffers ? d->buffers[0].addr : 0;
	te_desc_free(d);
	return t->base;
}

static bool transfer(struct steps *s, enum te_op op, const char *name, size_t len)
{
	struct target *t = find(s, name);
	struct te_request r = { .op = op, .length = len };
	struct te_status st;
	int rc;

	if (!t || len > ROOM || (!t->base && !look(s, t)))
		return false;
	if (op == TE_WRITE) {
		t->seed = ++s->seed;
		fill(s->out, t->seed, len);
	}
	r.source = op == TE_WRITE ? s->out : s->in;
	r.target = t->id;
	r.offset = t->base;
	st = one(s->engine, &r, &rc, &s->why);
	if (rc || st.state != TE_COMPLETED) {
		t->base = 0;
		return false;
	}
	return true;
}

static bool check(struct steps *s, const char *name, size_t len)
{
	if (!transfer(s, TE_READ, name, len))
		return false;
	if (same(s->in, find(s, name)->seed, len))
		return true;
	snprintf(s->why.msg, sizeof(s->why.msg), "mismatch");
	return false;
}

static bool rotate(struct steps *s, size_t len, long rounds, char **names, size_t n)
{
	for (long round = 0; round < rounds; round++)
		for (size_t i = 0; i < n; i++)
			if (!transfer(s, TE_WRITE, names[i], len) || !check(s, names[i], len))
				return false;
	return true;
}

static bool obey(struct steps *s, char **word, size_t n)
{
	size_t len = n > 2 ? strtoull(word[2], NULL, 0) : 0;

	if (n == 3 && !strcmp(word[0], "write"))
		return transfer(s, TE_WRITE, word[1], len);
	if (n == 3 && !strcmp(word[0], "check"))
		return check(s, word[1], len);
	if (n > 3 && !strcmp(word[0], "rotate"))
		return rotate(s, strtoull(word[1], NULL, 0), strtol(word[2], NULL, 0), word + 3,
			      n - 3);
	if (n == 2 && !strcmp(word[0], "look"))
		return find(s, word[1]) && look(s, find(s, word[1]));
	snprintf(s->why.msg, sizeof(s->why.msg), "no such command: %s", word[0]);
	return false;
}

static uint64_t evictions(struct te_engine *e)
{
	static const char name[] = "\nte_rdma_evictions_total ";
	char *text = te_engine_metrics(e), *at = text ? strstr(text, name) : NULL;
	uint64_t n = at ? strtoull(at + sizeof(name) - 1, NULL, 10) : 0;

	free(text);
	return n;
}

static void answer(struct steps *s, bool good, uint64_t began)
{
	uint64_t ms = (now_ns() - began) / 1000000;
	struct te_totals t;

	te_engine_totals(s->engine, &t);
	if (good)
		printf("ok %" PRIu64 " evictions %" PRIu64 " retries %" PRIu64 " failed %" PRIu64
		       "\n",
		       ms, evictions(s->engine), t.retries, t.failed);
	else
		printf("failed %" PRIu64 ": %s\n", ms, s->why.msg);
}

int main(int argc, char **argv)
{
	struct te_engine_options opt = {
		.local_server_name = "127.0.0.1",
		.protocol = "rdma",
		.transport = "rdma",
		.device_name = argv[1],
	};
	struct steps s = { 0 };
	char line[1024];

	if (argc != 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (te_engine_open(&s.engine, &opt, &s.why))
		die("te_engine_open", &s.why);
	s.out = buffer_new(s.engine, ROOM, false);
	s.in = buffer_new(s.engine, ROOM, false);
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t began = now_ns();
		char *word[WORDS], *rest;
		size_t n = 0;

		for (char *w = strtok_r(line, " \n", &rest); w && n < WORDS;
		     w = strtok_r(NULL, " \n", &rest))
			word[n++] = w;
		if (n == 1 && !strcmp(word[0], "end"))
			break;
		memset(&s.why, 0, sizeof(s.why));
		if (n)
			answer(&s, obey(&s, word, n), began);
	}
	te_engine_close(s.engine);
	return 0;
}
