/* ctx.c - one NIC: opening it, its port and GID as they change, its completion queues and their
 * threads. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/rdma/rdma.h"

enum { CQE_MIN = 16 };

static bool ep_busy(const struct te_pool_node *node)
{
	return atomic_load_explicit(&container_of(node, struct rdma_ep, node)->work,
				    memory_order_relaxed);
}

/* ---- what the device can ---- */

static int read_limits(struct rdma_ctx *c, struct te_err *err)
{
	const struct te_conf *conf = c->t->base.env->conf;
	struct ibv_device_attr a;
	struct ibv_port_attr p;
	int r = ibv_query_device(c->verbs, &a);

	if (!r)
		r = ibv_query_port(c->verbs, (uint8_t)conf->ib_port, &p);
	if (r)
		return te_fail(err, -abs(r), "device '%s': cannot be queried: %s", c->name,
			       strerror(abs(r)));
	c->max_wr = (int)MIN(conf->max_wr, (int64_t)a.max_qp_wr);
	c->max_sge = (int)MIN(conf->max_sge, (int64_t)a.max_sge);
	c->max_cqe = MAX((int)MIN(conf->max_cqe, (int64_t)a.max_cqe), (int)CQE_MIN);
	c->rd_atomic = MIN(16, a.max_qp_rd_atom);
	c->init_rd_atomic = MIN(16, a.max_qp_init_rd_atom);
	c->max_msg = p.max_msg_sz ? p.max_msg_sz : 1u << 30;
	c->max_mr = MIN((uint64_t)conf->max_mr_size, a.max_mr_size);
	c->nqp = (unsigned)conf->num_qp;
	atomic_init(&c->max_inline, (int)conf->max_inline);
	if (!c->cqs)
		c->ncqs = (unsigned)MIN(conf->num_cq, (int64_t)a.max_cq);
	return 0;
}

static int make_cq(struct rdma_ctx *c, struct rdma_cq *q, unsigned vector, struct te_err *err)
{
	q->channel = ibv_create_comp_channel(c->verbs);
	if (q->channel)
		q->cq = ibv_create_cq(c->verbs, c->max_cqe, NULL, q->channel,
				      (int)vector % c->verbs->num_comp_vectors);
	if (!q->cq)
		return te_fail(err, -errno, "device '%s': no completion queue of %d entries: %s",
			       c->name, c->max_cqe, strerror(errno));
	if (fcntl(q->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		return te_fail(err, -errno, "device '%s': fcntl: %s", c->name, strerror(errno));
	q->size = MIN(c->max_cqe, q->cq->cqe);
	atomic_init(&q->room, q->size);
	return 0;
}

static int make_cqs(struct rdma_ctx *c, struct te_err *err)
{
	int r = 0;

	for (unsigned i = 0; i < c->ncqs && !r; i++) {
		pthread_mutex_lock(&c->cqs[i].lock);
		r = make_cq(c, &c->cqs[i], i, err);
		pthread_mutex_unlock(&c->cqs[i].lock);
	}
	return r;
}

/* Their locks outlive the queues: helpers may look at any time. */
static int make_locks(struct rdma_ctx *c, struct te_err *err)
{
	c->cqs = calloc(c->ncqs, sizeof(*c->cqs));
	if (!c->cqs)
		return te_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < c->ncqs; i++) {
		c->cqs[i].ctx = c;
		pthread_mutex_init(&c->cqs[i].lock, NULL);
	}
	return 0;
}

/* ---- port and GID ---- */

/* Asks the NIC, which may take long: c->lock is only held for the answer. c->looking held, or
 * nobody knows c yet, or the gate for writing. */
static int ask(struct rdma_ctx *c, struct te_err *err)
{
	struct te_nic_port port;
	int r = te_nic_query_open(c->t->base.env->conf, c->verbs, c->tried, &port, err);

	pthread_mutex_lock(&c->lock);
	c->port = port;
	pthread_mutex_unlock(&c->lock);
	return r;
}

/* The same. true: it is usable; why not is in c->why. */
static bool look(struct rdma_ctx *c)
{
	struct te_err err = { 0 };
	bool good = !ask(c, &err) && !te_nic_usable(&c->port, &err);

	pthread_mutex_lock(&c->lock);
	te_strlcpy(c->why, good ? "" : err.msg, sizeof(c->why));
	pthread_mutex_unlock(&c->lock);
	return good;
}

static void retire_all(struct rdma_ctx *c, const struct te_err *why)
{
	struct rdma_ep *ep;

	do {
		struct te_pool_node *n;

		ep = NULL;
		pthread_mutex_lock(&c->lock);
		n = te_pool_first(&c->pool);
		if (n) {
			ep = container_of(n, struct rdma_ep, node);
			atomic_fetch_add(&ep->refs, 1);
		}
		pthread_mutex_unlock(&c->lock);
		if (ep) {
			rdma_ep_retire(ep, why, NULL);
			rdma_ep_put(ep);
		}
	} while (ep);
}

void rdma_ctx_end(struct rdma_ctx *c)
{
	struct te_err why;

	te_fail(&why, -ECANCELED, "%s: the engine is closing", c->path);
	c->ended = true;
	atomic_store(&c->active, false);
	retire_all(c, &why);
}

void rdma_ctx_fatal(struct rdma_ctx *c, const char *event)
{
	struct te_err why;

	te_fail(&why, -EIO, "device '%s' has failed: %s", c->name, event);
	atomic_store(&c->broken, true);
	rdma_ctx_down(c, why.msg);
}

void rdma_ctx_down(struct rdma_ctx *c, const char *why)
{
	struct te_err err;

	te_fail(&err, -ENETDOWN, "%s", why);
	pthread_mutex_lock(&c->lock);
	te_strlcpy(c->why, err.msg, sizeof(c->why));
	pthread_mutex_unlock(&c->lock);
	if (atomic_exchange(&c->active, false))
		te_warn("%s; its transfers take other NICs", err.msg);
	retire_all(c, &err);
	if (c->t->watcher.wake >= 0) /* it may come back */
		eventfd_write(c->t->watcher.wake, 1);
}

void rdma_ctx_why(struct rdma_ctx *c, char *why, size_t size)
{
	pthread_mutex_lock(&c->lock);
	te_strlcpy(why, c->why, size);
	pthread_mutex_unlock(&c->lock);
}

bool rdma_ctx_refresh(struct rdma_ctx *c)
{
	union ibv_gid old = { 0 };
	bool was = atomic_load(&c->active), is;
	char why[sizeof(c->why)];
	struct te_err err;
	bool moved;

	pthread_mutex_lock(&c->looking);
	if (c->port.chosen >= 0)
		old = c->port.gids[c->port.chosen].gid;
	is = look(c);
	moved = was && is && memcmp(&old, &c->port.gids[c->port.chosen].gid, sizeof(old)) != 0;
	pthread_mutex_unlock(&c->looking);
	if (was && !is) {
		rdma_ctx_why(c, why, sizeof(why));
		rdma_ctx_down(c, why);
		return true;
	}
	if (moved) {
		te_warn("device '%s': its GID has changed", c->name);
		te_fail(&err, -ENETDOWN, "device '%s': its GID has changed", c->name);
		retire_all(c, &err);
	}
	if (is && !was) {
		atomic_store(&c->active, true);
		te_warn("device '%s' is usable again", c->name);
	}
	return moved || is != was;
}

bool rdma_ctx_next_gid(struct rdma_ctx *c)
{
	bool found = false;

	pthread_rwlock_rdlock(&c->t->gate);
	pthread_mutex_lock(&c->looking);
	if (c->verbs && c->port.chosen >= 0) {
		unsigned i = (unsigned)c->port.chosen;

		c->tried[i / 64] |= 1ull << (i % 64);
		found = look(c);
		if (!found) {
			memset(c->tried, 0, sizeof(c->tried));
			look(c);
		}
	}
	pthread_mutex_unlock(&c->looking);
	pthread_rwlock_unlock(&c->t->gate);
	return found;
}

/* ---- open and close ---- */

static void free_cq(struct rdma_cq *q)
{
	struct ibv_cq *cq;
	void *arg;

	pthread_mutex_lock(&q->lock);
	if (q->cq) {
		while (!ibv_get_cq_event(q->channel, &cq, &arg))
			atomic_fetch_add(&q->unacked, 1);
		ibv_ack_cq_events(q->cq, (unsigned)atomic_exchange(&q->unacked, 0));
		if (ibv_destroy_cq(q->cq))
			te_warn("device '%s': a completion queue cannot be destroyed",
				q->ctx->name);
	}
	if (q->channel)
		ibv_destroy_comp_channel(q->channel);
	q->cq = NULL;
	q->channel = NULL;
	pthread_mutex_unlock(&q->lock);
}

static int open_parts(struct rdma_ctx *c, struct te_err *err)
{
	int r = te_nic_open(c->name, &c->verbs, err), flags;

	/* Explains a port that is not there, and a GID that is not, before anything stumbles over
	 * them. */
	if (!r)
		r = ask(c, err);
	if (r < 0)
		return r;
	c->pd = ibv_alloc_pd(c->verbs);
	if (!c->pd)
		return te_fail(err, -errno, "device '%s': no protection domain: %s", c->name,
			       strerror(errno));
	flags = fcntl(c->verbs->async_fd, F_GETFL);
	if (flags < 0 || fcntl(c->verbs->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return te_fail(err, -errno, "device '%s': fcntl: %s", c->name, strerror(errno));
	r = read_limits(c, err);
	if (!r && !c->cqs)
		r = make_locks(c, err);
	return r ? r : make_cqs(c, err);
}

static void stop_pollers(struct rdma_ctx *c)
{
	eventfd_t count;

	if (c->stop >= 0)
		eventfd_write(c->stop, 1);
	for (unsigned i = 0; i < c->npollers; i++) {
		pthread_join(c->pollers[i].thread, NULL);
		free(c->pollers[i].fds);
	}
	if (c->stop >= 0)
		eventfd_read(c->stop, &count);
	c->npollers = 0;
	free(c->pollers);
	c->pollers = NULL;
}

static void close_parts(struct rdma_ctx *c)
{
	for (unsigned i = 0; c->cqs && i < c->ncqs; i++)
		free_cq(&c->cqs[i]);
	if (c->pd)
		ibv_dealloc_pd(c->pd);
	if (c->verbs)
		ibv_close_device(c->verbs);
	c->pd = NULL;
	c->verbs = NULL;
}

/* t->gate held for writing, no endpoint left. */
static int open_anew(struct rdma_ctx *c, struct te_err *err)
{
	int r;

	stop_pollers(c);
	rdma_keys_drop(c);
	close_parts(c);
	r = open_parts(c, err);
	if (!r)
		r = rdma_keys_add(c, err);
	return r ? r : rdma_ctx_start(c, err);
}

bool rdma_ctx_reopen(struct rdma_ctx *c)
{
	struct te_err err;
	int r = -EBUSY;

	pthread_rwlock_wrlock(&c->t->gate);
	if (!atomic_load(&c->eps)) {
		r = open_anew(c, &err);
		if (r)
			te_info("device '%s' cannot be opened again yet: %s", c->name, err.msg);
	}
	pthread_rwlock_unlock(&c->t->gate);
	if (r)
		return false;
	atomic_store(&c->broken, false);
	return rdma_ctx_refresh(c);
}

int rdma_ctx_open(struct rdma *t, unsigned index, const char *name, struct rdma_ctx **out,
		  struct te_err *err)
{
	struct rdma_ctx *c = calloc(1, sizeof(*c));
	const struct te_conf *conf = t->base.env->conf;
	int r;

	if (!c)
		return te_fail(err, -ENOMEM, "out of memory");
	c->t = t;
	c->index = index;
	c->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->port.chosen = -1;
	te_strlcpy(c->name, name, sizeof(c->name));
	snprintf(c->path, sizeof(c->path), "%s@%s", t->server, name);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->looking, NULL);
	r = te_pool_init(&c->pool, (size_t)conf->max_ep, conf->endpoint_fifo, ep_busy);
	if (r < 0)
		te_fail(err, r, "out of memory");
	if (!r)
		r = open_parts(c, err);
	if (r < 0) {
		rdma_ctx_close(c);
		return r;
	}
	atomic_store(&c->active, look(c));
	*out = c;
	return 0;
}

static int start_poller(struct rdma_ctx *c, unsigned i, unsigned n, struct te_err *err)
{
	struct rdma_poller *p = &c->pollers[i];
	int r;

	*p = (struct rdma_poller){ .ctx = c, .first = i, .step = n, .node = c->port.numa_node };
	p->fds = calloc(c->ncqs + 1, sizeof(*p->fds));
	if (!p->fds)
		return te_fail(err, -ENOMEM, "out of memory");
	r = te_thread_start(&p->thread, "te-rdma-poll", rdma_poller_main, p);
	if (r) {
		free(p->fds);
		return te_fail(err, r, "cannot start a thread: %s", strerror(-r));
	}
	c->npollers++;
	return 0;
}

int rdma_ctx_start(struct rdma_ctx *c, struct te_err *err)
{
	unsigned n = (unsigned)MIN((int64_t)c->ncqs, c->t->base.env->conf->workers);
	int r = 0;

	c->pollers = calloc(n, sizeof(*c->pollers));
	if (!c->pollers || c->stop < 0)
		return te_fail(err, -ENOMEM, "device '%s': out of memory or descriptors", c->name);
	for (unsigned i = 0; i < n && !r; i++)
		r = start_poller(c, i, n, err);
	return r;
}

void rdma_ctx_close(struct rdma_ctx *c)
{
	if (!c)
		return;
	stop_pollers(c);
	close_parts(c);
	if (c->stop >= 0)
		close(c->stop);
	for (unsigned i = 0; c->cqs && i < c->ncqs; i++)
		pthread_mutex_destroy(&c->cqs[i].lock);
	te_pool_clear(&c->pool);
	pthread_mutex_destroy(&c->looking);
	pthread_mutex_destroy(&c->lock);
	free(c->cqs);
	free(c);
}
