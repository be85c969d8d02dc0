/*
 * torn.c - is a WRITE really in the target's memory when it is COMPLETED?
 *
 * torn SEGMENT FILE PID ROUNDS LENGTH [TRANSPORT]: writes LENGTH bytes of a new pattern ROUNDS
 * times into the te-target PID, which serves FILE. Another process, which maps the file, hashes it
 * the moment the batch is COMPLETED. A third one stops and continues the target all the time, so
 * that it reads slowly.
 */
#include <signal.h>

#include "prog.h"

static uint64_t word_at(uint64_t round, uint64_t i)
{
	uint64_t x = round * 0x9e3779b97f4a7c15u + i;

	x ^= x >> 31;
	x *= 0xbf58476d1ce4e5b9u;
	return x ^ x >> 29;
}

static uint64_t hash(const uint64_t *p, size_t words)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < words; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

/* The hasher: for each byte on `in` answers the hash of the first `words` words of the file. */
static void hasher(const char *path, size_t words, int in, int out)
{
	size_t len;
	const uint64_t *p = file_map(path, &len);
	char c;

	while (read(in, &c, 1) == 1) {
		uint64_t h = hash(p, words);

		if (write(out, &h, sizeof(h)) != sizeof(h))
			break;
	}
	_exit(0);
}

/* The brake: the target runs 1 ms of every 3. */
static void brake(pid_t target)
{
	struct timespec run = { .tv_nsec = 1000000 }, rest = { .tv_nsec = 2000000 };
	pid_t parent = getppid();

	while (getppid() == parent) {
		kill(target, SIGSTOP);
		nanosleep(&rest, NULL);
		kill(target, SIGCONT);
		nanosleep(&run, NULL);
	}
	kill(target, SIGCONT);
	_exit(0);
}

struct rounds {
	struct te_engine *e;
	int32_t seg;
	uint64_t base;
	uint64_t *src;
	size_t words;
	int ask, answer;
};

/* 0 well, 1 torn, -1 the transfer failed. */
static int one_round(struct rounds *r, uint64_t n)
{
	struct te_request req = { .op = TE_WRITE,
				  .source = r->src,
				  .target = r->seg,
				  .offset = r->base,
				  .length = r->words * 8 };
	struct te_status st;
	struct te_err why;
	uint64_t seen, b;
	int rc = 0;

	for (size_t i = 0; i < r->words; i++)
		r->src[i] = word_at(n, i);
	b = batch_new(r->e, 1);
	if (te_batch_submit(r->e, b, &req, 1, &why))
		die("te_batch_submit", &why);
	do
		te_batch_status(r->e, b, 0, &st);
	while (st.state == TE_WAITING);
	if (st.state != TE_COMPLETED) {
		te_batch_error(r->e, b, 0, &why);
		printf("# round %lu: %s\n", (unsigned long)n, why.msg);
		rc = -1;
	} else if (write(r->ask, "h", 1) != 1 || read(r->answer, &seen, 8) != 8) {
		die("the hasher", NULL);
	} else if (seen != hash(r->src, r->words)) {
		rc = 1;
	}
	te_batch_drain(r->e, b, -1);
	te_batch_free(r->e, b);
	return rc;
}

int main(int argc, char **argv)
{
	struct rounds r = { 0 };
	int ask[2], answer[2], torn = 0, failed = 0, rounds;
	pid_t target, children[2];

	if (argc < 6) {
		fprintf(stderr, "usage: torn SEGMENT FILE PID ROUNDS LENGTH [TRANSPORT]\n");
		return 2;
	}
	target = (pid_t)strtol(argv[3], NULL, 10);
	rounds = (int)strtol(argv[4], NULL, 10);
	r.words = strtoul(argv[5], NULL, 10) / 8;
	if (pipe(ask) || pipe(answer))
		die("pipe", NULL);
	if ((children[0] = fork()) == 0) {
		close(ask[1]);
		hasher(argv[2], r.words, ask[0], answer[1]);
	}
	if ((children[1] = fork()) == 0) {
		close(ask[1]);
		brake(target);
	}
	close(ask[0]);
	r.ask = ask[1];
	r.answer = answer[0];
	r.e = engine_new(argc > 6 ? argv[6] : NULL, true);
	r.src = buffer_new(r.e, r.words * 8, false);
	r.seg = segment_open(r.e, argv[1]);
	r.base = segment_base(r.e, r.seg);
	for (int n = 1; n <= rounds; n++) {
		int rc = one_round(&r, (uint64_t)n);

		torn += rc > 0;
		failed += rc < 0;
	}
	ok(failed == 0, "%d of %d rounds over %s failed", failed, rounds,
	   te_segment_transport(r.e, r.seg));
	ok(torn == 0, "%d of %d rounds were torn", torn, rounds);
	te_engine_close(r.e);
	close(ask[1]);
	kill(children[1], SIGKILL);
	kill(target, SIGCONT);
	while (wait(NULL) > 0)
		;
	return tap_end();
}
