/* test_host.c - addresses, sockets, handshake frames, memory. Loopback only. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "host/addr.h"
#include "host/mem.h"
#include "host/rpc.h"
#include "host/sock.h"
#include "tap.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"

static struct te_conf conf;

static uint64_t in_ms(unsigned ms)
{
	return te_now() + (uint64_t)ms * TE_NSEC_PER_MSEC;
}

/* ---- addresses ----------------------------------------------------------------------------- */

static void test_split(void)
{
	static const struct {
		const char *text, *host; /* host NULL: refused */
		unsigned port;		 /* 0: none */
	} cases[] = {
		{ "a", "a", 0 },
		{ "a:1", "a", 1 },
		{ "10.0.0.1:65535", "10.0.0.1", 65535 },
		{ "[::1]:80", "::1", 80 },
		{ "[::1]", "::1", 0 },
		{ "::1", "::1", 0 },
		{ "fe80::1%eth0", "fe80::1%eth0", 0 },
		{ "fe80::1%eth0:80", "fe80::1%eth0", 80 },
		{ "::ffff:1.2.3.4", "::ffff:1.2.3.4", 0 },
		{ "a:b:1", "a:b", 1 },
		{ "a:", NULL, 0 },
		{ "a:0", NULL, 0 },
		{ "a:65536", NULL, 0 },
		{ "a:1x", NULL, 0 },
		{ "a:0x10", NULL, 0 },
		{ "a:-1", NULL, 0 },
		{ "a: 1", NULL, 0 },
		{ ":1", NULL, 0 },
		{ "", NULL, 0 },
		{ "[]:1", NULL, 0 },
		{ "[::1", NULL, 0 },
		{ "[::1]x", NULL, 0 },
		{ "[::1]:", NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char host[64] = "";
		unsigned port = 7;
		bool has = false, good;

		good = te_addr_split(cases[i].text, host, sizeof(host), &port, &has);
		if (!cases[i].host) {
			ok(!good && port == 7, "split '%s': refused", cases[i].text);
			continue;
		}
		ok(good && !strcmp(host, cases[i].host) && has == (cases[i].port != 0) &&
			   port == (has ? cases[i].port : 7),
		   "split '%s': '%s' %u", cases[i].text, host, port);
	}
}

static void test_addr(void)
{
	char host[4], buf[TE_ADDR_TEXT], own[64];
	struct te_err err = { 0 };
	struct te_addr a[4];
	struct te_conf c = conf;
	bool has;
	unsigned port;
	char *s;

	ok(te_addr_split("abcdef:1", host, sizeof(host), &port, &has) && !strcmp(host, "abc"),
	   "a host is cut to its buffer");
	ok(te_addr_resolve("127.0.0.1", 5, AF_UNSPEC, a, 4, NULL) == 1 &&
		   !strcmp(te_addr_text(a, buf), "127.0.0.1:5") && te_addr_port(a) == 5,
	   "IPv4: %s", buf);
	ok(te_addr_resolve("::1", 5, AF_UNSPEC, a, 4, NULL) == 1 &&
		   !strcmp(te_addr_text(a, buf), "[::1]:5"),
	   "IPv6: %s", buf);
	ok(te_addr_resolve("::ffff:127.0.0.1", 5, AF_UNSPEC, a, 4, NULL) == 1 &&
		   !strcmp(te_addr_text(a, buf), "127.0.0.1:5"),
	   "mapped: %s", buf);
	ok(te_addr_resolve("::1", 5, AF_INET, a, 4, NULL) < 0, "wrong family");
	ok(te_addr_resolve("no-such-host.invalid", 5, AF_UNSPEC, a, 4, &err) < 0 &&
		   strstr(err.msg, "cannot resolve 'no-such-host.invalid'"),
	   "unknown: %s", err.msg);
	s = te_addr_join("::1", 5);
	ok(!strcmp(s, "[::1]:5"), "join");
	free(s);
	s = te_addr_join("h", 5);
	ok(!strcmp(s, "h:5"), "join a name");
	free(s);
	ok(!te_addr_own(&c, own, sizeof(own), NULL) && *own && !strchr(own, ':'), "own: %s", own);
	c.use_ipv6 = true;
	ok(!te_addr_own(&c, own, sizeof(own), NULL) && strchr(own, ':'), "own IPv6: %s", own);
	te_strlcpy(c.tcp_bind_address, "127.0.0.9", sizeof(c.tcp_bind_address));
	ok(!te_addr_own(&c, own, sizeof(own), NULL) && !strcmp(own, "127.0.0.9"), "bound address");
	c.use_ipv6 = false;
	te_strlcpy(c.tcp_bind_address, "0.0.0.0", sizeof(c.tcp_bind_address));
	ok(!te_addr_own(&c, own, sizeof(own), NULL) && strcmp(own, "0.0.0.0"),
	   "nobody can connect to 0.0.0.0");
}

/* ---- sockets ------------------------------------------------------------------------------- */

static void test_listen(void)
{
	struct te_err err = { 0 };
	int a = te_sock_listen("127.0.0.1", 0, 8, &err), b, c;
	unsigned port = te_sock_port(a), got = 0;

	ok(a >= 0 && port > 0, "listen on a port of the kernel's choice");
	ok((fcntl(a, F_GETFD) & FD_CLOEXEC) && (fcntl(a, F_GETFL) & O_NONBLOCK),
	   "close-on-exec and non-blocking");
	ok(te_sock_listen("127.0.0.1", port, 8, &err) == -EADDRINUSE &&
		   strstr(err.msg, "127.0.0.1:"),
	   "taken: %s", err.msg);
	ok(te_sock_listen(NULL, port, 8, NULL) == -EADDRINUSE, "taken for any address too");
	ok(te_sock_listen_range("127.0.0.1", port, port, 8, &got, &err) == -EADDRINUSE &&
		   strstr(err.msg, "no free port"),
	   "range: %s", err.msg);
	b = te_sock_listen_range(NULL, 20000, 30000, 8, &got, &err);
	ok(b >= 0 && te_sock_port(b) == got && got >= 20000 && got <= 30000, "a port of a range");
	c = te_sock_listen_range(NULL, got, got + 1, 8, &got, &err);
	ok(c >= 0 && te_sock_port(c) == te_sock_port(b) + 1, "the one that is left");
	ok(te_sock_listen("192.0.2.1", 0, 8, &err) == -EADDRNOTAVAIL, "foreign: %s", err.msg);
	close(a);
	close(b);
	close(c);
}

static void test_connect(void)
{
	struct te_err err = { 0 };
	int l = te_sock_listen(NULL, 0, 1, NULL), fd, peer;
	unsigned port = te_sock_port(l);
	struct te_addr from;
	char buf[8];
	uint64_t start;

	ok(te_sock_accept(l, &from) == -EAGAIN, "nobody is waiting");
	fd = te_sock_connect("127.0.0.1", port, AF_UNSPEC, in_ms(5000), &err);
	ok(fd >= 0, "IPv4 to a dual-stack listener");
	peer = te_sock_accept(l, &from);
	ok(peer >= 0 && te_addr_port(&from) == te_sock_port(fd), "accept");
	start = te_now();
	ok(te_sock_recv(fd, buf, 8, in_ms(50)) == -ETIMEDOUT && te_now() - start < TE_NSEC_PER_SEC,
	   "recv: time-out");
	ok(!te_sock_send(peer, "12345678", 8, in_ms(1000)) &&
		   !te_sock_recv(fd, buf, 8, in_ms(1000)) && !memcmp(buf, "12345678", 8),
	   "send, recv");
	close(peer);
	ok(te_sock_recv(fd, buf, 8, in_ms(1000)) == -ECONNRESET, "recv: the end");
	close(fd);
	close(l);
	ok(te_sock_connect("127.0.0.1", port, AF_UNSPEC, in_ms(5000), &err) == -ECONNREFUSED &&
		   strstr(err.msg, "cannot connect to '127.0.0.1:"),
	   "refused: %s", err.msg);
}

static void test_full(void)
{
	int l = te_sock_listen("127.0.0.1", 0, 1, NULL);
	int fd = te_sock_connect("127.0.0.1", te_sock_port(l), AF_INET, in_ms(1000), NULL);
	static char block[1 << 20];
	int rc = 0;

	for (int i = 0; i < 64 && !rc; i++)
		rc = te_sock_send(fd, block, sizeof(block), in_ms(20));
	ok(rc == -ETIMEDOUT, "send: time-out when nobody reads");
	close(l);
	close(fd);
}

/* A queue that is full drops SYNs: what a black hole looks like. */
static void test_black_hole(void)
{
	int l = te_sock_listen("127.0.0.1", 0, 0, NULL), fds[8], rc = 0;
	struct te_err err = { 0 };
	uint64_t start = te_now();
	size_t n = 0;

	while (n < ARRAY_SIZE(fds)) {
		rc = te_sock_connect("127.0.0.1", te_sock_port(l), AF_INET, in_ms(100), &err);
		if (rc < 0)
			break;
		fds[n++] = rc;
	}
	ok(rc == -ETIMEDOUT && te_now() - start < 3 * TE_NSEC_PER_SEC, "connect: %s", err.msg);
	while (n)
		close(fds[--n]);
	close(l);
}

/* ---- handshake frames ---------------------------------------------------------------------- */

static void test_frame(void)
{
	static const struct {
		enum te_rpc_type type;
		const char *text;
		unsigned char length, first;
	} cases[] = {
		{ TE_RPC_NOTIFY, "{\"name\":\"me\",\"notify_msg\":\"hello\"}", 0x24, 2 },
		{ TE_RPC_PROBE, "{}", 4, 3 },
		{ TE_RPC_PROBE, "{\"status\":\"success\"}", 0x16, 3 },
		{ TE_RPC_METADATA, "null", 6, 1 },
		{ TE_RPC_RETIRE, "{\"qp_num\":[]}", 15, 0x10 },
		{ TE_RPC_CONNECTION,
		  "{\"local_gid\":\"\",\"local_lid\":0,\"local_nic_path\":\"\",\"payload\":\"\","
		  "\"peer_nic_path\":\"\",\"qp_num\":[],\"reply_msg\":\"\"}",
		  0x6f, 0 },
		{ TE_RPC_OLD,
		  "{\"local_gid\":\"\",\"local_lid\":0,\"local_nic_path\":\"\",\"payload\":\"\","
		  "\"peer_nic_path\":\"\",\"qp_num\":[],\"reply_msg\":\"\"}",
		  0x6e, '{' }
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned char head[9] = { cases[i].length, 0, 0, 0, 0, 0, 0, 0, cases[i].first };
		enum te_rpc_type type = TE_RPC_CONNECTION;
		const char *body = NULL;
		size_t len = 0, body_len = 0;
		bool steps = true;
		char *f = te_rpc_frame(cases[i].type, cases[i].text, &len);

		ok(len == 8u + cases[i].length && !memcmp(f, head, 9) && f[len - 1] == '\n',
		   "frame %zu", i);
		ok(!te_rpc_decode(f, len, 1 << 20, &type, &body, &body_len) &&
			   type == cases[i].type && body_len == strlen(cases[i].text) + 1 &&
			   !memcmp(body, cases[i].text, body_len - 1),
		   "decode %zu", i);
		for (size_t n = 0; n < len; n++)
			steps &= te_rpc_decode(f, n, 1 << 20, &type, &body, &body_len) ==
				 (int64_t)(n < 8 ? 8 - n : len - n);
		ok(steps, "decode %zu piecemeal", i);
		free(f);
	}
}

static int64_t decode_head(uint64_t length, unsigned char first, size_t len)
{
	char buf[16] = { 0 };
	enum te_rpc_type type;
	const char *body;
	size_t body_len;

	memcpy(buf, &length, 8);
	buf[8] = (char)first;
	return te_rpc_decode(buf, len, 1 << 20, &type, &body, &body_len);
}

static enum te_rpc_type decode_type(unsigned char first)
{
	char buf[16] = { 4 };
	enum te_rpc_type type = TE_RPC_CONNECTION;
	const char *body;
	size_t body_len;

	buf[8] = (char)first;
	te_rpc_decode(buf, 12, 1 << 20, &type, &body, &body_len);
	return type;
}

static void test_bad_frames(void)
{
	int old = 0;

	ok(decode_head(0, 0, 8) == -EPROTO, "length 0");
	ok(decode_head((1 << 20) + 1, 0, 8) == -EPROTO && decode_head(1 << 20, 0, 8) == 1 << 20,
	   "the limit");
	ok(decode_head(1ull << 63, 0, 8) == -EPROTO && decode_head(UINT64_MAX, 0, 8) == -EPROTO,
	   "lengths of 2^63 and more");
	ok(decode_head(4, 0x80, 9) == -EPROTO && decode_head(4, 0xff, 12) == -EPROTO,
	   "types above 0x7f");
	ok(decode_head(4, 9, 9) == 3 && !decode_head(4, 9, 12), "9 begins the old form");
	for (unsigned char c = 4; c < 0x80; c++)
		old += decode_type(c) == TE_RPC_OLD;
	ok(old == 0x80 - 4 - 1 && decode_type(0x10) == TE_RPC_RETIRE &&
		   decode_type(3) == TE_RPC_PROBE,
	   "and so does every byte from 4 on but 0x10");
	ok(!decode_head(1, 3, 9), "a frame without a body");
}

/* A peer that reads one request and answers with these bytes, then closes or stays. */
struct peer {
	int listener;
	const char *bytes;
	size_t len;
	bool stay;
};

static void *play(void *arg)
{
	struct peer *p = arg;
	uint64_t until = in_ms(5000);
	char buf[64];
	int fd;

	poll(&(struct pollfd){ .fd = p->listener, .events = POLLIN }, 1, 5000);
	fd = te_sock_accept(p->listener, NULL);
	/* All our requests here are 12 bytes long. */
	if (!te_sock_recv(fd, buf, 12, until)) {
		te_sock_send(fd, p->bytes, p->len, until);
		if (p->stay)
			te_sock_recv(fd, buf, 1, until);
	}
	close(fd);
	return NULL;
}

static int call(const char *bytes, size_t len, unsigned ms, bool stay, char **reply,
		struct te_err *err)
{
	struct peer p = { .listener = te_sock_listen("127.0.0.1", 0, 1, NULL),
			  .bytes = bytes,
			  .len = len,
			  .stay = stay };
	size_t reply_len;
	pthread_t t;
	int rc;

	*err = (struct te_err){ 0 };
	pthread_create(&t, NULL, play, &p);
	rc = te_rpc_call(&conf, "127.0.0.1", te_sock_port(p.listener), TE_RPC_PROBE, "{}",
			 in_ms(ms), reply, &reply_len, err);
	pthread_join(t, NULL);
	close(p.listener);
	return rc;
}

static void test_call(void)
{
	static const char good[] = "\x04\0\0\0\0\0\0\0\x03{}\n",
			  other[] = "\x04\0\0\0\0\0\0\0\x01{}\n";
	static const char huge[] = "\0\0\0\0\0\0\0\x80\x03{}\n",
			  part[] = "\x05\0\0\0\0\0\0\0\x03{}\n";
	struct te_err err;
	char *reply = NULL;

	ok(!call(good, 12, 4000, false, &reply, &err) && !strcmp(reply, "{}\n"), "call: reply");
	free(reply);
	ok(!call(good, 12, 4000, true, &reply, &err), "call: a peer that does not close");
	free(reply);
	ok(call(other, 12, 4000, false, &reply, &err) == -EPROTO && strstr(err.msg, "with type 1"),
	   "call: %s", err.msg);
	ok(call(huge, 12, 4000, false, &reply, &err) == -EPROTO, "call: %s", err.msg);
	ok(call(part, 12, 4000, false, &reply, &err) == -ECONNRESET, "call: %s", err.msg);
	ok(call(part, 0, 4000, false, &reply, &err) == -ECONNRESET &&
		   strstr(err.msg, "without a reply"),
	   "call: %s", err.msg);
	ok(call(part, 12, 100, true, &reply, &err) == -ETIMEDOUT &&
		   strstr(err.msg, "no reply from '127") &&
		   strstr(err.msg, "within 0.1 s (handshake type 3)"),
	   "call: %s", err.msg);
}

/* ---- memory -------------------------------------------------------------------------------- */

static int ignored;

static void swallow(void *arg, enum te_log_level level, const char *text)
{
	(void)arg;
	(void)level;
	(void)text;
	ignored++;
}

static void test_location(void)
{
	static const struct {
		const char *text;
		int rc;
	} cases[] = { { "*", 0 },
		      { "cpu:0", 0 },
		      { "cpu:12", 0 },
		      { "cpu:", -EINVAL },
		      { "cpu:-1", -EINVAL },
		      { "cpu:x", -EINVAL },
		      { "", -EINVAL },
		      { "gpu:0", -EINVAL },
		      { "cuda:0", -ENOTSUP },
		      { "cuda:x", -EINVAL },
		      { "**", -EINVAL } };
	struct te_log_sink sink = { .line = swallow };
	char where[32] = "";
	static char mine[8192];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ok(te_mem_check_location(cases[i].text, NULL) == cases[i].rc, "location '%s'",
		   cases[i].text);
	memset(mine, 1, sizeof(mine));
	te_mem_location(mine, sizeof(mine), where, sizeof(where));
	ok(!strncmp(where, "cpu:", 4) || te_mem_nodes() > 1, "our own memory lies on %s", where);
	te_log_set_sink(&sink);
	te_mem_location((void *)4096, 1, where, sizeof(where));
	te_log_set_sink(NULL);
	ok(!strcmp(where, "*") && ignored == 1, "nothing is there: '*' and a warning");
	ok(te_mem_nodes() >= 1, "nodes");
}

static void test_shared(void)
{
	struct te_err err = { 0 };
	char *a = NULL, *b = NULL;
	void *p;
	size_t len = 0;
	int fd = -1;

	ok(!te_mem_shared(100000, 0, false, "te-test", &p, &fd, &err), "shared memory");
	a = p;
	ok(te_mem_round(100000, false) % 4096 == 0 && te_mem_round(100000, false) >= 100000,
	   "rounding");
	ok(!a[0] && !a[99999], "zeroed");
	ok(ftruncate(fd, 4096) < 0, "it cannot shrink");
	memcpy(a, "seen", 5);
	ok(!te_mem_map_peer(getpid(), fd, 100000, &p, &len, &err) &&
		   len == te_mem_round(100000, false),
	   "map it by pid and fd");
	b = p;
	ok(!strcmp(b, "seen"), "same memory");
	munmap(b, len);
	ok(te_mem_map_peer(getpid(), fd, len + 1, &p, &len, &err) == -EINVAL, "too short: %s",
	   err.msg);
	munmap(a, te_mem_round(100000, false));
	close(fd);
	ok(te_mem_map_peer(getpid(), fd, 1, &p, &len, &err) == -ENOENT, "gone: %s", err.msg);
	ok(te_mem_shared(1ull << 50, -1, false, "te-test", &p, &fd, &err) == -ENOMEM &&
		   strstr(err.msg, "available"),
	   "too much: %s", err.msg);
	ok(te_mem_shared(0, -1, false, "te-test", &p, &fd, &err) == -EINVAL, "nothing");
	ok(te_mem_shared(1ull << 42, -1, true, "te-test", &p, &fd, &err) < 0 &&
		   strstr(err.msg, "huge pages"),
	   "huge pages: %s", err.msg);
}

static int map(int fd)
{
	struct te_err err = { 0 };
	size_t len;
	void *p;
	int rc = te_mem_map_peer(getpid(), fd, 1, &p, &len, &err);

	close(fd);
	return rc;
}

static void test_map_refused(void)
{
	char file[] = "/tmp/te-map-XXXXXX";
	int fd = memfd_create("te-test", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipes[2];

	if (ftruncate(fd, 4096)) {
		ok(false, "ftruncate");
		return;
	}
	ok(map(fd) == -EINVAL, "not sealed");
	fd = mkstemp(file);
	unlink(file);
	ok(!ftruncate(fd, 4096) && map(fd) == -EINVAL, "a file");
	ok(map(open("/dev/zero", O_RDWR | O_CLOEXEC)) == -EINVAL, "a device");
	if (pipe(pipes)) {
		ok(false, "pipe");
		return;
	}
	ok(map(pipes[0]) == -EINVAL, "a pipe");
	close(pipes[1]);
}

static void test_host_id(void)
{
	char a[96], b[96] = "";
	int pipes[2];
	ssize_t n;
	pid_t pid;

	te_host_id(a, sizeof(a));
	ok(strlen(a) > 36 && strchr(a, '/'), "host id %s", a);
	if (pipe(pipes)) {
		ok(false, "pipe");
		return;
	}
	pid = fork();
	if (!pid) {
		te_host_id(b, sizeof(b));
		_exit(write(pipes[1], b, strlen(b)) < 0);
	}
	waitpid(pid, NULL, 0);
	n = read(pipes[0], b, sizeof(b) - 1);
	ok(n > 0 && !strcmp(a, b), "equal in another process");
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	te_conf_read(&conf);
	conf.use_ipv6 = false;
	conf.tcp_bind_address[0] = '\0';
	test_split();
	test_addr();
	test_listen();
	test_connect();
	test_full();
	test_black_hole();
	test_frame();
	test_bad_frames();
	test_call();
	test_location();
	test_shared();
	test_map_refused();
	test_host_id();
	return tap_end();
}
