/* tcp_rig.h - an initiator and a target of the transport tcp, without an engine around them. */
#ifndef TCP_RIG_H
#define TCP_RIG_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "tap.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"
#include "te_segment.h"
#include "transport/transport.h"

enum { RIG_BUFFER = 16 << 20 };

/* One side: what an engine would give its transport. */
struct rig {
	struct te_sink sink;
	struct te_conf conf;
	struct te_transport_env env;
	struct te_transport *t;
	struct te_peer *peer;
	_Atomic uint64_t requests, bytes, refused;
	char *mem, *view; /* the same pages: transports use mem, tests of what they did use view */
	struct te_region *region;
	unsigned port;
};

/* One call of submit. */
struct rig_batch {
	struct te_slice *slices;
	size_t n, size;
	_Atomic uint32_t pending;
	_Atomic bool cancelled;
	pthread_mutex_t lock;
	struct te_err why; /* under lock: the last reason */
};

static inline void rig_done(struct te_sink *sink, struct te_slice *list, const struct te_err *why)
{
	(void)sink;
	while (list) {
		struct te_slice *next = list->next;
		struct rig_batch *b = (struct rig_batch *)(void *)list->task;

		if (list->status && why) {
			pthread_mutex_lock(&b->lock);
			b->why = *why;
			pthread_mutex_unlock(&b->lock);
		}
		atomic_store(&list->lent, false);
		if (atomic_fetch_sub(&b->pending, 1) == 1)
			te_futex_wake(&b->pending, 1);
		list = next;
	}
}

/* Lines of the log are not the test's result. */
static inline void rig_quiet(void *arg, enum te_log_level level, const char *text)
{
	(void)arg;
	(void)level;
	printf("# log: %s\n", text);
}

/* Memory that is seen at two addresses: what goes through a socket is no race. */
static inline char *rig_map(size_t len, char **view)
{
	int fd = memfd_create("rig", MFD_CLOEXEC), rw = PROT_READ | PROT_WRITE;
	char *p;

	if (ftruncate(fd, (off_t)len))
		exit(1);
	p = mmap(NULL, len, rw, MAP_SHARED, fd, 0);
	*view = mmap(NULL, len, rw, MAP_SHARED, fd, 0);
	close(fd);
	return p;
}

static inline void rig_open(struct rig *r)
{
	struct te_log_sink quiet = { .line = rig_quiet };
	struct te_err err;

	setvbuf(stdout, NULL, _IOLBF, 0);
	memset(r, 0, sizeof(*r));
	te_log_set_sink(&quiet);
	te_conf_read(&r->conf);
	r->conf.min_rpc_port = 21000;
	r->conf.max_rpc_port = 31000;
	r->sink.done = rig_done;
	r->env = (struct te_transport_env){ .conf = &r->conf,
					    .regions = te_regions_new(),
					    .sink = &r->sink,
					    .serve = true,
					    .token = "",
					    .served_requests = &r->requests,
					    .served_bytes = &r->bytes,
					    .refused = &r->refused };
	if (te_transport_tcp.open(&r->env, &r->t, &err)) {
		printf("Bail out! %s\n", err.msg);
		exit(1);
	}
	r->mem = rig_map(RIG_BUFFER, &r->view);
}

/* memfd >= 0: like memory of te_alloc(), which cannot vanish. */
static inline struct te_region *rig_register_as(struct rig *r, void *addr, size_t len, bool remote,
						int memfd)
{
	struct te_region in = { .addr = (uintptr_t)addr,
				.len = len,
				.remote = remote,
				.memfd = memfd,
				.page_slot = -1 };
	struct te_region *out = NULL;

	te_regions_add(r->env.regions, &in, &out, NULL);
	return out;
}

static inline struct te_region *rig_register(struct rig *r, void *addr, size_t len, bool remote)
{
	return rig_register_as(r, addr, len, remote, -1);
}

/* Serve all of mem. */
static inline void rig_listen(struct rig *r)
{
	struct te_desc *d = te_desc_new();
	struct te_err err;

	r->region = rig_register(r, r->mem, RIG_BUFFER, true);
	if (te_transport_tcp.listen(r->t, &err)) {
		printf("Bail out! %s\n", err.msg);
		exit(1);
	}
	te_transport_tcp.describe(r->t, d);
	r->port = d->tcp_data_port;
	te_desc_free(d);
}

static inline int rig_connect(struct rig *r, const char *host, unsigned port, unsigned version,
			      struct te_err *err)
{
	struct te_desc *d = te_desc_new();
	struct te_peer_info info = { .name = "target", .host = host, .desc = d };
	int rc;

	d->tcp_data_port = port;
	d->tcp_proto_version = version;
	rc = te_transport_tcp.peer_open(r->t, &info, &r->peer, err);
	te_desc_free(d);
	return rc;
}

static inline void rig_close(struct rig *r)
{
	if (r->peer)
		te_transport_tcp.peer_close(r->peer);
	te_transport_tcp.close(r->t);
	if (r->region && !te_regions_remove(r->env.regions, r->region, te_now()))
		te_region_free(r->region);
	te_regions_free(r->env.regions);
	munmap(r->mem, RIG_BUFFER);
	munmap(r->view, RIG_BUFFER);
}

static inline struct rig_batch *rig_batch_new(size_t n)
{
	struct rig_batch *b = calloc(1, sizeof(*b));

	b->slices = calloc(n, sizeof(*b->slices));
	b->size = n;
	pthread_mutex_init(&b->lock, NULL);
	return b;
}

static inline void rig_batch_free(struct rig_batch *b)
{
	pthread_mutex_destroy(&b->lock);
	free(b->slices);
	free(b);
}

static inline struct te_slice *rig_add(struct rig *r, struct rig_batch *b, enum te_op op,
				       void *local, uint64_t remote, uint64_t len)
{
	struct te_slice *s = &b->slices[b->n];

	*s = (struct te_slice){ .peer = r->peer,
				.local = local,
				.remote = remote,
				.len = len,
				.deadline = te_now() + 20 * TE_NSEC_PER_SEC,
				.cancelled = &b->cancelled,
				.op = (uint8_t)op,
				.task = (struct te_task *)(void *)b };
	if (b->n++)
		s[-1].next = s;
	return s;
}

static inline void rig_submit(struct rig *r, struct rig_batch *b)
{
	atomic_store(&b->pending, (uint32_t)b->n);
	for (size_t i = 0; i < b->n; i++)
		atomic_store(&b->slices[i].lent, true);
	te_transport_tcp.submit(r->peer, b->slices);
}

/* As te_batch_wait() does; help: offer this thread. False when it takes longer than seconds. */
static inline bool rig_wait(struct rig *r, struct rig_batch *b, bool help, double seconds)
{
	uint64_t until = te_now() + (uint64_t)(seconds * 1e9);
	uint32_t seen;

	for (size_t i = 0; help && i < b->n; i++) {
		while (atomic_load(&b->slices[i].lent) && te_now() < until) {
			te_transport_tcp.help(r->peer, &b->slices[i], &b->pending, until);
			seen = atomic_load(&b->pending);
			if (atomic_load(&b->slices[i].lent) && seen)
				te_futex_wait(&b->pending, seen,
					      MIN(until, te_now() + 10 * TE_NSEC_PER_MSEC));
		}
	}
	while ((seen = atomic_load(&b->pending)) && te_now() < until)
		te_futex_wait(&b->pending, seen, until);
	return !atomic_load(&b->pending);
}

static inline size_t rig_count(const struct rig_batch *b, int status)
{
	size_t n = 0;

	for (size_t i = 0; i < b->n; i++)
		n += b->slices[i].status == status;
	return n;
}

/* One request from start to end: its status, or -EINPROGRESS when it hangs. */
static inline int rig_one(struct rig *r, enum te_op op, void *local, uint64_t remote, uint64_t len,
			  struct te_err *why)
{
	struct rig_batch *b = rig_batch_new(1);
	int rc;

	rig_add(r, b, op, local, remote, len);
	rig_submit(r, b);
	rc = rig_wait(r, b, true, 30) ? b->slices[0].status : -EINPROGRESS;
	if (why)
		*why = b->why;
	if (rc != -EINPROGRESS)
		rig_batch_free(b);
	return rc;
}

/* Bytes that tell where they belong. */
static inline void rig_fill(char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)((i * 2654435761u + seed) >> 11);
}

#endif
