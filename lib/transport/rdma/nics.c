/* nics.c - what becomes of our NICs: their events, and looks at those that are down. On a thread of
 * its own, since it asks the kernel, and waits for endpoints that are being connected. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "transport/rdma/rdma.h"

enum { LOOK_MS = 1000 }; /* between two looks at a NIC that is down: events can be lost */

/* ---- events ------------------------------------------------------------------------------- */

static void retire_qp(struct rdma_ctx *c, const struct ibv_qp *qp, const char *event)
{
	struct rdma_ep *found = NULL;
	struct te_err why;

	pthread_mutex_lock(&c->lock);
	for (struct te_pool_node *n = te_pool_first(&c->pool); n && !found; n = te_pool_next(n)) {
		struct rdma_ep *ep = container_of(n, struct rdma_ep, node);

		for (unsigned i = 0; i < ep->nqp; i++)
			if (ep->qps[i].qp == qp)
				found = ep;
	}
	if (found)
		atomic_fetch_add(&found->refs, 1);
	pthread_mutex_unlock(&c->lock);
	if (!found)
		return;
	te_fail(&why, -EIO, "%s to %s: %s", c->path, found->path, event);
	rdma_ep_retire(found, &why, NULL);
	rdma_ep_put(found);
}

static void changed(struct rdma_ctx *c)
{
	struct rdma *t = c->t;

	pthread_mutex_lock(&t->peers_lock);
	for (struct rdma_peer *p = t->peers; p; p = p->next)
		rdma_peer_replan(p, c);
	pthread_mutex_unlock(&t->peers_lock);
	t->base.env->directory->changed(t->base.env->directory);
}

static void port_down(struct rdma_ctx *c)
{
	struct te_err why;

	te_fail(&why, -ENETDOWN, "device '%s' port %lld is down", c->name,
		(long long)c->t->base.env->conf->ib_port);
	rdma_ctx_down(c, why.msg);
	changed(c);
}

/* qp: what it is about, NULL: the device or port. */
static void act(struct rdma_ctx *c, enum ibv_event_type type, const struct ibv_qp *qp)
{
	const char *text = ibv_event_type_str(type);

	te_info("device '%s': %s", c->name, text);
	if (qp) {
		retire_qp(c, qp, text);
		return;
	}
	switch (type) {
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_WQ_FATAL:
		rdma_ctx_fatal(c, text);
		changed(c);
		break;
	case IBV_EVENT_PORT_ERR:
		port_down(c);
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		if (!atomic_load(&c->broken) && rdma_ctx_refresh(c))
			changed(c);
		break;
	default:
		break;
	}
}

static bool is_about_qp(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
	       type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_PATH_MIG_ERR;
}

/* Acknowledged after it was acted on: until then the QP that it is about cannot be destroyed. */
static void take_events(struct rdma_ctx *c)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(c->verbs, &ev)) {
		const struct ibv_qp *qp = is_about_qp(ev.event_type) ? ev.element.qp : NULL;

		act(c, ev.event_type, qp);
		ibv_ack_async_event(&ev);
	}
}

/* ---- the thread --------------------------------------------------------------------------- */

/* true: there is a NIC that may come back. */
static bool look_at_nics(struct rdma *t, uint64_t *last)
{
	bool down = false, due = te_now() - *last >= (uint64_t)LOOK_MS * TE_NSEC_PER_MSEC;

	for (size_t i = 0; i < t->nctx; i++) {
		struct rdma_ctx *c = t->ctx[i];

		if (!c || c->ended || atomic_load(&c->active))
			continue;
		down = true;
		if (due && (atomic_load(&c->broken) ? rdma_ctx_reopen(c) : rdma_ctx_refresh(c)))
			changed(c);
	}
	if (due)
		*last = te_now();
	return down;
}

static void wait_for(struct rdma *t, int ms)
{
	eventfd_t count;

	t->nic_fds[0] = (struct pollfd){ .fd = t->watcher.wake, .events = POLLIN };
	for (size_t i = 0; i < t->nctx; i++) {
		const struct rdma_ctx *c = t->ctx[i];

		t->nic_fds[i + 1] = (struct pollfd){ .fd = c && c->verbs ? c->verbs->async_fd : -1,
						     .events = POLLIN };
	}
	poll(t->nic_fds, t->nctx + 1, ms);
	if (t->nic_fds[0].revents & POLLIN)
		eventfd_read(t->watcher.wake, &count);
	for (size_t i = 0; i < t->nctx; i++)
		if (t->nic_fds[i + 1].revents & POLLIN)
			take_events(t->ctx[i]);
}

static void *watch(void *arg)
{
	struct rdma *t = arg;
	uint64_t looked = 0;

	while (!atomic_load(&t->watcher.stop))
		wait_for(t, look_at_nics(t, &looked) ? LOOK_MS : -1);
	return NULL;
}

int rdma_nics_start(struct rdma *t, struct te_err *err)
{
	t->nic_fds = calloc(t->nctx + 1, sizeof(*t->nic_fds));
	if (!t->nic_fds)
		return te_fail(err, -ENOMEM, "out of memory");
	return rdma_thread_start(t, &t->watcher, "te-rdma-nics", watch, err);
}

void rdma_nics_stop(struct rdma *t)
{
	rdma_thread_stop(&t->watcher);
	free(t->nic_fds);
	t->nic_fds = NULL;
}
