/* xfer.c - requests out and replies in, many slices in one system call. */
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/util.h"
#include "transport/tcp/lane.h"

enum {
	SLICES = 256,	      /* in one call */
	IOV = 2 * SLICES + 1, /* a v1 WRITE ends with the header of its confirmation */
	SEND_BYTES = 4 << 20, /* in one call: more does not fit into a socket */
	RECV_BYTES = 4 << 20,
	RECV_LEAST = 128 << 10,	 /* asked for however little came last time */
	FLIGHT_BYTES = 64 << 20, /* asked for ahead: the bandwidth-delay product of a long path */
};

/* A v1 peer acknowledges no WRITE: a READ of its last byte on the same connection does. */
static bool is_confirmed(const struct te_lane *l, const struct te_slice *s)
{
	return !l->peer->v2 && s->op == TE_WRITE && l->style != TE_V1_ONE_SHOT;
}

static uint64_t request_len(const struct te_lane *l, const struct te_slice *s)
{
	return TE_TCP_HEADER + (s->op == TE_WRITE ? s->len : 0) +
	       (is_confirmed(l, s) ? TE_TCP_HEADER : 0);
}

static uint64_t status_len(const struct te_lane *l)
{
	return l->peer->v2 ? TE_TCP_STATUS : 0;
}

static uint64_t reply_len(const struct te_lane *l, const struct te_slice *s)
{
	return status_len(l) + (s->op == TE_READ ? s->len : is_confirmed(l, s) ? 1 : 0);
}

/* ---- out ---- */

struct out {
	struct iovec iov[IOV];
	uint8_t header[SLICES * 2][TE_TCP_HEADER];
	unsigned niov, nheaders;
	uint64_t bytes;
};

static void add_header(struct out *o, uint64_t size, uint64_t addr, unsigned opcode, uint64_t *skip)
{
	uint8_t *h = o->header[o->nheaders++];

	if (*skip >= TE_TCP_HEADER) {
		*skip -= TE_TCP_HEADER;
		return;
	}
	te_tcp_put_request(h, size, addr, opcode);
	o->niov = te_tcp_add_iov(o->iov, o->niov, h + *skip, TE_TCP_HEADER - *skip);
	o->bytes += TE_TCP_HEADER - *skip;
	*skip = 0;
}

static void add_request(const struct te_lane *l, struct out *o, const struct te_slice *s,
			uint64_t skip)
{
	unsigned version = l->peer->v2 ? TE_TCP_V2 : 0;
	uint64_t part;

	if (s->op == TE_READ) {
		add_header(o, s->len, s->remote, TE_TCP_READ | version, &skip);
		return;
	}
	add_header(o, s->len, s->remote, TE_TCP_WRITE | version, &skip);
	part = MIN(s->len - MIN(s->len, skip), SEND_BYTES);
	if (part)
		o->niov = te_tcp_add_iov(o->iov, o->niov, (char *)s->local + skip, part);
	o->bytes += part;
	if (skip + part < s->len)
		return;
	skip -= MIN(s->len, skip);
	if (is_confirmed(l, s))
		add_header(o, 1, s->remote + (s->len - 1), TE_TCP_READ, &skip);
}

static unsigned window(const struct te_lane *l)
{
	if (l->peer->v2 || l->style == TE_V1_KEEPS)
		return l->window;
	return l->style == TE_V1_ONE_SHOT && l->served ? 0 : 1;
}

/* The next requests; slices that were cancelled before their first byte drop out. */
static void build(struct te_lane *l, struct out *o)
{
	uint64_t skip = l->sent_off, asked = l->flight_bytes;
	unsigned room = window(l) - MIN(window(l), l->flight), n = 0;
	struct te_slice **at = &l->todo.first;

	o->niov = o->nheaders = 0;
	o->bytes = 0;
	while (*at && n < MIN(room, SLICES) && o->bytes < SEND_BYTES && asked < FLIGHT_BYTES) {
		struct te_slice *s = *at;

		if (!skip && te_lane_is_cancelled(s)) {
			*at = s->next;
			if (!*at)
				l->todo.end = at;
			te_lane_fail(l, s, -ECANCELED, "cancelled before it was sent");
			continue;
		}
		add_request(l, o, s, skip);
		skip = 0;
		asked += s->op == TE_READ ? s->len : 0;
		at = &s->next;
		n++;
	}
}

static void went_out(struct te_lane *l, uint64_t n)
{
	while (n) {
		struct te_slice *s = l->todo.first;
		uint64_t rest = request_len(l, s) - l->sent_off;

		if (n < rest) {
			l->sent_off += n;
			return;
		}
		n -= rest;
		l->sent_off = 0;
		te_chain_append(&l->sent, te_chain_pop(&l->todo));
		l->flight++;
		l->flight_bytes += s->op == TE_READ ? s->len : 0;
	}
}

bool te_lane_send(struct te_lane *l)
{
	bool moved = false;

	l->want_out = false;
	while (l->todo.first) {
		struct out o;
		struct msghdr msg = { .msg_iov = o.iov };
		ssize_t n;

		build(l, &o);
		if (!o.niov)
			break;
		msg.msg_iovlen = o.niov;
		n = sendmsg(l->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			l->want_out = true;
			break;
		}
		if (n < 0) {
			int status = -errno;

			/* Why it closed may still lie in the socket. */
			if (!te_lane_recv(l) && l->state == TE_LANE_OPEN)
				te_lane_lost(l, status, strerror(-status));
			return true;
		}
		moved = true;
		went_out(l, (uint64_t)n);
		l->want_out = (uint64_t)n < o.bytes;
		if (l->want_out)
			break;
	}
	return moved;
}

/* ---- in ---- */

struct in {
	struct iovec iov[IOV];
	uint64_t status[SLICES]; /* also: the byte that confirms a v1 WRITE */
	unsigned niov;
	uint64_t bytes;
};

/* A refusal may come while its request is still being sent. */
static struct te_slice *due_after(const struct te_lane *l, const struct te_slice *s)
{
	struct te_slice *half = l->sent_off ? l->todo.first : NULL;

	if (!s)
		return l->sent.first ? l->sent.first : half;
	if (s == half)
		return NULL;
	return s->next ? s->next : half;
}

static void expect(const struct te_lane *l, struct in *in)
{
	uint64_t skip = l->recv_off;
	unsigned i = 0;

	in->niov = 0;
	in->bytes = 0;
	for (struct te_slice *s = due_after(l, NULL); s && i < SLICES && in->bytes < l->appetite;
	     s = due_after(l, s), skip = 0, i++) {
		uint64_t head = status_len(l), body = reply_len(l, s) - head;
		char *to = s->op == TE_READ ? s->local : (char *)&in->status[i];

		if (i == 0)
			in->status[0] = l->part;
		if (skip < head) {
			in->niov = te_tcp_add_iov(in->iov, in->niov, (char *)&in->status[i] + skip,
						  head - skip);
			in->bytes += head - skip;
			skip = head;
		}
		skip -= head;
		body = MIN(body - skip, RECV_BYTES);
		if (body)
			in->niov = te_tcp_add_iov(in->iov, in->niov, to + skip, body);
		in->bytes += body;
	}
}

/* False: the connection is gone. */
static bool judge(struct te_lane *l, const struct te_slice *s, uint64_t status)
{
	if (!te_tcp_status_is_valid(status)) {
		te_lane_lost(l, -EPROTO,
			     "no status frame: the peer speaks version 1 (stale descriptor?)");
		return false;
	}
	if (te_tcp_status_code(status) != TE_TCP_OK) {
		te_lane_refused(l);
		return false;
	}
	if (s == l->todo.first) {
		te_lane_lost(l, -EPROTO, "a WRITE was acknowledged before it was sent");
		return false;
	}
	return true;
}

static void came_in(struct te_lane *l, const struct in *in, uint64_t n)
{
	for (unsigned i = 0; n; i++) {
		struct te_slice *s = due_after(l, NULL);
		uint64_t head = status_len(l), before = l->recv_off;
		uint64_t take = MIN(n, reply_len(l, s) - before);

		n -= take;
		l->recv_off += take;
		if (before < head && l->recv_off < head)
			l->part = in->status[i];
		else if (before < head && !judge(l, s, in->status[i]))
			return;
		if (l->recv_off == reply_len(l, s))
			te_lane_answered(l);
	}
}

/* A one-shot peer has no other way to say that it has a WRITE than to close, after it took every
 * byte. */
static bool write_ended_well(const struct te_lane *l)
{
	int unacknowledged = 0;

	return l->style == TE_V1_ONE_SHOT && l->sent.first && l->sent.first->op == TE_WRITE &&
	       !ioctl(l->fd, SIOCOUTQ, &unacknowledged) && !unacknowledged;
}

static bool ended(struct te_lane *l)
{
	if (write_ended_well(l))
		te_lane_answered(l);
	else
		te_lane_lost(l, -ECONNRESET, "connection closed by the peer");
	return true;
}

bool te_lane_recv(struct te_lane *l)
{
	bool moved = false;

	while (l->sent.first || l->sent_off) {
		char nothing;
		struct in in;
		struct msghdr msg = { .msg_iov = in.iov };
		ssize_t n;

		expect(l, &in);
		if (!in.niov) /* one-shot WRITE: only the end can come */
			in.niov = te_tcp_add_iov(in.iov, 0, &nothing, 1);
		msg.msg_iovlen = in.niov;
		n = recvmsg(l->fd, &msg, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n == 0)
			return ended(l);
		if (n < 0 || !in.bytes) {
			int status = n < 0 ? -errno : -EPROTO;

			te_lane_lost(l, status, strerror(-status));
			return true;
		}
		moved = true;
		l->quiet = false;
		/* Vectors for what is not there yet are work for nothing. */
		l->appetite = MAX(RECV_LEAST, MIN(RECV_BYTES, 2 * (uint64_t)n));
		came_in(l, &in, (uint64_t)n);
		if (l->state != TE_LANE_OPEN || (uint64_t)n < in.bytes)
			break;
	}
	return moved;
}
