/* peer.c - a segment over tcp: its lanes, which slice takes which, and threads that help. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_segment.h"
#include "transport/tcp/io.h"
#include "transport/tcp/peer.h"
#include "transport/spin.h"

enum {
	SPIN_BYTES =
		64 *
		1024,	/* a lane with more than that in flight sleeps: it has no latency to lose */
	SLEEP_MS = 100, /* at most, to notice what no socket tells */
	CLOCK_MS = 50,	/* how often a driver looks at the clock */
};

/* ---- open and close ---- */

/* The address that we would send from; no packet is sent. */
static void own_address(const struct te_addr *to, char *buf, size_t size)
{
	struct te_addr own = { .len = sizeof(own.ss) };
	int fd = socket(to->ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char text[TE_ADDR_TEXT];
	char *colon;

	te_strlcpy(buf, "?", size);
	if (fd < 0)
		return;
	if (!connect(fd, (const struct sockaddr *)&to->ss, to->len) &&
	    !getsockname(fd, (struct sockaddr *)&own.ss, &own.len)) {
		te_addr_text(&own, text);
		colon = strrchr(text, ':'); /* that port means nothing */
		if (colon)
			*colon = '\0';
		te_strlcpy(buf, text, size);
	}
	close(fd);
}

int te_tcp_peer_new(struct te_transport *t, struct te_io *io, const struct te_peer_info *info,
		    struct te_peer **out, struct te_err *err)
{
	const struct te_conf *conf = t->env->conf;
	char text[TE_ADDR_TEXT];
	struct te_tcp_peer *p;
	int rc;

	p = calloc(1, sizeof(*p));
	if (!p)
		return te_fail(err, -ENOMEM, "no memory for a tcp peer");
	rc = te_addr_resolve(info->host, info->desc->tcp_data_port, AF_UNSPEC, p->addrs,
			     TE_ADDRS_MAX, err);
	if (rc <= 0) {
		free(p);
		return rc ? rc : te_fail(err, -EADDRNOTAVAIL, "'%s' has no address", info->host);
	}
	p->naddrs = rc;
	p->base.ops = t->ops;
	p->base.transport = t;
	p->io = io;
	p->env = t->env;
	p->v2 = info->desc->tcp_proto_version >= TE_TCP_VERSION && conf->tcp_proto != 1;
	/* A v1 peer may serve one request a connection: nothing is cut until it is known. */
	atomic_init(&p->base.piece, p->v2 ? TE_LANE_PIECE : 0);
	p->nlanes = (unsigned)MAX(1, MIN(conf->tcp_lanes, TE_LANES_MAX));
	pthread_mutex_init(&p->abort_lock, NULL);
	for (unsigned i = 0; i < p->nlanes; i++)
		te_lane_init(&p->lanes[i], p);
	te_strlcpy(p->base.remote, te_addr_text(&p->addrs[0], text), sizeof(p->base.remote));
	own_address(&p->addrs[0], p->base.local, sizeof(p->base.local));
	te_io_add(io, p);
	*out = &p->base;
	return 0;
}

void te_tcp_peer_free(struct te_tcp_peer *p)
{
	for (unsigned i = 0; i < p->nlanes; i++)
		te_lane_clear(&p->lanes[i]);
	pthread_mutex_destroy(&p->abort_lock);
	free(p);
}

void te_tcp_peer_close(struct te_peer *base)
{
	struct te_tcp_peer *p = container_of(base, struct te_tcp_peer, base);

	te_io_remove(p->io, p);
}

/* ---- submit ---- */

/* Small requests of one thread keep to one lane, so that they travel together. */
static unsigned own_lane(const struct te_tcp_peer *p)
{
	static _Atomic unsigned threads;
	static _Thread_local unsigned mine;

	if (!mine)
		mine = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
	return mine % p->nlanes;
}

static bool are_of_one(const struct te_slice *a, const struct te_slice *b)
{
	return a && b && a->task == b->task && a->len == TE_LANE_PIECE;
}

static unsigned least_loaded(const struct te_tcp_peer *p, const uint64_t *added, unsigned first)
{
	uint64_t least = UINT64_MAX;
	unsigned best = first;

	for (unsigned i = 0; i < p->nlanes; i++) {
		unsigned at = (first + i) % p->nlanes;
		uint64_t load =
			added[at] + atomic_load_explicit(&p->lanes[at].load, memory_order_relaxed);

		if (load < least) {
			least = load;
			best = at;
		}
	}
	return best;
}

/* Append, then drive unless somebody does. lazy: the caller is likely to help this lane next. */
static void give(struct te_lane *l, struct te_chain *chain, uint64_t bytes, bool lazy)
{
	te_lane_push(l, chain, bytes);
	if (te_lane_try(l)) {
		te_lane_step(l, false);
		te_lane_leave(l, lazy && atomic_load_explicit(&l->helped, memory_order_relaxed));
	} else if (atomic_load(&l->asleep) && atomic_exchange(&l->asleep, false)) {
		eventfd_write(l->kick, 1);
	}
}

void te_tcp_submit(struct te_peer *base, struct te_slice *list)
{
	struct te_tcp_peer *p = container_of(base, struct te_tcp_peer, base);
	/* One request at a time on a connection: use them all. */
	bool spread =
		!p->v2 && atomic_load_explicit(&p->style, memory_order_relaxed) != TE_V1_KEEPS;
	unsigned own = own_lane(p);
	struct te_chain chains[TE_LANES_MAX];
	uint64_t added[TE_LANES_MAX] = { 0 };
	struct te_slice *next;
	const struct te_slice *before = NULL;
	unsigned first = TE_LANES_MAX;

	for (unsigned i = 0; i < p->nlanes; i++)
		te_chain_init(&chains[i]);
	for (; list; list = next) {
		unsigned to = own;

		next = list->next;
		if (spread || are_of_one(before, list) || are_of_one(list, next))
			to = least_loaded(p, added, own);
		before = list;
		te_chain_append(&chains[to], list);
		added[to] += list->len;
		first = first == TE_LANES_MAX ? to : first;
	}
	for (unsigned i = 0; i < p->nlanes; i++)
		if (chains[i].first)
			give(&p->lanes[i], &chains[i], added[i], i == first);
}

/* ---- help ---- */

static int sleep_ms(const struct te_lane *l, uint64_t until)
{
	int ms = MIN(te_ms_until(until), SLEEP_MS);

	return l->timer ? MIN(ms, te_ms_until(l->timer) + 1) : ms;
}

/* In poll(), until the socket or another thread has something for the lane. */
static void sleep_on(struct te_lane *l, uint64_t until)
{
	struct pollfd fds[2] = { { .fd = l->fd, .events = te_lane_poll_events(l) } };
	eventfd_t count;

	if (l->kick < 0)
		l->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fds[1] = (struct pollfd){ .fd = l->kick, .events = POLLIN };
	/* Pairs with give(): either we see the knock, or it sees us asleep. */
	atomic_store(&l->asleep, l->kick >= 0);
	if (!atomic_load(&l->knock))
		poll(fds, 2, l->kick >= 0 ? sleep_ms(l, until) : 1);
	atomic_store(&l->asleep, false);
	if (fds[1].revents & POLLIN)
		eventfd_read(l->kick, &count);
}

/* Poll once more instead of sleeping? *spinning: this thread counts as one that polls. */
static bool may_spin(const struct te_lane *l, uint64_t idle_ns, bool *spinning)
{
	bool want = idle_ns < (uint64_t)l->peer->env->conf->spin_us * 1000 &&
		    atomic_load_explicit(&l->load, memory_order_relaxed) <= SPIN_BYTES;

	if (want && !*spinning)
		*spinning = te_spin_begin();
	else if (!want && *spinning) {
		te_spin_end();
		*spinning = false;
	}
	return *spinning;
}

static void drive_until(struct te_lane *l, struct te_slice *s, const _Atomic uint32_t *pending,
			uint64_t until)
{
	uint64_t now, last = te_now();
	bool spinning = false;

	for (;;) {
		bool moved = te_lane_step(l, true);

		if (!atomic_load_explicit(pending, memory_order_acquire) ||
		    atomic_load_explicit(&s->conn, memory_order_relaxed) != l)
			break;
		now = te_now();
		if (now >= until)
			break;
		if (now - l->looked > (uint64_t)CLOCK_MS * TE_NSEC_PER_MSEC)
			te_lane_clock(l, now);
		if (moved)
			last = now;
		else if (may_spin(l, now - last, &spinning))
			sched_yield(); /* the peer may need this very processor */
		else
			sleep_on(l, until);
	}
	if (spinning)
		te_spin_end();
}

void te_tcp_help(struct te_peer *base, struct te_slice *s, const _Atomic uint32_t *pending,
		 uint64_t until)
{
	struct te_lane *l = atomic_load_explicit(&s->conn, memory_order_relaxed);

	(void)base;
	if (!l)
		return;
	if (!te_lane_try(l)) {
		/* Whoever drives must not leave what we wait for to the next tick. */
		atomic_store(&l->bounced, true);
		te_lane_knock(l);
		if (!te_lane_try(l))
			return;
	}
	atomic_store_explicit(&l->helped, true, memory_order_relaxed);
	drive_until(l, s, pending, until);
	te_lane_leave(l, true);
}

void te_tcp_abort(struct te_peer *base, int status, const struct te_err *why)
{
	struct te_tcp_peer *p = container_of(base, struct te_tcp_peer, base);

	pthread_mutex_lock(&p->abort_lock);
	p->abort_why = why ? *why : (struct te_err){ .msg = "aborted" };
	p->abort_why.code = status;
	pthread_mutex_unlock(&p->abort_lock);
	for (unsigned i = 0; i < p->nlanes; i++) {
		struct te_lane *l = &p->lanes[i];
		struct te_chain none;

		te_chain_init(&none);
		te_lane_abort(l);
		give(l, &none, 0, false);
	}
}
