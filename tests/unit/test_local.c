/* test_local.c - the local transport, and the queue of copies that it shares with shm. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "slices.h"
#include "tap.h"

enum { LEN = 8 << 20 };

static void pattern(uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 2654435761u >> 13);
}

static void own_segment(void)
{
	uint8_t *a = malloc(LEN), *b = calloc(1, LEN);
	struct te_peer *p;
	struct te_region *r;
	struct te_err err;
	struct side s;

	pattern(a, LEN);
	side_open(&s, &te_transport_local, true);
	r = side_reg(&s, b, LEN, true, -1);
	side_reg(&s, a, 100, false, -1);
	ok(side_peer(&s, NULL, NULL, &p, NULL) == 0, "our own segment is opened");
	ok(transfer(&s, p, TE_WRITE, a, (uintptr_t)b, LEN) == 0 && !memcmp(a, b, LEN), "WRITE");
	ok(transfer(&s, p, TE_READ, a + 1, (uintptr_t)b, 4096) == 0 && !memcmp(a + 1, b, 4096),
	   "READ");
	ok(transfer(&s, p, TE_READ, b + 1, (uintptr_t)b, 65536) == 0 && !memcmp(b + 1, a + 1, 4096),
	   "onto itself");
	ok(p->ops->covers(p, (uintptr_t)b, LEN) && !p->ops->covers(p, (uintptr_t)b, LEN + 1),
	   "covered is what is registered");
	ok(!p->ops->covers(p, (uintptr_t)a, 1), "and not local-only");
	ok(transfer(&s, p, TE_WRITE, b, (uintptr_t)a, 1) == -EFAULT, "nor reached: %s", s.why.msg);
	ok(side_unreg(&s, r, 100) == 0 && !p->ops->covers(p, (uintptr_t)b, 1),
	   "nor once it is gone");
	ok(transfer(&s, p, TE_READ, a, (uintptr_t)b, 1) == -EFAULT, "%s", s.why.msg);
	p->ops->peer_close(p);

	s.desc.te.present = true;
	s.desc.te.pid = getppid();
	ok(side_peer(&s, "h", &s.desc, &p, &err) == -EOPNOTSUPP, "another process: %s", err.msg);
	side_close(&s);
	free(a);
	free(b);
}

static void other_engine(void)
{
	uint8_t *a = malloc(LEN), *b = calloc(1, LEN);
	struct side target, s;
	struct te_region *r;
	struct te_peer *p, *p2;
	struct side via_shm;

	pattern(a, LEN);
	side_open(&target, &te_transport_shm, true);
	r = side_reg(&target, b, LEN, true, -1);
	side_open(&s, &te_transport_local, false);
	ok(side_peer(&s, "h", &target.desc, &p, NULL) == 0, "another engine of this process");
	ok(transfer(&s, p, TE_WRITE, a, (uintptr_t)b, LEN) == 0 && !memcmp(a, b, LEN), "WRITE");
	ok(transfer(&s, p, TE_READ, a, (uintptr_t)b + 5, 100) == 0 && !memcmp(a, b + 5, 100),
	   "READ");
	ok(!p->ops->covers(p, (uintptr_t)a, 1), "covers only what it registered");
	side_open(&via_shm, &te_transport_shm, false);
	ok(side_peer(&via_shm, "h", &target.desc, &p2, NULL) == 0 &&
		   transfer(&via_shm, p2, TE_READ, a, (uintptr_t)b, 100) == 0,
	   "shm can reach it too, if it is told to");
	p2->ops->peer_close(p2);
	side_close(&via_shm);
	ok(side_unreg(&target, r, 100) == 0 &&
		   transfer(&s, p, TE_READ, a, (uintptr_t)b, 1) == -EFAULT,
	   "unregistered: %s", s.why.msg);
	side_close(&target);
	ok(transfer(&s, p, TE_READ, a, (uintptr_t)b, 1) == -ECONNRESET, "closed: %s", s.why.msg);
	p->ops->peer_close(p);
	ok(side_peer(&s, "h", &target.desc, &p, &s.why) == -EOPNOTSUPP, "and not opened again: %s",
	   s.why.msg);
	side_close(&s);
	free(a);
	free(b);
}

/* ---- the queue ---------------------------------------------------------------------------- */

enum { N = 400, EACH = 16 << 10, OTHERS = 80 }; /* more than submit copies itself */

struct queue {
	struct side s;
	struct te_peer *p, *q; /* two peers of one queue */
	uint8_t *mine, *far;
	struct te_slice v[N];
};

static void queue_open(struct queue *t)
{
	side_open(&t->s, &te_transport_local, true);
	t->mine = malloc((size_t)N * EACH);
	t->far = calloc(N, EACH);
	pattern(t->mine, (size_t)N * EACH);
	side_reg(&t->s, t->far, (size_t)N * EACH, true, -1);
	side_peer(&t->s, NULL, NULL, &t->p, NULL);
	side_peer(&t->s, NULL, NULL, &t->q, NULL);
	for (size_t i = 0; i < N; i++)
		fill(&t->v[i], TE_WRITE, t->mine + i * EACH, (uintptr_t)t->far + i * EACH, EACH);
}

static void queue_close(struct queue *t)
{
	t->p->ops->peer_close(t->p);
	t->q->ops->peer_close(t->q);
	side_close(&t->s);
	free(t->mine);
	free(t->far);
}

static void queued(void)
{
	struct queue *t = calloc(1, sizeof(*t));
	_Atomic bool yes = true, no = false;
	int bad = 0;

	queue_open(t);
	submit(&t->s, t->p, t->v, N);
	ok(await(&t->s, t->p, t->v, false) == 0 && !memcmp(t->mine, t->far, (size_t)N * EACH),
	   "a long chain is copied without help");
	ok(atomic_load(&t->p->slices) == N && atomic_load(&t->p->bytes) == (uint64_t)N * EACH,
	   "slices and bytes are counted");
	memset(t->far, 0, (size_t)N * EACH);
	submit(&t->s, t->p, t->v, N);
	ok(await(&t->s, t->p, t->v, true) == 0 && !memcmp(t->mine, t->far, (size_t)N * EACH),
	   "and with help");

	memset(t->far, 0, (size_t)N * EACH);
	for (int i = 0; i < N; i++) {
		t->v[i].cancelled = i % 3 ? &no : &yes;
		t->v[i].deadline = i % 5 ? te_now() + TE_NSEC_PER_SEC * 10 : te_now();
	}
	submit(&t->s, t->p, t->v, N);
	await(&t->s, t->p, t->v, true);
	for (int i = 0; i < N; i++) {
		bool copied = t->far[(size_t)i * EACH + 1] == t->mine[(size_t)i * EACH + 1];

		bad += t->v[i].status != (!(i % 3) ? -ECANCELED : !(i % 5) ? -ETIMEDOUT : 0);
		bad += copied != !t->v[i].status && t->mine[(size_t)i * EACH + 1];
	}
	ok(!bad, "canceled and late ones are not begun");
	queue_close(t);
	free(t);
}

struct hog {
	struct queue *t;
	pthread_barrier_t copying;
	_Atomic bool go;
};

/* Slices come back on the thread that copied them: the first one keeps the worker busy there. */
static struct hog *hog;

static void hog_done(struct te_sink *sink, struct te_slice *list, const struct te_err *why)
{
	if (list == hog->t->v) {
		pthread_barrier_wait(&hog->copying);
		while (!atomic_load(&hog->go))
			sched_yield();
	}
	sink_done(sink, list, why);
}

static void aborted(void)
{
	struct queue *t = calloc(1, sizeof(*t));
	struct hog h = { .t = t };
	struct te_slice other[OTHERS];
	struct te_err why;
	int canceled = 0;

	hog = &h;
	pthread_barrier_init(&h.copying, NULL, 2);
	queue_open(t);
	t->s.sink.done = hog_done;
	submit(&t->s, t->p, t->v, N);
	pthread_barrier_wait(&h.copying);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		fill(&other[i], TE_READ, t->mine + i * EACH, (uintptr_t)t->far + i * EACH, EACH);
	submit(&t->s, t->q, other, ARRAY_SIZE(other));
	te_fail(&why, -ECONNRESET, "moved");
	t->p->ops->abort(t->p, -ECONNRESET, &why);
	for (int i = 0; i < N; i++)
		canceled += t->v[i].status == -ECONNRESET;
	ok(canceled > N / 2 && canceled < N, "abort fails what is queued (%d of %d)", canceled, N);
	ok(!strcmp(t->s.why.msg, "moved"), "with its reason");
	ok(atomic_load(&t->s.pending) == N - (uint32_t)canceled + ARRAY_SIZE(other),
	   "and leaves other peers alone");
	atomic_store(&h.go, true);
	await(&t->s, t->q, other, true);
	ok(!other[0].status && !other[OTHERS - 1].status &&
		   atomic_load(&t->q->slices) == ARRAY_SIZE(other),
	   "which go on");
	queue_close(t);
	pthread_barrier_destroy(&h.copying);
	free(t);
}

static void *hammer(void *arg)
{
	struct queue *t = arg;

	for (int i = 0; i < 20; i++) {
		submit(&t->s, i & 1 ? t->p : t->q, t->v, N);
		if (await(&t->s, t->p, t->v, i % 3) != 0)
			return t;
	}
	return NULL;
}

/* Threads with chains of their own, one transport: the sink and the environment are the first
 * one's. */
static void *hammer_shared(void *arg)
{
	struct queue *t = arg;
	struct te_slice *v = calloc(N, sizeof(*v));
	uint32_t left;

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < N; i++) {
			fill(&v[i], TE_READ, t->mine + i * EACH, (uintptr_t)t->far, 1);
			v[i].len = i % 7 ? 1 : EACH;
			v[i].local = (uint8_t *)malloc(EACH);
			v[i].peer = t->p;
			v[i].next = i + 1 < N ? &v[i + 1] : NULL;
		}
		atomic_fetch_add(&t->s.pending, N);
		t->p->ops->submit(t->p, v);
		t->p->ops->help(t->p, v, &t->s.pending, te_now() + TE_NSEC_PER_SEC);
		while ((left = atomic_load(&t->s.pending)))
			te_futex_wait(&t->s.pending, left, te_now() + 10 * TE_NSEC_PER_MSEC);
		for (size_t i = 0; i < N; i++)
			free(v[i].local);
	}
	free(v);
	return NULL;
}

static void threads(void)
{
	struct queue *t = calloc(1, sizeof(*t));
	pthread_t th[4];
	void *bad = NULL;

	queue_open(t);
	bad = hammer(t);
	for (size_t i = 0; i < ARRAY_SIZE(th); i++)
		pthread_create(&th[i], NULL, hammer_shared, t);
	for (size_t i = 0; i < ARRAY_SIZE(th); i++)
		pthread_join(th[i], NULL);
	ok(!bad && !atomic_load(&t->s.failed), "many threads, one queue");
	queue_close(t);
	free(t);
}

static uint64_t cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void idle(void)
{
	struct queue *t = calloc(1, sizeof(*t));
	_Atomic uint32_t never = 1;
	uint64_t before, until;

	queue_open(t);
	submit(&t->s, t->p, t->v, N);
	await(&t->s, t->p, t->v, false);
	before = cpu_us();
	until = te_now() + 300 * TE_NSEC_PER_MSEC;
	te_futex_wait(&never, 1, until);
	ok(cpu_us() - before < 20000, "an idle worker uses no CPU");
	until = te_now() + 5 * TE_NSEC_PER_SEC;
	t->p->ops->help(t->p, t->v, &never, until);
	ok(te_now() < until, "help returns when there is nothing to do");
	queue_close(t);
	free(t);
}

int main(void)
{
	own_segment();
	other_engine();
	queued();
	aborted();
	threads();
	idle();
	return tap_end();
}
