/* io.c - the I/O thread of initiators: drives lanes that nobody drives, and the clock. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/util.h"
#include "te_err.h"
#include "transport/tcp/io.h"

enum {
	EVENTS = 64,
	CLOSE_MS = 1,	   /* a tick at TE_PACE_CLOSE */
	CLOCK_MS = 100,	   /* a tick at TE_PACE_CLOCK */
	LINGER_TICKS = 20, /* close ticks without anything new before the pace drops */
	STEPS = 16,	   /* of one lane before others have their turn */
};

struct te_io {
	pthread_t thread;
	int epoll, kick;
	_Atomic bool stop;
	_Atomic int pace; /* enum te_pace: what the thread does now, or will when it next sleeps */

	pthread_mutex_t lock;
	struct te_tcp_peer *added, *removed; /* under lock */

	/* The thread's own. */
	struct te_tcp_peer *peers;
	unsigned pushes;	/* sum over all lanes at the last tick */
	unsigned calm;		/* ticks since it changed */
	uint64_t ticked, clock; /* when lanes and when time-outs were last looked at */
};

/* ---- peers come and go ---- */

void te_io_add(struct te_io *io, struct te_tcp_peer *p)
{
	pthread_mutex_lock(&io->lock);
	p->next = io->added;
	io->added = p;
	pthread_mutex_unlock(&io->lock);
}

void te_io_remove(struct te_io *io, struct te_tcp_peer *p)
{
	struct te_tcp_peer **at;

	pthread_mutex_lock(&io->lock);
	for (at = &io->added; *at && *at != p; at = &(*at)->next)
		;
	if (*at) { /* the thread has not seen it, but may have an event of it */
		*at = p->next;
		p->next = NULL;
	}
	p->next_removed = io->removed;
	io->removed = p;
	pthread_mutex_unlock(&io->lock);
	eventfd_write(io->kick, 1);
}

/* Only between two rounds of events, since those point to lanes. */
static void adopt_peers(struct te_io *io)
{
	struct te_tcp_peer *removed, *p, **at;

	pthread_mutex_lock(&io->lock);
	while ((p = io->added)) {
		io->added = p->next;
		p->next = io->peers;
		io->peers = p;
	}
	removed = io->removed;
	io->removed = NULL;
	pthread_mutex_unlock(&io->lock);
	while ((p = removed)) {
		removed = p->next_removed;
		for (at = &io->peers; *at && *at != p; at = &(*at)->next)
			;
		if (*at)
			*at = p->next;
		te_tcp_peer_free(p);
	}
}

/* ---- sockets ---- */

int te_io_watch(struct te_io *io, struct te_lane *l)
{
	struct epoll_event ev = { .events = EPOLLONESHOT, .data.ptr = l };

	return epoll_ctl(io->epoll, EPOLL_CTL_ADD, l->fd, &ev);
}

void te_io_unwatch(struct te_io *io, struct te_lane *l)
{
	epoll_ctl(io->epoll, EPOLL_CTL_DEL, l->fd, NULL);
}

void te_io_arm(struct te_io *io, struct te_lane *l, short poll_events)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = l };

	if (poll_events & POLLOUT)
		ev.events |= EPOLLOUT;
	atomic_store_explicit(&l->armed, true, memory_order_relaxed);
	epoll_ctl(io->epoll, EPOLL_CTL_MOD, l->fd, &ev);
}

/* ---- pace ---- */

void te_io_need(struct te_io *io, enum te_pace pace)
{
	/* Pairs with the store in choose_pace(): either it is seen here, or the lane's load there.
	 */
	if (atomic_load(&io->pace) >= (int)pace)
		return;
	atomic_store(&io->pace, pace);
	eventfd_write(io->kick, 1);
}

static bool any_lane(struct te_io *io, bool (*is)(struct te_lane *l))
{
	for (struct te_tcp_peer *p = io->peers; p; p = p->next)
		for (unsigned i = 0; i < p->nlanes; i++)
			if (is(&p->lanes[i]))
				return true;
	return false;
}

static bool has_work(struct te_lane *l)
{
	return atomic_load(&l->load);
}

static bool is_left_alone(struct te_lane *l)
{
	return atomic_load(&l->load) && !atomic_load(&l->busy) && !atomic_load(&l->armed);
}

static unsigned sum_pushes(struct te_io *io)
{
	unsigned sum = 0;

	for (struct te_tcp_peer *p = io->peers; p; p = p->next)
		for (unsigned i = 0; i < p->nlanes; i++)
			sum += atomic_load_explicit(&p->lanes[i].pushes, memory_order_relaxed);
	return sum;
}

/* How long to sleep, in ms for epoll_wait(). */
static int choose_pace(struct te_io *io)
{
	if (io->calm < LINGER_TICKS) {
		atomic_store(&io->pace, TE_PACE_CLOSE);
		return CLOSE_MS;
	}
	/* Slow down first and look then, so that no submit falls in between. */
	atomic_store(&io->pace, TE_PACE_NONE);
	adopt_peers(io);
	if (any_lane(io, is_left_alone)) {
		atomic_store(&io->pace, TE_PACE_CLOSE);
		return CLOSE_MS;
	}
	if (any_lane(io, has_work)) {
		atomic_store(&io->pace, TE_PACE_CLOCK);
		return CLOCK_MS;
	}
	return -1;
}

/* ---- driving ---- */

static void drive(struct te_lane *l)
{
	if (!te_lane_try(l)) {
		/* The event is used up: whoever drives looks once more before it leaves. */
		te_lane_knock(l);
		if (!te_lane_try(l))
			return;
	}
	for (int i = 0; i < STEPS && te_lane_step(l, true); i++)
		;
	te_lane_idle(l);
	te_lane_leave(l, false);
}

/* clock: time-outs are due too. */
static void tick(struct te_lane *l, bool clock, uint64_t now)
{
	bool alone = is_left_alone(l);

	if (!alone && !(clock && atomic_load(&l->load)))
		return;
	if (!te_lane_try(l))
		return;
	if (alone) /* nobody came to help: tell this thread at once in future */
		atomic_store_explicit(&l->helped, false, memory_order_relaxed);
	if (clock || now - l->looked > (uint64_t)CLOCK_MS * TE_NSEC_PER_MSEC)
		te_lane_clock(l, now);
	for (int i = 0; i < STEPS && te_lane_step(l, true); i++)
		;
	te_lane_leave(l, false);
}

static void look_round(struct te_io *io)
{
	uint64_t now = te_now();
	bool clock = now - io->clock >= (uint64_t)CLOCK_MS * TE_NSEC_PER_MSEC;
	unsigned pushes;

	if (now - io->ticked < (uint64_t)CLOSE_MS * TE_NSEC_PER_MSEC)
		return;
	io->ticked = now;
	pushes = sum_pushes(io);
	io->calm = pushes == io->pushes ? io->calm + 1 : 0;
	io->pushes = pushes;
	if (clock)
		io->clock = now;
	for (struct te_tcp_peer *p = io->peers; p; p = p->next)
		for (unsigned i = 0; i < p->nlanes; i++)
			tick(&p->lanes[i], clock, now);
}

static void *run(void *arg)
{
	struct te_io *io = arg;
	struct epoll_event ev[EVENTS];

	while (!atomic_load_explicit(&io->stop, memory_order_relaxed)) {
		int n = epoll_wait(io->epoll, ev, EVENTS, choose_pace(io));

		for (int i = 0; i < n; i++) {
			eventfd_t count;

			if (ev[i].data.ptr != io)
				drive(ev[i].data.ptr);
			else
				eventfd_read(io->kick, &count);
		}
		adopt_peers(io);
		look_round(io);
	}
	return NULL;
}

/* ---- start and stop ---- */

int te_io_start(struct te_io **out, struct te_err *err)
{
	struct te_io *io = calloc(1, sizeof(*io));
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = io };
	int rc;

	if (!io)
		return te_fail(err, -ENOMEM, "no memory for the tcp I/O thread");
	pthread_mutex_init(&io->lock, NULL);
	io->calm = LINGER_TICKS;
	io->epoll = epoll_create1(EPOLL_CLOEXEC);
	io->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = io->epoll < 0 || io->kick < 0 || epoll_ctl(io->epoll, EPOLL_CTL_ADD, io->kick, &ev) < 0
		     ? -errno
		     : te_thread_start(&io->thread, "te-io", run, io);
	if (!rc) {
		*out = io;
		return 0;
	}
	if (io->epoll >= 0)
		close(io->epoll);
	if (io->kick >= 0)
		close(io->kick);
	pthread_mutex_destroy(&io->lock);
	free(io);
	return te_fail(err, rc, "cannot start the tcp I/O thread: %s", strerror(-rc));
}

void te_io_stop(struct te_io *io)
{
	if (!io)
		return;
	atomic_store(&io->stop, true);
	eventfd_write(io->kick, 1);
	pthread_join(io->thread, NULL);
	adopt_peers(io);
	while (io->peers) {
		struct te_tcp_peer *p = io->peers;

		io->peers = p->next;
		te_tcp_peer_free(p);
	}
	close(io->epoll);
	close(io->kick);
	pthread_mutex_destroy(&io->lock);
	free(io);
}
