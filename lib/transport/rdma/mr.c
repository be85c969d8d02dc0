/* mr.c - registration: every region on every NIC, side by side, in pieces that the NICs can take.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "transport/rdma/rdma.h"

enum { PARALLEL_MIN = 64 << 20 }; /* bytes from which threads are worth it */

/* One NIC's share. */
struct job {
	struct rdma_ctx *ctx;
	const struct te_region *r;
	struct rdma_keys *k;
	int access;
	int error; /* 0 or negative errno */
	pthread_t thread;
	bool threaded;
};

static int access_of(const struct te_conf *conf, const struct te_region *r)
{
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (r->remote)
		access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	if (conf->relaxed_ordering)
		access |= IBV_ACCESS_RELAXED_ORDERING;
	return access;
}

static void *register_pieces(void *arg)
{
	struct job *j = arg;

	for (size_t i = 0; i < j->k->npieces && !j->error; i++) {
		uint64_t at = i * j->k->piece;
		struct ibv_mr *mr = ibv_reg_mr(j->ctx->pd, (void *)(uintptr_t)(j->r->addr + at),
					       MIN(j->k->piece, j->r->len - at), j->access);

		j->k->mr[i * j->k->nctx + j->ctx->index] = mr;
		if (!mr)
			j->error = errno ? -errno : -EIO;
	}
	return NULL;
}

static struct rdma_keys *plan(const struct rdma *t, const struct te_region *r)
{
	uint64_t piece = UINT64_MAX;
	struct rdma_keys *k;
	size_t n;

	for (size_t i = 0; i < t->nctx; i++)
		if (t->ctx[i])
			piece = MIN(piece, t->ctx[i]->max_mr);
	piece = MIN(piece, r->len);
	n = (size_t)((r->len - 1) / piece) + 1;
	k = calloc(1, sizeof(*k) + n * t->nctx * sizeof(k->mr[0]));
	if (!k)
		return NULL;
	k->addr = r->addr;
	k->piece = piece;
	k->npieces = n;
	k->nctx = t->nctx;
	return k;
}

static void release(struct rdma_keys *k)
{
	for (size_t i = 0; i < k->npieces * k->nctx; i++)
		if (k->mr[i] && ibv_dereg_mr(k->mr[i]))
			te_warn("a memory region cannot be deregistered: %s", strerror(errno));
	free(k);
}

/* Why, and what to do: locked memory is what it nearly always is. */
static int explain(const struct job *j, const struct te_region *r, struct te_err *err)
{
	struct rlimit l;

	if (j->error == -ENOMEM && !getrlimit(RLIMIT_MEMLOCK, &l) && l.rlim_cur != RLIM_INFINITY)
		return te_fail(
			err, j->error,
			"cannot register %llu bytes on '%s': the limit of locked memory is %llu "
			"bytes, and this buffer alone needs %llu on each NIC (raise it with "
			"ulimit -l, LimitMEMLOCK= or CAP_IPC_LOCK)",
			(unsigned long long)r->len, j->ctx->name, (unsigned long long)l.rlim_cur,
			(unsigned long long)r->len);
	return te_fail(err, j->error, "cannot register %#llx+%llu on '%s': %s%s",
		       (unsigned long long)r->addr, (unsigned long long)r->len, j->ctx->name,
		       strerror(-j->error),
		       j->error == -EFAULT ? " (is it mapped, and writable?)" : "");
}

static bool side_by_side(const struct rdma *t, const struct te_region *r)
{
	int64_t wish = t->base.env->conf->parallel_reg;

	return t->nctx > 1 && (wish > 0 || (wish < 0 && r->len >= PARALLEL_MIN));
}

/* All but the last job may go to threads of their own. */
static int run_jobs(struct job *jobs, size_t n, bool threads)
{
	int bad = -1;

	for (size_t i = 0; i < n; i++) {
		if (threads && i + 1 < n)
			jobs[i].threaded = !te_thread_start(&jobs[i].thread, "te-rdma-reg",
							    register_pieces, &jobs[i]);
		if (!jobs[i].threaded)
			register_pieces(&jobs[i]);
	}
	for (size_t i = 0; i < n; i++) {
		if (jobs[i].threaded)
			pthread_join(jobs[i].thread, NULL);
		if (jobs[i].error && bad < 0)
			bad = (int)i;
	}
	return bad;
}

int rdma_reg(struct te_transport *base, struct te_region *r, struct te_err *err)
{
	struct rdma *t = rdma_of(base);
	struct job *jobs = calloc(t->nctx, sizeof(*jobs));
	struct rdma_keys *k = plan(t, r);
	size_t n = 0;
	int bad, ret = 0;

	if (!jobs || !k) {
		free(jobs);
		free(k);
		return te_fail(err, -ENOMEM, "out of memory");
	}
	pthread_rwlock_rdlock(&t->gate);
	for (size_t i = 0; i < t->nctx; i++)
		if (t->ctx[i] && t->ctx[i]->pd && !atomic_load(&t->ctx[i]->broken))
			jobs[n++] = (struct job){ .ctx = t->ctx[i],
						  .r = r,
						  .k = k,
						  .access = access_of(base->env->conf, r) };
	bad = run_jobs(jobs, n, side_by_side(t, r));
	if (bad >= 0) {
		ret = explain(&jobs[bad], r, err);
		release(k);
	} else {
		r->keys = k;
	}
	pthread_rwlock_unlock(&t->gate);
	free(jobs);
	return ret;
}

static void drop_mrs(void *arg, const struct te_region *r)
{
	struct rdma_ctx *c = arg;
	struct rdma_keys *k = r->keys;

	for (size_t i = 0; k && i < k->npieces; i++) {
		struct ibv_mr **mr = &k->mr[i * k->nctx + c->index];

		if (*mr && ibv_dereg_mr(*mr))
			te_warn("device '%s': a memory region cannot be deregistered", c->name);
		*mr = NULL;
	}
}

void rdma_keys_drop(struct rdma_ctx *c)
{
	te_regions_each(c->t->base.env->regions, drop_mrs, c);
}

static void add_mrs(void *arg, const struct te_region *r)
{
	struct job *j = arg;

	j->r = r;
	j->k = r->keys;
	j->access = access_of(j->ctx->t->base.env->conf, r);
	if (j->k && !j->error)
		register_pieces(j);
}

int rdma_keys_add(struct rdma_ctx *c, struct te_err *err)
{
	struct job j = { .ctx = c };

	te_regions_each(c->t->base.env->regions, add_mrs, &j);
	return j.error ? te_fail(err, j.error, "its memory cannot be registered again: %s",
				 strerror(-j.error))
		       : 0;
}

/* Deregistering ends every access of peers: the NIC refuses them from then on. */
void rdma_forget(struct te_transport *base, struct te_region *r)
{
	(void)base;
	if (r->keys)
		release(r->keys);
	r->keys = NULL;
}
