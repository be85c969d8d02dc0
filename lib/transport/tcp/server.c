/* server.c - the serving side of tcp: a listener and its workers, each with its own connections. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "host/sock.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"
#include "transport/tcp/served.h"
#include "transport/tcp/server.h"
#include "transport/spin.h"
#include "transport/tcp/tune.h"

enum {
	WORKERS = 4, /* also where there are fewer processors: each then finds its way to its peer's
		      */
	MAX_CONNECTIONS = 8192,
	EVENTS = 64,
	ACCEPTS = 64,  /* in a row, before the worker serves again */
	PAUSE_MS = 20, /* no accept for so long when file descriptors are out */
	WARN_S = 10,
	WATCH_MS = 250,		  /* how often half-done connections are looked at */
	SPINS_PER_POLL = 8,	  /* direct reads of the hot connection for each look at all */
	SPIN_BYTES = 1024 * 1024, /* who moved more has no latency to lose */
};

struct worker {
	struct te_tcp_server *server;
	pthread_t thread;
	bool started;
	int epoll;
	pthread_mutex_t
		lock; /* list and count: the accepting worker adds and looks for idle ones */
	struct te_served *list;
	_Atomic unsigned count;

	/* The worker thread's own. */
	struct te_served *ready, **ready_end;
	struct te_served *hot; /* the one that moved last */
	bool bulk;	       /* it moved much */
	uint64_t watched;      /* when connections were last looked at */
	bool watching;	       /* some are half done */
	struct te_served_scratch scratch;
};

struct te_tcp_server {
	const struct te_transport_env *env;
	int listener;
	unsigned port;
	int stop_fd; /* readable for ever once we stop */
	_Atomic bool stop;
	_Atomic unsigned total;
	uint64_t accept_again; /* first worker's: accepting pauses until then; 0: it does not */
	uint64_t warn_again;   /* first worker's: not before */
	unsigned nworkers;
	struct worker workers[WORKERS];
};

/* ---- connections of a worker ---- */

static void link_in(struct worker *w, struct te_served *c)
{
	pthread_mutex_lock(&w->lock);
	c->next = w->list;
	if (c->next)
		c->next->prev = c;
	w->list = c;
	atomic_fetch_add_explicit(&w->count, 1, memory_order_relaxed);
	pthread_mutex_unlock(&w->lock);
}

static void drop(struct worker *w, struct te_served *c)
{
	pthread_mutex_lock(&w->lock);
	if (c->prev)
		c->prev->next = c->next;
	else
		w->list = c->next;
	if (c->next)
		c->next->prev = c->prev;
	atomic_fetch_sub_explicit(&w->count, 1, memory_order_relaxed);
	pthread_mutex_unlock(&w->lock);
	atomic_fetch_sub_explicit(&w->server->total, 1, memory_order_relaxed);
	if (w->hot == c)
		w->hot = NULL;
	/* Not left to close(): a forked process may still have the socket, and its events would go
	 * on. */
	epoll_ctl(w->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	te_served_free(c);
}

static void make_ready(struct worker *w, struct te_served *c)
{
	if (c->is_ready)
		return;
	c->is_ready = true;
	c->next_ready = NULL;
	*w->ready_end = c;
	w->ready_end = &c->next_ready;
}

/* Serve one; true when bytes moved. */
static bool serve(struct worker *w, struct te_served *c, uint64_t now)
{
	uint64_t before = c->traffic;
	bool moved;

	switch (te_served_run(c, w->server->env, &w->scratch, now, &moved)) {
	case TE_SERVED_CLOSE:
		drop(w, c);
		return true;
	case TE_SERVED_MORE:
		make_ready(w, c);
		break;
	case TE_SERVED_WAIT:
		break;
	}
	w->watching |= atomic_load_explicit(&c->half, memory_order_relaxed);
	if (moved) {
		w->hot = c;
		w->bulk = c->traffic - before > SPIN_BYTES;
	}
	return moved;
}

/* Everybody who is ready gets one turn. */
static bool serve_ready(struct worker *w)
{
	struct te_served *c = w->ready;
	uint64_t now = te_now();
	bool moved = false;

	w->ready = NULL;
	w->ready_end = &w->ready;
	while (c) {
		struct te_served *next = c->next_ready;

		c->is_ready = false;
		moved |= serve(w, c, now);
		c = next;
	}
	return moved;
}

/* Close those that are stuck half-way, also to give their regions back. */
static void watch(struct worker *w)
{
	uint64_t now = te_now();
	struct te_served *c, *next;

	if (!w->watching || now - w->watched < (uint64_t)WATCH_MS * TE_NSEC_PER_MSEC)
		return;
	w->watched = now;
	w->watching = false;
	pthread_mutex_lock(&w->lock);
	c = w->list;
	pthread_mutex_unlock(&w->lock);
	/* New ones are put in front of c, and only this thread takes one out. */
	for (; c; c = next) {
		pthread_mutex_lock(&w->lock);
		next = c->next;
		pthread_mutex_unlock(&w->lock);
		w->watching |= atomic_load_explicit(&c->half, memory_order_relaxed);
		if (!c->is_ready && te_served_is_stuck(c, w->server->env->conf, now)) {
			te_info("tcp: served connection closed: no progress in a request");
			drop(w, c);
		}
	}
}

/* ---- accepting, in the first worker ---- */

/* Make room: the connection that has been idle for longest is shut, and its worker then frees it.
 */
static void shed(struct te_tcp_server *s)
{
	struct worker *best_worker = NULL;
	uint64_t oldest = UINT64_MAX;

	for (unsigned i = 0; i < s->nworkers; i++) {
		struct worker *w = &s->workers[i];

		pthread_mutex_lock(&w->lock);
		for (struct te_served *c = w->list; c; c = c->next) {
			uint64_t moved = atomic_load_explicit(&c->moved, memory_order_relaxed);

			if (moved < oldest &&
			    !atomic_load_explicit(&c->half, memory_order_relaxed)) {
				oldest = moved;
				best_worker = w;
			}
		}
		pthread_mutex_unlock(&w->lock);
	}
	if (!best_worker)
		return;
	pthread_mutex_lock(&best_worker->lock);
	for (struct te_served *c = best_worker->list; c; c = c->next)
		if (atomic_load_explicit(&c->moved, memory_order_relaxed) == oldest) {
			shutdown(c->fd, SHUT_RDWR);
			break;
		}
	pthread_mutex_unlock(&best_worker->lock);
}

static void adopt(struct te_tcp_server *s, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
	struct worker *w = &s->workers[0];
	struct te_served *c = te_served_new(fd, te_now());

	if (!c) {
		close(fd);
		return;
	}
	for (unsigned i = 1; i < s->nworkers; i++)
		if (atomic_load_explicit(&s->workers[i].count, memory_order_relaxed) <
		    atomic_load_explicit(&w->count, memory_order_relaxed))
			w = &s->workers[i];
	te_tcp_tune(fd);
	atomic_fetch_add_explicit(&s->total, 1, memory_order_relaxed);
	link_in(w, c);
	ev.data.ptr = c;
	if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		shutdown(fd, SHUT_RDWR); /* out of watches: freed at stop */
}

static void listen_for(struct te_tcp_server *s, unsigned events)
{
	struct epoll_event ev = { .events = events, .data.ptr = s };

	epoll_ctl(s->workers[0].epoll, EPOLL_CTL_MOD, s->listener, &ev);
}

/* Descriptors or memory are out: no spinning on a listener that stays readable. */
static void pause_accept(struct te_tcp_server *s, const char *why)
{
	uint64_t now = te_now();

	if (now >= s->warn_again) {
		te_warn("tcp: cannot accept connections now: %s", why);
		s->warn_again = now + WARN_S * TE_NSEC_PER_SEC;
	}
	shed(s);
	listen_for(s, 0);
	s->accept_again = now + (uint64_t)PAUSE_MS * TE_NSEC_PER_MSEC;
}

static void accept_some(struct te_tcp_server *s)
{
	for (unsigned i = 0; i < ACCEPTS; i++) {
		bool full =
			atomic_load_explicit(&s->total, memory_order_relaxed) >= MAX_CONNECTIONS;
		struct te_addr from;
		int fd = full ? -EMFILE : te_sock_accept(s->listener, &from);

		if (fd == -EAGAIN)
			return;
		if (fd >= 0) {
			adopt(s, fd);
			continue;
		}
		if (fd == -ECONNABORTED || fd == -EINTR)
			continue;
		pause_accept(s, full ? "too many are open" : strerror(-fd));
		return;
	}
}

static void resume_accept(struct te_tcp_server *s)
{
	if (!s->accept_again || te_now() < s->accept_again)
		return;
	s->accept_again = 0;
	listen_for(s, EPOLLIN);
}

/* ---- a worker ---- */

static bool poll_events(struct worker *w, int timeout_ms)
{
	struct te_tcp_server *s = w->server;
	struct epoll_event ev[EVENTS];
	int n = epoll_wait(w->epoll, ev, EVENTS, timeout_ms);

	for (int i = 0; i < n; i++) {
		struct te_served *c = ev[i].data.ptr;

		if (ev[i].data.ptr == s) {
			accept_some(s);
			continue;
		}
		if (!c) /* stop_fd */
			continue;
		/* A connection that was reset is not read on: its peer has given up what lies in
		   the socket, and may have sent it again another way. */
		if (ev[i].events & EPOLLERR) {
			if (!c->is_ready) {
				drop(w, c);
				continue;
			}
			shutdown(c->fd, SHUT_RDWR);
		}
		c->hung_up |= (ev[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
		make_ready(w, c);
	}
	return n > 0;
}

/* Something has just moved: more is probably on its way. Until spin_us pass without it. */
static void spin(struct worker *w)
{
	uint64_t budget = (uint64_t)w->server->env->conf->spin_us * 1000, last = te_now(), now;
	unsigned turn = 0;

	if (!budget || !te_spin_begin())
		return;
	while (!atomic_load_explicit(&w->server->stop, memory_order_relaxed)) {
		bool moved = false;

		now = te_now();
		if (w->hot && !w->hot->blocked && !w->hot->is_ready)
			moved = serve(w, w->hot, now);
		if (w->ready || (++turn % SPINS_PER_POLL == 0 && poll_events(w, 0)))
			moved |= serve_ready(w);
		if (moved && w->bulk)
			break;
		if (moved)
			last = now;
		else if (now - last > budget)
			break;
		else
			sched_yield();
		watch(w);
	}
	te_spin_end();
}

static int timeout_of(const struct worker *w)
{
	if (w->ready)
		return 0;
	if (w == &w->server->workers[0] && w->server->accept_again)
		return PAUSE_MS;
	return w->watching ? WATCH_MS : -1;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct te_tcp_server *s = w->server;

	while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		poll_events(w, timeout_of(w));
		if (serve_ready(w) && !w->bulk)
			spin(w);
		watch(w);
		if (w == &s->workers[0])
			resume_accept(s);
	}
	return NULL;
}

/* ---- start and stop ---- */

static int start_worker(struct te_tcp_server *s, struct worker *w, struct te_err *err)
{
	struct epoll_event stop = { .events = EPOLLIN, .data.ptr = NULL };
	struct epoll_event accepts = { .events = EPOLLIN, .data.ptr = s };
	int rc;

	if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, s->stop_fd, &stop) < 0 ||
	    (w == s->workers && epoll_ctl(w->epoll, EPOLL_CTL_ADD, s->listener, &accepts) < 0))
		return te_fail(err, -errno, "cannot watch the tcp data port: %s", strerror(errno));
	rc = te_thread_start(&w->thread, "te-serve", work, w);
	if (rc)
		return te_fail(err, rc, "cannot start a tcp worker: %s", strerror(-rc));
	w->started = true;
	return 0;
}

static int init_worker(struct te_tcp_server *s, struct worker *w, struct te_err *err)
{
	w->server = s;
	w->ready_end = &w->ready;
	pthread_mutex_init(&w->lock, NULL);
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll < 0)
		return te_fail(err, -errno, "cannot create an epoll set: %s", strerror(errno));
	return 0;
}

int te_tcp_server_start(const struct te_transport_env *env, struct te_tcp_server **out,
			struct te_err *err)
{
	const struct te_conf *conf = env->conf;
	struct te_tcp_server *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return te_fail(err, -ENOMEM, "no memory for the tcp server");
	s->env = env;
	s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->listener = te_sock_listen_range(conf->tcp_bind_address, (unsigned)conf->min_rpc_port,
					   (unsigned)conf->max_rpc_port, SOMAXCONN, &s->port, err);
	if (s->listener < 0 || s->stop_fd < 0)
		rc = s->listener < 0 ? s->listener
				     : te_fail(err, -errno, "cannot create an eventfd");
	s->nworkers = WORKERS;
	for (unsigned i = 0; i < s->nworkers; i++) {
		int init = init_worker(s, &s->workers[i], err);

		rc = rc ? rc : init;
	}
	for (unsigned i = 0; i < s->nworkers && !rc; i++)
		rc = start_worker(s, &s->workers[i], err);
	if (rc)
		te_tcp_server_stop(s);
	else
		*out = s;
	return rc;
}

void te_tcp_server_stop(struct te_tcp_server *s)
{
	if (!s)
		return;
	atomic_store(&s->stop, true);
	if (s->stop_fd >= 0)
		eventfd_write(s->stop_fd, 1);
	for (unsigned i = 0; i < s->nworkers; i++) {
		struct worker *w = &s->workers[i];

		if (w->started)
			pthread_join(w->thread, NULL);
	}
	for (unsigned i = 0; i < s->nworkers; i++) {
		struct worker *w = &s->workers[i];

		while (w->list)
			drop(w, w->list);
		if (w->epoll >= 0)
			close(w->epoll);
		pthread_mutex_destroy(&w->lock);
	}
	if (s->listener >= 0)
		close(s->listener);
	if (s->stop_fd >= 0)
		close(s->stop_fd);
	free(s);
}

unsigned te_tcp_server_port(const struct te_tcp_server *s)
{
	return s->port;
}
