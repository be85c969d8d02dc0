/* rpc.c - the handshake frame and one call of it (INTEROP 2.2). */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "host/rpc.h"
#include "host/sock.h"
#include "te_conf.h"
#include "te_err.h"

enum { REPLY_STEP = 4096 };

/* Other first bytes up to 0x7f begin the JSON text of the old form. */
static bool is_type(unsigned char first)
{
	return first <= TE_RPC_PROBE || first == TE_RPC_RETIRE;
}

char *te_rpc_frame(enum te_rpc_type type, const char *text, size_t *len)
{
	size_t n = strlen(text), typed = type != TE_RPC_OLD;
	uint64_t announced = htole64(typed + n + 1);
	char *frame = malloc(TE_RPC_HEADER + typed + n + 1);

	if (!frame)
		return NULL;
	memcpy(frame, &announced, TE_RPC_HEADER);
	if (typed)
		frame[TE_RPC_HEADER] = (char)type;
	memcpy(frame + TE_RPC_HEADER + typed, text, n);
	frame[TE_RPC_HEADER + typed + n] = '\n';
	*len = TE_RPC_HEADER + typed + n + 1;
	return frame;
}

int64_t te_rpc_decode(const char *buf, size_t len, uint64_t max_length, enum te_rpc_type *type,
		      const char **body, size_t *body_len)
{
	uint64_t announced;
	unsigned char first;

	if (len < TE_RPC_HEADER)
		return (int64_t)(TE_RPC_HEADER - len);
	memcpy(&announced, buf, TE_RPC_HEADER);
	announced = le64toh(announced);
	if (!announced || announced > MIN(max_length, (uint64_t)INT64_MAX - TE_RPC_HEADER))
		return -EPROTO;
	if (len == TE_RPC_HEADER)
		return (int64_t)announced;
	first = (unsigned char)buf[TE_RPC_HEADER];
	if (first >= 0x80)
		return -EPROTO;
	if (len < TE_RPC_HEADER + announced)
		return (int64_t)(TE_RPC_HEADER + announced - len);
	*type = is_type(first) ? (enum te_rpc_type)first : TE_RPC_OLD;
	*body = buf + TE_RPC_HEADER + is_type(first);
	*body_len = announced - is_type(first);
	return 0;
}

/* A reply while it arrives. */
struct reply {
	char *buf;
	size_t len, room;
	enum te_rpc_type type; /* once it is whole */
	const char *body;
	size_t body_len;
};

/* Take what has arrived, at most `want` bytes: > 0, or -EAGAIN, -ECONNRESET (also: EOF), ... The
   buffer grows with what is there, not with what was announced. */
static int take(int fd, struct reply *r, size_t want)
{
	ssize_t n;

	if (r->len == r->room) {
		size_t room = MAX(2 * r->room, (size_t)REPLY_STEP);
		char *buf = realloc(r->buf, room);

		if (!buf)
			return -ENOMEM;
		r->buf = buf;
		r->room = room;
	}
	n = recv(fd, r->buf + r->len, MIN(want, r->room - r->len), 0);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	r->len += (size_t)n;
	return n ? 1 : -ECONNRESET;
}

static int receive(int fd, uint64_t max_length, uint64_t until, struct reply *r)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		int64_t want =
			te_rpc_decode(r->buf, r->len, max_length, &r->type, &r->body, &r->body_len);
		int rc;

		if (want <= 0)
			return (int)want;
		rc = take(fd, r, (size_t)want);
		if (rc > 0)
			continue;
		if (rc != -EAGAIN)
			return rc;
		if (te_now() >= until)
			return -ETIMEDOUT;
		poll(&p, 1, te_ms_until(until));
	}
}

/* The call that is made, for messages. */
struct call {
	const char *peer;
	enum te_rpc_type type;
	uint64_t start, until;
};

static int explain(const struct call *c, int rc, bool some, struct te_err *err)
{
	unsigned type = (unsigned)c->type;

	if (rc == -ETIMEDOUT)
		return te_fail(err, rc, "no reply from '%s' within %.3g s (handshake type %u)",
			       c->peer, (double)(MAX(c->until, c->start) - c->start) / 1e9, type);
	if (rc == -ECONNRESET && !some)
		return te_fail(err, rc,
			       "'%s' closed the connection without a reply (handshake type %u)",
			       c->peer, type);
	if (rc == -EPROTO)
		return te_fail(err, rc, "malformed or too long reply from '%s' (handshake type %u)",
			       c->peer, type);
	return te_fail(err, rc, "cannot read the reply of '%s' (handshake type %u): %s", c->peer,
		       type, strerror(-rc));
}

static int read_reply(const struct te_conf *conf, int fd, const struct call *c, char **reply,
		      size_t *reply_len, struct te_err *err)
{
	struct reply r = { 0 };
	int rc = receive(fd, (uint64_t)conf->handshake_max_length, c->until, &r);

	if (rc) {
		rc = explain(c, rc, r.len > 0, err);
	} else if (r.type != c->type) {
		rc = te_fail(err, -EPROTO, "'%s' answered handshake type %u with type %u", c->peer,
			     (unsigned)c->type, (unsigned)r.type);
	} else {
		/* The buffer becomes the reply: the header before the body makes room for the NUL.
		 */
		memmove(r.buf, r.body, r.body_len);
		r.buf[r.body_len] = '\0';
		*reply = r.buf;
		*reply_len = r.body_len;
		return 0;
	}
	free(r.buf);
	return rc;
}

static int send_request(int fd, const struct call *c, const char *text, struct te_err *err)
{
	size_t len;
	char *frame = te_rpc_frame(c->type, text, &len);
	int rc;

	if (!frame)
		return te_fail(err, -ENOMEM, "out of memory");
	rc = te_sock_send(fd, frame, len, c->until);
	free(frame);
	if (rc)
		return te_fail(err, rc, "cannot send to '%s' (handshake type %u): %s", c->peer,
			       (unsigned)c->type, strerror(-rc));
	return 0;
}

int te_rpc_call(const struct te_conf *conf, const char *host, unsigned port, enum te_rpc_type type,
		const char *text, uint64_t until, char **reply, size_t *reply_len,
		struct te_err *err)
{
	struct call c = { .type = type, .start = te_now(), .until = until };
	uint64_t connected =
		c.start + (uint64_t)conf->handshake_connect_timeout_s * TE_NSEC_PER_SEC;
	char *peer;
	int fd, rc;

	fd = te_sock_connect(host, port, AF_UNSPEC, MIN(until, connected), err);
	if (fd < 0)
		return fd;
	peer = te_addr_join(host, port);
	c.peer = peer ? peer : host;
	rc = send_request(fd, &c, text, err);
	if (!rc)
		rc = read_reply(conf, fd, &c, reply, reply_len, err);
	free(peer);
	close(fd);
	return rc;
}
