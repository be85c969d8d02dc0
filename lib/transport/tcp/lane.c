/* lane.c - one connection to a peer: appending, driving, leaving. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "host/sock.h"
#include "te_conf.h"
#include "transport/tcp/io.h"
#include "transport/tcp/lane.h"
#include "transport/tcp/tune.h"

enum {
	WINDOW = 4096,
	STEPS = 4,	   /* connections begun in one step */
	CLOSING_MS = 1000, /* a one-shot peer closes at once; this one does not */
	SHUT_MS = 50,	   /* ... nor after a WRITE: close our side to make it */
	NO_PORT_MS = 5,
};

static uint64_t in_ms(unsigned ms)
{
	return te_now() + (uint64_t)ms * TE_NSEC_PER_MSEC;
}

void te_lane_init(struct te_lane *l, struct te_tcp_peer *p)
{
	l->peer = p;
	pthread_mutex_init(&l->lock, NULL);
	te_chain_init(&l->fresh);
	te_chain_init(&l->doomed);
	te_chain_init(&l->todo);
	te_chain_init(&l->sent);
	te_chain_init(&l->done);
	te_chain_init(&l->failed);
	atomic_init(&l->helped, true);
	l->window = WINDOW;
	l->appetite = 256 << 10;
	l->fd = l->kick = -1;
}

void te_lane_clear(struct te_lane *l)
{
	te_lane_close(l, false);
	if (l->kick >= 0)
		close(l->kick);
	pthread_mutex_destroy(&l->lock);
}

const char *te_lane_addr(const struct te_lane *l, char buf[TE_ADDR_TEXT])
{
	return te_addr_text(&l->peer->addrs[l->addr_at], buf);
}

void te_lane_push(struct te_lane *l, struct te_chain *chain, uint64_t bytes)
{
	for (struct te_slice *s = chain->first; s; s = s->next) {
		s->scratch = 0;
		atomic_store_explicit(&s->conn, l, memory_order_relaxed);
	}
	atomic_fetch_add(&l->load, bytes);
	atomic_fetch_add_explicit(&l->pushes, 1, memory_order_relaxed);
	pthread_mutex_lock(&l->lock);
	te_chain_join(&l->fresh, chain);
	pthread_mutex_unlock(&l->lock);
	te_lane_knock(l);
}

void te_lane_abort(struct te_lane *l)
{
	pthread_mutex_lock(&l->lock);
	te_chain_join(&l->doomed, &l->fresh);
	l->aborting = true;
	pthread_mutex_unlock(&l->lock);
}

/* What was there when te_lane_abort() was called. */
static void abort_all(struct te_lane *l, struct te_chain *doomed)
{
	struct te_tcp_peer *p = l->peer;
	struct te_err why;

	pthread_mutex_lock(&p->abort_lock);
	why = p->abort_why;
	pthread_mutex_unlock(&p->abort_lock);
	te_lane_close(l, true);
	te_chain_join(&l->todo, doomed);
	te_lane_fail_all(l, why.code, why.msg);
}

static void take_fresh(struct te_lane *l)
{
	bool idle = !l->todo.first && !l->sent.first, abort;
	struct te_chain doomed;

	if (!atomic_load_explicit(&l->knock, memory_order_relaxed))
		return;
	atomic_exchange(&l->knock, false);
	te_chain_init(&doomed);
	do {
		pthread_mutex_lock(&l->lock);
		abort = l->aborting;
		l->aborting = false;
		te_chain_join(&doomed, &l->doomed);
		if (!abort)
			te_chain_join(&l->todo, &l->fresh);
		pthread_mutex_unlock(&l->lock);
		if (abort)
			abort_all(l, &doomed);
	} while (abort);
	if (!idle || !l->todo.first)
		return;
	l->quiet = true;
	l->moved = te_now();
	if (l->state == TE_LANE_CONNECTING) { /* for work that is gone: this has its own time */
		te_lane_close(l, true);
		l->connect_until = 0;
	}
}

/* ---- connecting ---- */

static void opened(struct te_lane *l)
{
	te_tcp_tune(l->fd);
	l->state = TE_LANE_OPEN;
	l->connect_until = 0;
	l->style = (enum te_v1_style)atomic_load_explicit(&l->peer->style, memory_order_relaxed);
	l->served = 0;
	l->quiet = true;
	l->shut = false;
	l->timer = 0;
	l->moved = te_now();
}

static void start_connect(struct te_lane *l)
{
	const struct te_conf *conf = l->peer->env->conf;
	uint64_t now = te_now(), addrs_left = (uint64_t)(l->peer->naddrs - l->addr_at);
	bool done = false;

	if (!l->connect_until)
		l->connect_until =
			now + (uint64_t)conf->handshake_connect_timeout_s * TE_NSEC_PER_SEC;
	l->attempt_until = now + (l->connect_until - MIN(now, l->connect_until)) / addrs_left;
	l->fd = te_sock_connect_start(&l->peer->addrs[l->addr_at], &done);
	/* All ports are in TIME_WAIT: some come back soon. */
	if (l->fd == -EADDRNOTAVAIL && now < l->connect_until) {
		l->state = TE_LANE_NO_PORT;
		l->timer = in_ms(NO_PORT_MS);
		return;
	}
	l->state = TE_LANE_CONNECTING;
	if (l->fd < 0) {
		te_lane_unreachable(l, l->fd);
		return;
	}
	if (te_io_watch(l->peer->io, l))
		te_lane_unreachable(l, -errno);
	else if (done)
		opened(l);
}

static void check_connect(struct te_lane *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLOUT };
	int rc;

	if (poll(&p, 1, 0) <= 0)
		return;
	rc = te_sock_error(l->fd);
	if (rc)
		te_lane_unreachable(l, rc);
	else
		opened(l);
}

/* ---- one-shot peers ---- */

void te_lane_learn(struct te_lane *l, enum te_v1_style style)
{
	struct te_tcp_peer *p = l->peer;

	atomic_store_explicit(&p->style, style, memory_order_relaxed);
	atomic_store_explicit(&p->base.piece, style == TE_V1_KEEPS ? TE_LANE_PIECE : 0,
			      memory_order_relaxed);
}

static void check_closing(struct te_lane *l)
{
	char byte;
	ssize_t n = recv(l->fd, &byte, 1, MSG_DONTWAIT);
	bool open = n < 0 && errno == EAGAIN;

	if (open && te_now() < l->timer)
		return;
	if (open) /* it keeps connections after all */
		te_lane_learn(l, TE_V1_UNKNOWN);
	te_lane_close(l, n != 0);
}

static void learn_style(struct te_lane *l)
{
	if (l->peer->v2 || l->style != TE_V1_UNKNOWN || l->served < 2)
		return;
	l->style = TE_V1_KEEPS;
	te_lane_learn(l, TE_V1_KEEPS);
}

void te_lane_answered(struct te_lane *l)
{
	struct te_slice *s = te_chain_pop(&l->sent);

	l->recv_off = l->part = 0;
	l->flight--;
	l->flight_bytes -= s->op == TE_READ ? s->len : 0;
	s->status = 0;
	te_chain_append(&l->done, s);
	l->resent = false;
	if (l->window < WINDOW && ++l->grown >= l->window) {
		l->window *= 2;
		l->grown = 0;
	}
	if (l->peer->v2 || l->style != TE_V1_ONE_SHOT) {
		l->served += s->op == TE_WRITE ? 2 : 1; /* its confirmation was a request too */
		learn_style(l);
		return;
	}
	l->served++;
	if (s->op == TE_READ) {
		l->state = TE_LANE_CLOSING;
		l->timer = in_ms(CLOSING_MS);
		return;
	}
	if (l->shut)
		te_lane_learn(l, TE_V1_UNKNOWN);
	te_lane_close(l, false);
}

/* ---- driving ---- */

static bool transfer(struct te_lane *l, bool receive)
{
	bool moved = te_lane_send(l);

	if (receive && l->state == TE_LANE_OPEN)
		moved |= te_lane_recv(l);
	if (moved)
		l->moved = te_now();
	if (l->style == TE_V1_ONE_SHOT && l->state == TE_LANE_OPEN && !l->shut && !l->timer &&
	    l->sent.first && l->sent.first->op == TE_WRITE)
		l->timer = in_ms(SHUT_MS);
	return moved;
}

bool te_lane_step(struct te_lane *l, bool receive)
{
	bool moved = false;

	for (int i = 0; i < STEPS; i++) {
		take_fresh(l);
		if (l->state == TE_LANE_CLOSING)
			check_closing(l);
		if (l->state == TE_LANE_NO_PORT && te_now() >= l->timer)
			l->state = TE_LANE_IDLE;
		if (l->state == TE_LANE_IDLE && l->todo.first)
			start_connect(l);
		if (l->state == TE_LANE_CONNECTING)
			check_connect(l);
		if (l->state == TE_LANE_OPEN)
			moved |= transfer(l, receive);
		if (l->state != TE_LANE_IDLE || !l->todo.first)
			break;
	}
	te_lane_flush(l);
	return moved;
}

void te_lane_idle(struct te_lane *l)
{
	char byte;
	ssize_t n;

	if (l->state != TE_LANE_OPEN || l->todo.first || l->sent.first)
		return;
	n = recv(l->fd, &byte, 1, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (!l->peer->v2 && l->style == TE_V1_UNKNOWN && l->served == 1)
		te_lane_learn(l, TE_V1_ONE_SHOT);
	te_lane_close(l, n != 0);
}

void te_lane_clock(struct te_lane *l, uint64_t now)
{
	l->looked = now;
	if (l->state == TE_LANE_CONNECTING && now >= l->attempt_until)
		te_lane_unreachable(l, -ETIMEDOUT);
	if (l->state == TE_LANE_OPEN && l->timer && now >= l->timer) {
		shutdown(l->fd, SHUT_WR);
		l->shut = true;
		l->timer = 0;
	}
	te_lane_expire(l, now);
	te_lane_flush(l);
}

short te_lane_poll_events(const struct te_lane *l)
{
	bool out = l->state == TE_LANE_CONNECTING || l->want_out;

	return (short)(POLLIN | (out ? POLLOUT : 0));
}

void te_lane_leave(struct te_lane *l, bool lazy)
{
	for (;;) {
		bool work = l->todo.first || l->sent.first, armed = false;

		if (!work)
			atomic_store_explicit(&l->bounced, false, memory_order_relaxed);
		if (l->fd >= 0 && (work || l->state == TE_LANE_CLOSING) &&
		    (!lazy || atomic_load_explicit(&l->bounced, memory_order_relaxed))) {
			te_io_arm(l->peer->io, l, te_lane_poll_events(l));
			armed = true;
		}
		/* Pairs with te_lane_knock() and te_lane_try(): either they see busy false, or we
		 * see knock. */
		atomic_store(&l->busy, false);
		if (!atomic_load(&l->knock)) {
			if (work)
				te_io_need(l->peer->io, armed ? TE_PACE_CLOCK : TE_PACE_CLOSE);
			return;
		}
		if (!te_lane_try(l))
			return;
		te_lane_step(l, true);
	}
}
