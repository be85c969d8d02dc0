/* tcp-raw.c - the transport tcp beside the plainest socket loop that sends the same frames.
 *
 * Two processes on loopback: tcp-raw te|raw READ|WRITE SIZE BATCH THREADS SECONDS. Prints one line. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "base/hist.h"
#include "base/util.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_segment.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"

enum { BUFFER = 64 << 20, IOV_MOST = 1024 };

struct batch {
	struct te_slice *slices;
	_Atomic uint32_t pending;
	_Atomic int failed;
};

struct job {
	struct te_peer *peer;
	int op;
	uint64_t size;
	unsigned batch, id;
	uint64_t until, base;	/* base: the target's buffer */
	char *local;
	uint64_t done;
	int fd;			/* raw */
	pthread_t thread;
};

static struct te_hist latency;

static void done(struct te_sink *sink, struct te_slice *list, const struct te_err *why)
{
	(void)sink;
	while (list) {
		struct te_slice *next = list->next;
		struct batch *b = (struct batch *)list->task;

		if (list->status && !atomic_fetch_add(&b->failed, 1))
			fprintf(stderr, "failed %d: %s\n", list->status, why ? why->msg : "?");
		if (atomic_fetch_sub(&b->pending, 1) == 1)
			te_futex_wake(&b->pending, 1);
		list = next;
	}
}

static void *run_te(void *arg)
{
	struct job *j = arg;
	struct batch b = { .slices = calloc(j->batch, sizeof(struct te_slice)) };
	uint64_t at = 0;

	while (te_now() < j->until && !b.failed) {
		uint64_t start = te_now();

		for (unsigned i = 0; i < j->batch; i++) {
			b.slices[i] = (struct te_slice){
				.next = i + 1 < j->batch ? &b.slices[i + 1] : NULL,
				.peer = j->peer,
				.local = j->local + at,
				.remote = j->base + at,
				.len = j->size,
				.deadline = start + 30 * TE_NSEC_PER_SEC,
				.op = (uint8_t)j->op,
				.task = (struct te_task *)&b,
			};
			at = at + 2 * j->size > BUFFER ? 0 : at + j->size;
		}
		atomic_store(&b.pending, j->batch);
		te_transport_tcp.submit(j->peer, b.slices);
		for (unsigned i = 0; b.pending; i = (i + 1) % j->batch) {
			uint32_t seen;

			if (!atomic_load(&b.slices[i].conn))
				continue;
			te_transport_tcp.help(j->peer, &b.slices[i], &b.pending, j->until + 10 * TE_NSEC_PER_SEC);
			while (atomic_load(&b.slices[i].conn) && (seen = b.pending))
				te_futex_wait(&b.pending, seen, te_now() + 100 * TE_NSEC_PER_MSEC);
		}
		te_hist_add(&latency, te_now() - start);
		j->done += j->batch;
	}
	return NULL;
}

static void all_iov(int fd, struct iovec *iov, unsigned n, bool out)
{
	while (n) {
		ssize_t k = out ? writev(fd, iov, (int)MIN(n, 1024)) : readv(fd, iov, (int)MIN(n, 1024));

		if (k <= 0)
			exit(3);
		while (n && (size_t)k >= iov->iov_len) {
			k -= (ssize_t)iov->iov_len;
			iov++;
			n--;
		}
		if (n && k) {
			iov->iov_base = (char *)iov->iov_base + k;
			iov->iov_len -= (size_t)k;
		}
	}
}

static void *run_raw(void *arg)
{
	struct job *j = arg;
	struct iovec *iov = calloc(2 * j->batch, sizeof(*iov));
	uint8_t(*head)[TE_TCP_HEADER] = calloc(j->batch, TE_TCP_HEADER);
	uint64_t *status = calloc(j->batch, 8), at = 0;

	while (te_now() < j->until) {
		uint64_t start = te_now(), first = at;

		for (unsigned i = 0; i < j->batch; i++) {
			te_tcp_put_request(head[i], j->size, j->base + at, (unsigned)j->op | TE_TCP_V2);
			iov[2 * i] = (struct iovec){ head[i], TE_TCP_HEADER };
			iov[2 * i + 1] = (struct iovec){ j->local + at, j->size };
			at = at + 2 * j->size > BUFFER ? 0 : at + j->size;
		}
		if (j->op == TE_WRITE) {
			all_iov(j->fd, iov, 2 * j->batch, true);
			all_iov(j->fd, &(struct iovec){ status, 8ul * j->batch }, 1, false);
		} else {
			all_iov(j->fd, &(struct iovec){ head, (size_t)TE_TCP_HEADER * j->batch }, 1, true);
			at = first;
			for (unsigned i = 0; i < j->batch; i++) {
				iov[2 * i] = (struct iovec){ &status[i], 8 };
				iov[2 * i + 1] = (struct iovec){ j->local + at, j->size };
				at = at + 2 * j->size > BUFFER ? 0 : at + j->size;
			}
			all_iov(j->fd, iov, 2 * j->batch, false);
		}
		te_hist_add(&latency, te_now() - start);
		j->done += j->batch;
	}
	return NULL;
}

struct raw_server {
	int fd;
	unsigned batch;
	int op;
	char *mem;
	uint64_t size;
};

static void *serve_raw(void *arg)
{
	struct raw_server *r = arg;
	uint8_t(*head)[TE_TCP_HEADER] = calloc(r->batch, TE_TCP_HEADER);
	struct iovec *iov = calloc(2 * r->batch, sizeof(*iov));
	uint64_t *status = calloc(r->batch, 8), at = 0;
	size_t have = 0;

	for (unsigned i = 0; i < r->batch; i++)
		status[i] = te_tcp_status(0);
	for (;;) {
		if (r->op == TE_WRITE) {
			for (unsigned i = 0; i < r->batch; i++) {
				iov[2 * i] = (struct iovec){ head[i], TE_TCP_HEADER };
				iov[2 * i + 1] = (struct iovec){ r->mem + at, r->size };
				at = at + 2 * r->size > BUFFER ? 0 : at + r->size;
			}
			all_iov(r->fd, iov, 2 * r->batch, false);
			all_iov(r->fd, &(struct iovec){ status, 8ul * r->batch }, 1, true);
			continue;
		}
		ssize_t k = read(r->fd, (char *)head + have, (size_t)TE_TCP_HEADER * r->batch - have);
		unsigned n;

		if (k <= 0)
			exit(0);
		have += (size_t)k;
		n = (unsigned)(have / TE_TCP_HEADER);
		for (unsigned i = 0; i < n; i++) {
			struct te_tcp_request q = te_tcp_get_request(head[i]);

			iov[2 * i] = (struct iovec){ &status[i], 8 };
			iov[2 * i + 1] = (struct iovec){ (void *)q.addr, q.size };
		}
		all_iov(r->fd, iov, 2 * n, true);
		have -= (size_t)n * TE_TCP_HEADER;
		memmove(head, head + n, have);
	}
}

static char *buffer(void)
{
	char *p = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(p, 1, BUFFER);
	return p;
}

static double cpu(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
	       ((double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_usec) / 1e6;
}

static struct te_sink sink = { done };
static struct te_conf conf;
static _Atomic uint64_t counter[3];
static struct te_transport_env env = { .conf = &conf, .sink = &sink, .serve = true, .token = "",
	&counter[0], &counter[1], &counter[2] };

static void child_te(int to_parent, char *mem)
{
	struct te_region r = { .addr = (uint64_t)mem, .len = BUFFER, .remote = true, .memfd = -1 }, *in;
	struct te_desc *d = te_desc_new();
	struct te_transport *t;
	struct te_err err;

	env.regions = te_regions_new();
	if (te_regions_add(env.regions, &r, &in, &err) || te_transport_tcp.open(&env, &t, &err) ||
	    te_transport_tcp.listen(t, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		exit(2);
	}
	te_transport_tcp.describe(t, d);
	dprintf(to_parent, "%u %llu\n", d->tcp_data_port, (unsigned long long)r.addr);
	for (;;)
		pause();
}

static void child_raw(int to_parent, char *mem, int op, unsigned batch, uint64_t size)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	bind(fd, (struct sockaddr *)&a, len);
	listen(fd, 100);
	getsockname(fd, (struct sockaddr *)&a, &len);
	dprintf(to_parent, "%u %llu\n", ntohs(a.sin_port), (unsigned long long)mem);
	for (;;) {
		struct raw_server *r = calloc(1, sizeof(*r));
		pthread_t t;

		*r = (struct raw_server){ .op = op, .batch = batch, .mem = mem, .size = size };
		r->fd = accept(fd, NULL, NULL);
		setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		pthread_create(&t, NULL, serve_raw, r);
	}
}

static int connect_raw(unsigned port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	connect(fd, (struct sockaddr *)&a, sizeof(a));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int main(int argc, char **argv)
{
	bool te = argc == 7 && !strcmp(argv[1], "te");
	int op = argc == 7 && !strcmp(argv[2], "WRITE") ? TE_WRITE : TE_READ, fds[2], status;
	uint64_t size = argc == 7 ? strtoull(argv[3], NULL, 0) : 0, total = 0, start, base;
	unsigned batch, threads, port;
	struct te_transport *t;
	struct te_peer *peer = NULL;
	struct te_desc *d = te_desc_new();
	struct te_peer_info info = { .name = "bench", .host = "127.0.0.1", .desc = d };
	struct te_err err;
	struct job *jobs;
	double seconds;
	FILE *in;
	pid_t pid;

	if (!size)
		return 2;
	batch = (unsigned)atoi(argv[4]);
	threads = (unsigned)atoi(argv[5]);
	te_conf_read(&conf);
	if (pipe(fds))
		return 1;
	pid = fork();
	if (!pid) {
		char *mem = buffer();

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (te)
			child_te(fds[1], mem);
		child_raw(fds[1], mem, op, batch, size);
	}
	in = fdopen(fds[0], "r");
	if (fscanf(in, "%u %llu", &port, (unsigned long long *)&base) != 2)
		return 1;
	d->tcp_data_port = port;
	d->tcp_proto_version = getenv("V1") ? 1 : 2;
	env.regions = te_regions_new();
	if (te && (te_transport_tcp.open(&env, &t, &err) || te_transport_tcp.peer_open(t, &info, &peer, &err))) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	jobs = calloc(threads, sizeof(*jobs));
	start = te_now();
	for (unsigned i = 0; i < threads; i++) {
		struct job *j = &jobs[i];

		*j = (struct job){ .peer = peer, .op = op, .size = size, .batch = batch, .id = i,
				   .until = start + (uint64_t)(atof(argv[6]) * 1e9), .base = base,
				   .local = buffer() };
		if (!te)
			j->fd = connect_raw(port);
		pthread_create(&j->thread, NULL, te ? run_te : run_raw, j);
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(jobs[i].thread, NULL);
		total += jobs[i].done;
	}
	seconds = (double)(te_now() - start) / 1e9;
	if (te) {
		te_transport_tcp.peer_close(peer);
		te_transport_tcp.close(t);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	printf("%-3s %-5s %7llu x%-4u t%-2u %9.0f req/s %6.3f GB/s  batch us p50 %.1f p99 %.1f  cpu s/GB self %.2f server %.2f\n",
	       argv[1], argv[2], (unsigned long long)size, batch, threads, (double)total / seconds,
	       (double)total * (double)size / seconds / 1e9, (double)te_hist_quantile(&latency, .5) / 1e3,
	       (double)te_hist_quantile(&latency, .99) / 1e3,
	       cpu(RUSAGE_SELF) / ((double)total * (double)size / 1e9),
	       cpu(RUSAGE_CHILDREN) / ((double)total * (double)size / 1e9));
	return 0;
}
