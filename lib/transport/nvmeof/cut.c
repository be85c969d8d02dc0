/*
 * cut.c - a slice becomes reads and writes of files, cut at their borders.
 *
 * Whole blocks go straight between file and registered memory. What is not aligned goes through a
 * bounce buffer; a WRITE that changes a block in part reads it first, and nothing else of ours may
 * write that block meanwhile.
 */
#include <errno.h>
#include <string.h>

#include "host/cufile.h"
#include "transport/nvmeof/nvmeof.h"

static uint64_t down(uint64_t x, uint64_t align)
{
	return x & ~(align - 1);
}

static uint64_t up(uint64_t x, uint64_t align)
{
	return down(x + align - 1, align);
}

static struct nv_file *find(const struct nv_peer *p, uint64_t at)
{
	size_t lo = 0, hi = p->nfiles;

	while (lo < hi) { /* first file that begins above at */
		size_t mid = lo + (hi - lo) / 2;

		if (p->files[mid]->start <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || at - p->files[lo - 1]->start >= p->files[lo - 1]->len)
		return NULL;
	return p->files[lo - 1];
}

static bool is_aligned(const void *memory, uint32_t align)
{
	return !((uintptr_t)memory & (align - 1));
}

/* From and to memory as it is; all of `take`. */
static void straight(struct nv_io *io, bool buffered)
{
	io->kind = NV_STRAIGHT;
	io->buffered = buffered;
	io->buf = io->local;
	io->off = io->from;
	io->len = io->need = io->take;
}

static char *bounce_of(const struct nv_peer *p, const struct nv_io *io)
{
	return p->bounces + (size_t)io->bounce * NV_BOUNCE;
}

/* The blocks that hold what io takes. */
static void bounced(struct nv_peer *p, struct nv_io *io, enum nv_kind kind)
{
	const struct nv_file *f = io->file;

	io->kind = kind;
	io->buffered = false;
	io->bounce = p->bounce_free[--p->nbounce];
	io->buf = bounce_of(p, io);
	io->off = down(io->from, f->align);
	io->len = (uint32_t)(up(io->from + io->take, f->align) - io->off);
	io->need = kind == NV_PATCH_READ ? io->len : (uint32_t)(io->from + io->take - io->off);
	p->t->bounced++;
}

/* READ: as much as a bounce buffer takes, but where memory is aligned alike only up to where it
 * need not. */
static void bounce_read(struct nv_peer *p, struct nv_io *io, uint64_t left)
{
	const struct nv_file *f = io->file;
	uint64_t head = f->align - (io->from & (f->align - 1));
	uint64_t most = NV_BOUNCE - (io->from & (f->align - 1));

	if (head < left && is_aligned((char *)io->local + head, f->mem_align) &&
	    left - head >= f->align)
		most = head;
	io->take = (uint32_t)MIN(left, most);
	bounced(p, io, NV_BOUNCED);
}

static void bounce_write(struct nv_peer *p, struct nv_io *io, uint64_t left)
{
	const struct nv_file *f = io->file;
	uint64_t in_block = io->from & (f->align - 1);

	if (in_block || left < f->align) {
		io->take = (uint32_t)MIN(left, f->align - in_block);
		bounced(p, io, NV_PATCH_READ);
		p->t->patched++;
		return;
	}
	io->take = (uint32_t)MIN(down(left, f->align), NV_BOUNCE);
	bounced(p, io, NV_BOUNCED);
	memcpy(io->buf, io->local, io->take);
}

static int refuse(const struct te_slice *s, const struct nv_file *f, struct te_err *why)
{
	if (!f)
		return te_fail(why, -ENXIO, "no file of the segment holds offset %llu",
			       (unsigned long long)s->remote);
	if (f->err.code) {
		*why = f->err;
		return f->err.code;
	}
	if (s->op == TE_WRITE && !f->writable)
		return te_fail(why, -EROFS, "file '%s' is read-only here", f->path);
	return 0;
}

/* Cuts io off the next `left` bytes of its file; false: bounce buffers are out. */
static bool cut_direct(struct nv_peer *p, struct nv_io *io, uint64_t left)
{
	const struct nv_file *f = io->file;
	/* Whole blocks only up to here; further on a WRITE would lengthen the file. */
	uint64_t tail = down(f->len, MAX(f->align, (uint32_t)NV_PAGE));
	bool even = !(io->from & (f->align - 1)) && is_aligned(io->local, f->mem_align);

	if (io->write && io->from >= tail) {
		io->take = (uint32_t)MIN(left, NV_MOST);
		straight(io, true);
		return true;
	}
	if (io->write)
		left = MIN(left, tail - io->from);
	if (even && left >= f->align) {
		io->take = (uint32_t)MIN(down(left, f->align), NV_MOST);
		straight(io, false);
		return true;
	}
	if (!p->nbounce)
		return false;
	if (io->write)
		bounce_write(p, io, left);
	else
		bounce_read(p, io, left);
	return true;
}

static int refuse_gpu(const struct nv_file *f, struct te_err *why)
{
	int r = te_cufile_load(why);

	if (!r && f->fd < 0)
		r = te_fail(why, -ENOTSUP,
			    "file '%s': O_DIRECT is refused, and GPU memory needs it", f->path);
	return r;
}

int64_t nv_cut(struct nvmeof *t, struct te_slice *s, uint64_t at, struct nv_io *io,
	       struct te_err *why)
{
	struct nv_file *f = find(nv_peer_of(s), s->remote + at);
	uint64_t left;
	int r;

	if (f && f->looked != t->burst && !f->err.code) {
		f->looked = t->burst;
		nv_file_look(f);
	}
	r = refuse(s, f, why);
	if (r < 0) {
		if (f)
			f->ill = true;
		return r;
	}
	io->file = f;
	io->write = s->op == TE_WRITE;
	io->bounce = -1;
	io->waits = io->told = io->pooled = false;
	io->local = (char *)s->local + at;
	io->from = s->remote + at - f->start;
	left = MIN(s->len - at, f->len - io->from);
	io->gpu = nv_is_gpu(s->region);
	if (io->gpu) {
		r = refuse_gpu(f, why);
		if (r < 0)
			return r;
		io->take = (uint32_t)MIN(left, NV_MOST);
		straight(io, false);
	} else if (f->refused) {
		io->take = (uint32_t)MIN(left, NV_MOST);
		straight(io, true);
		t->buffered++;
	} else if (!cut_direct(nv_peer_of(s), io, left)) {
		return 0;
	}
	io->slice = s;
	f->refs++;
	return io->take;
}

/* ---- writes that may not overlap ---------------------------------------------------------- */

static bool overlap(const struct nv_io *a, const struct nv_io *b)
{
	return a->off < b->off + b->len && b->off < a->off + a->len;
}

static bool is_patch(const struct nv_io *io)
{
	return io->kind == NV_PATCH_READ || io->kind == NV_PATCH_WRITE;
}

/* Two WRITEs of one range that overlap are the program's affair, but a patch writes bytes that
 * nobody asked for. */
bool nv_conflicts(const struct nv_io *io)
{
	const struct nv_inode *i = io->file->inode;

	if (!io->write || (!is_patch(io) && !i->patches && !i->waiting))
		return false;
	for (const struct nv_io *w = i->writes; w; w = w->wnext)
		if ((is_patch(io) || is_patch(w)) && overlap(io, w))
			return true;
	for (const struct nv_io *w = i->waiting; w && w != io; w = w->next)
		if ((is_patch(io) || is_patch(w)) && overlap(io, w))
			return true;
	return false;
}

void nv_begin_write(struct nv_io *io)
{
	struct nv_inode *i = io->file->inode;

	io->wnext = i->writes;
	io->wprev = &i->writes;
	if (io->wnext)
		io->wnext->wprev = &io->wnext;
	i->writes = io;
	i->patches += is_patch(io);
}

void nv_end_write(struct nv_io *io)
{
	*io->wprev = io->wnext;
	if (io->wnext)
		io->wnext->wprev = io->wprev;
	io->file->inode->patches -= is_patch(io);
}

/* ---- what comes back ---------------------------------------------------------------------- */

static int failed(const struct nv_io *io, int code, struct te_err *why)
{
	io->file->ill = true;
	return te_fail(why, code, "file '%s': %s of %u bytes at %llu: %s", io->file->path,
		       io->write ? "WRITE" : "READ", io->take, (unsigned long long)io->from,
		       code == -EROFS ? "the file system is read-only now" : strerror(-code));
}

static int cut_short(const struct nv_io *io, struct te_err *why)
{
	io->file->ill = true;
	return te_fail(why, -ENODATA, "file '%s' ends at or before byte %llu: it was cut?",
		       io->file->path, (unsigned long long)io->off);
}

/* The kernel may take less than it was asked for; false: there is no going on. */
static bool go_on(struct nv_io *io, int *status, struct te_err *why)
{
	uint32_t got = (uint32_t)io->result;

	if (!got || (!io->buffered && got % io->file->align)) {
		*status = io->write ? failed(io, -EIO, why) : cut_short(io, why);
		return false;
	}
	io->buf += got;
	io->off += got;
	io->len -= got;
	io->need -= MIN(got, io->need);
	return true;
}

/* Some file systems open with O_DIRECT and refuse it later. */
static bool take_cache(struct nvmeof *t, struct nv_io *io)
{
	if (io->buffered || io->gpu)
		return false;
	if (!io->file->refused)
		te_warn("file '%s': the kernel refuses O_DIRECT, the page cache serves",
			io->file->path);
	io->file->refused = io->buffered = true;
	t->buffered++;
	return true;
}

bool nv_advance(struct nvmeof *t, struct nv_io *io, int *status, struct te_err *why)
{
	*status = 0;
	if (io->result == -EAGAIN || io->result == -EINTR ||
	    (io->result == -EINVAL && take_cache(t, io)))
		return true;
	if (io->result < 0) {
		*status = failed(io, io->result, why);
		return false;
	}
	if ((uint32_t)io->result < io->need)
		return go_on(io, status, why);
	if (io->kind == NV_BOUNCED && !io->write) {
		const char *bounce = bounce_of(nv_peer_of(io->slice), io);

		memcpy(io->local, bounce + (io->from & (io->file->align - 1)), io->take);
	}
	if (io->kind != NV_PATCH_READ)
		return false;
	io->kind = NV_PATCH_WRITE;
	io->buf = bounce_of(nv_peer_of(io->slice), io);
	io->off = down(io->from, io->file->align);
	io->len = io->need = io->file->align;
	memcpy(io->buf + (io->from - io->off), io->local, io->take);
	return true;
}

void nv_release(struct nv_io *io)
{
	struct nv_peer *p = nv_peer_of(io->slice);

	if (io->bounce >= 0)
		p->bounce_free[p->nbounce++] = (uint16_t)io->bounce;
	io->bounce = -1;
}
