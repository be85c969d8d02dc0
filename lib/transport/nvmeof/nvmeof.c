/* nvmeof.c - the transport of file segments, and a peer: the files of one segment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "host/cufile.h"
#include "transport/nvmeof/nvmeof.h"

static struct nvmeof *nvmeof_of(struct te_transport *t)
{
	return container_of(t, struct nvmeof, base);
}

static struct nv_peer *peer_of(struct te_peer *p)
{
	return container_of(p, struct nv_peer, p);
}

/* ---- open and close ----------------------------------------------------------------------- */

static int nv_open(const struct te_transport_env *env, struct te_transport **out,
		   struct te_err *err)
{
	struct nvmeof *t = calloc(1, sizeof(*t));

	if (!t)
		return te_fail(err, -ENOMEM, "no memory for the nvmeof transport");
	t->base.ops = &te_transport_nvmeof;
	t->base.env = env;
	t->wake = -1;
	pthread_mutex_init(&t->driver, NULL);
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->start_lock, NULL);
	if (gethostname(t->host, sizeof(t->host) - 1))
		t->host[0] = '\0';
	*out = &t->base;
	return 0;
}

struct held { /* regions, referenced */
	struct te_region **list;
	size_t n;
};

static void hold(void *arg, const struct te_region *r)
{
	struct held *h = arg;
	struct te_region **list;

	if (nv_is_gpu(r))
		return;
	list = realloc(h->list, (h->n + 1) * sizeof(struct te_region *));
	if (!list)
		return; /* not pinned then */
	h->list = list;
	h->list[h->n++] = (struct te_region *)r;
	te_region_ref(h->list[h->n - 1]);
}

/* Takes 0.1 s for each GiB or so: not under the lock that those who serve peers need. */
static void pin_all(struct nvmeof *t)
{
	struct held h = { 0 };

	te_regions_each(t->base.env->regions, hold, &h);
	for (size_t i = 0; i < h.n; i++) {
		pthread_mutex_lock(&t->lock);
		nv_ring_add_region(t->ring, h.list[i]);
		pthread_mutex_unlock(&t->lock);
		te_region_put(h.list[i]);
	}
	free(h.list);
}

static int start_carrier(struct nvmeof *t, struct te_err *err)
{
	const struct te_conf *conf = t->base.env->conf;
	struct te_err why;

	t->pool = nv_pool_open(conf, err);
	if (!t->pool)
		return -ENOMEM;
	t->ring = nv_ring_open(conf, &why);
	if (t->ring) {
		pin_all(t);
		return 0;
	}
	te_warn("file segments: %s; threads that block serve, slower", why.msg);
	return 0;
}

static int start(struct nvmeof *t, struct te_err *err)
{
	int r;

	t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->wake < 0)
		return te_fail(err, -errno, "cannot make an eventfd: %s", strerror(errno));
	r = start_carrier(t, err);
	if (r)
		return r;
	r = te_thread_start(&t->thread, "te-file", nv_main, t);
	if (r)
		return te_fail(err, r, "cannot start a thread: %s", strerror(-r));
	t->has_thread = true;
	return 0;
}

/* What file segments need comes with the first of them. */
static void undo_start(struct nvmeof *t)
{
	if (t->has_thread) {
		atomic_store(&t->stop, true);
		eventfd_write(t->wake, 1);
		pthread_join(t->thread, NULL);
		t->has_thread = false;
	}
	nv_ring_close(t->ring);
	nv_pool_close(t->pool);
	t->ring = NULL;
	t->pool = NULL;
	if (t->wake >= 0)
		close(t->wake);
	t->wake = -1;
}

static int start_once(struct nvmeof *t, struct te_err *err)
{
	int r = 0;

	pthread_mutex_lock(&t->start_lock);
	if (!atomic_load(&t->started)) {
		r = start(t, err);
		if (r)
			undo_start(t);
		else
			atomic_store(&t->started, true);
	}
	pthread_mutex_unlock(&t->start_lock);
	return r;
}

static void nv_close(struct te_transport *base)
{
	struct nvmeof *t = nvmeof_of(base);

	if (atomic_load(&t->started))
		undo_start(t);
	pthread_mutex_destroy(&t->driver);
	pthread_mutex_destroy(&t->lock);
	pthread_mutex_destroy(&t->start_lock);
	free(t);
}

/* ---- regions ------------------------------------------------------------------------------ */

static int nv_reg(struct te_transport *base, struct te_region *r, struct te_err *err)
{
	struct nvmeof *t = nvmeof_of(base);

	(void)err;
	if (nv_is_gpu(r)) {
		te_cufile_load(NULL); /* may take long: not when the first transfer needs it */
		return 0;
	}
	pthread_mutex_lock(&t->start_lock);
	if (t->ring) {
		pthread_mutex_lock(&t->lock);
		nv_ring_add_region(t->ring, r);
		pthread_mutex_unlock(&t->lock);
	}
	pthread_mutex_unlock(&t->start_lock);
	return 0;
}

static void nv_forget(struct te_transport *base, struct te_region *r)
{
	struct nvmeof *t = nvmeof_of(base);

	pthread_mutex_lock(&t->start_lock);
	if (t->ring) {
		pthread_mutex_lock(&t->lock);
		nv_ring_remove_region(t->ring, r);
		pthread_mutex_unlock(&t->lock);
	}
	pthread_mutex_unlock(&t->start_lock);
}

/* ---- files of a peer ---------------------------------------------------------------------- */

static struct nv_file *open_here(const struct nvmeof *t, const struct te_desc *d, size_t i)
{
	const struct te_desc_buffer *b = &d->buffers[i];
	const char *path = te_desc_file_here(d, b, t->base.env->name, t->host);
	char why[400];

	if (path)
		return nv_file_open(path, b->addr, b->length);
	snprintf(why, sizeof(why),
		 "file '%.150s' has no path on this host: its local_path_map names neither '%.80s' "
		 "nor '%.80s' (te-mount adds one)",
		 b->file_path, t->base.env->name, t->host);
	return nv_file_missing(b->file_path, b->addr, b->length, why);
}

/* By path, then by start. */
static int by_path(const void *a, const void *b)
{
	const struct nv_file *x = *(struct nv_file *const *)a, *y = *(struct nv_file *const *)b;
	int order = strcmp(x->path, y->path);

	return order ? order : (x->start > y->start) - (x->start < y->start);
}

/* lock held. The one of this path and start, else one of this path; NULL. */
static struct nv_file *find_path(const struct nv_peer *p, const char *path, uint64_t start)
{
	const struct nv_file like = { .path = (char *)path, .start = start }, *key = &like;
	size_t lo = 0, hi = p->nfiles;

	while (lo < hi) { /* first that is not below */
		size_t mid = lo + (hi - lo) / 2;

		if (by_path(&p->by_path[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < p->nfiles && !strcmp(p->by_path[lo]->path, path))
		return p->by_path[lo];
	return lo && !strcmp(p->by_path[lo - 1]->path, path) ? p->by_path[lo - 1] : NULL;
}

/* lock held. A file in use that will still do, with a reference. */
static struct nv_file *find_good(struct nvmeof *t, const struct nv_peer *p, const struct te_desc *d,
				 size_t i)
{
	const struct te_desc_buffer *b = &d->buffers[i];
	const char *path = te_desc_file_here(d, b, t->base.env->name, t->host);
	struct nv_file *f = path ? find_path(p, path, b->addr) : NULL;

	if (!f || f->err.code || f->ill || f->start != b->addr || f->len != b->length)
		return NULL;
	f->refs++;
	return f;
}

/* lock held. Counters go on when a file is opened again. */
static void inherit(const struct nv_peer *p, struct nv_file *f)
{
	struct nv_file *old = find_path(p, f->path, f->start);

	if (!old)
		return;
	f->slices = old->slices;
	f->bytes = old->bytes;
	old->slices = old->bytes = 0;
}

/* Opens what is missing in files. */
static int open_rest(struct nvmeof *t, const struct te_desc *d, struct nv_file **files,
		     struct te_err *err)
{
	for (size_t i = 0; i < d->nbuffers; i++) {
		if (files[i])
			continue;
		files[i] = open_here(t, d, i);
		if (!files[i])
			return te_fail(err, -ENOMEM, "out of memory");
	}
	return 0;
}

/* lock held. */
static void enter_files(struct nvmeof *t, struct nv_peer *p, struct nv_file **files, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (files[i]->inode->prev) /* it was there before */
			continue;
		nv_file_share_inode(t, files[i]);
		if (t->ring)
			nv_ring_add_file(t->ring, files[i]);
		inherit(p, files[i]);
	}
	p->files = files;
	p->by_path = files + n;
	p->nfiles = n;
}

/* p gets the files that d says, which are opened anew where the old ones will not do. Descriptors
 * may be long: little is done under the lock. */
static int set_files(struct nvmeof *t, struct nv_peer *p, const struct te_desc *d,
		     struct te_err *err)
{
	size_t n = d->nbuffers, nold = n;
	struct nv_file **files = calloc(2 * n + 1, sizeof(struct nv_file *)), **old = files;
	int r;

	if (!files)
		return te_fail(err, -ENOMEM, "out of memory");
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < n; i++)
		files[i] = find_good(t, p, d, i);
	pthread_mutex_unlock(&t->lock);
	r = open_rest(t, d, files, err);
	if (!r) {
		memcpy(files + n, files, n * sizeof(*files));
		qsort(files + n, n, sizeof(*files), by_path);
	}
	pthread_mutex_lock(&t->lock);
	if (!r) {
		old = p->files;
		nold = p->nfiles;
		enter_files(t, p, files, n);
	}
	for (size_t i = 0; i < nold; i++)
		nv_file_put(t, old[i]);
	nv_unlock(t);
	free(old);
	return r;
}

/* ---- peers -------------------------------------------------------------------------------- */

/* Some file must be good; the others fail when they are used, and may come later. */
static int check_files(const struct nv_peer *p, struct te_err *err)
{
	if (!p->nfiles)
		return te_fail(err, -ENOENT, "it has no files (te-register nvmeof adds some)");
	for (size_t i = 0; i < p->nfiles; i++)
		if (!p->files[i]->err.code)
			return 0;
	*err = p->files[0]->err;
	return err->code;
}

static void nv_peer_close(struct te_peer *base)
{
	struct nv_peer *p = peer_of(base), **at;
	struct nvmeof *t = p->t;

	pthread_mutex_lock(&t->lock);
	for (at = &t->peers; *at && *at != p; at = &(*at)->next)
		;
	if (*at)
		*at = p->next;
	for (size_t i = 0; i < p->nfiles; i++)
		nv_file_put(t, p->files[i]);
	nv_unlock(t);
	nv_queue_clear(p);
	free(p->files);
	free(p);
}

static int fill_peer(struct nvmeof *t, struct nv_peer *p, const struct te_desc *d,
		     struct te_err *err)
{
	int r = nv_queue_init(p, err);
	struct te_err why;
	size_t bad = 0;

	if (!r)
		r = set_files(t, p, d, err);
	if (!r)
		r = check_files(p, err);
	for (size_t i = 0; !r && i < p->nfiles; i++) {
		if (!p->files[i]->err.code)
			continue;
		if (!bad++)
			why = p->files[i]->err;
	}
	if (bad)
		te_info("segment '%s': %zu of its %zu files cannot be used, first: %s",
			p->p.segment, bad, p->nfiles, why.msg);
	return r;
}

static int nv_peer_open(struct te_transport *base, const struct te_peer_info *info,
			struct te_peer **out, struct te_err *err)
{
	struct nvmeof *t = nvmeof_of(base);
	struct nv_peer *p;
	int r;

	if (strcmp(info->desc->protocol, "nvmeof"))
		return te_fail(err, -EOPNOTSUPP, "not a segment of files");
	r = start_once(t, err);
	if (r)
		return r;
	p = calloc(1, sizeof(*p));
	if (!p)
		return te_fail(err, -ENOMEM, "no memory for a peer");
	p->t = t;
	p->p.ops = base->ops;
	p->p.transport = base;
	te_strlcpy(p->p.segment, info->name, sizeof(p->p.segment));
	r = fill_peer(t, p, info->desc, err);
	if (r) {
		nv_peer_close(&p->p);
		return r;
	}
	pthread_mutex_lock(&t->lock);
	p->next = t->peers;
	t->peers = p;
	pthread_mutex_unlock(&t->lock);
	*out = &p->p;
	return 0;
}

static void nv_update(struct te_peer *base, const struct te_desc *desc)
{
	struct nv_peer *p = peer_of(base);
	struct te_err err;

	if (set_files(p->t, p, desc, &err))
		te_warn("segment '%s': %s", base->segment, err.msg);
}

static bool nv_path(struct te_peer *base, size_t i, struct te_path *out)
{
	struct nv_peer *p = peer_of(base);
	struct nvmeof *t = p->t;
	bool there;

	pthread_mutex_lock(&t->lock);
	there = i < p->nfiles;
	if (there) {
		const struct nv_file *f = p->files[i];

		snprintf(out->local, sizeof(out->local), "%s, %s",
			 f->gpu	   ? "cuFile"
			 : t->ring ? "io_uring"
				   : "threads",
			 f->refused ? "page cache (O_DIRECT refused)" : "O_DIRECT");
		te_strlcpy(out->remote, f->path, sizeof(out->remote));
		out->slices = f->slices;
		out->bytes = f->bytes;
	}
	pthread_mutex_unlock(&t->lock);
	return there;
}

static void nv_counters(struct te_transport *base, void *arg,
			void (*cb)(void *arg, const char *name, const char *help, bool gauge,
				   uint64_t value))
{
	struct nvmeof *t = nvmeof_of(base);
	uint64_t buffered, bounced, patched, inflight = 0;

	if (!atomic_load(&t->started))
		return;
	pthread_mutex_lock(&t->lock);
	buffered = t->buffered;
	bounced = t->bounced;
	patched = t->patched;
	for (const struct nv_peer *p = t->peers; p; p = p->next)
		inflight += p->inflight;
	pthread_mutex_unlock(&t->lock);
	cb(arg, "te_file_inflight", "Reads and writes of files that the kernel has", true,
	   inflight);
	cb(arg, "te_file_buffered_total",
	   "Reads and writes by the page cache: O_DIRECT was refused", false, buffered);
	cb(arg, "te_file_bounced_total", "Reads and writes that were not aligned and were copied",
	   false, bounced);
	cb(arg, "te_file_patched_total", "Blocks read before they were written: changed in part",
	   false, patched);
}

const struct te_transport_ops te_transport_nvmeof = {
	.name = "nvmeof",
	.open = nv_open,
	.close = nv_close,
	.reg = nv_reg,
	.forget = nv_forget,
	.peer_open = nv_peer_open,
	.peer_close = nv_peer_close,
	.update = nv_update,
	.submit = nv_submit,
	.help = nv_help,
	.abort = nv_abort,
	.counters = nv_counters,
	.path = nv_path,
};
