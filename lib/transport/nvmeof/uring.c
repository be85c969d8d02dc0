/* uring.c - reads and writes by io_uring: many in one system call, from and to memory and files
 * that the kernel was told of before. */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/nvmeof/nvmeof.h"

enum {
	SLOTS = 1024, /* rows of both of the kernel's tables */
	CANCELS = 64, /* room beside NV_DEPTH */
	WORKERS = 2 *
		  NV_DEPTH, /* of the kernel, for requests that block before the device has them */
};
#define PINNED_MOST (1ull << 30) /* bytes of one row, the kernel's limit */

struct nv_ring {
	struct io_uring ring;
	int event;
	bool sync; /* WRITEs are durable when they complete */

	/* the transport's lock */
	bool pins, has_files;		       /* the kernel has such tables */
	const struct te_region *region[SLOTS]; /* whose memory a row has; longer ones take several
						*/
	const struct nv_file *file[SLOTS];
	unsigned last; /* first row of the region that was looked up last */
	bool told;
};

/* ---- open and close ----------------------------------------------------------------------- */

static int set_up(struct nv_ring *r)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE,
					  .cq_entries = 2 * (NV_DEPTH + CANCELS) };
	int e = io_uring_queue_init_params(NV_DEPTH + CANCELS, &r->ring, &params);

	if (e)
		return e;
	r->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->event < 0)
		e = -errno;
	else if (!(params.features & IORING_FEAT_EXT_ARG)) /* Linux 5.11 */
		e = -ENOSYS;
	else
		e = io_uring_register_eventfd(&r->ring, r->event);
	if (!e)
		return 0;
	if (r->event >= 0)
		close(r->event);
	io_uring_queue_exit(&r->ring);
	return e;
}

struct nv_ring *nv_ring_open(const struct te_conf *conf, struct te_err *err)
{
	unsigned workers[2] = { WORKERS, 0 };
	struct nv_ring *r = calloc(1, sizeof(*r));
	int e = r ? set_up(r) : -ENOMEM;

	if (e) {
		free(r);
		te_fail(err, e, "io_uring: %s", strerror(-e));
		return NULL;
	}
	r->sync = conf->file_sync;
	r->pins = !io_uring_register_buffers_sparse(&r->ring, SLOTS);
	r->has_files = !io_uring_register_files_sparse(&r->ring, SLOTS);
	/* A file system that hangs must not have all of the kernel's threads. */
	io_uring_register_iowq_max_workers(&r->ring, workers);
	return r;
}

void nv_ring_close(struct nv_ring *r)
{
	if (!r)
		return;
	io_uring_queue_exit(&r->ring);
	close(r->event);
	free(r);
}

/* ---- what the kernel is told before ------------------------------------------------------- */

static const struct te_region nobody;

/* First of n free rows that follow each other; SLOTS: there are none. */
static unsigned find_rows(const struct nv_ring *r, unsigned n)
{
	unsigned free_rows = 0;

	for (unsigned i = 0; i < SLOTS; i++) {
		free_rows = r->region[i] ? 0 : free_rows + 1;
		if (free_rows == n)
			return i + 1 - n;
	}
	return SLOTS;
}

static int set_row(struct nv_ring *r, unsigned row, const struct te_region *region, uint64_t at,
		   uint64_t len)
{
	struct iovec v = { region ? (char *)(uintptr_t)region->addr + at : NULL, len };
	__u64 tag = 0;
	int n = io_uring_register_buffers_update_tag(&r->ring, row, &v, &tag, 1);

	/* A row that could not be emptied is nobody's: memory may come where that region was. */
	r->region[row] = n >= 0 ? region : region ? NULL : &nobody;
	return n < 0 ? n : 0;
}

void nv_ring_add_region(struct nv_ring *r, const struct te_region *region)
{
	unsigned n = (unsigned)((region->len - 1) / PINNED_MOST + 1), row;
	int e = 0;

	if (!r->pins || region->len > PINNED_MOST * SLOTS)
		return;
	for (unsigned i = 0; i < SLOTS; i++)
		if (r->region[i] == region)
			return;
	row = find_rows(r, n);
	if (row == SLOTS)
		return;
	for (unsigned i = 0; i < n && !e; i++) {
		uint64_t at = i * PINNED_MOST;

		e = set_row(r, row + i, region, at, MIN(region->len - at, PINNED_MOST));
	}
	if (!e)
		return;
	nv_ring_remove_region(r, region);
	if (!r->told)
		te_info("buffer %#llx+%llu is not pinned for file segments, each request will be: "
			"%s%s",
			(unsigned long long)region->addr, (unsigned long long)region->len,
			strerror(-e), e == -ENOMEM ? " (ulimit -l?)" : "");
	r->told = true;
}

void nv_ring_remove_region(struct nv_ring *r, const struct te_region *region)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (r->region[i] == region)
			set_row(r, i, NULL, 0, 0);
}

/* Row that holds all of io's memory, -1: none. */
static int row_of(struct nv_ring *r, const struct nv_io *io)
{
	const struct te_region *region = io->slice->region;
	uint64_t at = (uint64_t)(uintptr_t)io->buf - region->addr;
	unsigned piece;

	if (!r->pins || io->bounce >= 0)
		return -1;
	if (r->region[r->last] != region || (r->last && r->region[r->last - 1] == region))
		for (r->last = 0; r->region[r->last] != region; r->last++)
			if (r->last == SLOTS - 1)
				return -1;
	piece = (unsigned)(at / PINNED_MOST);
	if ((at + io->len - 1) / PINNED_MOST != piece)
		return -1;
	return (int)(r->last + piece);
}

void nv_ring_add_file(struct nv_ring *r, struct nv_file *f)
{
	int fd = f->fd >= 0 ? f->fd : f->plain;
	unsigned i = 0;

	f->row = -1;
	if (!r->has_files || fd < 0)
		return;
	while (i < SLOTS && r->file[i])
		i++;
	if (i == SLOTS || io_uring_register_files_update(&r->ring, i, &fd, 1) < 0)
		return;
	r->file[i] = f;
	f->row = (int)i;
	f->row_fd = fd;
}

void nv_ring_remove_file(struct nv_ring *r, struct nv_file *f)
{
	int none = -1;

	if (f->row < 0)
		return;
	io_uring_register_files_update(&r->ring, (unsigned)f->row, &none, 1);
	r->file[f->row] = NULL;
	f->row = -1;
}

/* ---- requests ----------------------------------------------------------------------------- */

static struct io_uring_sqe *get_sqe(struct nv_ring *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	if (!sqe) {
		io_uring_submit(&r->ring);
		sqe = io_uring_get_sqe(&r->ring);
	}
	return sqe;
}

bool nv_ring_start(struct nv_ring *r, struct nv_io *io)
{
	struct io_uring_sqe *sqe = get_sqe(r);
	bool fixed_file = io->file->row >= 0 && nv_fd(io) == io->file->row_fd;
	int fd = fixed_file ? io->file->row : nv_fd(io), row;

	if (!sqe)
		return false;
	row = row_of(r, io);
	if (nv_asks_write(io) && row >= 0)
		io_uring_prep_write_fixed(sqe, fd, io->buf, io->len, io->off, row);
	else if (nv_asks_write(io))
		io_uring_prep_write(sqe, fd, io->buf, io->len, io->off);
	else if (row >= 0)
		io_uring_prep_read_fixed(sqe, fd, io->buf, io->len, io->off, row);
	else
		io_uring_prep_read(sqe, fd, io->buf, io->len, io->off);
	if (fixed_file)
		sqe->flags |= IOSQE_FIXED_FILE;
	if (nv_asks_write(io) && r->sync)
		sqe->rw_flags = RWF_DSYNC;
	io_uring_sqe_set_data(sqe, io);
	return true;
}

/* What the kernel has not begun need not begin. */
void nv_ring_cancel(struct nv_ring *r, struct nv_io *io)
{
	struct io_uring_sqe *sqe = get_sqe(r);

	if (!sqe)
		return;
	io_uring_prep_cancel(sqe, io, 0);
	io_uring_sqe_set_data(sqe, NULL);
}

void nv_ring_flush(struct nv_ring *r)
{
	if (io_uring_sq_ready(&r->ring))
		io_uring_submit(&r->ring);
}

/* ---- completions -------------------------------------------------------------------------- */

unsigned nv_ring_reap(struct nv_ring *r, struct nv_back *v)
{
	struct io_uring_cqe *cqes[NV_REAP];
	unsigned n = io_uring_peek_batch_cqe(&r->ring, cqes, NV_REAP);

	for (unsigned i = 0; i < n; i++)
		v[i] = (struct nv_back){ io_uring_cqe_get_data(cqes[i]), cqes[i]->res };
	io_uring_cq_advance(&r->ring, n);
	return n;
}

void nv_ring_wait(struct nv_ring *r, uint64_t until)
{
	uint64_t now = te_now(), ns = until > now ? until - now : 0;
	struct __kernel_timespec ts = { .tv_sec = (long long)(ns / TE_NSEC_PER_SEC),
					.tv_nsec = (long long)(ns % TE_NSEC_PER_SEC) };
	struct io_uring_cqe *cqe;

	io_uring_wait_cqe_timeout(&r->ring, &cqe, &ts);
}

bool nv_ring_is_ready(const struct nv_ring *r)
{
	return io_uring_smp_load_acquire(r->ring.cq.ktail) !=
	       io_uring_smp_load_acquire(r->ring.cq.khead);
}

int nv_ring_fd(const struct nv_ring *r)
{
	return r->event;
}

void nv_ring_mute(struct nv_ring *r, bool muted)
{
	io_uring_cq_eventfd_toggle(&r->ring, !muted);
	/* Whoever unmutes looks for completions next: either we see it, or the kernel our flag. */
	atomic_thread_fence(memory_order_seq_cst);
}
