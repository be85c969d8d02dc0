/* test_daemon.c - the handshake daemon under good, slow, many and hostile clients. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/util.h"
#include "engine/daemon.h"
#include "host/sock.h"
#include "tap.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"

enum { BIG = 8 << 20, MANY = 1100 };

#define EMPTY_DESC                                                                                 \
	"{\"local_gid\":\"\",\"local_lid\":0,\"local_nic_path\":\"\",\"payload\":\"\","            \
	"\"peer_nic_path\":\"\",\"qp_num\":[],\"reply_msg\":\"\"}"

static struct te_conf conf;
static struct te_daemon *daemon_under_test;
static unsigned port;

static uint64_t in_ms(unsigned ms)
{
	return te_now() + (uint64_t)ms * TE_NSEC_PER_MSEC;
}

/* What an engine over tcp answers; and a large reply to order. */
static char *reply_to(enum te_rpc_type type, const json_t *root)
{
	const char *s;
	char *big;

	switch (type) {
	case TE_RPC_CONNECTION:
	case TE_RPC_OLD:
		return strdup(EMPTY_DESC);
	case TE_RPC_NOTIFY:
		if (te_json_str(root, "name", &s, NULL) ||
		    te_json_str(root, "notify_msg", &s, NULL))
			return NULL;
		return strdup("{\"name\":\"\",\"notify_msg\":\"success\"}");
	case TE_RPC_PROBE:
		return strdup("{\"status\":\"success\"}");
	case TE_RPC_RETIRE:
		return NULL;
	case TE_RPC_METADATA:
		break;
	}
	if (!json_object_get(root, "big"))
		return strdup("null");
	big = malloc(BIG + 1);
	memset(big, ' ', BIG);
	big[BIG] = '\0';
	return big;
}

static char *handle(void *arg, enum te_rpc_type type, const char *body, size_t len, uint64_t who)
{
	json_t *root;
	char *text;

	(void)arg, (void)who;
	if (te_json_parse(body, len, &root, NULL))
		return NULL;
	text = reply_to(type, root);
	json_decref(root);
	return text;
}

static int client(void)
{
	return te_sock_connect("127.0.0.1", port, AF_INET, in_ms(5000), NULL);
}

/* Sends the bytes, returns what comes back until the end (at most size), or negative errno. */
static int talk_on(int fd, const void *bytes, size_t len, char *reply, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int rc = te_sock_send(fd, bytes, len, in_ms(3000));
	size_t got = 0;

	while (!rc && got < size && poll(&p, 1, 3000) == 1) {
		ssize_t n = recv(fd, reply + got, size - got, 0);

		/* A reset, too, is an end: what we sent was not read. */
		if (n <= 0)
			return n && errno != ECONNRESET ? -errno : (int)got;
		got += (size_t)n;
	}
	return rc ? rc : -ETIMEDOUT;
}

static int talk(const void *bytes, size_t len, char *reply, size_t size)
{
	int fd = client(), rc;

	rc = talk_on(fd, bytes, len, reply, size);
	close(fd);
	return rc;
}

/* ms that a probe takes, or -1. */
static int probe(void)
{
	static const char want[] = "\x16\0\0\0\0\0\0\0\x03{\"status\":\"success\"}\n";
	uint64_t start = te_now();
	char reply[64];
	int n = talk("\x04\0\0\0\0\0\0\0\x03{}\n", 12, reply, sizeof(reply));

	if (n != sizeof(want) - 1 || memcmp(reply, want, (size_t)n))
		return -1;
	return (int)((te_now() - start) / TE_NSEC_PER_MSEC);
}

/* The best of a few, because the machine may be busy; a daemon that is held up is so for seconds.
 */
static bool probe_is_quick(void)
{
	for (int i = 0; i < 5; i++) {
		int ms = probe();

		if (ms < 0)
			return false;
		if (ms < 100)
			return true;
	}
	return false;
}

/* ---- what was seen on the wire (wire/examples.md 2.1) -------------------------------------- */

#define FRAME(head, text) head "\0\0\0\0\0\0\0" text "\n"

static void test_vectors(void)
{
	static const char desc[] = FRAME("\x6f", "\0" EMPTY_DESC),
			  old[] = FRAME("\x6e", EMPTY_DESC);
	static const struct {
		const char *what;
		const char *ask, *want;
		size_t ask_len, want_len;
	} cases[] = {
#define CASE(what, ask, want) { what, ask, want, sizeof(ask) - 1, sizeof(want) - 1 }
		CASE("notify", FRAME("\x24", "\x02{\"name\":\"me\",\"notify_msg\":\"hello\"}"),
		     FRAME("\x24", "\x02{\"name\":\"\",\"notify_msg\":\"success\"}")),
		CASE("probe", FRAME("\x04", "\x03{}"),
		     FRAME("\x16", "\x03{\"status\":\"success\"}")),
		CASE("metadata without a segment", FRAME("\x04", "\x01{}"),
		     FRAME("\x06", "\x01null")),
		CASE("connection", FRAME("\x04", "\0{}"), desc),
		CASE("old form", FRAME("\x03", "{}"), old),
		CASE("type 9 is the old form", FRAME("\x04", "\t{}"), old),
		CASE("bytes after the request", FRAME("\x04", "\x03{}") "more and more",
		     FRAME("\x16", "\x03{\"status\":\"success\"}")),
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char reply[256];
		int n = talk(cases[i].ask, cases[i].ask_len, reply, sizeof(reply));

		ok(n == (int)cases[i].want_len && !memcmp(reply, cases[i].want, (size_t)n),
		   "%s: %d bytes", cases[i].what, n);
	}
}

static void test_refused(void)
{
	static const struct {
		const char *what;
		const char *ask;
		size_t len;
	} cases[] = {
#define BAD(what, ask) { what, ask, sizeof(ask) - 1 }
		BAD("length 0", "\0\0\0\0\0\0\0\0\x03{}\n"),
		BAD("length above the limit", "\x01\0\x10\0\0\0\0\0\x03{}\n"),
		BAD("length 2^63", "\0\0\0\0\0\0\0\x80\x03{}\n"),
		BAD("length 2^63 + 8", "\x08\0\0\0\0\0\0\x80\x03{}\n"),
		BAD("length 2^64 - 1", "\xff\xff\xff\xff\xff\xff\xff\xff\x03{}\n"),
		BAD("type 0x80", FRAME("\x04", "\x80{}")),
		BAD("type 0xff", FRAME("\x04", "\xff{}")),
		BAD("no body", "\x01\0\0\0\0\0\0\0\x03"),
		BAD("malformed JSON", FRAME("\x04", "\x03{x")),
		BAD("type 0x11 and no old form", FRAME("\x04", "\x11{}")),
		BAD("notify: a list", FRAME("\x04", "\x02[]")),
		BAD("notify: wrong types", FRAME("\x1b", "\x02{\"name\":1,\"notify_msg\":2}")),
		BAD("a NUL", "\x05\0\0\0\0\0\0\0\x03{}\0\n"),
	};
	char deep[9 + 1500] = "\xdd\x05\0\0\0\0\0\0\x03", reply[16];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ok(!talk(cases[i].ask, cases[i].len, reply, sizeof(reply)),
		   "refused without a byte: %s", cases[i].what);
	memset(deep + 9, '[', 1500);
	for (char type = 0; type <= 3; type++) {
		deep[8] = type;
		ok(!talk(deep, sizeof(deep), reply, sizeof(reply)), "1500 brackets, type %d", type);
	}
	ok(probe() >= 0, "the daemon lives");
}

/* ---- slow and many clients ----------------------------------------------------------------- */

static void test_pieces(void)
{
	static const char ask[] = FRAME("\x04", "\x03{}");
	int fd = client(), rc = 0;
	char reply[64];

	for (size_t i = 0; i < sizeof(ask) - 2; i++)
		rc |= te_sock_send(fd, ask + i, 1, in_ms(1000)) || !probe_is_quick();
	ok(!rc, "a client that sends a byte at a time delays nobody");
	ok(talk_on(fd, "\n", 1, reply, sizeof(reply)) == 30, "and gets its reply");
	close(fd);
}

static void test_big(void)
{
	static const char ask[] = FRAME("\x0b", "\x01{\"big\":1}");
	struct pollfd p = { .events = POLLIN };
	int fd = client(), n;
	char *reply = malloc(BIG + 100);

	te_sock_send(fd, ask, sizeof(ask) - 1, in_ms(1000));
	p.fd = fd;
	poll(&p, 1, 5000);
	ok(probe_is_quick(), "a client that does not read delays nobody");
	n = talk_on(fd, "", 0, reply, BIG + 100);
	ok(n == 9 + BIG + 1 && reply[9] == ' ' && reply[n - 1] == '\n', "a large reply: %d bytes",
	   n);
	free(reply);
	close(fd);
}

static long rss_kib(void)
{
	long pages = 0, unused;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%ld %ld", &unused, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static void test_idle(void)
{
	static const char head[] = "\0\0\x10\0\0\0\0\0\x03"; /* 1 MiB is to follow */
	int fds[400];
	long before;

	probe();
	before = rss_kib();
	for (size_t i = 0; i < 200; i++)
		fds[i] = client();
	ok(probe_is_quick(), "200 idle connections delay nobody");
	for (size_t i = 200; i < 400; i++) {
		fds[i] = client();
		te_sock_send(fds[i], head, 9, in_ms(1000));
	}
	ok(probe_is_quick(), "nor do 200 that announce 1 MiB each");
	ok(rss_kib() - before < 8192, "and memory is flat: %ld KiB more", rss_kib() - before);
	close_all(fds, 400);
}

/* Four clients at once, because each takes its 5 s. */
static void test_deadlines(void)
{
	int idle = client(), half = client(), drip = client(), lingerer = client(), rc;
	uint64_t start = te_now(), seen = 0;
	char reply[64], c = 0;
	bool lingering = true;

	te_sock_send(half, "\x04\0\0\0\0\0\0\0", 8, in_ms(1000));
	te_sock_send(drip, "\x40\0\0\0\0\0\0\0", 8, in_ms(1000));
	ok(talk_on(lingerer, "\x04\0\0\0\0\0\0\0\x03{}\n", 12, reply, sizeof(reply)) == 30,
	   "the reply and its end come at once");
	ok(probe_is_quick(), "a client that does not close delays nobody");
	do {
		rc = te_sock_recv(drip, &c, 1, in_ms(200));
		if (rc == -ETIMEDOUT)
			te_sock_send(drip, "\x03", 1, in_ms(100));
		/* Gone at the other side: a reset answers what we send. */
		if (lingering && te_sock_send(lingerer, "x", 1, in_ms(100))) {
			lingering = false;
			seen = te_now() - start;
		}
	} while (rc == -ETIMEDOUT && te_now() - start < 10 * TE_NSEC_PER_SEC);
	ok(rc == -ECONNRESET && te_now() - start > 4 * TE_NSEC_PER_SEC &&
		   te_now() - start < 7 * TE_NSEC_PER_SEC,
	   "a dripping client is cut off after 5 s");
	ok(!lingering && seen < 3 * TE_NSEC_PER_SEC, "one that does not close after 1 s");
	ok(te_sock_recv(idle, &c, 1, in_ms(1000)) == -ECONNRESET &&
		   te_sock_recv(half, &c, 1, in_ms(1000)) == -ECONNRESET,
	   "so are idle ones");
	close(idle);
	close(half);
	close(drip);
	close(lingerer);
}

static void test_many(void)
{
	static int fds[MANY];
	struct rlimit lim, wide;
	struct pollfd first;

	getrlimit(RLIMIT_NOFILE, &lim);
	wide = lim;
	wide.rlim_cur = MIN(lim.rlim_max, 4096);
	if (setrlimit(RLIMIT_NOFILE, &wide) || wide.rlim_cur < 2 * MANY + 64) {
		skip("too few file descriptors");
		skip("too few file descriptors");
		return;
	}
	for (size_t i = 0; i < MANY; i++)
		fds[i] = client();
	ok(probe_is_quick(), "%d connections delay nobody", MANY);
	first = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	ok(poll(&first, 1, 1000) == 1, "the longest idle one gave way");
	close_all(fds, MANY);
	setrlimit(RLIMIT_NOFILE, &lim);
}

/* ---- no file descriptors ------------------------------------------------------------------- */

static int warnings;

static void count_warning(void *arg, enum te_log_level level, const char *text)
{
	(void)arg;
	(void)level;
	warnings += strstr(text, "cannot accept") != NULL;
}

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int filler[256];
static size_t fillers;
static int quiet_files; /* how many are open when the daemon has no clients */

static int highest_file(int *count)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int highest = 0;

	*count = -1; /* dir's own */
	while ((e = readdir(dir))) {
		if (*e->d_name == '.')
			continue;
		(*count)++;
		highest = MAX(highest, (int)strtol(e->d_name, NULL, 10));
	}
	closedir(dir);
	return highest;
}

/* The daemon closes its side in its own time. */
static void wait_for_files(int want)
{
	uint64_t until = in_ms(5000);
	int count;

	do {
		poll(NULL, 0, 1);
		highest_file(&count);
	} while (count != want && te_now() < until);
}

/* Until nobody in this process can open anything. */
static void use_up_files(const struct rlimit *lim)
{
	struct rlimit tight = *lim;
	int count, fd;

	tight.rlim_cur = (rlim_t)highest_file(&count) + 1;
	setrlimit(RLIMIT_NOFILE, &tight);
	while (fillers < ARRAY_SIZE(filler) && (fd = dup(0)) >= 0)
		filler[fillers++] = fd;
}

static void free_files(const struct rlimit *lim)
{
	setrlimit(RLIMIT_NOFILE, lim);
	while (fillers)
		close(filler[--fillers]);
}

static int start_connect(int fd)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return connect(fd, (struct sockaddr *)&to, sizeof(to)) && errno != EINPROGRESS;
}

static void test_no_files(void)
{
	static const struct te_log_sink sink = { .line = count_warning };
	static const char ask[] = FRAME("\x04", "\x03{}");
	struct pollfd p = { .events = POLLIN };
	struct rlimit lim;
	char reply[64];
	int fd, rc, n;
	double cpu;

	te_log_set_sink(&sink);
	getrlimit(RLIMIT_NOFILE, &lim);
	wait_for_files(quiet_files);
	p.fd = client();
	wait_for_files(quiet_files + 2);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	use_up_files(&lim);
	rc = start_connect(fd);
	n = talk_on(fd, ask, sizeof(ask) - 1, reply, sizeof(reply));
	ok(!rc && n == 30, "without descriptors an idle client gives way: %d", n);
	ok(poll(&p, 1, 1000) == 1, "it is closed");
	free_files(&lim);
	close(p.fd);
	close(fd);

	wait_for_files(quiet_files);
	p.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	use_up_files(&lim);
	cpu = cpu_seconds();
	ok(!start_connect(p.fd) && !poll(&p, 1, 500), "nobody is there to give way");
	ok(cpu_seconds() - cpu < 0.1, "waiting burns no processor");
	free_files(&lim);
	ok(talk_on(p.fd, ask, sizeof(ask) - 1, reply, sizeof(reply)) == 30,
	   "accepting goes on when there are descriptors again");
	ok(warnings == 1, "one warning: %d", warnings);
	close(p.fd);
	te_log_set_sink(NULL);
}

static void test_stop(void)
{
	int fds[3];
	uint64_t start;
	char c;

	for (size_t i = 0; i < 3; i++)
		fds[i] = client();
	probe();
	start = te_now();
	te_daemon_stop(daemon_under_test);
	ok(te_now() - start < TE_NSEC_PER_SEC, "stop does not wait for clients");
	ok(te_sock_recv(fds[0], &c, 1, in_ms(1000)) == -ECONNRESET, "they are closed");
	ok(client() == -ECONNREFUSED, "so is the port");
	close_all(fds, 3);
	te_daemon_stop(NULL);
}

int main(void)
{
	static const struct te_daemon_ops ops = { .handle = handle };
	struct te_err err = { 0 };
	int fd;

	te_conf_read(&conf);
	fd = te_sock_listen("127.0.0.1", 0, 1024, &err);
	port = te_sock_port(fd);
	ok(!te_daemon_start(&conf, fd, &ops, NULL, &daemon_under_test, &err), "start %s", err.msg);
	highest_file(&quiet_files);
	test_vectors();
	test_refused();
	test_pieces();
	test_big();
	test_idle();
	test_many();
	test_no_files();
	test_deadlines();
	test_stop();
	return tap_end();
}
