/* test_tcp.c - the transport tcp against itself: data, batches, refusals, unregister, threads. */
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "tcp_rig.h"

static struct rig target, source;

static void sizes(void)
{
	static const size_t size[] = {
		1, 17, 512, 4096, 65535, 65536, 65537, (1 << 20) + 3, 5 << 20
	};

	for (size_t i = 0; i < ARRAY_SIZE(size); i++) {
		uint64_t at = (uintptr_t)target.mem + 1000;

		rig_fill(source.mem, size[i], (unsigned)i);
		memset(target.view, 0, RIG_BUFFER);
		ok(!rig_one(&source, TE_WRITE, source.mem, at, size[i], NULL) &&
			   !memcmp(source.mem, target.view + 1000, size[i]) && !target.view[999] &&
			   !target.view[1000 + size[i]],
		   "WRITE of %zu bytes", size[i]);
		memset(source.mem, 0, RIG_BUFFER);
		ok(!rig_one(&source, TE_READ, source.mem + 5, at, size[i], NULL) &&
			   !memcmp(source.mem + 5, target.view + 1000, size[i]) && !source.mem[4] &&
			   !source.mem[5 + size[i]],
		   "READ of %zu bytes", size[i]);
	}
}

/* READs from the lower half, WRITEs to the upper half, sizes that vary. */
static void mixed(size_t n, bool help)
{
	struct rig_batch *b = rig_batch_new(n);
	size_t half = RIG_BUFFER / 2, at = 0, wrong = 0;

	rig_fill(target.view, half, 7);
	memset(target.view + half, 0, half);
	memset(source.mem, 0, half);
	rig_fill(source.mem + half, half, 9);
	for (size_t i = 0; i < n; i++) {
		size_t len = 1 + (i * 7919) % MIN(9000, half / n);

		if (i % 3)
			rig_add(&source, b, TE_READ, source.mem + at, (uintptr_t)target.mem + at,
				len);
		else
			rig_add(&source, b, TE_WRITE, source.mem + half + at,
				(uintptr_t)target.mem + half + at, len);
		at += len;
	}
	rig_submit(&source, b);
	ok(rig_wait(&source, b, help, 20) && rig_count(b, 0) == n, "mixed batch of %zu, %s", n,
	   help ? "the waiting thread helps" : "nobody helps");
	for (size_t i = 0; i < n; i++)
		wrong += memcmp(b->slices[i].local,
				target.view + (b->slices[i].remote - (uintptr_t)target.mem),
				b->slices[i].len) != 0;
	ok(!wrong, "its bytes are where they belong");
	rig_batch_free(b);
}

static void refusals(void)
{
	struct rig_batch *b = rig_batch_new(100);
	struct te_region *private;
	char *mine = calloc(1, 8192);
	uint64_t end = (uintptr_t)target.mem + RIG_BUFFER;
	uint64_t before = atomic_load(&target.refused);
	struct te_err why;

	private = rig_register(&target, mine, 8192, false);
	ok(rig_one(&source, TE_READ, source.mem, (uintptr_t)&before, 8, &why) == -EACCES &&
		   strstr(why.msg, "not registered") && strstr(why.msg, "127.0.0.1:"),
	   "READ of what is not registered: '%s'", why.msg);
	source.mem[0] = 1;
	ok(rig_one(&source, TE_WRITE, source.mem, (uintptr_t)mine, 4096, NULL) == -EACCES &&
		   !mine[0],
	   "WRITE to a local-only buffer");
	ok(rig_one(&source, TE_WRITE, source.mem, end - 4096, 4097, NULL) == -EACCES,
	   "WRITE across the end");
	ok(rig_one(&source, TE_READ, source.mem, UINT64_MAX - 10, 100, NULL) == -EACCES,
	   "READ that wraps");
	ok(rig_one(&source, TE_READ, source.mem, (uintptr_t)target.mem, 1ull << 40, NULL) ==
		   -EACCES,
	   "READ of 1 TiB");
	ok(rig_one(&source, TE_WRITE, source.mem, end, 4 << 20, NULL) == -EACCES,
	   "long WRITE beyond the end");
	ok(atomic_load(&target.refused) >= before + 6, "the target counts refusals");

	rig_fill(target.view, 100 * 1000, 3);
	memset(source.mem, 0, 100 * 1000);
	for (size_t i = 0; i < 100; i++)
		rig_add(&source, b, TE_READ, source.mem + i * 1000,
			(i % 10 == 5 ? 0 : (uintptr_t)target.mem) + i * 1000, 1000);
	rig_submit(&source, b);
	ok(rig_wait(&source, b, true, 20) && rig_count(b, -EACCES) == 10 && rig_count(b, 0) == 90,
	   "10 bad requests among 100: %zu refused, %zu done", rig_count(b, -EACCES),
	   rig_count(b, 0));
	rig_batch_free(b);
	if (!te_regions_remove(target.env.regions, private, te_now()))
		te_region_free(private);
	free(mine);
}

static void unmapped(void)
{
	size_t len = 1 << 20;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct te_region *r = rig_register(&target, p, len, true);

	munmap(p, len);
	ok(rig_one(&source, TE_READ, source.mem, (uintptr_t)p, 4096, NULL) == -ECONNRESET,
	   "READ of memory that the target has unmapped fails");
	ok(rig_one(&source, TE_WRITE, source.mem, (uintptr_t)p, 100, NULL) == -ECONNRESET,
	   "small WRITE to it fails");
	ok(rig_one(&source, TE_WRITE, source.mem, (uintptr_t)p, len, NULL) == -ECONNRESET,
	   "long WRITE to it fails");
	ok(!rig_one(&source, TE_READ, source.mem, (uintptr_t)target.mem, 4096, NULL),
	   "the target lives");
	ok(!te_regions_remove(target.env.regions, r, te_now() + TE_NSEC_PER_SEC),
	   "and holds no reference");
	te_region_free(r);
}

struct load {
	pthread_t thread;
	unsigned id;
	_Atomic bool *stop;
	size_t rounds, bad;
};

static void *run_load(void *arg)
{
	struct load *w = arg;
	size_t share = RIG_BUFFER / 16;
	char *mine = source.mem + w->id * share;

	while (w->rounds < 30 || (w->stop && !atomic_load(w->stop))) {
		struct rig_batch *b = rig_batch_new(128);

		for (size_t i = 0; i < 128; i++)
			rig_add(&source, b, i % 2 ? TE_READ : TE_WRITE, mine + i * 4096,
				(uintptr_t)target.mem + w->id * share + i * 4096, 4096);
		rig_submit(&source, b);
		if (!rig_wait(&source, b, w->rounds % 4 != 0, 20)) {
			w->bad++;
			return NULL;
		}
		w->bad += rig_count(b, 0) != 128;
		w->rounds++;
		rig_batch_free(b);
	}
	return NULL;
}

static void threads(void)
{
	struct load w[12] = { 0 };
	size_t bad = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(w); i++) {
		w[i].id = i;
		pthread_create(&w[i].thread, NULL, run_load, &w[i]);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(w); i++) {
		pthread_join(w[i].thread, NULL);
		bad += w[i].bad;
	}
	ok(!bad, "12 threads, 30 batches of 128 each");
}

/* A region goes while it is read and written all the time. */
static void unregister(void)
{
	_Atomic bool stop = false;
	struct load w = { .id = 3, .stop = &stop };
	uint64_t start;
	int rc;

	pthread_create(&w.thread, NULL, run_load, &w);
	while (!atomic_load(&target.requests))
		sched_yield();
	start = te_now();
	rc = te_regions_remove(target.env.regions, target.region, start + 5 * TE_NSEC_PER_SEC);
	ok(!rc && te_now() - start < TE_NSEC_PER_SEC, "unregister under load takes %.1f ms",
	   (double)(te_now() - start) / 1e6);
	memset(target.view, 0x55, RIG_BUFFER);
	atomic_store(&stop, true);
	pthread_join(w.thread, NULL);
	ok(w.bad, "then requests are refused");
	start = 0;
	for (size_t i = 0; i < RIG_BUFFER; i++)
		start += target.view[i] != 0x55;
	ok(!start, "and nothing is written any more");
	te_region_free(target.region);
	target.region = rig_register(&target, target.mem, RIG_BUFFER, true);
}

static void ipv6(void)
{
	struct te_peer *v4 = source.peer;
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	struct sockaddr_in6 lo = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	bool have = fd >= 0 && !bind(fd, (struct sockaddr *)&lo, sizeof(lo));

	if (fd >= 0)
		close(fd);
	if (!have) {
		skip("no IPv6 here");
		return;
	}
	ok(!rig_connect(&source, "::1", target.port, 2, NULL) &&
		   !rig_one(&source, TE_READ, source.mem, (uintptr_t)target.mem, 4096, NULL) &&
		   strstr(source.peer->remote, "[::1]:"),
	   "IPv6: %s to %s", source.peer->local, source.peer->remote);
	te_transport_tcp.peer_close(source.peer);
	source.peer = v4;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void idle(void)
{
	_Atomic uint32_t word = 0;
	double before;

	te_futex_wait(&word, 0, te_now() + 200 * TE_NSEC_PER_MSEC); /* polling ends */
	before = cpu_seconds();
	te_futex_wait(&word, 0, te_now() + 500 * TE_NSEC_PER_MSEC);
	ok(cpu_seconds() - before < 0.005, "idle: %.1f ms of CPU time in 500 ms",
	   (cpu_seconds() - before) * 1e3);
}

int main(void)
{
	struct te_err err;

	rig_open(&target);
	rig_open(&source);
	rig_listen(&target);
	ok(target.port >= 21000 && target.port <= 31000, "port %u of the range", target.port);
	ok(!rig_connect(&source, "127.0.0.1", target.port, 2, &err), "open a peer");
	sizes();
	mixed(1000, true);
	mixed(1000, false);
	mixed(20000, true);
	refusals();
	unmapped();
	threads();
	unregister();
	ipv6();
	idle();
	ok(atomic_load(&source.peer->slices) > 60000 && atomic_load(&target.requests) > 60000,
	   "both sides count");
	rig_close(&source);
	rig_close(&target);
	return tap_end();
}
