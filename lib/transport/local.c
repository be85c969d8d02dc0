/* local.c - segments of this process: our own, and those of its other engines. Bytes go by memmove.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "te_err.h"
#include "te_segment.h"
#include "transport/copier.h"
#include "transport/ctlpeer.h"
#include "transport/transport.h"

enum { PIECE = 1 << 20 };

struct local {
	struct te_transport t;
	struct te_copier copier;
};

struct local_peer {
	struct te_peer p;
	struct te_regions *regions; /* our own segment */
	struct te_ctl_peer *ctl;    /* another engine's; one of the two is NULL */
};

static struct local *local_of(struct te_transport *t)
{
	return container_of(t, struct local, t);
}

static struct local_peer *peer_of(struct te_peer *p)
{
	return container_of(p, struct local_peer, p);
}

static void move(const struct te_slice *s)
{
	void *remote = (void *)(uintptr_t)s->remote; /* of this process */

	if (s->op == TE_READ)
		memmove(s->local, remote, s->len);
	else
		memmove(remote, s->local, s->len);
}

static int unregistered(const struct te_slice *s, struct te_err *why)
{
	return te_fail(why, -EFAULT, "range 0x%" PRIx64 "+%" PRIu64 " is not registered", s->remote,
		       s->len);
}

static void copy_own(struct local_peer *lp, struct te_slice *list, struct te_err *why)
{
	struct te_region *r = NULL;

	for (struct te_slice *s = list; s; s = s->next) {
		if (s->status)
			continue;
		if (!r || !te_region_holds(r, s->remote, s->len)) {
			te_region_put(r);
			r = te_region_get(lp->regions, s->remote, s->len, true);
		}
		if (r)
			move(s);
		else
			s->status = unregistered(s, why);
	}
	te_region_put(r);
}

static void copy_other(struct local_peer *lp, struct te_slice *list, struct te_err *why)
{
	struct te_ctl_seen *row;
	struct te_ctl_use use;
	int rc = te_ctl_use_begin(&use, lp->ctl);

	for (struct te_slice *s = list; s; s = s->next) {
		if (s->status)
			continue;
		if (rc) {
			s->status = te_fail(why, rc, "too many threads copy from that engine");
			continue;
		}
		s->status = te_ctl_use_row(&use, s->remote, s->len, &row);
		if (s->status == -EAGAIN) {
			te_ctl_use_renew(&use);
			s->status = te_ctl_use_row(&use, s->remote, s->len, &row);
		}
		if (!s->status)
			move(s);
		else if (te_ctl_peer_is_closed(lp->ctl))
			s->status = te_fail(why, -ECONNRESET, "the engine is closed");
		else
			s->status = unregistered(s, why);
	}
	if (!rc)
		te_ctl_use_end(&use);
}

static void local_copy(struct te_peer *p, struct te_slice *list, struct te_err *why)
{
	struct local_peer *lp = peer_of(p);

	if (lp->ctl)
		copy_other(lp, list, why);
	else
		copy_own(lp, list, why);
}

static int local_open(const struct te_transport_env *env, struct te_transport **out,
		      struct te_err *err)
{
	struct local *l = calloc(1, sizeof(*l));

	if (!l)
		return te_fail(err, -ENOMEM, "no memory for the local transport");
	l->t.ops = &te_transport_local;
	l->t.env = env;
	te_copier_init(&l->copier, env, local_copy);
	*out = &l->t;
	return 0;
}

static void local_close(struct te_transport *t)
{
	struct local *l = local_of(t);

	te_copier_clear(&l->copier);
	free(l);
}

static int local_peer_open(struct te_transport *t, const struct te_peer_info *info,
			   struct te_peer **out, struct te_err *err)
{
	struct te_ctl_peer *ctl = NULL;
	struct local_peer *lp;
	int rc;

	if (info->host && (!info->desc->te.present || info->desc->te.pid != getpid()))
		return te_fail(err, -EOPNOTSUPP, "not in this process");
	if (info->host) {
		rc = te_ctl_peer_open(info->desc, &ctl, err);
		if (rc)
			return rc;
	}
	lp = calloc(1, sizeof(*lp));
	if (!lp) {
		te_ctl_peer_close(ctl);
		return te_fail(err, -ENOMEM, "no memory for a peer");
	}
	lp->ctl = ctl;
	lp->regions = ctl ? NULL : t->env->regions;
	lp->p.ops = t->ops;
	lp->p.transport = t;
	atomic_store(&lp->p.piece, PIECE);
	snprintf(lp->p.local, sizeof(lp->p.local), "pid %d", (int)getpid());
	snprintf(lp->p.remote, sizeof(lp->p.remote), "same process");
	*out = &lp->p;
	return 0;
}

static void local_peer_close(struct te_peer *p)
{
	struct local_peer *lp = peer_of(p);

	te_ctl_peer_close(lp->ctl);
	free(lp);
}

static int local_covers(struct te_peer *p, uint64_t addr, uint64_t len)
{
	struct local_peer *lp = peer_of(p);
	struct te_region *r;

	if (lp->ctl)
		return te_ctl_peer_covers(lp->ctl, addr, len) || te_ctl_peer_is_closed(lp->ctl);
	r = te_region_get(lp->regions, addr, len, true);
	te_region_put(r);
	return r != NULL;
}

static void local_submit(struct te_peer *p, struct te_slice *list)
{
	te_copier_submit(&local_of(p->transport)->copier, list);
}

static void local_help(struct te_peer *p, struct te_slice *s, const _Atomic uint32_t *pending,
		       uint64_t until)
{
	(void)s;
	te_copier_help(&local_of(p->transport)->copier, pending, until);
}

static void local_abort(struct te_peer *p, int status, const struct te_err *why)
{
	te_copier_abort(&local_of(p->transport)->copier, p, status, why);
}

const struct te_transport_ops te_transport_local = {
	.name = "local",
	.open = local_open,
	.close = local_close,
	.peer_open = local_peer_open,
	.peer_close = local_peer_close,
	.covers = local_covers,
	.submit = local_submit,
	.help = local_help,
	.abort = local_abort,
};
