/* raw.c - threads that move bytes without an engine, for --baseline. */
#include "raw.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gang.h"

enum { ALIGN = 4096 };

struct raw {
	struct raw_spec spec;
	struct raw_lane *lanes;
	size_t nlanes;
	bool both_ways;		  /* bidir with connections enough; else they take turns */
	uint8_t *source, *target; /* shared with the servers */
	size_t source_len, target_len;
	struct gang gang;
	uint64_t until; /* ns; written between rounds */
};

pid_t raw_fork(void)
{
	const pid_t parent = getpid();
	pid_t pid = fork();
	sigset_t all;

	if (pid != 0)
		return pid < 0 ? -errno : pid;
	/* A Ctrl-C is for te-bench. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	return 0;
}

void raw_reap(pid_t *server)
{
	if (!*server)
		return;
	kill(*server, SIGKILL);
	while (waitpid(*server, NULL, 0) < 0 && errno == EINTR)
		;
	*server = 0;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static const struct raw_ops *ops_of(enum raw_kind kind)
{
	static const struct raw_ops *const all[] = {
		[RAW_TCP] = &raw_tcp_ops,
		[RAW_VM] = &raw_vm_ops,
		[RAW_COPY] = &raw_copy_ops,
		[RAW_FILE] = &raw_file_ops,
	};

	return all[kind];
}

static uint64_t round_up(uint64_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* As tcp cuts: a large request is spread over the connections, small ones are dealt out. */
static void size_lanes(struct raw *r)
{
	const struct raw_spec *s = &r->spec;
	/* Half of the lanes read, half write, each as much as all threads have in flight. */
	const size_t ways = r->both_ways ? 2 : 1;
	const size_t share = r->nlanes / ways;
	const bool spread = s->kind == RAW_TCP && s->block > 1 << 20 && share > 1;
	struct raw_lane *l;
	size_t i;

	for (i = 0; i < r->nlanes; i++) {
		l = &r->lanes[i];
		*l = (struct raw_lane){
			.raw = r, .ops = ops_of(s->kind), .index = (unsigned)i, .fd = -1
		};
		l->files = s->files;
		l->lanes = r->nlanes;
		l->writes = s->op == BENCH_WRITE || (r->both_ways && i % 2);
		l->piece = spread ? s->block / share : s->block;
		l->depth = (size_t)(spread ? s->requests : s->requests / share);
		if (!l->depth)
			l->depth = 1;
		l->places = s->target_bytes / r->nlanes / l->piece;
		if (!l->places)
			l->places = 1;
		r->source_len += round_up(l->piece * l->depth);
		r->target_len += round_up(l->piece * l->places);
	}
}

static uint8_t *get_memory(size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memset(p, 0x5a, len);
	return p;
}

static int place_lanes(struct raw *r, struct te_err *err)
{
	uint8_t *source, *target;
	size_t i;

	r->source = get_memory(r->source_len);
	r->target = get_memory(r->target_len);
	if (!r->source || !r->target)
		return te_fail(err, -ENOMEM, "no memory for the baseline");
	source = r->source;
	target = r->target;
	for (i = 0; i < r->nlanes; i++) {
		r->lanes[i].source = source;
		r->lanes[i].target = target;
		source += round_up(r->lanes[i].piece * r->lanes[i].depth);
		target += round_up(r->lanes[i].piece * r->lanes[i].places);
	}
	return 0;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

bool raw_takes_turns(const struct raw_lane *l)
{
	const struct raw *r = l->raw;

	return r->spec.op == BENCH_MIXED || (r->spec.op == BENCH_BIDIR && !r->both_ways);
}

static void run_lane(struct raw_lane *l)
{
	struct raw *r = l->raw;
	const bool turns = raw_takes_turns(l);

	l->bytes = 0;
	if (l->ops->round) {
		l->error = l->ops->round(l, r->until);
		return;
	}
	do {
		l->error = l->ops->batch(l, l->writes);
		l->bytes += l->piece * l->depth;
		l->writes ^= turns;
	} while (!l->error && now_ns() < r->until);
}

static void work(void *arg)
{
	run_lane(arg);
}

double raw_round(struct raw *r, double seconds, struct te_err *err)
{
	struct pollfd done = { .fd = r->gang.done, .events = POLLIN };
	const uint64_t begin = now_ns();
	uint64_t bytes = 0;
	size_t i;

	r->until = begin + (uint64_t)(seconds * 1e9);
	gang_start(&r->gang);
	/* Bounded: a lane looks at the time after each batch. */
	while (!gang_ended(&r->gang))
		poll(&done, 1, -1);
	for (i = 0; i < r->nlanes; i++) {
		if (r->lanes[i].error)
			return te_fail(err, r->lanes[i].error, "baseline: %s",
				       strerror(-r->lanes[i].error));
		bytes += r->lanes[i].bytes;
	}
	return (double)bytes * 1e9 / (double)(now_ns() - begin);
}

static int start(struct raw *r, struct te_err *err)
{
	size_t i;
	int rc;

	/* Servers first: fork() is simplest while these threads are not there. */
	for (i = 0; i < r->nlanes; i++) {
		if (!r->lanes[i].ops->open)
			continue;
		rc = r->lanes[i].ops->open(&r->lanes[i], err);
		if (rc)
			return te_wrap(err, rc, "baseline");
	}
	return gang_open(&r->gang, work, r->lanes, sizeof(*r->lanes), r->nlanes, err);
}

int raw_open(const struct raw_spec *spec, struct raw **out, struct te_err *err)
{
	struct raw *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return te_fail(err, -ENOMEM, "out of memory");
	r->spec = *spec;
	r->nlanes = spec->lanes;
	r->both_ways = spec->op == BENCH_BIDIR && spec->kind == RAW_TCP && spec->lanes > 1;
	if (r->both_ways)
		r->nlanes -= r->nlanes % 2;
	r->lanes = calloc(r->nlanes, sizeof(*r->lanes));
	if (!r->lanes) {
		free(r);
		return te_fail(err, -ENOMEM, "out of memory");
	}
	size_lanes(r);
	rc = place_lanes(r, err);
	if (!rc)
		rc = start(r, err);
	if (rc)
		raw_close(r);
	else
		*out = r;
	return rc;
}

void raw_close(struct raw *r)
{
	size_t i;

	gang_close(&r->gang);
	for (i = 0; i < r->nlanes; i++) {
		if (r->lanes[i].ops->close)
			r->lanes[i].ops->close(&r->lanes[i]);
	}
	if (r->source)
		munmap(r->source, r->source_len);
	if (r->target)
		munmap(r->target, r->target_len);
	free(r->lanes);
	free(r);
}
