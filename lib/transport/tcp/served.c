/* served.c - one accepted connection: requests in, bytes to and from regions, replies out. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/util.h"
#include "transport/tcp/payload.h"
#include "transport/tcp/served.h"
#include "te_conf.h"
#include "te_log.h"

enum {
	TURNS = 256,		/* requests or reads before other connections get their turn */
	SMALL_WRITE = 2048,	/* up to here it pays to read many and let the kernel copy */
	BULK_WRITE = 32 * 1024, /* the same for memcpy() */
	ANSWER_AFTER = 1 << 20, /* bytes written before the peer is told, even if more is coming */
	DRAIN_BYTES = 64 << 20, /* what a refused peer may still send ... */
	DRAIN_SECONDS = 2,	/* ... and for how long, so that our last frame outlives it */
	HEADER_SECONDS = 60,
};

/* Beyond te_served_next: nothing to wait for yet, go on. */
enum { GO_ON = -1 };

struct te_served *te_served_new(int fd, uint64_t now)
{
	struct te_served *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = fd;
	c->in = c->small;
	atomic_init(&c->moved, now);
	return c;
}

static void release(struct te_served *c)
{
	while (c->nheld)
		te_region_put(c->held[--c->nheld]);
}

void te_served_free(struct te_served *c)
{
	release(c);
	close(c->fd);
	free(c->rest);
	free(c);
}

static bool is_gone(const struct te_region *r)
{
	return atomic_load_explicit(&r->refs, memory_order_relaxed) & TE_REGION_GONE;
}

/* Whoever removes a region waits for us: a busy connection must let go of it too. */
static void release_gone(struct te_served *c)
{
	for (unsigned i = 0; i < c->nheld; i++)
		if (is_gone(c->held[i])) {
			release(c);
			return;
		}
}

static int broken(const struct te_served *c, const char *stage, int error)
{
	if (error == EFAULT)
		te_warn("tcp: connection closed: registered memory is not mapped any more (%s)",
			stage);
	else
		te_trace("tcp: served connection %d lost: %s: %s", c->fd, stage, strerror(error));
	return TE_SERVED_CLOSE;
}

/*
 * Payload that was read together with headers goes into the region by the kernel, not by memcpy():
 * a program that unmapped it (or truncated the file behind it) costs a connection, not the process.
 */
static int run_copies(struct te_served *c, struct te_served_scratch *w)
{
	size_t want = 0;
	ssize_t n;

	if (!w->ncopies)
		return GO_ON;
	for (unsigned i = 0; i < w->ncopies; i++)
		want += w->copy_from[i].iov_len;
	n = process_vm_writev(getpid(), w->copy_from, w->ncopies, w->copy_to, w->ncopies, 0);
	if (n < 0 && (errno == EPERM || errno == ENOSYS)) {
		for (unsigned i = 0; i < w->ncopies; i++)
			memcpy(w->copy_to[i].iov_base, w->copy_from[i].iov_base,
			       w->copy_from[i].iov_len);
		n = (ssize_t)want;
	}
	w->ncopies = 0;
	return n == (ssize_t)want ? GO_ON : broken(c, "copy", n < 0 ? errno : EFAULT);
}

/* ---- replies ---- */

static unsigned gather(const struct te_served *c, struct te_served_scratch *w)
{
	uint64_t skip = c->out_off;
	unsigned n = 0;

	for (unsigned i = c->out_at; i < c->out_end; i++, skip = 0) {
		const struct te_served_reply *r = &c->out[i];
		uint64_t status = r->has_status ? TE_TCP_STATUS : 0;

		if (skip < status) {
			w->status[i] = te_tcp_status(r->code);
			n = te_tcp_add_iov(w->iov, n, (char *)&w->status[i] + skip, status - skip);
			skip = status;
		}
		if (r->len > skip - status)
			n = te_tcp_add_iov(w->iov, n, (char *)(uintptr_t)r->addr + (skip - status),
					   r->len - (skip - status));
	}
	return n;
}

static void sent(struct te_served *c, uint64_t n)
{
	while (n) {
		const struct te_served_reply *r = &c->out[c->out_at];
		uint64_t whole = (r->has_status ? TE_TCP_STATUS : 0) + r->len;

		if (n < whole - c->out_off) {
			c->out_off += n;
			return;
		}
		n -= whole - c->out_off;
		c->out_off = 0;
		c->out_at++;
		if (r->len) {
			c->requests++;
			c->bytes += r->len;
		}
	}
}

static int answer(struct te_served *c, struct te_served_scratch *w)
{
	int rc = run_copies(c, w);

	if (rc != GO_ON)
		return rc;
	while (c->out_at < c->out_end) {
		struct msghdr msg = { .msg_iov = w->iov, .msg_iovlen = gather(c, w) };
		ssize_t n;

		te_payload_begin();
		n = sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		te_payload_end();
		if (n < 0 && errno == EINTR)
			continue;
		c->blocked = n < 0 && errno == EAGAIN;
		if (c->blocked)
			return TE_SERVED_WAIT;
		if (n < 0)
			return broken(c, "send", errno);
		c->traffic += (uint64_t)n;
		sent(c, (uint64_t)n);
	}
	c->out_at = c->out_end = c->out_reads = 0;
	c->unanswered = 0;
	c->answer_now = false;
	if (!c->left) /* else payload is still arriving in one of them */
		release_gone(c);
	return GO_ON;
}

static void reply(struct te_served *c, struct te_served_reply r)
{
	c->out[c->out_end++] = r;
	c->answer_now |= c->out_end == TE_SERVED_REQUESTS;
}

/* ---- requests ---- */

static int refuse(struct te_served *c, const struct te_transport_env *env,
		  const struct te_tcp_request *r, const char *why)
{
	atomic_fetch_add_explicit(env->refused, 1, memory_order_relaxed);
	te_info("tcp: refused %s of 0x%" PRIx64 "+0x%" PRIx64 ": %s",
		(r->opcode & ~TE_TCP_V2) == TE_TCP_WRITE ? "WRITE" : "READ", r->addr, r->size, why);
	if (r->opcode & TE_TCP_V2)
		reply(c, (struct te_served_reply){ .code = TE_TCP_REFUSED, .has_status = true });
	c->answer_now = true;
	c->refusing = true;
	c->in_at = c->in_end;
	return GO_ON;
}

enum hold { HELD, NOT_REGISTERED, TABLE_FULL };

static enum hold hold(struct te_served *c, const struct te_transport_env *env,
		      const struct te_served_scratch *w, const struct te_tcp_request *r,
		      struct te_region **out)
{
	struct te_region *region;

	if (!r->size)
		return NOT_REGISTERED;
	for (unsigned i = c->nheld; i-- > 0;) {
		*out = c->held[i];
		if (te_region_holds(*out, r->addr, r->size) && !is_gone(*out))
			return HELD;
	}
	if (c->nheld == TE_SERVED_HELD) {
		if (c->out_end || w->ncopies)
			return TABLE_FULL;
		release(c);
	}
	region = te_region_get(env->regions, r->addr, r->size, true);
	if (!region)
		return NOT_REGISTERED;
	*out = c->held[c->nheld++] = region;
	return HELD;
}

static void written(struct te_served *c)
{
	c->requests++;
	c->bytes += c->size;
	c->unanswered += c->size;
	c->answer_now |= c->unanswered >= ANSWER_AFTER;
	if (c->v2)
		reply(c, (struct te_served_reply){ .code = TE_TCP_OK, .has_status = true });
}

/* Memory of te_alloc() cannot vanish while it is registered; of other memory nobody knows. */
static bool is_solid(const struct te_region *region)
{
	return region->memfd >= 0;
}

static void copy(struct te_served_scratch *w, const struct te_region *region, uint64_t to,
		 const uint8_t *from, size_t n)
{
	void *dest = (void *)(uintptr_t)to;

	if (is_solid(region)) {
		te_payload_begin();
		memcpy(dest, from, n);
		te_payload_end();
		return;
	}
	w->copy_from[w->ncopies] =
		(struct iovec){ .iov_base = (void *)(uintptr_t)from, .iov_len = n };
	w->copy_to[w->ncopies++] = (struct iovec){ .iov_base = dest, .iov_len = n };
}

static void begin_write(struct te_served *c, struct te_served_scratch *w,
			const struct te_region *region, const struct te_tcp_request *r)
{
	uint64_t n = MIN(r->size, c->in_end - c->in_at);

	c->to = r->addr;
	c->left = c->size = r->size;
	c->v2 = r->opcode & TE_TCP_V2;
	if (is_solid(region) && r->size <= BULK_WRITE)
		c->appetite = TE_SERVED_BULK;
	else
		c->appetite = r->size <= SMALL_WRITE ? TE_SERVED_HEADERS : TE_SERVED_FRUGAL;
	if (n) {
		copy(w, region, c->to, c->in + c->in_at, n);
		c->in_at += (unsigned)n;
		c->to += n;
		c->left -= n;
	}
	if (!c->left)
		written(c);
}

/* A READ that was asked for before a WRITE must not see it: then it is sent first. */
static bool is_being_read(const struct te_served *c, const struct te_tcp_request *r)
{
	if (c->out_reads)
		for (unsigned i = c->out_at; i < c->out_end; i++)
			if (c->out[i].len && r->addr < c->out[i].addr + c->out[i].len &&
			    c->out[i].addr < r->addr + r->size)
				return true;
	return false;
}

static int take_request(struct te_served *c, const struct te_transport_env *env,
			struct te_served_scratch *w)
{
	struct te_tcp_request r = te_tcp_get_request(c->in + c->in_at);
	unsigned op = r.opcode & ~(unsigned)TE_TCP_V2;
	struct te_region *region = NULL;

	if (op > TE_TCP_WRITE)
		return refuse(c, env, &r, "unknown opcode");
	switch (hold(c, env, w, &r, &region)) {
	case NOT_REGISTERED:
		return refuse(c, env, &r, "not registered");
	case TABLE_FULL:
		c->answer_now = true;
		return GO_ON;
	case HELD:
		break;
	}
	if (op == TE_TCP_WRITE && is_being_read(c, &r)) {
		c->answer_now = true;
		return GO_ON;
	}
	c->in_at += TE_TCP_HEADER;
	if (op == TE_TCP_WRITE) {
		begin_write(c, w, region, &r);
		/* v1 WRITEs have no replies that would end a burst. */
		return w->ncopies == TE_SERVED_REQUESTS ? run_copies(c, w) : GO_ON;
	}
	if (c->appetite == TE_SERVED_FRUGAL)
		c->appetite = TE_SERVED_HEADERS;
	c->out_reads++;
	reply(c, (struct te_served_reply){
			 .addr = r.addr, .len = r.size, .has_status = r.opcode & TE_TCP_V2 });
	return GO_ON;
}

/* ---- input ---- */

/* n of want bytes came; negative: errno says why. */
static int took(struct te_served *c, ssize_t n, size_t want, const char *stage)
{
	if (n < 0 && errno == EINTR)
		return GO_ON;
	if (n < 0 && errno != EAGAIN)
		return broken(c, stage, errno);
	c->ended = n == 0;
	c->dry = n <= 0 || ((size_t)n < want && !c->hung_up);
	c->traffic += n > 0 ? (uint64_t)n : 0;
	return GO_ON;
}

/* Where the next bytes go, behind a header that has come in part: so many. */
static size_t make_room(struct te_served *c, struct te_served_scratch *w)
{
	unsigned have = c->in_end - c->in_at;
	bool bulk = c->appetite == TE_SERVED_BULK;
	uint8_t *to = bulk ? w->big : c->small;

	memmove(to, c->in + c->in_at, have);
	free(c->rest);
	c->rest = NULL;
	c->in = to;
	c->in_at = 0;
	c->in_end = have;
	if (c->appetite == TE_SERVED_FRUGAL)
		return TE_TCP_HEADER - have;
	return (bulk ? TE_SERVED_BIG : TE_SERVED_SMALL) - have;
}

/* The worker's scratch is for one call only. */
static int keep_rest(struct te_served *c, const struct te_served_scratch *w)
{
	unsigned n = c->in_end - c->in_at;

	if (c->in != w->big)
		return GO_ON;
	c->in = c->small;
	if (n > TE_SERVED_SMALL) {
		c->rest = malloc(n);
		if (!c->rest)
			return broken(c, "keep", ENOMEM);
		c->in = c->rest;
	}
	memcpy(c->in, w->big + c->in_at, n);
	c->in_at = 0;
	c->in_end = n;
	return GO_ON;
}

/* Straight into the region, and with the same call what follows it. */
static int read_payload(struct te_served *c, struct te_served_scratch *w)
{
	int rc = run_copies(c, w);
	struct iovec iov[2];
	uint64_t mine;
	size_t next;
	ssize_t n;

	if (rc != GO_ON)
		return rc;
	next = make_room(c, w);
	iov[0] = (struct iovec){ .iov_base = (void *)(uintptr_t)c->to, .iov_len = c->left };
	iov[1] = (struct iovec){ .iov_base = c->in, .iov_len = next };
	te_payload_begin();
	n = readv(c->fd, iov, 2);
	te_payload_end();
	rc = took(c, n, c->left + next, "payload");
	if (rc != GO_ON || n < 0)
		return rc;
	mine = MIN((uint64_t)n, c->left);
	c->to += mine;
	c->left -= mine;
	c->in_end = (unsigned)((uint64_t)n - mine);
	if (!c->left)
		written(c);
	return GO_ON;
}

static int read_requests(struct te_served *c, struct te_served_scratch *w)
{
	int rc = run_copies(c, w);
	size_t want;
	ssize_t n;

	if (rc != GO_ON)
		return rc;
	want = make_room(c, w);
	n = recv(c->fd, c->in + c->in_end, want, MSG_DONTWAIT);
	rc = took(c, n, want, "request");
	if (n > 0)
		c->in_end += (unsigned)n;
	return rc;
}

static int drain(struct te_served *c)
{
	ssize_t n = recv(c->fd, c->small, TE_SERVED_SMALL, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return TE_SERVED_WAIT;
	if (n <= 0)
		return TE_SERVED_CLOSE;
	c->drained += (uint64_t)n;
	c->traffic += (uint64_t)n;
	return c->drained > DRAIN_BYTES ? TE_SERVED_CLOSE : GO_ON;
}

static bool needs_input(const struct te_served *c)
{
	return c->left || c->in_end - c->in_at < TE_TCP_HEADER;
}

static int step(struct te_served *c, const struct te_transport_env *env,
		struct te_served_scratch *w)
{
	bool need_input = needs_input(c);
	int rc;

	if (c->draining)
		return drain(c);
	if (c->blocked || c->answer_now || (c->dry && need_input && (c->out_end || w->ncopies))) {
		rc = answer(c, w);
		if (rc != GO_ON)
			return rc;
	}
	if (c->refusing) {
		shutdown(c->fd, SHUT_WR);
		c->draining = true;
		return GO_ON;
	}
	if (!need_input)
		return take_request(c, env, w);
	if (c->ended)
		return TE_SERVED_CLOSE;
	if (c->dry)
		return TE_SERVED_WAIT;
	return c->left ? read_payload(c, w) : read_requests(c, w);
}

static void count(struct te_served *c, const struct te_transport_env *env)
{
	if (!c->requests)
		return;
	atomic_fetch_add_explicit(env->served_requests, c->requests, memory_order_relaxed);
	atomic_fetch_add_explicit(env->served_bytes, c->bytes, memory_order_relaxed);
	c->requests = c->bytes = 0;
}

enum te_served_next te_served_run(struct te_served *c, const struct te_transport_env *env,
				  struct te_served_scratch *w, uint64_t now, bool *moved)
{
	uint64_t before = c->traffic;
	int rc = GO_ON;

	c->dry = false;
	for (unsigned turn = 0; turn < TURNS && rc == GO_ON; turn++)
		do
			rc = step(c, env, w);
		while (rc == GO_ON && !needs_input(c));
	if (rc == GO_ON)
		rc = run_copies(c, w);
	if (rc != TE_SERVED_CLOSE) {
		int kept = keep_rest(c, w);

		rc = kept == GO_ON ? rc : kept;
	}
	w->ncopies = 0;
	count(c, env);
	if (!c->left && !c->out_end)
		release(c);
	atomic_store_explicit(&c->half,
			      c->left || c->out_end || c->in_end > c->in_at || c->draining,
			      memory_order_relaxed);
	*moved = c->traffic != before;
	if (*moved)
		atomic_store_explicit(&c->moved, now, memory_order_relaxed);
	return rc == GO_ON ? TE_SERVED_MORE : (enum te_served_next)rc;
}

bool te_served_is_stuck(const struct te_served *c, const struct te_conf *conf, uint64_t now)
{
	uint64_t moved = atomic_load_explicit(&c->moved, memory_order_relaxed);
	double limit = HEADER_SECONDS;

	if (!atomic_load_explicit(&c->half, memory_order_relaxed) || now < moved)
		return false;
	if (c->draining)
		limit = DRAIN_SECONDS;
	else if (c->left || c->out_end)
		limit = conf->transfer_timeout_s;
	return (double)(now - moved) > limit * 1e9;
}
