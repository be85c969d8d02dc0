/* lost.c - how a connection ends, and what becomes of the slices that were on it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "te_conf.h"
#include "te_err.h"
#include "transport/tcp/io.h"
#include "transport/tcp/lane.h"

void te_lane_close(struct te_lane *l, bool reset)
{
	struct linger now = { .l_onoff = 1 };

	if (l->fd >= 0) {
		/* A reset also takes back what lies unsent in our socket, and tells a peer that has
		   not read it yet to throw it away. */
		if (reset)
			setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		te_io_unwatch(l->peer->io, l);
		close(l->fd);
	}
	l->fd = -1;
	l->state = TE_LANE_IDLE;
	l->want_out = false;
	l->sent_off = l->recv_off = l->part = 0;
	l->timer = 0;
}

/* ---- handing over ---- */

static void hand_over(struct te_lane *l, struct te_chain *c, const struct te_err *why)
{
	struct te_slice *list = c->first;
	uint64_t load = 0, slices = 0, bytes = 0;

	if (!list)
		return;
	for (struct te_slice *s = list; s; s = s->next) {
		load += s->len;
		if (!s->status) {
			slices++;
			bytes += s->len;
		}
		atomic_store_explicit(&s->conn, NULL, memory_order_relaxed);
	}
	te_chain_init(c);
	if (slices) {
		atomic_fetch_add_explicit(&l->peer->base.slices, slices, memory_order_relaxed);
		atomic_fetch_add_explicit(&l->peer->base.bytes, bytes, memory_order_relaxed);
	}
	atomic_fetch_sub(&l->load, load);
	l->peer->env->sink->done(l->peer->env->sink, list, why);
}

void te_lane_flush(struct te_lane *l)
{
	hand_over(l, &l->done, NULL);
	hand_over(l, &l->failed, &l->why);
}

void te_lane_fail(struct te_lane *l, struct te_slice *s, int status, const char *why)
{
	char addr[TE_ADDR_TEXT];

	if (l->failed.first && l->why.code != status)
		hand_over(l, &l->failed, &l->why);
	if (!l->failed.first)
		te_fail(&l->why, status, "%s: %s", te_lane_addr(l, addr), why);
	s->status = status;
	te_chain_append(&l->failed, s);
}

static void fail_chain(struct te_lane *l, struct te_chain *c, int status, const char *why)
{
	while (c->first)
		te_lane_fail(l, te_chain_pop(c), status, why);
}

void te_lane_fail_all(struct te_lane *l, int status, const char *why)
{
	fail_chain(l, &l->sent, status, why);
	fail_chain(l, &l->todo, status, why);
	l->flight = 0;
	l->flight_bytes = 0;
	l->sent_off = l->recv_off = 0;
	l->addr_at = 0;
	l->connect_until = 0;
}

/* ---- sending again ---- */

/* One more connection has ended under s. True: it may go over the next. */
static bool may_go_again(struct te_lane *l, struct te_slice *s, uint64_t now)
{
	if (s->deadline <= now) {
		te_lane_fail(l, s, -ETIMEDOUT, "no reply before the deadline");
		return false;
	}
	if (++s->scratch > (uint64_t)l->peer->env->conf->retry_cnt) {
		te_lane_fail(l, s, -ECONNRESET, "connections keep ending before it is answered");
		return false;
	}
	return true;
}

/* Close, and put what was sent in front of what was not. */
static void send_again(struct te_lane *l)
{
	uint64_t now = te_now();
	struct te_chain again;

	te_chain_init(&again);
	if (l->sent_off)
		te_chain_append(&l->sent, te_chain_pop(&l->todo));
	while (l->sent.first) {
		struct te_slice *s = te_chain_pop(&l->sent);

		if (may_go_again(l, s, now))
			te_chain_append(&again, s);
	}
	te_chain_join(&again, &l->todo);
	te_chain_join(&l->todo, &again);
	/* Fewer in flight, so that what ends connections takes fewer others with it. */
	l->window = MAX(1, MIN(l->window, l->flight) / 2);
	l->grown = 0;
	l->flight = 0;
	l->flight_bytes = 0;
	te_lane_close(l, true);
}

/* The slice that is due, taken out; NULL when nothing was sent. */
static struct te_slice *take_first(struct te_lane *l)
{
	struct te_slice *s;

	if (l->sent.first) {
		s = te_chain_pop(&l->sent);
		l->flight--;
		l->flight_bytes -= s->op == TE_READ ? s->len : 0;
		return s;
	}
	if (!l->sent_off)
		return NULL;
	l->sent_off = 0;
	return te_chain_pop(&l->todo);
}

void te_lane_refused(struct te_lane *l)
{
	te_lane_fail(l, take_first(l), -EACCES, "peer refused the range: not registered");
	send_again(l);
}

/* A v1 peer that closes: does it serve one request a connection, or did it refuse the one that is
 * due? */
static void lost_v1(struct te_lane *l, int status, const char *why)
{
	const struct te_slice *due = l->sent.first;
	bool kept_none = l->served == 1 || (!l->served && due && due->op == TE_WRITE);
	struct te_slice *first;

	if (l->style == TE_V1_UNKNOWN && kept_none) {
		te_lane_learn(l, TE_V1_ONE_SHOT);
		send_again(l);
		return;
	}
	if (l->served && l->style != TE_V1_ONE_SHOT && !l->resent) {
		send_again(l);
		l->resent = true;
		return;
	}
	first = take_first(l);
	if (!first) {
		te_lane_close(l, true);
		te_lane_fail_all(l, status, why);
		return;
	}
	te_lane_fail(l, first, status, why);
	send_again(l);
}

void te_lane_lost(struct te_lane *l, int status, const char *why)
{
	bool ended = status == -ECONNRESET || status == -EPIPE;

	if (!l->peer->v2 && ended && !l->recv_off) {
		lost_v1(l, status,
			"connection closed without an answer (a v1 peer does so when a range is "
			"not "
			"registered)");
		return;
	}
	/* It died while it was idle, most likely: not the fault of what came after. */
	if (ended && l->served && l->quiet && !l->resent) {
		send_again(l);
		l->resent = true;
		return;
	}
	te_lane_close(l, true);
	te_lane_fail_all(l, status, why);
}

void te_lane_unreachable(struct te_lane *l, int status)
{
	char why[160];

	te_lane_close(l, true);
	if (l->addr_at + 1 < l->peer->naddrs && te_now() < l->connect_until) {
		l->addr_at++;
		return;
	}
	if (status == -ETIMEDOUT)
		snprintf(why, sizeof(why), "no connection within %lld s",
			 (long long)l->peer->env->conf->handshake_connect_timeout_s);
	else
		snprintf(why, sizeof(why), "cannot connect: %s", strerror(-status));
	te_lane_fail_all(l, status, why);
}

/* ---- the clock ---- */

static const char *stage(const struct te_lane *l)
{
	if (l->state != TE_LANE_OPEN)
		return "connect";
	if (l->sent_off || !l->sent.first)
		return "send";
	return l->recv_off < TE_TCP_STATUS && l->peer->v2 ? "status" : "payload";
}

static double patience(const struct te_lane *l)
{
	const struct te_conf *conf = l->peer->env->conf;
	bool status_due = l->state == TE_LANE_OPEN && !l->sent_off && l->sent.first && !l->recv_off;

	return status_due ? MIN(conf->tcp_status_timeout_s, conf->transfer_timeout_s)
			  : conf->transfer_timeout_s;
}

static void expire_unsent(struct te_lane *l, uint64_t now)
{
	struct te_slice **at = &l->todo.first;

	if (l->sent_off)
		at = &(*at)->next;
	while (*at) {
		struct te_slice *s = *at;
		bool cancelled = te_lane_is_cancelled(s);

		if (s->deadline > now && !cancelled) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		if (!*at)
			l->todo.end = at;
		if (cancelled)
			te_lane_fail(l, s, -ECANCELED, "cancelled before it was sent");
		else
			te_lane_fail(l, s, -ETIMEDOUT,
				     l->state == TE_LANE_OPEN
					     ? "not sent before the deadline"
					     : "no connection before the deadline");
	}
}

void te_lane_expire(struct te_lane *l, uint64_t now)
{
	const struct te_slice *due = l->sent.first ? l->sent.first
				     : l->sent_off ? l->todo.first
						   : NULL;
	double limit = patience(l);
	char why[96];

	expire_unsent(l, now);
	if (!due && !l->todo.first)
		return;
	if (now > l->moved && (double)(now - l->moved) > limit * 1e9) {
		snprintf(why, sizeof(why), "no progress for %g s (stage: %s)", limit, stage(l));
		te_lane_close(l, true);
		te_lane_fail_all(l, -ETIMEDOUT, why);
	} else if (due && due->deadline <= now) {
		send_again(l);
	}
}
