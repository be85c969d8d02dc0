/*
 * nvmeof.h - segments of files: read and written where they are mounted on this host.
 *
 * nvmeof.c the transport and its peers · file.c one file: opened, looked after · cut.c a slice
 * becomes reads and writes of files · queue.c slices that wait, what is in flight, what has come
 * back · done.c who is told of it · uring.c and pool.c who carries it out.
 *
 * Locks, outer first: driver (who reaps completions), lock (all the rest). The kernel may keep a
 * request for minutes when an NVMe-oF target is lost: nothing waits for it but the thread that
 * drives.
 */
#ifndef TE_NVMEOF_H
#define TE_NVMEOF_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>

#include "base/util.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"
#include "te_segment.h"
#include "transport/transport.h"

enum {
	NV_DEPTH = 512,	       /* reads and writes of a segment in flight ... */
	NV_POOL_DEPTH = 8,     /* ... where each has a thread */
	NV_BOUNCES = 64,       /* aligned buffers for what is not aligned ... */
	NV_BOUNCE = 128 << 10, /* ... of so many bytes each */
	NV_MOST = 1 << 20,     /* bytes of one read or write */
	NV_PAGE = 4096, /* writes into the last, broken page of a file go through the page cache */
	NV_TICK_MS = 100,
	NV_REASONS = 4,
	NV_REAP = 64, /* completions taken at once */
};

/* What is being written of a file, by whatever path and however often it was opened. lock */
struct nv_inode {
	struct nv_inode *next, **prev; /* t->inodes; prev NULL: not in it */
	dev_t dev;		       /* constant, as ino; of a block device: its own, and ino 0 */
	ino_t ino;
	uint32_t refs;			      /* nv_files */
	struct nv_io *writes;		      /* in flight */
	struct nv_io *waiting, **waiting_end; /* for those */
	unsigned patches; /* of `writes`: blocks that are read, changed and written */
};

struct nv_file {
	char *path;	     /* constant, from here ... */
	uint64_t start, len; /* in the segment */
	int fd, plain;	     /* with O_DIRECT (-1: refused) and without */
	bool writable, device;
	uint32_t align, mem_align; /* of offsets and lengths, of memory; 1 without O_DIRECT */
	struct nv_inode *inode;	   /* ... to here */

	/* lock */
	uint64_t slices, bytes;
	uint32_t refs;	      /* the peer's table, ios */
	struct te_err err;    /* code != 0: nothing can be done with it */
	int row, row_fd;      /* uring.c's: -1 none */
	bool refused;	      /* O_DIRECT: by the kernel, or when it was tried */
	bool ill;	      /* failed: to be opened again */
	uint64_t looked;      /* burst in which it was last looked at */
	struct nv_file *next; /* of the list to be closed */

	void *gpu; /* pool.c's: for libcufile, NULL until it is needed */
};

enum nv_kind {
	NV_STRAIGHT,	/* between file and registered memory */
	NV_BOUNCED,	/* through a bounce buffer, whole blocks */
	NV_PATCH_READ,	/* a block that a WRITE changes in part: read it ... */
	NV_PATCH_WRITE, /* ... and write it back */
};

/* One read or write of a file. */
struct nv_io {
	struct nv_io *next;	      /* free list, waiting, pool's lists */
	struct nv_io *wnext, **wprev; /* inode->writes */
	struct te_slice *slice;	      /* NULL: free */
	struct nv_file *file;
	enum nv_kind kind;
	bool write, buffered; /* what the kernel is asked now */
	bool gpu;	      /* the slice's memory is a GPU's: libcufile moves it */
	bool waits;	      /* in inode->waiting */
	bool told;	      /* the kernel: it need not begin */
	bool pooled;	      /* the kernel has no thread for it: the pool's blocks */
	int bounce;	      /* index, -1: none */
	void *local;	      /* the slice's bytes ... */
	uint64_t from;	      /* ... and where they belong in the file */
	uint32_t take;	      /* how many */
	char *buf;	      /* asked now: memory, offset and length in the file */
	uint64_t off;
	uint32_t len;
	uint32_t need;	/* bytes of a read without which it has failed: files end within a block */
	int32_t result; /* bytes or negative errno */
};

/* A completion; io belongs to the lock, and may be NULL: of a request to cancel. */
struct nv_back {
	struct nv_io *io;
	int32_t result;
};

struct nv_peer {
	struct te_peer p;
	struct nvmeof *t;
	struct nv_file **files;	  /* lock; by start */
	struct nv_file **by_path; /* lock; the same, in the same allocation */
	size_t nfiles;

	/* lock. A segment that hangs delays no other: each has a queue and ios of its own. */
	struct te_slice *head, **tail;
	uint64_t cursor;    /* bytes of head that are cut already */
	struct nv_io *ios;  /* NV_DEPTH, of which nios have ever been used */
	struct nv_io *free; /* of those */
	uint32_t nios, inflight;
	char *bounces;
	uint16_t bounce_free[NV_BOUNCES];
	unsigned nbounce;
	struct te_err why[NV_REASONS]; /* the last of each code */
	int abort_status;	       /* all its slices end so */
	bool hot;		       /* in t->hot */
	struct nv_peer *next_hot;
	struct nv_peer *next; /* t->peers */
};

/* Slices on their way to the sink. */
struct nv_done {
	struct te_slice *well, **well_end, *ill, **ill_end;
};

struct nv_ring;
struct nv_pool;

struct nvmeof {
	struct te_transport base;
	pthread_mutex_t driver; /* who reaps completions */
	struct nv_ring *ring;	/* NULL: there is no io_uring; the pool does it all */
	struct nv_pool *pool;	/* else only what is for a GPU */
	pthread_t thread;
	bool has_thread;
	_Atomic bool stop, asleep;
	int wake; /* eventfd */
	pthread_mutex_t start_lock;
	_Atomic bool started; /* ring or pool, thread, queue are there */
	char host[256];

	pthread_mutex_t lock; /* everything below */
	struct nv_peer *peers;
	struct nv_peer *hot;  /* that this burst is about */
	struct nv_io *again;  /* the ring had no room */
	struct nv_file *dead; /* to be closed */
	struct nv_inode *inodes;
	uint64_t burst;
	uint64_t buffered, bounced, patched; /* counters */
};

/* ---- nvmeof.c */
static inline struct nv_peer *nv_peer_of(const struct te_slice *s)
{
	return container_of(s->peer, struct nv_peer, p);
}

static inline bool nv_is_gpu(const struct te_region *r)
{
	return !strncmp(r->location, "cuda:", 5);
}

/* What the kernel is asked now. */
static inline bool nv_asks_write(const struct nv_io *io)
{
	return io->write && io->kind != NV_PATCH_READ;
}

static inline int nv_fd(const struct nv_io *io)
{
	return io->buffered ? io->file->plain : io->file->fd;
}

/* ---- file.c */
/* Never NULL unless memory is out: what is wrong with it is in err. */
struct nv_file *nv_file_open(const char *path, uint64_t start, uint64_t len);
struct nv_file *nv_file_missing(const char *name, uint64_t start, uint64_t len, const char *why);
/* lock held. Has it been cut, replaced or mounted over since it was opened? Sets err. */
void nv_file_look(struct nv_file *f);
/* lock held, once: what others write of the same file counts for f. */
void nv_file_share_inode(struct nvmeof *t, struct nv_file *f);
/* lock held. With its last reference f is closed by nv_unlock(). NULL is fine. */
void nv_file_put(struct nvmeof *t, struct nv_file *f);
/* Gives up the lock, and closes files that nobody has any more. */
void nv_unlock(struct nvmeof *t);

/* ---- cut.c: lock held */
/* Makes *io of the next bytes of s from `at` on: how many, 0 when bounce buffers are out, or a
 * negative errno and why. */
int64_t nv_cut(struct nvmeof *t, struct te_slice *s, uint64_t at, struct nv_io *io,
	       struct te_err *why);
/* Must it wait for writes in flight? */
bool nv_conflicts(const struct nv_io *io);
void nv_begin_write(struct nv_io *io);
void nv_end_write(struct nv_io *io);
/* io->result is here: true when it has to go on (with what io says now); else 0 or the errno is in
 * *status. */
bool nv_advance(struct nvmeof *t, struct nv_io *io, int *status, struct te_err *why);
/* Its bounce buffer. */
void nv_release(struct nv_io *io);

/* ---- done.c */
void nv_done_init(struct nv_done *d);
/* lock held. Nothing of s is out any more. */
void nv_done_add(struct nv_done *d, struct te_slice *s);
/* lock held. A slice may fail long before it comes back: the kernel has more of it. */
void nv_note(struct nv_peer *p, const struct te_err *why);
/* To the sink; no lock held. */
void nv_deliver(struct nvmeof *t, struct nv_done *d);

/* ---- queue.c */
int nv_queue_init(struct nv_peer *p, struct te_err *err);
void nv_queue_clear(struct nv_peer *p);
void nv_submit(struct te_peer *p, struct te_slice *list);
void nv_help(struct te_peer *p, struct te_slice *s, const _Atomic uint32_t *pending,
	     uint64_t until);
void nv_abort(struct te_peer *p, int status, const struct te_err *why);
void *nv_main(void *arg);

/* ---- uring.c: lock held but for those that say driver */
/* NULL with the reason: no io_uring here. */
struct nv_ring *nv_ring_open(const struct te_conf *conf, struct te_err *err);
void nv_ring_close(struct nv_ring *r);
/* false: no room before some have come back. */
bool nv_ring_start(struct nv_ring *r, struct nv_io *io);
void nv_ring_cancel(struct nv_ring *r, struct nv_io *io);
/* One system call for all that were started; some may be left when the kernel is short of memory.
 */
void nv_ring_flush(struct nv_ring *r);
/* Tell the kernel of them before, so that each request need not: only a matter of speed. */
void nv_ring_add_region(struct nv_ring *r, const struct te_region *region);
void nv_ring_remove_region(struct nv_ring *r, const struct te_region *region);
void nv_ring_add_file(struct nv_ring *r, struct nv_file *f);
void nv_ring_remove_file(struct nv_ring *r, struct nv_file *f);
/* driver held. What has come back: how many, NV_REAP at most. */
unsigned nv_ring_reap(struct nv_ring *r, struct nv_back *v);
/* driver held. Until something can be reaped or the moment `until`. */
void nv_ring_wait(struct nv_ring *r, uint64_t until);
/* Without driver: perhaps there is something to reap. */
bool nv_ring_is_ready(const struct nv_ring *r);
/* Becomes readable with each completion unless muted (driver held). */
int nv_ring_fd(const struct nv_ring *r);
void nv_ring_mute(struct nv_ring *r, bool muted);

/* ---- pool.c: threads, for where there is no io_uring and for GPU memory */
struct nv_pool *nv_pool_open(const struct te_conf *conf, struct te_err *err);
/* Nothing is in flight. */
void nv_pool_close(struct nv_pool *p);
void nv_pool_start(struct nv_pool *p, struct nv_io *io);
struct nv_io *nv_pool_reap(struct nv_pool *p);
/* Becomes readable with completions. */
int nv_pool_fd(const struct nv_pool *p);

#endif
