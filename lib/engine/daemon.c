/* daemon.c - the handshake daemon: one thread, many impatient clients (INTEROP 2). */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "engine/daemon.h"
#include "host/sock.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"

enum {
	CLIENTS_MAX = 1024,
	EVENTS_MAX = 64,
	ACCEPTS_MAX = 64, /* in a row, then those who are in get their turn */
	BUF_MIN = 512,
	BUF_SMALL = 64 << 10, /* room that every client may have */
	TOTAL_MAX = 64 << 20, /* of all larger buffers together */
	REQUEST_S = 5,	      /* from accept to the last byte, and without progress of the reply */
	LINGER_S = 1,	      /* for the client's FIN */
	ANSWER_S = 20,	      /* for an answer that was put off */
	PAUSE_MS = 100,	      /* without accepting, when there are no descriptors */
	QUIET_S = 10,	      /* between two warnings */
};

enum state { FREE, READING, WAITING, WRITING, LINGERING };

char te_daemon_later[1];

/* All of it belongs to the daemon's thread. */
struct client {
	enum state state;
	int fd;
	uint32_t generation;	   /* of the slot: events of a predecessor are dropped */
	uint64_t deadline, active; /* active: last progress */
	enum te_rpc_type type;	   /* of the request that waits for its answer */
	char *buf;		   /* request, then reply */
	size_t len, room, sent;
};

/* An answer on its way from another thread. */
struct reply {
	struct reply *next;
	uint64_t client;
	char *text;
};

struct te_daemon {
	const struct te_daemon_ops *ops;
	void *arg;
	uint64_t max_length;
	int listener, epoll, wake; /* wake: eventfd, readable when stop or replies is set */
	pthread_t thread;

	pthread_mutex_t lock;
	struct reply *replies;
	bool stop;

	/* The thread's own from here. */
	struct client *clients;
	unsigned count;
	size_t total;	 /* bytes of room in all buffers above BUF_SMALL */
	uint64_t next;	 /* no deadline lies before */
	uint64_t quiet;	 /* no warning about descriptors before */
	uint64_t resume; /* accepting is paused until then; 0: it is not */
};

/* What an event is about: a slot and its generation, or one of two that are no client. */
static const uint64_t about_listener = UINT64_MAX, about_wake = UINT64_MAX - 1;

static uint64_t about(const struct te_daemon *d, const struct client *c)
{
	return (uint64_t)c->generation << 32 | (uint64_t)(c - d->clients);
}

static struct client *client_of(struct te_daemon *d, uint64_t data)
{
	struct client *c = &d->clients[(uint32_t)data];

	return c->state != FREE && c->generation == (uint32_t)(data >> 32) ? c : NULL;
}

static int watch(struct te_daemon *d, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return epoll_ctl(d->epoll, op, fd, &ev) ? -errno : 0;
}

static void set_deadline(struct te_daemon *d, struct client *c, unsigned seconds)
{
	c->deadline = te_now() + seconds * TE_NSEC_PER_SEC;
	d->next = MIN(d->next, c->deadline);
}

static size_t total_max(const struct te_daemon *d)
{
	return MAX((size_t)TOTAL_MAX, 2 * (size_t)d->max_length);
}

static void drop_buf(struct te_daemon *d, struct client *c)
{
	if (c->room > BUF_SMALL)
		d->total -= c->room;
	free(c->buf);
	c->buf = NULL;
	c->len = c->room = c->sent = 0;
}

static void drop(struct te_daemon *d, struct client *c)
{
	drop_buf(d, c);
	/* Not left to close(): a child that the program has forked may hold a copy. */
	watch(d, EPOLL_CTL_DEL, c->fd, 0, 0);
	close(c->fd);
	c->state = FREE;
	c->generation++;
	d->count--;
}

/* The one without progress for the longest time. */
static void drop_idlest(struct te_daemon *d)
{
	struct client *idlest = NULL;

	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &d->clients[i];

		if (c->state != FREE && (!idlest || c->active < idlest->active))
			idlest = c;
	}
	if (idlest)
		drop(d, idlest);
}

/* ---- one client ---- */

static void start_linger(struct te_daemon *d, struct client *c)
{
	/* Closing now could destroy the reply: bytes that nobody read make the kernel send a reset.
	 */
	drop_buf(d, c);
	shutdown(c->fd, SHUT_WR);
	c->state = LINGERING;
	set_deadline(d, c, LINGER_S);
	if (watch(d, EPOLL_CTL_MOD, c->fd, EPOLLIN, about(d, c)))
		drop(d, c);
}

static void send_reply(struct te_daemon *d, struct client *c)
{
	while (c->sent < c->len) {
		ssize_t n = send(c->fd, c->buf + c->sent, c->len - c->sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			drop(d, c);
			return;
		}
		c->sent += (size_t)n;
		c->active = te_now();
		set_deadline(d, c, REQUEST_S);
	}
	start_linger(d, c);
}

/* Takes text; NULL closes. */
static void send_text(struct te_daemon *d, struct client *c, enum te_rpc_type type, char *text)
{
	char *frame = NULL;
	size_t frame_len = 0;

	if (text)
		frame = te_rpc_frame(type, text, &frame_len);
	free(text);
	if (!frame) {
		drop(d, c);
		return;
	}
	drop_buf(d, c);
	c->buf = frame;
	c->len = c->room = frame_len;
	if (frame_len > BUF_SMALL)
		d->total += frame_len;
	/* This client has just been active: it is the last to go. */
	while (d->total > total_max(d) && d->count > 1)
		drop_idlest(d);
	c->state = WRITING;
	set_deadline(d, c, REQUEST_S);
	if (watch(d, EPOLL_CTL_MOD, c->fd, EPOLLOUT, about(d, c)))
		drop(d, c);
	else
		send_reply(d, c);
}

/* Its thread may take a while: until then only the client's death is of interest. */
static void put_off(struct te_daemon *d, struct client *c, enum te_rpc_type type)
{
	drop_buf(d, c);
	c->state = WAITING;
	c->type = type;
	set_deadline(d, c, ANSWER_S);
	if (watch(d, EPOLL_CTL_MOD, c->fd, 0, about(d, c)))
		drop(d, c);
}

static void answer(struct te_daemon *d, struct client *c, enum te_rpc_type type, const char *body,
		   size_t len)
{
	char *text = d->ops->handle(d->arg, type, body, len, about(d, c));

	if (text == TE_DAEMON_LATER)
		put_off(d, c, type);
	else
		send_text(d, c, type, text);
}

/* Twice the room, at most for `want` more bytes. Announced lengths only limit it. */
static bool grow(struct te_daemon *d, struct client *c, size_t want)
{
	size_t room = MIN(MAX(2 * c->room, (size_t)BUF_MIN), c->len + want);
	char *buf;

	if (room > BUF_SMALL && d->total + room > total_max(d))
		return false;
	buf = realloc(c->buf, room);
	if (!buf)
		return false;
	if (c->room > BUF_SMALL)
		d->total -= c->room;
	if (room > BUF_SMALL)
		d->total += room;
	c->buf = buf;
	c->room = room;
	return true;
}

static void read_request(struct te_daemon *d, struct client *c)
{
	enum te_rpc_type type;
	const char *body;
	size_t body_len;
	int64_t want = te_rpc_decode(c->buf, c->len, d->max_length, &type, &body, &body_len);
	ssize_t n;

	if (c->len == c->room && !grow(d, c, (size_t)want)) {
		drop(d, c);
		return;
	}
	n = recv(c->fd, c->buf + c->len, MIN((size_t)want, c->room - c->len), 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(d, c);
		return;
	}
	c->len += (size_t)n;
	c->active = te_now();
	want = te_rpc_decode(c->buf, c->len, d->max_length, &type, &body, &body_len);
	if (want < 0)
		drop(d, c);
	else if (!want)
		answer(d, c, type, body, body_len);
}

/* What comes after the request is of no interest. */
static void linger(struct te_daemon *d, struct client *c)
{
	char waste[4096];
	ssize_t n = recv(c->fd, waste, sizeof(waste), 0);

	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
		drop(d, c);
}

static void serve(struct te_daemon *d, struct client *c)
{
	switch (c->state) {
	case READING:
		read_request(d, c);
		break;
	case WRITING:
		send_reply(d, c);
		break;
	case LINGERING:
		linger(d, c);
		break;
	case WAITING: /* EPOLLHUP or EPOLLERR: it has gone */
		drop(d, c);
		break;
	case FREE:
		break;
	}
}

/* ---- all of them ---- */

static void add_client(struct te_daemon *d, int fd)
{
	struct client *c = d->clients;

	if (d->count == CLIENTS_MAX)
		drop_idlest(d);
	while (c->state != FREE)
		c++;
	c->fd = fd;
	c->state = READING;
	c->active = te_now();
	d->count++;
	set_deadline(d, c, REQUEST_S);
	if (watch(d, EPOLL_CTL_ADD, fd, EPOLLIN, about(d, c)))
		drop(d, c);
}

/* Out of descriptors or memory: an idle client makes room. Otherwise, come back later: the listener
   stays readable, and looking at it at once would only burn the processor. */
static void make_room(struct te_daemon *d, int rc)
{
	if (te_now() >= d->quiet) {
		te_warn("the handshake daemon cannot accept connections: %s", strerror(-rc));
		d->quiet = te_now() + QUIET_S * TE_NSEC_PER_SEC;
	}
	if (d->count) {
		drop_idlest(d);
		return;
	}
	watch(d, EPOLL_CTL_MOD, d->listener, 0, about_listener);
	d->resume = te_now() + (uint64_t)PAUSE_MS * TE_NSEC_PER_MSEC;
}

static void accept_clients(struct te_daemon *d)
{
	for (int i = 0; i < ACCEPTS_MAX && !d->resume; i++) {
		int fd = te_sock_accept(d->listener, NULL);

		if (fd == -EAGAIN)
			return;
		if (fd < 0)
			make_room(d, fd);
		else
			add_client(d, fd);
	}
}

static void expire(struct te_daemon *d)
{
	uint64_t now = te_now();

	if (d->resume && now >= d->resume) {
		d->resume = 0;
		watch(d, EPOLL_CTL_MOD, d->listener, EPOLLIN, about_listener);
	}
	if (now < d->next)
		return;
	d->next = UINT64_MAX;
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &d->clients[i];

		if (c->state == FREE)
			continue;
		if (now >= c->deadline)
			drop(d, c);
		else
			d->next = MIN(d->next, c->deadline);
	}
}

static int wait_ms(const struct te_daemon *d)
{
	uint64_t until = d->resume ? MIN(d->next, d->resume) : d->next;

	return until == UINT64_MAX ? -1 : te_ms_until(until);
}

/* What other threads have left; false: it is time to stop. */
static bool take_replies(struct te_daemon *d)
{
	struct reply *list;
	eventfd_t count;
	bool stop;

	eventfd_read(d->wake, &count);
	pthread_mutex_lock(&d->lock);
	list = d->replies;
	d->replies = NULL;
	stop = d->stop;
	pthread_mutex_unlock(&d->lock);
	while (list) {
		struct reply *next = list->next;
		struct client *c = client_of(d, list->client);

		if (c && c->state == WAITING)
			send_text(d, c, c->type, list->text);
		else
			free(list->text);
		free(list);
		list = next;
	}
	return !stop;
}

void te_daemon_reply(struct te_daemon *d, uint64_t client, char *text)
{
	struct reply *r = malloc(sizeof(*r));

	if (!r) { /* the client's deadline ends it */
		free(text);
		return;
	}
	*r = (struct reply){ .client = client, .text = text };
	pthread_mutex_lock(&d->lock);
	r->next = d->replies;
	d->replies = r;
	pthread_mutex_unlock(&d->lock);
	eventfd_write(d->wake, 1);
}

static void *run(void *arg)
{
	struct epoll_event ev[EVENTS_MAX];
	struct te_daemon *d = arg;

	for (;;) {
		int n = epoll_wait(d->epoll, ev, EVENTS_MAX, wait_ms(d));

		for (int i = 0; i < n; i++) {
			struct client *c;

			if (ev[i].data.u64 == about_wake) {
				if (!take_replies(d))
					return NULL;
				continue;
			}
			if (ev[i].data.u64 == about_listener)
				accept_clients(d);
			else if ((c = client_of(d, ev[i].data.u64)))
				serve(d, c);
		}
		expire(d);
	}
}

/* ---- start and stop ---- */

/* Everything but the thread. */
static void release(struct te_daemon *d)
{
	for (size_t i = 0; d->clients && i < CLIENTS_MAX; i++)
		if (d->clients[i].state != FREE)
			drop(d, &d->clients[i]);
	if (d->wake >= 0)
		close(d->wake);
	if (d->epoll >= 0)
		close(d->epoll);
	close(d->listener);
	while (d->replies) {
		struct reply *next = d->replies->next;

		free(d->replies->text);
		free(d->replies);
		d->replies = next;
	}
	pthread_mutex_destroy(&d->lock);
	free(d->clients);
	free(d);
}

int te_daemon_start(const struct te_conf *conf, int fd, const struct te_daemon_ops *ops, void *arg,
		    struct te_daemon **out, struct te_err *err)
{
	struct te_daemon *d = calloc(1, sizeof(*d));
	int rc = -ENOMEM;

	if (!d) {
		close(fd);
		return te_fail(err, -ENOMEM, "out of memory");
	}
	d->ops = ops;
	d->arg = arg;
	d->max_length = (uint64_t)conf->handshake_max_length;
	d->next = UINT64_MAX;
	pthread_mutex_init(&d->lock, NULL);
	d->listener = fd;
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->clients = calloc(CLIENTS_MAX, sizeof(*d->clients));
	if (d->epoll < 0 || d->wake < 0) {
		rc = -errno;
		goto fail;
	}
	if (!d->clients)
		goto fail;
	rc = watch(d, EPOLL_CTL_ADD, d->wake, EPOLLIN, about_wake);
	if (!rc)
		rc = watch(d, EPOLL_CTL_ADD, fd, EPOLLIN, about_listener);
	if (!rc)
		rc = te_thread_start(&d->thread, "te-daemon", run, d);
	if (rc)
		goto fail;
	*out = d;
	return 0;

fail:
	release(d);
	return te_fail(err, rc, "cannot start the handshake daemon: %s", strerror(-rc));
}

void te_daemon_stop(struct te_daemon *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_mutex_unlock(&d->lock);
	eventfd_write(d->wake, 1);
	pthread_join(d->thread, NULL);
	release(d);
}
