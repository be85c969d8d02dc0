/* test_tcp_server.c - what a foreign initiator sees of our server (wire/examples.md 2.2). */
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "host/sock.h"
#include "tcp_rig.h"
#include "transport/tcp/wire.h"

#ifdef __SANITIZE_THREAD__
enum { FLOOD_KIB = 32 << 10 };
#else
enum { FLOOD_KIB = 4 << 10 };
#endif

static struct rig target;

static const uint8_t status_ok[8] = { 0, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d };
static const uint8_t status_refused[8] = { 1, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d };

static uint64_t soon(void)
{
	return te_now() + 5 * TE_NSEC_PER_SEC;
}

static int dial(void)
{
	return te_sock_connect("127.0.0.1", target.port, AF_INET, soon(), NULL);
}

/* As the real engine lays it out: padding is whatever lay in its memory. */
static void header(uint8_t to[24], uint64_t size, const void *addr, uint8_t opcode)
{
	static const uint8_t dirty[7] = { 0xef, 0x70, 0x4f, 0x4f, 0x56, 0, 0xff };
	uint64_t a = (uintptr_t)addr;

	for (int i = 0; i < 8; i++) {
		to[i] = (uint8_t)(size >> (8 * i));
		to[8 + i] = (uint8_t)(a >> (8 * i));
	}
	to[16] = opcode;
	memcpy(to + 17, dirty, 7);
}

static void ask(int fd, uint64_t size, const void *addr, uint8_t opcode)
{
	uint8_t h[24];

	header(h, size, addr, opcode);
	te_sock_send(fd, h, sizeof(h), soon());
}

static bool gets(int fd, const void *want, size_t len)
{
	char *buf = malloc(len);
	bool same = !te_sock_recv(fd, buf, len, soon()) && !memcmp(buf, want, len);

	free(buf);
	return same;
}

/* The end of the stream: 0 by FIN, 1 by reset, -1 when bytes or nothing came. */
static int ending(int fd)
{
	char c;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n = poll(&p, 1, 5000) == 1 ? recv(fd, &c, 1, 0) : 1;

	return n == 0 ? 0 : n < 0 && errno == ECONNRESET ? 1 : -1;
}

static void bytes_of_the_examples(void)
{
	char payload[64];
	uint8_t h[24];
	int fd = dial();

	te_tcp_put_request(h, 64, 0x7f4c79a91000, TE_TCP_WRITE | TE_TCP_V2);
	ok(!memcmp(h, "\x40\0\0\0\0\0\0\0\x00\x10\xa9\x79\x4c\x7f\0\0\x81\0\0\0\0\0\0\0", 24),
	   "a v2 WRITE of 64 bytes is encoded as in the capture");
	te_tcp_put_request(h, 16, 0x7f299b4cf000, TE_TCP_READ);
	ok(!memcmp(h, "\x10\0\0\0\0\0\0\0\x00\xf0\x4c\x9b\x29\x7f\0\0\0\0\0\0\0\0\0\0", 24),
	   "a v1 READ of 16 bytes too");

	rig_fill(payload, 64, 1);
	ask(fd, 64, target.mem, 0x81);
	te_sock_send(fd, payload, 64, soon());
	ok(gets(fd, status_ok, 8) && !memcmp(target.view, payload, 64),
	   "v2 WRITE: status, applied");
	ask(fd, 64, target.mem, 0x80);
	ok(gets(fd, status_ok, 8) && gets(fd, payload, 64), "v2 READ on the same connection");
	ask(fd, 16, target.mem + 100, 1);
	te_sock_send(fd, "ABCDEFGHIJKLMNOP", 16, soon());
	ask(fd, 16, target.mem + 100, 0);
	ok(gets(fd, "ABCDEFGHIJKLMNOP", 16), "v1 WRITE has no reply, v1 READ no status");
	ask(fd, 8, target.mem, 0x80);
	ask(fd, 16, target.mem + 100, 0x80);
	ok(gets(fd, status_ok, 8) && gets(fd, payload, 8) && gets(fd, status_ok, 8) &&
		   gets(fd, "ABCDEFGHIJKLMNOP", 16),
	   "two pipelined READs are answered in order");
	shutdown(fd, SHUT_WR);
	ok(ending(fd) == 0, "our FIN is answered by one");
	close(fd);
}

/* READ, then WRITE to the same range and to another, in one segment. */
static void order(void)
{
	uint8_t stream[4 * 24 + 32];
	int fd = dial();

	memset(target.view, 'o', 64);
	header(stream, 16, target.mem, 0x80);
	header(stream + 24, 16, target.mem + 16, 0x81);
	memset(stream + 48, 'n', 16);
	header(stream + 64, 16, target.mem + 8, 0x81);
	memset(stream + 88, 'N', 16);
	header(stream + 104, 32, target.mem, 0x80);
	te_sock_send(fd, stream, sizeof(stream), soon());
	ok(gets(fd, status_ok, 8) && gets(fd, "oooooooooooooooo", 16) && gets(fd, status_ok, 8) &&
		   gets(fd, status_ok, 8) && gets(fd, status_ok, 8) &&
		   gets(fd, "ooooooooNNNNNNNNNNNNNNNNnnnnnnnn", 32),
	   "pipelined requests to one range keep their order");
	close(fd);
}

static void refusal(const char *what, uint64_t size, const void *addr, uint8_t opcode)
{
	int fd = dial();

	ask(fd, size, addr, opcode);
	if (opcode & 0x80) {
		ok(gets(fd, status_refused, 8) && ending(fd) == 0, "%s: refusal frame, then FIN",
		   what);
	} else {
		ok(ending(fd) >= 0, "%s: closed without a byte", what);
	}
	close(fd);
}

static void refusals(void)
{
	char *end = target.mem + RIG_BUFFER, *big = calloc(1, 8 << 20);
	int fd;

	refusal("v2 READ outside", 64, end + 4096, 0x80);
	refusal("v2 READ across the end", 65, end - 64, 0x80);
	refusal("v2 READ of nothing", 0, target.mem, 0x80);
	refusal("v2 READ that wraps", UINT64_MAX - 10, target.mem, 0x80);
	refusal("v1 READ outside", 64, end + 4096, 0);
	refusal("v1 WRITE across the end", 65, end - 64, 1);
	refusal("opcode 0x85", 64, target.mem, 0x85);
	refusal("opcode 2", 64, target.mem, 2);

	fd = dial();
	ask(fd, 8 << 20, end, 0x81);
	fcntl(fd, F_SETFL, 0);
	for (size_t sent = 0; sent < 8 << 20;) {
		ssize_t n = send(fd, big + sent, (8 << 20) - sent, MSG_NOSIGNAL);

		if (n < 0)
			break;
		sent += (size_t)n;
	}
	ok(gets(fd, status_refused, 8) && ending(fd) == 0,
	   "the frame outlives 8 MiB that are still on their way");
	close(fd);

	fd = dial();
	ask(fd, 16, target.mem, 0x80);
	ask(fd, 16, end, 0x80);
	ask(fd, 16, target.mem, 0x80);
	ok(gets(fd, status_ok, 8) && gets(fd, target.view, 16) && gets(fd, status_refused, 8) &&
		   ending(fd) == 0,
	   "what was asked before a refused request is answered, what came after is not");
	close(fd);
	free(big);
}

/* Any cut of the stream gives the same result, in memory that is copied to in either way. */
static void cuts(int memfd)
{
	enum { N = 40 };
	static const size_t cut[] = { 1, 7, 24, 25, 31, 4000, 100000 };
	uint8_t *stream = malloc(N * (24 + 3000));

	if (!te_regions_remove(target.env.regions, target.region, soon()))
		te_region_free(target.region);
	target.region = rig_register_as(&target, target.mem, RIG_BUFFER, true, memfd);

	for (size_t k = 0; k < ARRAY_SIZE(cut); k++) {
		size_t len = 0, good = 0, statuses = 0;
		int fd = dial();

		memset(target.view, 0, RIG_BUFFER);
		for (size_t i = 0; i < N; i++) {
			size_t n = i % 4 == 3 ? 3000 : 1 + i;

			header(stream + len, n, target.mem + i * 4096, 0x81);
			rig_fill((char *)stream + len + 24, n, (unsigned)(i + k));
			len += 24 + n;
		}
		for (size_t at = 0; at < len; at += cut[k])
			te_sock_send(fd, stream + at, MIN(cut[k], len - at), soon());
		for (; statuses < N && gets(fd, status_ok, 8); statuses++)
			;
		for (size_t i = 0, at = 24; i < N; i++) {
			size_t n = i % 4 == 3 ? 3000 : 1 + i;

			good += !memcmp(target.view + i * 4096, stream + at, n) &&
				!target.view[i * 4096 + n];
			at += 24 + n;
		}
		ok(statuses == N && good == N, "%d WRITEs sent in pieces of %zu bytes", N, cut[k]);
		close(fd);
	}
	free(stream);
}

/* Small WRITEs and long READs in one stream, replies read late: nothing may be lost or reordered.
 */
static void blocked(void)
{
	enum { N = 600, READ_LEN = 200000 };
	uint8_t *stream = malloc(N * (2 * 24 + 100)), *got = malloc(READ_LEN);
	size_t len = 0, good = 0, written = 0, sent = 0;
	int fd = dial();

	rig_fill(target.view, RIG_BUFFER, 11);
	for (size_t i = 0; i < N; i++, len += 2 * 24 + 100) {
		header(stream + len, 100, target.mem + i * 128, 0x81);
		rig_fill((char *)stream + len + 24, 100, (unsigned)i);
		header(stream + len + 124, READ_LEN, target.mem + (1 << 20), 0x80);
	}
	for (size_t i = 0; i < N; i++) {
		ssize_t n = send(fd, stream + sent, len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		sent += n > 0 ? (size_t)n : 0;
		good += gets(fd, status_ok, 8) && gets(fd, status_ok, 8) &&
			!te_sock_recv(fd, got, READ_LEN, soon()) &&
			!memcmp(got, target.view + (1 << 20), READ_LEN);
	}
	for (size_t i = 0; i < N; i++)
		written += !memcmp(target.view + i * 128, stream + i * 148 + 24, 100);
	ok(good == N && written == N, "%d WRITEs and READs while replies are blocked", N);
	free(stream);
	free(got);
	close(fd);
}

/* A peer that asks and asks and reads nothing must cost no memory and delay nobody. */
static void flood(void)
{
	uint8_t h[24];
	struct rusage before, after;
	int greedy = dial(), fd = dial();
	char mib[16];

	header(h, 1 << 20, target.mem, 0x80);
	getrusage(RUSAGE_SELF, &before);
	while (send(greedy, h, sizeof(h), MSG_NOSIGNAL) == sizeof(h))
		;
	getrusage(RUSAGE_SELF, &after);
	ok(after.ru_maxrss - before.ru_maxrss < FLOOD_KIB,
	   "endless requests, no reading: %ld KiB more", after.ru_maxrss - before.ru_maxrss);
	ask(fd, 16, target.mem, 0x80);
	ok(gets(fd, status_ok, 8) && gets(fd, target.view, 16), "another connection is served");
	ok(read(greedy, mib, 8) == 8 && !memcmp(mib, status_ok, 8), "and so is that one");
	close(greedy);
	close(fd);
}

static void many(void)
{
	enum { N = 400 };
	int fds[N];
	size_t good = 0;

	for (int i = 0; i < N; i++)
		fds[i] = dial();
	for (int i = 0; i < N; i++)
		te_sock_send(fds[i], "\x10\0\0", 3, soon()); /* half a header, then nothing */
	for (int i = 0; i < 100; i++) {
		int fd = dial();

		ask(fd, 16, target.mem, 0x80);
		good += gets(fd, status_ok, 8) && gets(fd, target.view, 16);
		close(fd);
	}
	ok(good == 100, "400 half headers delay nobody");
	for (int i = 0; i < N; i++)
		close(fds[i]);
}

/* Descriptors run out: no spinning, and idle connections give way. */
static void descriptors(void)
{
	struct rlimit old, low;
	int fds[200], n = 0, fd;
	bool served;
	struct rusage a, b;
	_Atomic uint32_t word = 0;

	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = 60;
	for (int i = 0; i < 30; i++)
		fds[n++] = dial();
	ask(fds[n - 1], 16, target.mem, 0x80); /* all before it are accepted */
	served = gets(fds[n - 1], status_ok, 8);
	low.rlim_cur = (rlim_t)fds[n - 1] + 8;
	setrlimit(RLIMIT_NOFILE, &low);
	for (fd = dial(); fd >= 0 && n < 199; fd = dial())
		fds[n++] = fd;
	getrusage(RUSAGE_SELF, &a);
	te_futex_wait(&word, 0, te_now() + 300 * TE_NSEC_PER_MSEC);
	getrusage(RUSAGE_SELF, &b);
	ok(served && (b.ru_utime.tv_sec - a.ru_utime.tv_sec) * 1000 +
				     (b.ru_utime.tv_usec - a.ru_utime.tv_usec) / 1000 <
			     100,
	   "no spinning when descriptors are out");
	setrlimit(RLIMIT_NOFILE, &old);
	while (n)
		close(fds[--n]);
	fd = dial();
	ask(fd, 16, target.mem, 0x80);
	ok(gets(fd, status_ok, 8), "and afterwards everybody is served again");
	close(fd);
}

/* v1 WRITEs have no replies that would end a burst; memory that may vanish is written by the
 * kernel. */
static void small_v1_writes(void)
{
	enum { N = 2000, LEN = 9 };
	char *p = calloc(N, LEN), *view = malloc(N * LEN);
	struct te_region *r = rig_register(&target, p, N * LEN, true);
	uint8_t *stream = malloc((N + 2) * (24 + LEN)), *at = stream;
	int fd = dial();

	rig_fill(view, N * LEN, 4);
	for (size_t i = 0; i <= N; i++, at += 24 + LEN) {
		header(at, LEN, i ? p + (i - 1) * LEN : target.mem, 1);
		memcpy(at + 24, i ? view + (i - 1) * LEN : "whatever.", LEN);
	}
	header(at, N * LEN, p, 0);
	te_sock_send(fd, stream, (size_t)(at - stream) + 24, soon());
	ok(gets(fd, view, N * LEN), "%d small v1 WRITEs in a row", N);
	close(fd);
	ok(!te_regions_remove(target.env.regions, r, soon()), "their region is free");
	te_region_free(r);
	free(stream);
	free(view);
	free(p);
}

/* A forked process keeps our sockets alive: what we have closed must stay closed. */
static void forked(void)
{
	int fd = dial(), other = dial(), hold[2];
	char c;
	pid_t pid;

	ask(fd, 4096, target.mem, 0x81);
	ask(other, 8, target.mem, 0x80);
	if (!gets(other, status_ok, 8) || pipe(hold) || (pid = fork()) < 0) {
		ok(0, "fork");
		return;
	}
	if (!pid) {
		close(hold[1]);
		_exit(read(hold[0], &c, 1) != 0);
	}
	close(hold[0]);
	/* The server gives up on the half WRITE after its time-out, then more of it comes. */
	poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, 2000);
	send(fd, "late", 4, MSG_NOSIGNAL);
	for (int i = 0; i < 10; i++) {
		ask(other, 8, target.mem, 0x80);
		gets(other, target.view, 8);
		gets(other, status_ok, 8);
	}
	close(fd);
	fd = dial();
	ask(fd, 16, target.mem, 0x80);
	ok(gets(fd, status_ok, 8), "a closed connection that a forked process holds does no harm");
	close(hold[1]);
	waitpid(pid, NULL, 0);
	close(fd);
	close(other);
}

/* A WRITE that stops half-way gives its region back after the time-out. */
static void half_write(void)
{
	int fd = dial();
	uint64_t start = te_now();
	char *p = calloc(1, 4096);
	struct te_region *r = rig_register(&target, p, 4096, true);

	ask(fd, 4096, p, 0x81);
	te_sock_send(fd, "half", 4, soon());
	ok(ending(fd) >= 0 && te_now() - start < 3 * TE_NSEC_PER_SEC, "it is closed after %.1f s",
	   (double)(te_now() - start) / 1e9);
	ok(!te_regions_remove(target.env.regions, r, soon()), "its region is free");
	te_region_free(r);
	free(p);
	close(fd);
}

int main(void)
{
	rig_open(&target);
	target.conf.transfer_timeout_s = 1;
	rig_listen(&target);
	bytes_of_the_examples();
	order();
	refusals();
	cuts(-1);
	blocked();
	cuts(100);
	blocked();
	flood();
	many();
	descriptors();
	half_write();
	small_v1_writes();
	forked();
	rig_close(&target);
	return tap_end();
}
