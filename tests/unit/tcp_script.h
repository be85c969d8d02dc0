/* tcp_script.h - a peer whose side of the data protocol a test writes down. */
#ifndef TCP_SCRIPT_H
#define TCP_SCRIPT_H

#include <fcntl.h>
#include <poll.h>

#include "host/sock.h"
#include "tcp_rig.h"
#include "transport/tcp/wire.h"

enum { STORE = 1 << 20, FAR = 0x10000 }; /* size of the peer's memory, and its address */

struct script {
	void (*serve)(struct script *s, int fd, int nth); /* closes nothing */
	unsigned port;
	int listener, gate[2]; /* a byte in gate lets through whoever waits there */
	pthread_t thread;
	pthread_mutex_t turn;
	_Atomic int accepted, open, most, early;
	_Atomic bool stop;
	char *store, *view; /* the same pages */
};

static inline uint64_t soon(void)
{
	return te_now() + 10 * TE_NSEC_PER_SEC;
}

struct connection {
	struct script *s;
	int fd, nth;
};

static inline void *run_connection(void *arg)
{
	struct connection *c = arg;
	int open = atomic_fetch_add(&c->s->open, 1) + 1;

	for (int most = c->s->most; open > most;)
		if (atomic_compare_exchange_weak(&c->s->most, &most, open))
			break;
	c->s->serve(c->s, c->fd, c->nth);
	/* Before the client can see it and connect again. */
	atomic_fetch_sub(&c->s->open, 1);
	close(c->fd);
	free(c);
	return NULL;
}

static inline void *run_script(void *arg)
{
	struct script *s = arg;

	while (!atomic_load(&s->stop)) {
		struct pollfd p = { .fd = s->listener, .events = POLLIN };
		struct connection *c;
		pthread_t t;
		int fd;

		if (poll(&p, 1, 20) <= 0)
			continue;
		fd = te_sock_accept(s->listener, NULL);
		if (fd < 0)
			continue;
		c = malloc(sizeof(*c));
		*c = (struct connection){ s, fd, atomic_fetch_add(&s->accepted, 1) };
		pthread_create(&t, NULL, run_connection, c);
		pthread_detach(t);
	}
	return NULL;
}

static inline bool take(int fd, struct te_tcp_request *r)
{
	uint8_t h[TE_TCP_HEADER];

	if (te_sock_recv(fd, h, sizeof(h), soon()))
		return false;
	*r = te_tcp_get_request(h);
	return true;
}

static inline void say(int fd, uint32_t code)
{
	uint64_t status = te_tcp_status(code);

	te_sock_send(fd, &status, sizeof(status), soon());
}

/* Waits for the test to say go, or for the end of the test. */
static inline void wait_at_gate(struct script *s)
{
	struct pollfd p = { .fd = s->gate[0], .events = POLLIN };
	char c;

	if (poll(&p, 1, 10000) == 1)
		(void)!read(s->gate[0], &c, 1);
}

static inline void open_gate(struct script *s)
{
	(void)!write(s->gate[1], "", 1);
}

/* Orders what connections do one after the other: a sanitizer does not see it go through sockets.
 */
static inline void in_turn(struct script *s)
{
	pthread_mutex_lock(&s->turn);
	pthread_mutex_unlock(&s->turn);
}

static inline void move_bytes(struct script *s, int fd, const struct te_tcp_request *r)
{
	in_turn(s);
	if ((r->opcode & ~TE_TCP_V2) == TE_TCP_WRITE)
		te_sock_recv(fd, s->store + (r->addr - FAR), r->size, soon());
	else
		te_sock_send(fd, s->store + (r->addr - FAR), r->size, soon());
	in_turn(s);
}

static inline void script_open(struct script *s)
{
	pthread_mutex_init(&s->turn, NULL);
	s->store = rig_map(STORE, &s->view);
	s->listener = te_sock_listen("127.0.0.1", 0, 100, NULL);
	s->port = te_sock_port(s->listener);
	if (pipe2(s->gate, O_NONBLOCK))
		exit(1);
	pthread_create(&s->thread, NULL, run_script, s);
}

static inline void script_close(struct script *s)
{
	atomic_store(&s->stop, true);
	pthread_join(s->thread, NULL);
	close(s->listener);
}

#endif
