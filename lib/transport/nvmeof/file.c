/* file.c - one file of a segment: opened with and without O_DIRECT, and looked after: a path can be
 * replaced, cut or mounted over while it is in use. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host/cufile.h"
#include "transport/nvmeof/nvmeof.h"

/* ---- what O_DIRECT wants ------------------------------------------------------------------ */

/* Since Linux 6.1; false: not told. */
static bool ask_kernel(struct nv_file *f)
{
#ifdef STATX_DIOALIGN
	struct statx x;

	if (syscall(SYS_statx, f->plain, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) ||
	    !(x.stx_mask & STATX_DIOALIGN))
		return false;
	f->align = x.stx_dio_offset_align;
	/* Of registered buffers the kernel wants each page's part to be whole blocks, whatever it
	 * says here. */
	f->mem_align = MAX(x.stx_dio_mem_align, x.stx_dio_offset_align);
	return true;
#else
	(void)f;
	return false;
#endif
}

/* That of the device below; a partition has its disk's. 0: not found. */
static uint32_t block_size(const struct nv_file *f)
{
	static const char *const forms[] = { "/sys/dev/block/%u:%u/queue/logical_block_size",
					     "/sys/dev/block/%u:%u/../queue/logical_block_size" };
	unsigned size = 0;
	int bytes;

	if (f->device)
		return ioctl(f->plain, BLKSSZGET, &bytes) ? 0 : (uint32_t)bytes;
	for (size_t i = 0; i < ARRAY_SIZE(forms) && !size; i++) {
		char path[96];
		FILE *in;

		snprintf(path, sizeof(path), forms[i], major(f->inode->dev), minor(f->inode->dev));
		in = fopen(path, "re");
		if (!in)
			continue;
		if (fscanf(in, "%u", &size) != 1)
			size = 0;
		fclose(in);
	}
	return size;
}

static bool usable(uint32_t align)
{
	return align && align <= NV_BOUNCE && !(align & (align - 1));
}

static void open_direct(struct nv_file *f)
{
	char self[32];

	if (!ask_kernel(f)) {
		f->align = block_size(f);
		if (!usable(f->align))
			f->align = NV_PAGE;
		f->mem_align = f->align;
	}
	errno = 0;
	if (usable(f->align) && usable(f->mem_align)) {
		/* The same file, whatever the path leads to by now. */
		snprintf(self, sizeof(self), "/proc/self/fd/%d", f->plain);
		f->fd = open(self, (f->writable ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC);
	}
	if (f->fd >= 0)
		return;
	if (errno == EMFILE || errno == ENFILE) {
		te_fail(&f->err, -errno, "file '%s': %s", f->path, strerror(errno));
		return;
	}
	f->refused = true;
	te_warn("file '%s': O_DIRECT is refused, the page cache serves", f->path);
}

/* ---- opening ------------------------------------------------------------------------------ */

static int open_plain(struct nv_file *f)
{
	/* What is no file must not make us wait for another side, or become our terminal. */
	const int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

	f->writable = true;
	f->plain = open(f->path, O_RDWR | flags);
	if (f->plain < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
		f->writable = false;
		f->plain = open(f->path, O_RDONLY | flags);
	}
	if (f->plain < 0)
		return -errno;
	/* io_uring would not wait either. */
	return fcntl(f->plain, F_SETFL, 0) ? -errno : 0;
}

static int check_length(struct nv_file *f, const struct stat *st)
{
	uint64_t len = (uint64_t)st->st_size;

	if (f->device && ioctl(f->plain, BLKGETSIZE64, &len))
		return te_fail(&f->err, -errno, "file '%s': cannot find its size: %s", f->path,
			       strerror(errno));
	if (len == f->len)
		return 0;
	return te_fail(&f->err, -ESTALE,
		       "file '%s' has %llu bytes, but %llu were registered (te-register again?)",
		       f->path, (unsigned long long)len, (unsigned long long)f->len);
}

static bool is_same(const struct nv_file *f, const struct stat *st)
{
	if (f->device)
		return S_ISBLK(st->st_mode) && st->st_rdev == f->inode->dev;
	return S_ISREG(st->st_mode) && st->st_dev == f->inode->dev && st->st_ino == f->inode->ino;
}

/* What it is, before it is opened: that alone moves some tapes and starts some watchdogs. */
static int identify(struct nv_file *f)
{
	struct stat st;

	if (f->path[0] != '/')
		return te_fail(&f->err, -EINVAL, "file '%s': its path is not absolute", f->path);
	if (stat(f->path, &st))
		return te_fail(&f->err, -errno, "file '%s': %s", f->path, strerror(errno));
	f->device = S_ISBLK(st.st_mode);
	if (!f->device && !S_ISREG(st.st_mode))
		return te_fail(&f->err, -EINVAL,
			       "'%s' is neither a regular file nor a block device", f->path);
	f->inode->dev = f->device ? st.st_rdev : st.st_dev;
	f->inode->ino = f->device ? 0 : st.st_ino;
	return 0;
}

static int open_file(struct nv_file *f)
{
	struct stat st;
	int r = identify(f);

	if (r)
		return r;
	r = open_plain(f);
	if (r)
		return te_fail(&f->err, r, "file '%s': %s", f->path, strerror(-r));
	if (fstat(f->plain, &st))
		return te_fail(&f->err, -errno, "file '%s': %s", f->path, strerror(errno));
	if (!is_same(f, &st))
		return te_fail(&f->err, -ESTALE, "file '%s' was replaced while it was opened",
			       f->path);
	r = check_length(f, &st);
	if (!r)
		open_direct(f);
	return r;
}

static struct nv_file *file_new(const char *path, uint64_t start, uint64_t len)
{
	struct nv_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->path = te_strdup(path);
	f->inode = calloc(1, sizeof(*f->inode));
	f->start = start;
	f->len = len;
	f->fd = f->plain = -1;
	f->align = f->mem_align = 1;
	f->refs = 1;
	f->row = -1;
	if (f->path && f->inode) {
		f->inode->refs = 1;
		f->inode->waiting_end = &f->inode->waiting;
		return f;
	}
	free(f->inode);
	free(f->path);
	free(f);
	return NULL;
}

struct nv_file *nv_file_open(const char *path, uint64_t start, uint64_t len)
{
	struct nv_file *f = file_new(path, start, len);

	if (f && open_file(f) < 0)
		te_info("%s", f->err.msg);
	return f;
}

struct nv_file *nv_file_missing(const char *name, uint64_t start, uint64_t len, const char *why)
{
	struct nv_file *f = file_new(name, start, len);

	if (f)
		te_fail(&f->err, -ENOENT, "%s", why);
	return f;
}

static void close_file(struct nv_file *f)
{
	te_cufile_close(f->gpu);
	if (f->fd >= 0)
		close(f->fd);
	if (f->plain >= 0)
		close(f->plain);
	free(f->path);
	free(f);
}

/* ---- its inode ----------------------------------------------------------------------------- */

void nv_file_share_inode(struct nvmeof *t, struct nv_file *f)
{
	struct nv_inode *own = f->inode, *i = t->inodes;

	if (f->err.code)
		return;
	while (i && (i->dev != own->dev || i->ino != own->ino))
		i = i->next;
	if (i) {
		i->refs++;
		f->inode = i;
		free(own);
		return;
	}
	own->next = t->inodes;
	own->prev = &t->inodes;
	if (own->next)
		own->next->prev = &own->next;
	t->inodes = own;
}

static void put_inode(struct nv_inode *i)
{
	if (--i->refs)
		return;
	if (i->prev)
		*i->prev = i->next;
	if (i->next)
		i->next->prev = i->prev;
	free(i);
}

void nv_file_put(struct nvmeof *t, struct nv_file *f)
{
	if (!f || --f->refs)
		return;
	put_inode(f->inode);
	f->inode = NULL;
	if (t->ring)
		nv_ring_remove_file(t->ring, f);
	f->next = t->dead;
	t->dead = f;
}

void nv_unlock(struct nvmeof *t)
{
	struct nv_file *dead = t->dead;

	t->dead = NULL;
	pthread_mutex_unlock(&t->lock);
	while (dead) {
		struct nv_file *next = dead->next;

		close_file(dead);
		dead = next;
	}
}

/* ---- looking after it --------------------------------------------------------------------- */

/* By its path: our descriptor would go on to show the file that was replaced or unmounted. No I/O:
 * what is open stays in the kernel's caches, with all folders above it. */
void nv_file_look(struct nv_file *f)
{
	struct stat st;

	if (f->err.code)
		return;
	if (stat(f->path, &st))
		te_fail(&f->err, -errno, "file '%s': %s", f->path, strerror(errno));
	else if (!is_same(f, &st))
		te_fail(&f->err, -ESTALE,
			"file '%s' is another one now: replaced, mounted over or unmounted?",
			f->path);
	else if (!f->device)
		check_length(f, &st);
}
