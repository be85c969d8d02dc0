/*
 * shm.c - segments of other processes of this host: copied by this side alone, the target's threads
 * sleep.
 *
 * Memory that the target got from te_alloc() is mapped and copied by memcpy; other memory by
 * process_vm_readv() and _writev(), many slices a call. The kernel knows the target by its pid
 * only: so each such call is tied to the nonce in the target's control page, lest a pid that was
 * used again, or a new program in the same process, be read or written for it. A READ fetches the
 * nonce in the same call, a WRITE right before.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/util.h"
#include "te_err.h"
#include "te_segment.h"
#include "host/mem.h"
#include "transport/copier.h"
#include "transport/ctlpeer.h"
#include "transport/transport.h"

enum {
	PIECE = 1 << 20,
	VECTOR = 512, /* slices in one system call; the kernel's limit is 1024 */
};

struct shm {
	struct te_transport t;
	struct te_copier copier;
	struct te_ctl *ctl; /* NULL when we do not serve */
};

struct shm_peer {
	struct te_peer p;
	struct te_ctl_peer *ctl;
	pid_t pid;
	uint64_t nonce, nonce_addr;
};

/* Slices of one direction on their way to one system call. Entry 0 has room for the nonce. */
struct vector {
	struct shm_peer *sp;
	struct te_err *why;
	uint8_t op;
	unsigned at, n; /* entries at..n-1 are to be done; from 1 on */
	struct iovec local[1 + VECTOR], remote[1 + VECTOR];
	struct te_slice *slice[1 + VECTOR];
};

static struct shm *shm_of(struct te_transport *t)
{
	return container_of(t, struct shm, t);
}

static struct shm_peer *peer_of(struct te_peer *p)
{
	return container_of(p, struct shm_peer, p);
}

/* ---- copying ------------------------------------------------------------------------------ */

/* Is that process still the engine that we mapped the page of? 0 or negative errno. */
static int check_target(const struct shm_peer *sp, struct te_err *why)
{
	uint64_t found = 0;
	struct iovec local = { &found, sizeof(found) };
	struct iovec remote = { (void *)(uintptr_t)sp->nonce_addr, sizeof(found) };
	ssize_t n = process_vm_readv(sp->pid, &local, 1, &remote, 1, 0);

	if (n < 0 && errno != ESRCH && errno != EFAULT)
		return te_fail(why, -errno, "process_vm_readv of pid %d: %s", (int)sp->pid,
			       strerror(errno));
	if (n != sizeof(found) || found != sp->nonce)
		return te_fail(why, -ECONNRESET, "pid %d has ended or closed its engine",
			       (int)sp->pid);
	return 0;
}

static void fail_rest(struct vector *v, int status)
{
	while (v->at < v->n)
		v->slice[v->at++]->status = status;
}

/* One slice's memory could not be read or written. */
static void fail_one(struct vector *v)
{
	struct te_slice *s = v->slice[v->at++];

	/* Not EFAULT, which says that nobody registered it. */
	s->status =
		te_fail(v->why, -EIO, "process_vm_%s of pid %d at 0x%" PRIx64 "+%" PRIu64 ": %s",
			v->op == TE_READ ? "readv" : "writev", (int)v->sp->pid, s->remote, s->len,
			strerror(EFAULT));
}

/* Reads what is left, the nonce with it; bytes of slices that arrived, or negative errno. */
static ssize_t read_some(struct vector *v)
{
	unsigned from = v->at - 1; /* done with, or never used: room for the nonce */
	uint64_t found = 0;
	ssize_t n;

	v->local[from] = (struct iovec){ &found, sizeof(found) };
	v->remote[from] = (struct iovec){ (void *)(uintptr_t)v->sp->nonce_addr, sizeof(found) };
	n = process_vm_readv(v->sp->pid, v->local + from, v->n - from, v->remote + from,
			     v->n - from, 0);
	if (n >= (ssize_t)sizeof(found) && found == v->sp->nonce)
		return n - (ssize_t)sizeof(found);
	return n < 0 && errno != ESRCH && errno != EFAULT ? -errno : -ECONNRESET;
}

static ssize_t write_some(struct vector *v)
{
	ssize_t n = check_target(v->sp, v->why);

	if (n < 0)
		return n;
	n = process_vm_writev(v->sp->pid, v->local + v->at, v->n - v->at, v->remote + v->at,
			      v->n - v->at, 0);
	if (n < 0 && errno == EFAULT)
		return 0; /* the target is there: it was the first slice */
	return n < 0 ? (errno == ESRCH ? -ECONNRESET : -errno) : n;
}

/* n bytes of the vector are done. */
static void advance(struct vector *v, size_t n)
{
	while (v->at < v->n && n >= v->local[v->at].iov_len)
		n -= v->local[v->at++].iov_len;
	if (!n)
		return;
	v->local[v->at].iov_base = (char *)v->local[v->at].iov_base + n;
	v->local[v->at].iov_len -= n;
	v->remote[v->at].iov_base = (char *)v->remote[v->at].iov_base + n;
	v->remote[v->at].iov_len -= n;
}

static void flush(struct vector *v)
{
	while (v->at < v->n) {
		ssize_t n = v->op == TE_READ ? read_some(v) : write_some(v);

		if (n > 0) {
			advance(v, (size_t)n);
		} else if (!n) {
			fail_one(v);
		} else {
			te_fail(v->why, (int)n, "copying from or to pid %d: %s", (int)v->sp->pid,
				n == -ECONNRESET ? "it has ended or closed its engine"
						 : strerror((int)-n));
			fail_rest(v, (int)n);
		}
	}
	v->at = v->n = 1;
}

static void add(struct vector *v, struct te_slice *s)
{
	if (v->n > v->at && (v->op != s->op || v->n == 1 + VECTOR))
		flush(v);
	v->op = s->op;
	v->local[v->n] = (struct iovec){ s->local, s->len };
	v->remote[v->n] = (struct iovec){ (void *)(uintptr_t)s->remote, s->len };
	v->slice[v->n++] = s;
}

/* Without a row in use for it, a slice has its status. */
static void copy_one(struct vector *v, struct te_ctl_use *use, struct te_slice *s)
{
	struct te_ctl_seen *row;
	void *mapped;

	s->scratch = false;
	s->status = te_ctl_use_row(use, s->remote, s->len, &row);
	if (s->status == -EAGAIN) {
		flush(v);
		te_ctl_use_renew(use);
		s->status = te_ctl_use_row(use, s->remote, s->len, &row);
	}
	if (s->status && te_ctl_peer_is_closed(v->sp->ctl)) {
		s->status = te_fail(v->why, -ECONNRESET, "pid %d has closed its engine",
				    (int)v->sp->pid);
		return;
	}
	if (s->status) {
		s->status = te_fail(v->why, -EFAULT,
				    "range 0x%" PRIx64 "+%" PRIu64 " is not registered in pid %d",
				    s->remote, s->len, (int)v->sp->pid);
		return;
	}
	mapped = te_ctl_use_map(use, row, s->remote, s->len);
	if (!mapped) {
		add(v, s);
		return;
	}
	s->scratch = true;
	if (s->op == TE_READ)
		memcpy(s->local, mapped, s->len);
	else
		memcpy(mapped, s->local, s->len);
}

/* Mapped memory outlives its process: a copy counts only if the target was still there after it. */
static void confirm_mapped(struct shm_peer *sp, struct te_slice *list, struct te_err *why)
{
	struct te_slice *s = list;
	int rc;

	while (s && (s->status || !s->scratch))
		s = s->next;
	if (!s)
		return;
	rc = check_target(sp, why);
	for (; s && rc; s = s->next)
		if (!s->status && s->scratch)
			s->status = rc;
}

static void shm_copy(struct te_peer *p, struct te_slice *list, struct te_err *why)
{
	struct vector v;
	struct te_ctl_use use;
	int rc;

	v.sp = peer_of(p);
	v.why = why;
	v.at = v.n = 1;
	rc = te_ctl_use_begin(&use, v.sp->ctl);
	for (struct te_slice *s = list; s; s = s->next) {
		if (s->status)
			continue;
		if (rc)
			s->status = te_fail(why, rc, "too many threads copy from or to pid %d",
					    (int)v.sp->pid);
		else
			copy_one(&v, &use, s);
	}
	if (rc)
		return;
	flush(&v);
	te_ctl_use_end(&use);
	confirm_mapped(v.sp, list, why);
}

/* ---- the target's side -------------------------------------------------------------------- */

static int shm_open_transport(const struct te_transport_env *env, struct te_transport **out,
			      struct te_err *err)
{
	struct shm *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return te_fail(err, -ENOMEM, "no memory for the shm transport");
	m->t.ops = &te_transport_shm;
	m->t.env = env;
	if (env->serve) {
		rc = te_ctl_new(env->token, &m->ctl, err);
		if (rc) {
			free(m);
			return rc;
		}
	}
	te_copier_init(&m->copier, env, shm_copy);
	*out = &m->t;
	return 0;
}

static void shm_close(struct te_transport *t)
{
	struct shm *m = shm_of(t);

	te_copier_clear(&m->copier);
	te_ctl_free(m->ctl);
	free(m);
}

static void shm_describe(struct te_transport *t, struct te_desc *desc)
{
	struct shm *m = shm_of(t);

	desc->te.ctl_fd = m->ctl ? te_ctl_fd(m->ctl) : -1;
	if (!m->ctl)
		return;
	desc->te.present = true;
	desc->te.pid = getpid();
	te_host_id(desc->te.host, sizeof(desc->te.host));
	te_strlcpy(desc->te.token, t->env->token, sizeof(desc->te.token));
}

static int shm_reg(struct te_transport *t, struct te_region *r, struct te_err *err)
{
	struct shm *m = shm_of(t);

	r->page_slot = -1;
	return m->ctl && r->remote ? te_ctl_add(m->ctl, r, err) : 0;
}

static int shm_unreg(struct te_transport *t, struct te_region *r, uint64_t until)
{
	struct shm *m = shm_of(t);

	return m->ctl && r->page_slot >= 0 ? te_ctl_remove(m->ctl, r, until) : 0;
}

/* ---- peers -------------------------------------------------------------------------------- */

/* May we copy at all? The kernel decides by user, ptrace policy and name spaces. */
static int probe(const struct shm_peer *sp, struct te_err *err)
{
	struct te_err why;
	int rc = check_target(sp, &why);

	if (!rc)
		return 0;
	if (rc != -EPERM)
		return te_fail(err, -EOPNOTSUPP, "%s", why.msg);
	return te_fail(err, -EOPNOTSUPP,
		       "the kernel forbids process_vm_readv of pid %d: %s (another user, or "
		       "kernel.yama.ptrace_scope)",
		       (int)sp->pid, strerror(EPERM));
}

static void name_ends(struct shm_peer *sp)
{
	unsigned rows, mappable;

	te_ctl_peer_count(sp->ctl, &rows, &mappable);
	snprintf(sp->p.local, sizeof(sp->p.local), "pid %d", (int)getpid());
	snprintf(sp->p.remote, sizeof(sp->p.remote), "pid %d, %s", (int)sp->pid,
		 !mappable	    ? "process_vm"
		 : mappable == rows ? "shared memory"
				    : "shared memory and process_vm");
}

static int shm_peer_open(struct te_transport *t, const struct te_peer_info *info,
			 struct te_peer **out, struct te_err *err)
{
	struct shm_peer *sp;
	int rc;

	if (!info->host)
		return te_fail(err, -EOPNOTSUPP, "our own segment");
	sp = calloc(1, sizeof(*sp));
	if (!sp)
		return te_fail(err, -ENOMEM, "no memory for a peer");
	rc = te_ctl_peer_open(info->desc, &sp->ctl, err);
	if (rc)
		goto no_page;
	sp->pid = te_ctl_peer_pid(sp->ctl);
	sp->nonce = te_ctl_peer_nonce(sp->ctl, &sp->nonce_addr);
	rc = probe(sp, err);
	if (rc)
		goto no_copy;
	sp->p.ops = t->ops;
	sp->p.transport = t;
	atomic_store(&sp->p.piece, PIECE);
	name_ends(sp);
	*out = &sp->p;
	return 0;
no_copy:
	te_ctl_peer_close(sp->ctl);
no_page:
	free(sp);
	return rc;
}

static void shm_peer_close(struct te_peer *p)
{
	struct shm_peer *sp = peer_of(p);

	te_ctl_peer_close(sp->ctl);
	free(sp);
}

static int shm_covers(struct te_peer *p, uint64_t addr, uint64_t len)
{
	struct shm_peer *sp = peer_of(p);

	/* A closed engine: let the copy fail with that reason. */
	return te_ctl_peer_covers(sp->ctl, addr, len) || te_ctl_peer_is_closed(sp->ctl);
}

static void shm_submit(struct te_peer *p, struct te_slice *list)
{
	te_copier_submit(&shm_of(p->transport)->copier, list);
}

static void shm_help(struct te_peer *p, struct te_slice *s, const _Atomic uint32_t *pending,
		     uint64_t until)
{
	(void)s;
	te_copier_help(&shm_of(p->transport)->copier, pending, until);
}

static void shm_abort(struct te_peer *p, int status, const struct te_err *why)
{
	te_copier_abort(&shm_of(p->transport)->copier, p, status, why);
}

const struct te_transport_ops te_transport_shm = {
	.name = "shm",
	.open = shm_open_transport,
	.close = shm_close,
	.describe = shm_describe,
	.reg = shm_reg,
	.unreg = shm_unreg,
	.peer_open = shm_peer_open,
	.peer_close = shm_peer_close,
	.covers = shm_covers,
	.submit = shm_submit,
	.help = shm_help,
	.abort = shm_abort,
};
