/* rdma.c - the transport rdma: verbs over every NIC of the host at once. */
#include "transport/rdma/rdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "host/topo.h"

#define FLUSH_WAIT (2 * TE_NSEC_PER_SEC) /* for what is in flight when the engine closes */

/* ---- name, matrix and NICs ----------------------------------------------------------------- */

/* Our server name in NIC paths; with MC_RDMA_BIND_ADDRESS that address and the port of the name. */
static void name_server(struct rdma *t)
{
	const struct te_transport_env *env = t->base.env;
	const char *port = strrchr(env->name, ':');

	if (env->conf->rdma_bind_address[0])
		snprintf(t->server, sizeof(t->server), "%s%s", env->conf->rdma_bind_address,
			 port ? port : "");
	else
		te_strlcpy(t->server, env->name, sizeof(t->server));
}

/* Why the matrix names no NIC. */
static int no_nics(struct te_err *err)
{
	char name[1][TE_NIC_NAME];
	struct te_err why;
	int n = te_nic_list(name, 1, &why);

	return te_fail(err, -ENODEV, "%s",
		       n < 0 ? why.msg
			     : "no RDMA device is left to use: see --device-name, MC_TE_FILTERS, "
			       "the priority matrix");
}

static int read_matrix(struct rdma *t, struct te_err *err)
{
	char *text;
	int r = te_topo_matrix(t->base.env->conf, t->base.env->wish, &text, err);

	if (r < 0)
		return r;
	r = te_matrix_parse(text, strlen(text), &t->matrix, err);
	free(text);
	if (!r && !t->matrix->nnames)
		r = no_nics(err);
	return r;
}

/* A NIC that cannot be used leaves the others; the last reason is told if none is left. */
static int open_nics(struct rdma *t, struct te_err *err)
{
	struct te_err why = { .code = -ENODEV };
	bool any = false;

	t->nctx = t->matrix->nnames;
	t->ctx = calloc(t->nctx, sizeof(*t->ctx));
	if (!t->ctx)
		return te_fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < t->nctx; i++) {
		struct te_err one;

		if (rdma_ctx_open(t, (unsigned)i, t->matrix->names[i], &t->ctx[i], &one) < 0) {
			t->ctx[i] = NULL;
		} else if (!atomic_load(&t->ctx[i]->active)) {
			te_fail(&one, -ENETDOWN, "%s", t->ctx[i]->why);
		} else {
			any = true;
			continue;
		}
		if (t->nctx > 1)
			te_warn("%s", one.msg);
		why = one;
	}
	if (any)
		return 0;
	return t->nctx > 1 ? te_fail(err, why.code, "none of %zu RDMA devices is usable: %s",
				     t->nctx, why.msg)
			   : te_fail(err, why.code, "%s", why.msg);
}

/* ---- threads ------------------------------------------------------------------------------- */

int rdma_thread_start(struct rdma *t, struct rdma_thread *thread, const char *name,
		      void *(*run)(void *t), struct te_err *err)
{
	int r;

	thread->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (thread->wake < 0)
		return te_fail(err, -errno, "cannot make an eventfd: %s", strerror(errno));
	r = te_thread_start(&thread->id, name, run, t);
	if (r)
		return te_fail(err, r, "cannot start a thread: %s", strerror(-r));
	thread->running = true;
	return 0;
}

void rdma_thread_stop(struct rdma_thread *thread)
{
	if (!thread->running)
		return;
	atomic_store(&thread->stop, true);
	eventfd_write(thread->wake, 1);
	pthread_join(thread->id, NULL);
	thread->running = false;
}

static void close_wake(struct rdma_thread *thread)
{
	if (thread->wake >= 0)
		close(thread->wake);
}

/* ---- open --------------------------------------------------------------------------------- */

static int start(struct rdma *t, struct te_err *err)
{
	int r = read_matrix(t, err);

	if (!r)
		r = open_nics(t, err);
	for (size_t i = 0; i < t->nctx && !r; i++)
		if (t->ctx[i])
			r = rdma_ctx_start(t->ctx[i], err);
	if (!r)
		r = rdma_reaper_start(t, err);
	if (!r)
		r = rdma_janitor_start(t, err);
	return r ? r : rdma_nics_start(t, err);
}

/* As asked for, but never more than a few work requests of every NIC. */
static void size_slices(struct rdma *t)
{
	const struct te_conf *conf = t->base.env->conf;

	t->slice = MIN((uint64_t)conf->slice_size, 1u << 30);
	for (size_t i = 0; i < t->nctx; i++)
		if (t->ctx && t->ctx[i])
			t->slice = MIN(t->slice, MIN(t->ctx[i]->max_msg, t->ctx[i]->max_mr));
	t->fragment = conf->fragment_ratio < conf->slice_size
			      ? t->slice / (uint64_t)conf->fragment_ratio
			      : t->slice / 4;
}

static int rdma_open(const struct te_transport_env *env, struct te_transport **out,
		     struct te_err *err)
{
	struct rdma *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return te_fail(err, -ENOMEM, "out of memory");
	t->base.ops = &te_transport_rdma;
	t->base.env = env;
	t->watcher.wake = t->janitor.wake = t->reaper.wake = -1;
	pthread_rwlock_init(&t->gate, NULL);
	pthread_mutex_init(&t->peers_lock, NULL);
	pthread_mutex_init(&t->retired_lock, NULL);
	pthread_mutex_init(&t->bye_lock, NULL);
	pthread_cond_init(&t->bye_cond, NULL);
	name_server(t);
	r = start(t, err);
	size_slices(t);
	if (r < 0) {
		te_transport_rdma.close(&t->base);
		return r;
	}
	*out = &t->base;
	return 0;
}

/* ---- close -------------------------------------------------------------------------------- */

static void forget_keys(void *arg, const struct te_region *r)
{
	rdma_forget(arg, (struct te_region *)r);
}

static void wait_for_flushes(struct rdma *t)
{
	uint64_t until = te_now() + FLUSH_WAIT;

	while (rdma_ep_reap(t, te_now() >= until)) {
		struct timespec nap = { .tv_nsec = 1000000 };

		for (size_t i = 0; i < t->nctx; i++)
			if (t->ctx[i])
				rdma_poll(t->ctx[i]);
		nanosleep(&nap, NULL);
	}
}

static void end_nics(struct rdma *t)
{
	for (size_t i = 0; i < t->nctx; i++)
		if (t->ctx[i])
			rdma_ctx_end(t->ctx[i]);
}

static void rdma_close(struct te_transport *base)
{
	struct rdma *t = rdma_of(base);

	end_nics(t);
	rdma_nics_stop(t);
	rdma_thread_stop(&t->janitor);
	for (struct rdma_peer *p = t->peers; p; p = p->next)
		rdma_peer_join(p);
	end_nics(t); /* what connectors have made meanwhile */
	rdma_byes_wait(t);
	while (t->peers) {
		struct rdma_peer *next = t->peers->next;

		rdma_peer_free(t->peers);
		t->peers = next;
	}
	rdma_thread_stop(&t->reaper);
	wait_for_flushes(t);
	te_regions_each(base->env->regions, forget_keys, base);
	for (size_t i = 0; i < t->nctx; i++)
		rdma_ctx_close(t->ctx[i]);
	close_wake(&t->watcher);
	close_wake(&t->janitor);
	close_wake(&t->reaper);
	te_matrix_free(t->matrix);
	pthread_cond_destroy(&t->bye_cond);
	pthread_mutex_destroy(&t->bye_lock);
	pthread_mutex_destroy(&t->retired_lock);
	pthread_mutex_destroy(&t->peers_lock);
	pthread_rwlock_destroy(&t->gate);
	free(t->ctx);
	free(t);
}

/* ---- what we publish ---------------------------------------------------------------------- */

static struct rdma_ctx *ctx_of(const struct rdma *t, const char *nic)
{
	int i = te_matrix_nic(t->matrix, nic);

	return i < 0 ? NULL : t->ctx[i];
}

static bool is_active(void *arg, const char *nic)
{
	const struct rdma_ctx *c = ctx_of(arg, nic);

	return c && atomic_load(&c->active);
}

static void describe_device(struct rdma_ctx *c, struct te_desc_device *d)
{
	char gid[TE_GID_TEXT] = "";

	pthread_mutex_lock(&c->lock);
	d->lid = c->port.lid;
	if (c->port.chosen >= 0)
		te_nic_gid_text(&c->port.gids[c->port.chosen].gid, gid);
	pthread_mutex_unlock(&c->lock);
	d->name = te_strdup(c->name);
	d->gid = te_strdup(gid);
}

/* Devices, keys and matrix name the same NICs, the active ones, in the order that readers derive
   from the matrix (INTEROP 1.6). */
static void rdma_describe(struct te_transport *base, struct te_desc *desc)
{
	struct rdma *t = rdma_of(base);
	struct te_matrix *m = te_matrix_filter(t->matrix, is_active, t);

	if (!m)
		return;
	desc->priority_matrix = te_matrix_format(m);
	desc->devices = calloc(m->nnames + 1, sizeof(desc->devices[0]));
	for (size_t i = 0; desc->devices && i < m->nnames; i++)
		describe_device(ctx_of(t, m->names[i]), &desc->devices[desc->ndevices++]);
	if (strcmp(t->server, base->env->name) != 0)
		desc->rdma_server_name = te_strdup(t->server);
	desc->te.degraded = m->nnames < t->matrix->nnames;
	te_matrix_free(m);
}

static bool add_piece(const struct rdma *t, const struct te_region *r, size_t piece,
		      struct te_desc *desc)
{
	const struct rdma_keys *k = r->keys;
	struct te_desc_buffer *b = te_desc_add_buffer(desc);
	uint64_t at = piece * k->piece;

	if (!b)
		return false;
	b->name = te_strdup(r->location);
	b->location = te_strdup(r->location);
	b->addr = r->addr + at;
	b->length = MIN(k->piece, r->len - at);
	b->rkey = calloc(desc->ndevices + 1, sizeof(b->rkey[0]));
	b->lkey = calloc(desc->ndevices + 1, sizeof(b->lkey[0]));
	if (!b->name || !b->location || !b->rkey || !b->lkey)
		return false;
	for (size_t i = 0; i < desc->ndevices; i++) {
		const struct rdma_ctx *c = ctx_of(t, desc->devices[i].name);
		const struct ibv_mr *mr = k->mr[piece * k->nctx + c->index];

		if (!mr) /* the NIC has failed since its name was written: told anew soon */
			continue;
		b->rkey[i] = mr->rkey;
		b->lkey[i] = mr->lkey;
	}
	b->nkeys = desc->ndevices;
	return true;
}

static int rdma_describe_region(struct te_transport *base, const struct te_region *r,
				struct te_desc *desc)
{
	const struct rdma_keys *k = r->keys;

	for (size_t i = 0; k && i < k->npieces; i++)
		if (!add_piece(rdma_of(base), r, i, desc))
			return -ENOMEM;
	return 1;
}

static void rdma_counters(struct te_transport *base, void *arg,
			  void (*cb)(void *arg, const char *name, const char *help, bool gauge,
				     uint64_t value))
{
	struct rdma *t = rdma_of(base);
	uint64_t nics = 0, endpoints = 0;

	for (size_t i = 0; i < t->nctx; i++) {
		if (!t->ctx[i])
			continue;
		nics += atomic_load(&t->ctx[i]->active);
		pthread_mutex_lock(&t->ctx[i]->lock);
		endpoints += t->ctx[i]->pool.size;
		pthread_mutex_unlock(&t->ctx[i]->lock);
	}
	cb(arg, "rdma_nics", "NICs that are usable now.", true, nics);
	cb(arg, "rdma_endpoints", "Endpoints in the pools of all NICs.", true, endpoints);
	cb(arg, "rdma_connects_total", "Endpoints that we connected and tried.", false,
	   atomic_load(&t->connects));
	cb(arg, "rdma_evictions_total", "Endpoints that gave way to another one.", false,
	   atomic_load(&t->evictions));
	cb(arg, "rdma_retired_total", "Endpoints that ended, for whatever reason.", false,
	   atomic_load(&t->retires));
}

const struct te_transport_ops te_transport_rdma = {
	.name = "rdma",
	.open = rdma_open,
	.close = rdma_close,
	.describe = rdma_describe,
	.describe_region = rdma_describe_region,
	.handshake = rdma_handshake,
	.reg = rdma_reg,
	.forget = rdma_forget,
	.peer_open = rdma_peer_open,
	.peer_close = rdma_peer_close,
	.update = rdma_peer_update,
	.submit = rdma_submit,
	.help = rdma_help,
	.abort = rdma_abort,
	.counters = rdma_counters,
	.path = rdma_path,
};
