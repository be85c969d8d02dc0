/* test_tcp_client.c - our initiator against slow, old, strict, broken and dead peers. */
#include <stdio.h>
#include <sys/socket.h>

#include "tcp_script.h"

static struct script peer;
static struct rig source;

/* ---- peers ---- */

static void serve_v2(struct script *s, int fd, int nth)
{
	struct te_tcp_request r;

	(void)nth;
	while (take(fd, &r)) {
		if (r.opcode == (TE_TCP_WRITE | TE_TCP_V2)) {
			move_bytes(s, fd, &r);
			say(fd, TE_TCP_OK);
		} else {
			say(fd, TE_TCP_OK);
			move_bytes(s, fd, &r);
		}
	}
}

static void serve_in_drops(struct script *s, int fd, int nth)
{
	struct te_tcp_request r;
	uint64_t ok_status = te_tcp_status(TE_TCP_OK);

	(void)nth;
	while (take(fd, &r)) {
		if (r.opcode == (TE_TCP_WRITE | TE_TCP_V2))
			move_bytes(s, fd, &r);
		for (int i = 0; i < TE_TCP_STATUS; i++)
			te_sock_send(fd, (char *)&ok_status + i, 1, soon());
		for (uint64_t i = 0; r.opcode == TE_TCP_V2 && i < r.size; i++)
			te_sock_send(fd, s->store + (r.addr - FAR) + i, 1, soon());
	}
}

/* Everything at STORE/2 and above is not registered. */
static void serve_strict(struct script *s, int fd, int nth)
{
	struct te_tcp_request r;

	(void)nth;
	while (take(fd, &r)) {
		if (r.addr >= FAR + STORE / 2) {
			say(fd, TE_TCP_REFUSED);
			shutdown(fd, SHUT_WR);
			while (recv(fd, &r, sizeof(r), 0) > 0 ||
			       (errno == EAGAIN &&
				!poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, 100)))
				;
			return;
		}
		say(fd, TE_TCP_OK);
		move_bytes(s, fd, &r);
	}
}

static void serve_one_each(struct script *s, int fd, int nth)
{
	struct te_tcp_request r;

	(void)nth;
	if (!take(fd, &r))
		return;
	say(fd, TE_TCP_OK);
	move_bytes(s, fd, &r);
}

static void serve_v1(struct script *s, int fd, int nth)
{
	struct te_tcp_request r;

	(void)nth;
	while (take(fd, &r))
		move_bytes(s, fd, &r);
}

/* v0.3.9 and before. */
static void serve_old(struct script *s, int fd, int nth)
{
	struct te_tcp_request r;

	(void)nth;
	if (take(fd, &r))
		move_bytes(s, fd, &r);
}

/* The same, but it waits for our end. */
static void serve_old_patient(struct script *s, int fd, int nth)
{
	char c;

	serve_old(s, fd, nth);
	te_sock_recv(fd, &c, 1, soon());
}

static void serve_after_gate(struct script *s, int fd, int nth)
{
	wait_at_gate(s);
	serve_v1(s, fd, nth);
}

static void serve_gate_each(struct script *s, int fd, int nth)
{
	struct te_tcp_request r;

	(void)nth;
	while (take(fd, &r)) {
		/* Nothing more may come before we have answered. */
		if (r.opcode == TE_TCP_READ)
			s->early += poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, 100) != 0;
		move_bytes(s, fd, &r);
	}
}

static void serve_garbage(struct script *s, int fd, int nth)
{
	struct te_tcp_request r;

	(void)nth;
	if (take(fd, &r))
		te_sock_send(fd, s->store, 64, soon());
	te_sock_recv(fd, &r, 1, soon());
}

static void serve_silence(struct script *s, int fd, int nth)
{
	(void)nth;
	(void)fd;
	wait_at_gate(s);
}

static void serve_half(struct script *s, int fd, int nth)
{
	struct te_tcp_request r;

	(void)nth;
	if (!take(fd, &r))
		return;
	say(fd, TE_TCP_OK);
	te_sock_send(fd, s->store, r.size / 2, soon());
	wait_at_gate(s);
}

/* The first connection is a black hole. */
static void serve_second(struct script *s, int fd, int nth)
{
	if (nth == 0)
		wait_at_gate(s);
	else
		serve_v2(s, fd, nth);
}

static void begin(void (*serve)(struct script *s, int fd, int nth), unsigned version)
{
	peer.serve = serve;
	atomic_store(&peer.accepted, 0);
	atomic_store(&peer.most, 0);
	atomic_store(&peer.early, 0);
	rig_connect(&source, "127.0.0.1", peer.port, version, NULL);
	rig_fill(peer.view, STORE, 5);
	rig_fill(source.mem, STORE, 6);
}

static void end(void)
{
	struct pollfd p = { .fd = peer.gate[0], .events = POLLIN };
	uint64_t until = soon();
	char c;

	te_transport_tcp.peer_close(source.peer);
	source.peer = NULL;
	while (atomic_load(&peer.open) && te_now() < until) {
		open_gate(&peer);
		sched_yield();
	}
	while (poll(&p, 1, 0) == 1)
		(void)!read(peer.gate[0], &c, 1);
}

/* ---- what we check ---- */

static bool batch_of(enum te_op op, size_t n, size_t size)
{
	struct rig_batch *b = rig_batch_new(n);
	bool well;

	for (size_t i = 0; i < n; i++)
		rig_add(&source, b, op, source.mem + i * size, FAR + i * size, size);
	rig_submit(&source, b);
	well = rig_wait(&source, b, n % 2, 20) && rig_count(b, 0) == n &&
	       !memcmp(source.mem, peer.view, n * size);
	if (!well)
		printf("# %zu of %zu: %s\n", rig_count(b, 0), n, b->why.msg);
	rig_batch_free(b);
	return well;
}

static void drops(void)
{
	begin(serve_in_drops, 2);
	ok(batch_of(TE_READ, 5, 301), "replies that come byte by byte");
	rig_fill(source.mem, STORE, 6);
	ok(batch_of(TE_WRITE, 6, 301), "the same for WRITEs");
	end();
}

static void refused_among_others(void)
{
	struct rig_batch *b = rig_batch_new(8);

	begin(serve_strict, 2);
	for (size_t i = 0; i < 8; i++)
		rig_add(&source, b, TE_READ, source.mem + i * 512,
			FAR + (i == 2 || i == 5 ? STORE / 2 : i * 512), 512);
	rig_submit(&source, b);
	ok(rig_wait(&source, b, true, 20) && rig_count(b, 0) == 6 && rig_count(b, -EACCES) == 2 &&
		   b->slices[2].status == -EACCES && b->slices[5].status == -EACCES &&
		   !memcmp(source.mem, peer.view, 1024),
	   "two refused, the others go over fresh connections");
	rig_batch_free(b);
	ok(rig_one(&source, TE_WRITE, source.mem, FAR + STORE / 2, 12 << 20, NULL) == -EACCES,
	   "a refusal is noticed while a long WRITE is being sent");
	end();
}

static void kept_connection_dies(void)
{
	bool well = true;

	begin(serve_one_each, 2);
	for (int i = 0; i < 20; i++)
		well &= !rig_one(&source, TE_READ, source.mem, FAR, 1000, NULL);
	ok(well && atomic_load(&peer.accepted) >= 20,
	   "a kept connection that the peer has closed: sent again on another");
	end();
}

static void failure(const char *what, void (*serve)(struct script *s, int fd, int nth),
		    enum te_op op, uint64_t len, int status, const char *text)
{
	uint64_t start;
	struct te_err why;
	char addr[32];
	int rc;

	begin(serve, 2);
	snprintf(addr, sizeof(addr), "127.0.0.1:%u", peer.port);
	start = te_now();
	rc = rig_one(&source, op, source.mem, FAR, len, &why);
	ok(rc == status && strstr(why.msg, text) && strstr(why.msg, addr) &&
		   te_now() - start < 2 * TE_NSEC_PER_SEC,
	   "%s: %d '%s'", what, rc, why.msg);
	end();
}

static void failures(void)
{
	struct rig_batch *b;

	source.conf.transfer_timeout_s = 0.5;
	failure("peer speaks v1", serve_garbage, TE_READ, 64, -EPROTO, "version 1");
	failure("silence", serve_silence, TE_READ, 64, -ETIMEDOUT, "stage: status");
	failure("half a payload", serve_half, TE_READ, 4096, -ETIMEDOUT, "stage: payload");
	failure("nobody reads", serve_silence, TE_WRITE, 14 << 20, -ETIMEDOUT, "stage: send");

	begin(serve_silence, 2);
	b = rig_batch_new(3);
	for (size_t i = 0; i < 3; i++)
		rig_add(&source, b, TE_READ, source.mem, FAR, 64);
	rig_submit(&source, b);
	ok(rig_wait(&source, b, false, 2) && rig_count(b, -ETIMEDOUT) == 3,
	   "the time-out comes without anybody waiting");
	rig_batch_free(b);
	end();
	source.conf.transfer_timeout_s = 30;
}

static void deadlines(void)
{
	struct rig_batch *b = rig_batch_new(3);
	uint64_t start = te_now();

	begin(serve_second, 2);
	for (size_t i = 0; i < 3; i++)
		rig_add(&source, b, TE_READ, source.mem + i * 64, FAR + i * 64, 64);
	b->slices[0].deadline = start + 200 * TE_NSEC_PER_MSEC;
	rig_submit(&source, b);
	ok(rig_wait(&source, b, true, 5) && b->slices[0].status == -ETIMEDOUT &&
		   te_now() - start < TE_NSEC_PER_SEC,
	   "a deadline passes after %.0f ms", (double)(te_now() - start) / 1e6);
	ok(!b->slices[1].status && !b->slices[2].status, "those with time left go another way");
	rig_batch_free(b);
	end();
}

static void aborted(void)
{
	struct te_err why = { .code = -EHOSTDOWN, .msg = "it has moved" };
	struct rig_batch *b = rig_batch_new(5);

	begin(serve_silence, 2);
	for (size_t i = 0; i < 5; i++)
		rig_add(&source, b, TE_WRITE, source.mem, FAR, 64);
	rig_submit(&source, b);
	te_transport_tcp.abort(source.peer, -EHOSTDOWN, &why);
	ok(rig_wait(&source, b, false, 2) && rig_count(b, -EHOSTDOWN) == 5 &&
		   strstr(b->why.msg, "it has moved"),
	   "abort ends what is in flight");
	rig_batch_free(b);
	end();
}

static void unreachable(void)
{
	struct te_addr any;
	struct te_err why;
	struct pollfd p = { .events = POLLOUT };
	struct rig_batch *b;
	int fd = te_sock_listen("127.0.0.1", 0, 0, NULL), filler[8], n = 0;
	unsigned port = te_sock_port(fd);
	uint64_t start = te_now();

	rig_connect(&source, "127.0.0.1", port, 2, NULL);
	/* A full backlog drops what comes: the closest thing to a black hole. */
	te_addr_resolve("127.0.0.1", port, AF_INET, &any, 1, NULL);
	do {
		bool done;

		p.fd = filler[n++] = te_sock_connect_start(&any, &done);
	} while (n < 8 && poll(&p, 1, 200) == 1);
	b = rig_batch_new(3);
	for (size_t i = 0; i < 3; i++)
		rig_add(&source, b, TE_READ, source.mem, FAR, 64);
	rig_submit(&source, b);
	atomic_store(&b->cancelled, true);
	ok(rig_wait(&source, b, false, 2) && rig_count(b, -ECANCELED) == 3,
	   "what is cancelled before there is a connection ends soon");
	rig_batch_free(b);
	te_transport_tcp.abort(source.peer, -ECANCELED,
			       NULL); /* the attempt with the old time-out */
	source.conf.handshake_connect_timeout_s = 1;
	start = te_now();
	ok(rig_one(&source, TE_READ, source.mem, FAR, 64, &why) == -ETIMEDOUT &&
		   strstr(why.msg, "no connection within 1 s") &&
		   te_now() - start < 3 * TE_NSEC_PER_SEC,
	   "black hole: '%s' after %.1f s", why.msg, (double)(te_now() - start) / 1e9);
	while (n)
		close(filler[--n]);
	close(fd);
	start = te_now();
	ok(rig_one(&source, TE_READ, source.mem, FAR, 64, &why) == -ECONNREFUSED &&
		   strstr(why.msg, "refused") && te_now() - start < TE_NSEC_PER_SEC,
	   "nobody listens: '%s'", why.msg);
	te_transport_tcp.peer_close(source.peer);
	source.peer = NULL;
	ok(rig_connect(&source, "127.0.0.1", 0, 2, &why) == -EOPNOTSUPP, "no port: '%s'", why.msg);
	ok(rig_connect(&source, "no.such.host.invalid", 1, 2, &why) < 0, "no host: '%s'", why.msg);
}

/* ---- version 1 ---- */

static void v1_keeps(void)
{
	begin(serve_v1, 1);
	ok(batch_of(TE_READ, 41, 1000), "v1 READs from a peer that keeps connections");
	rig_fill(source.mem, STORE, 8);
	ok(batch_of(TE_WRITE, 41, 1000), "v1 WRITEs");
	rig_fill(source.mem, STORE, 9);
	ok(batch_of(TE_WRITE, 901, 300), "more than fit into one call");
	ok(atomic_load(&peer.most) <= 4, "over %d connections", atomic_load(&peer.most));
	end();
	begin(serve_gate_each, 1);
	ok(batch_of(TE_READ, 4, 50) && !atomic_load(&peer.early),
	   "nothing is pipelined before a second request was served");
	end();
}

/* COMPLETED of a WRITE means applied. */
static void v1_write_waits(void)
{
	struct rig_batch *b = rig_batch_new(1);

	begin(serve_after_gate, 1);
	rig_add(&source, b, TE_WRITE, source.mem, FAR, 100);
	rig_submit(&source, b);
	ok(!rig_wait(&source, b, true, 0.3), "a v1 WRITE is not done when it is sent");
	open_gate(&peer);
	ok(rig_wait(&source, b, true, 5) && !b->slices[0].status &&
		   !memcmp(source.mem, peer.view, 100),
	   "but when it is applied");
	rig_batch_free(b);
	end();
}

/* Sockets in TIME_WAIT on our side: those whose remote port is the peer's. */
static size_t time_waits(unsigned port)
{
	FILE *f = fopen("/proc/net/tcp", "r");
	unsigned remote, state;
	char line[256];
	size_t n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += sscanf(line, "%*d: %*x:%*x %*x:%x %x", &remote, &state) == 2 &&
		     remote == port && state == 6;
	if (f)
		fclose(f);
	return n;
}

static void one_shot(void)
{
	size_t well = 0, before;

	begin(serve_old, 1);
	ok(batch_of(TE_READ, 41, 1000), "READs from a peer that serves one request a connection");
	rig_fill(source.mem, STORE, 8);
	ok(batch_of(TE_WRITE, 41, 1000), "WRITEs");
	rig_fill(source.mem, STORE, 9);
	ok(batch_of(TE_WRITE, 3, 300000), "long WRITEs");
	ok(atomic_load(&peer.most) <= 4, "never more than 4 connections (%d)",
	   atomic_load(&peer.most));
	before = time_waits(peer.port);
	for (int i = 0; i < 300; i++)
		well += !rig_one(&source, i % 2 ? TE_READ : TE_WRITE, source.mem, FAR, 100, NULL);
	ok(well == 300 && time_waits(peer.port) < before + 10,
	   "300 more: %zu ports in TIME_WAIT, %zu before", time_waits(peer.port), before);
	end();

	begin(serve_old, 1);
	ok(batch_of(TE_WRITE, 1, 100) && batch_of(TE_WRITE, 5, 100), "a WRITE comes first");
	end();
	begin(serve_old_patient, 1);
	ok(batch_of(TE_WRITE, 1, 100) && batch_of(TE_WRITE, 2, 100) && batch_of(TE_READ, 2, 100),
	   "a peer that waits for our end");
	end();
}

static void cancelled(void)
{
	struct rig_batch *b = rig_batch_new(20);

	begin(serve_after_gate, 1);
	source.conf.tcp_lanes = 4;
	for (size_t i = 0; i < 20; i++)
		rig_add(&source, b, TE_READ, source.mem + i, FAR, 1);
	rig_submit(&source, b);
	atomic_store(&b->cancelled, true);
	for (int i = 0; i < 4; i++)
		open_gate(&peer);
	ok(rig_wait(&source, b, true, 5) && rig_count(b, -ECANCELED) >= 16 &&
		   rig_count(b, 0) + rig_count(b, -ECANCELED) == 20,
	   "%zu of 20 cancelled before they were sent", rig_count(b, -ECANCELED));
	rig_batch_free(b);
	end();
}

static void plain(void)
{
	begin(serve_v2, 2);
	ok(batch_of(TE_READ, 101, 1000) && atomic_load(&peer.accepted) == 1,
	   "small requests of one thread share a connection");
	ok(batch_of(TE_WRITE, 1, 1 << 20) && batch_of(TE_READ, 7, 128 << 10), "larger ones");
	end();
}

int main(void)
{
	rig_open(&source);
	script_open(&peer);
	plain();
	drops();
	refused_among_others();
	kept_connection_dies();
	failures();
	deadlines();
	aborted();
	v1_keeps();
	v1_write_waits();
	one_shot();
	cancelled();
	unreachable();
	script_close(&peer);
	rig_close(&source);
	return tap_end();
}
