/* raw_file.c - the limit of segments of files: a plain loop of io_uring and O_DIRECT whose queue is
 * always full. */
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slots.h"

enum { ALIGN = 4096 };

/* Reads and writes each have their part of the files, as those of the work have. */
struct part {
	struct te_desc *extents; /* one buffer each: addr is where it begins in the file */
	struct slots slots;
	int *fds; /* of the extents */
};

struct raw_files {
	struct part part[2]; /* by enum te_op */
	bool used[2];
	bool sync;
};

/* ---- which parts of which files -------------------------------------------------------------- */

/* What lies within [begin, end) of the segment, from a whole page on. */
static int add_extents(struct te_desc *to, const struct te_desc *d, uint64_t begin, uint64_t end,
		       const char *server, struct te_err *err)
{
	char host[256] = "";
	size_t i;

	gethostname(host, sizeof(host) - 1);
	for (i = 0; i < d->nbuffers; i++) {
		const struct te_desc_buffer *b = &d->buffers[i];
		const char *path = te_desc_file_here(d, b, server, host);
		const uint64_t last = b->addr + b->length < end ? b->addr + b->length : end;
		uint64_t from = b->addr < begin ? begin - b->addr : 0;
		struct te_desc_buffer *e;

		from = (from + ALIGN - 1) / ALIGN * ALIGN;
		if (b->addr + from >= last)
			continue;
		e = te_desc_add_buffer(to);
		if (!e)
			return te_fail(err, -ENOMEM, "out of memory");
		e->addr = from;
		e->length = last - b->addr - from;
		e->file_path = path ? strdup(path) : NULL;
		if (!e->file_path)
			return te_fail(err, -ENOENT, "file '%s' is not here any more",
				       b->file_path);
	}
	return 0;
}

static int cut(struct part *p, const struct session *s, const struct case_spec *spec, enum te_op op,
	       bool halves, struct te_err *err)
{
	struct te_engine_info info;
	uint64_t len;
	size_t i;
	int rc = 0;

	te_engine_info(s->engine, &info);
	p->extents = te_desc_new();
	if (!p->extents)
		return te_fail(err, -ENOMEM, "out of memory");
	for (i = 0; !rc && i < s->nsegments; i++) {
		if (s->segments[i].failed)
			continue;
		len = s->segments[i].desc->buffers[0].length;
		rc = add_extents(p->extents, s->segments[i].files,
				 halves && op == TE_WRITE ? len / 2 : 0,
				 halves && op == TE_READ ? len / 2 : len, info.name, err);
	}
	if (!rc && slots_init(&p->slots, p->extents, spec->block, SLOTS_WHOLE))
		rc = te_fail(err, -ENOMEM, "out of memory");
	return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_extents(struct part *p, enum te_op op, struct te_err *err)
{
	const int flags = (op == TE_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC;
	const char *path;
	size_t i;

	p->fds = calloc(p->extents->nbuffers + 1, sizeof(*p->fds));
	if (!p->fds)
		return te_fail(err, -ENOMEM, "out of memory");
	memset(p->fds, -1, p->extents->nbuffers * sizeof(*p->fds));
	for (i = 0; i < p->extents->nbuffers; i++) {
		path = p->extents->buffers[i].file_path;
		p->fds[i] = open(path, flags | O_DIRECT);
		if (p->fds[i] < 0 && errno == EINVAL) /* then the page cache serves the work too */
			p->fds[i] = open(path, flags);
		if (p->fds[i] < 0)
			return te_fail(err, -errno, "cannot open '%s': %s", path, strerror(errno));
	}
	return 0;
}

/* Does it go at all, with such blocks? */
static int try(const struct part *p, uint64_t block, struct te_err *err)
{
	struct io_uring ring;
	struct place at;
	void *memory;
	ssize_t n;
	int rc = io_uring_queue_init(1, &ring, 0);

	if (rc)
		return te_fail(err, -EOPNOTSUPP,
			       "--baseline: no raw limit is measured: io_uring: %s", strerror(-rc));
	io_uring_queue_exit(&ring);
	if (!p->slots.count)
		return te_fail(
			err, -EOPNOTSUPP,
			"--baseline: no raw limit is measured: no file has %llu bytes in a row",
			(unsigned long long)block);
	memory = aligned_alloc(ALIGN, (block + ALIGN - 1) / ALIGN * ALIGN);
	if (!memory)
		return te_fail(err, -ENOMEM, "no memory for the baseline");
	at = slots_at(&p->slots, p->slots.count > 1); /* the second, where there is one */
	n = pread(p->fds[at.buffer], memory, block, (off_t)at.addr);
	rc = n < 0 ? -errno : 0;
	free(memory);
	if (rc == -EINVAL || (!rc && (uint64_t)n < block))
		return te_fail(
			err, -EOPNOTSUPP,
			"--baseline: no raw limit is measured: they are not read in blocks of "
			"%llu bytes",
			(unsigned long long)block);
	return rc ? te_fail(err, rc, "baseline: %s", strerror(-rc)) : 0;
}

static void close_part(struct part *p)
{
	size_t i;

	for (i = 0; p->fds && i < p->extents->nbuffers; i++) {
		if (p->fds[i] >= 0)
			close(p->fds[i]);
	}
	free(p->fds);
	slots_clear(&p->slots);
	te_desc_free(p->extents);
	*p = (struct part){ 0 };
}

void raw_files_close(struct raw_files *f)
{
	if (!f)
		return;
	close_part(&f->part[TE_READ]);
	close_part(&f->part[TE_WRITE]);
	free(f);
}

static int open_part(struct raw_files *f, const struct session *s, const struct case_spec *spec,
		     enum te_op op, struct te_err *err)
{
	struct part *p = &f->part[op];
	const bool halves = spec->op >= BENCH_MIXED;
	int rc = cut(p, s, spec, op, halves, err);

	if (!rc && halves &&
	    !p->slots.count) { /* as the work does where the blocks are that large */
		close_part(p);
		rc = cut(p, s, spec, op, false, err);
	}
	if (!rc)
		rc = open_extents(p, op, err);
	return rc ? rc : try(p, spec->block, err);
}

int raw_files_open(const struct session *s, const struct case_spec *spec, struct raw_files **out,
		   struct te_err *err)
{
	struct raw_files *f = calloc(1, sizeof(*f));
	int rc = f ? 0 : te_fail(err, -ENOMEM, "out of memory");

	if (rc)
		return rc;
	f->sync = s->conf.file_sync;
	f->used[TE_READ] = spec->op != BENCH_WRITE;
	f->used[TE_WRITE] = bench_writes(spec->op);
	if (f->used[TE_READ])
		rc = open_part(f, s, spec, TE_READ, err);
	if (!rc && f->used[TE_WRITE])
		rc = open_part(f, s, spec, TE_WRITE, err);
	if (rc)
		raw_files_close(f);
	else
		*out = f;
	return rc;
}

/* ---- the loop -------------------------------------------------------------------------------- */

struct file_lane {
	struct io_uring ring;
	struct walk walk[2];
	size_t turn, inflight;
	bool pinned;   /* the kernel knows our memory ... */
	bool fixed;    /* ... and our files: those that are read, then those that are written */
	size_t nfixed; /* how many are read */
};

static int register_files(struct file_lane *f, const struct raw_files *all)
{
	const struct part *r = &all->part[TE_READ], *w = &all->part[TE_WRITE];
	const size_t nr = r->extents ? r->extents->nbuffers : 0;
	const size_t nw = w->extents ? w->extents->nbuffers : 0;
	int *fds = calloc(nr + nw + 1, sizeof(*fds));
	size_t i;
	int rc;

	if (!fds)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		fds[i] = r->fds[i];
	for (i = 0; i < nw; i++)
		fds[nr + i] = w->fds[i];
	f->nfixed = nr;
	rc = io_uring_register_files(&f->ring, fds, (unsigned)(nr + nw));
	free(fds);
	return rc;
}

static int file_open(struct raw_lane *l, struct te_err *err)
{
	const struct raw_files *all = l->files;
	struct file_lane *f = calloc(1, sizeof(*f));
	struct io_uring_params params = { .flags = IORING_SETUP_CLAMP };
	const struct iovec memory = { l->source, l->piece * l->depth };
	int op, rc;

	if (!f)
		return te_fail(err, -ENOMEM, "out of memory");
	rc = io_uring_queue_init_params((unsigned)l->depth, &f->ring, &params);
	if (rc) {
		free(f);
		return te_fail(err, rc, "io_uring: %s", strerror(-rc));
	}
	l->own = f;
	for (op = TE_READ; op <= TE_WRITE; op++) {
		if (all->used[op])
			f->walk[op] = walk_share(&all->part[op].slots, l->index, l->lanes);
	}
	/* Where the limit of locked memory forbids it, the work goes without as well. */
	f->pinned = io_uring_register_buffers(&f->ring, &memory, 1) == 0;
	f->fixed = register_files(f, all) == 0;
	return 0;
}

static bool is_write(struct file_lane *f, const struct raw_files *all)
{
	return all->used[TE_WRITE] && (!all->used[TE_READ] || f->turn++ % 2);
}

/* Request i, which is not in flight, for its next place. */
static int start(struct raw_lane *l, size_t i)
{
	struct file_lane *f = l->own;
	const struct raw_files *all = l->files;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&f->ring);
	const bool write = is_write(f, all);
	const struct place at = walk_next(&f->walk[write]);
	uint8_t *memory = l->source + i * l->piece;
	int fd = all->part[write].fds[at.buffer];

	if (!sqe)
		return -EBUSY;
	if (f->fixed)
		fd = (int)((write ? f->nfixed : 0) + at.buffer);
	if (write && f->pinned)
		io_uring_prep_write_fixed(sqe, fd, memory, (unsigned)l->piece, at.addr, 0);
	else if (write)
		io_uring_prep_write(sqe, fd, memory, (unsigned)l->piece, at.addr);
	else if (f->pinned)
		io_uring_prep_read_fixed(sqe, fd, memory, (unsigned)l->piece, at.addr, 0);
	else
		io_uring_prep_read(sqe, fd, memory, (unsigned)l->piece, at.addr);
	if (f->fixed)
		sqe->flags |= IOSQE_FIXED_FILE;
	if (write && all->sync)
		sqe->rw_flags = RWF_DSYNC;
	io_uring_sqe_set_data64(sqe, i);
	f->inflight++;
	return 0;
}

/* What has come back starts anew while `more`. */
static int reap(struct raw_lane *l, bool more)
{
	struct file_lane *f = l->own;
	struct io_uring_cqe *cqe;
	int rc = 0;
	size_t i;

	while (io_uring_peek_cqe(&f->ring, &cqe) == 0) {
		i = (size_t)io_uring_cqe_get_data64(cqe);
		if (cqe->res < 0)
			rc = cqe->res;
		else if ((uint64_t)cqe->res < l->piece)
			rc = -EIO; /* it was cut */
		else
			l->bytes += l->piece;
		io_uring_cqe_seen(&f->ring, cqe);
		f->inflight--;
		if (!rc && more)
			rc = start(l, i);
	}
	return rc;
}

static int file_round(struct raw_lane *l, uint64_t until)
{
	struct file_lane *f = l->own;
	int rc = 0, waited;
	size_t i;

	for (i = 0; !rc && i < l->depth; i++)
		rc = start(l, i);
	while (f->inflight) {
		waited = io_uring_submit_and_wait(&f->ring, 1);
		if (waited < 0 && waited != -EINTR)
			return waited;
		waited = reap(l, !rc && now_ns() < until);
		rc = rc ? rc : waited;
	}
	return rc;
}

static void file_close(struct raw_lane *l)
{
	struct file_lane *f = l->own;

	if (f)
		io_uring_queue_exit(&f->ring);
	free(f);
	l->own = NULL;
}

const struct raw_ops raw_file_ops = {
	.open = file_open,
	.round = file_round,
	.close = file_close,
};
