/* look.c - a file on this host: is it there, how long is it, can it be read? */
#include "look.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/* -ENOTSUP: it is neither a regular file nor a block device. */
static int measure(int fd, struct seen *s)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &st) != 0)
		return -errno;
	s->mount = st.stx_mask & STATX_MNT_ID ? (int)st.stx_mnt_id : 0;
	s->length = st.stx_size;
	return S_ISREG(st.stx_mode) || S_ISBLK(st.stx_mode) ? 0 : -ENOTSUP;
}

/* Past the cache, which knows nothing of a device that is gone. */
static int read_some(int fd)
{
	void *buf = aligned_alloc(4096, 4096);
	int flags = fcntl(fd, F_GETFL);
	ssize_t n;

	if (!buf)
		return -ENOMEM;
	if (fcntl(fd, F_SETFL, flags | O_DIRECT) == 0)
		n = pread(fd, buf, 4096, 0);
	else
		n = -1, errno = EINVAL;
	if (n < 0 && errno == EINVAL) {
		fcntl(fd, F_SETFL, flags);
		n = pread(fd, buf, 4096, 0);
	}
	free(buf);
	return n < 0 ? -errno : 0;
}

/*
 * Does the file system still take changes? Of an aborted journal ext4 tells nobody else
 * (Linux 6.1.113 and later, until 6.15). To remove an attribute that is not there begins a change
 * and makes none.
 */
static int try_change(int fd)
{
	if (fremovexattr(fd, "user.te-mount.none") == 0)
		return 0;
	return errno == EROFS || errno == EIO || errno == ESHUTDOWN ? -errno : 0;
}

static void look_file(int dir, const char *name, uint64_t resolve, struct seen *s)
{
	/* Not a queue nor a device that opening would set off: what it is comes first. */
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = resolve };
	int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
	int open_fd;

	s->rc = fd < 0 ? -errno : measure(fd, s);
	if (s->rc)
		return;
	how.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
	open_fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
	s->read_rc = open_fd < 0 ? -errno : read_some(open_fd);
	if (open_fd >= 0 && s->length == 0)
		ioctl(open_fd, BLKGETSIZE64, &s->length);
	s->change_rc = open_fd < 0 ? 0 : try_change(open_fd);
	if (open_fd >= 0)
		close(open_fd);
	close(fd);
}

/* /srv/data/a: srv/data/a, data/a, a. */
static void look_in(const struct look_at *at, struct seen *s)
{
	const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
	int dir = open(at->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *part = at->path + strspn(at->path, "/");

	if (dir < 0) {
		s->rc = -errno;
		return;
	}
	while (*part) {
		look_file(dir, part, resolve, s);
		if (at->exact || (s->rc != -ENOENT && s->rc != -ENOTDIR))
			break;
		part += strcspn(part, "/");
		part += strspn(part, "/");
	}
	/* ext4 notes the first opening in its journal: not to be left for a moment when the target
	 * is lost. */
	syncfs(dir);
	close(dir);
	snprintf(s->path, sizeof(s->path), "%s/%s", strcmp(at->dir, "/") == 0 ? "" : at->dir, part);
}

static void look_run(const void *arg, void *result)
{
	const struct look_at *at = arg;
	struct seen *s = result;

	s->rc = -ENOENT;
	if (at->dir) {
		look_in(at, s);
		return;
	}
	snprintf(s->path, sizeof(s->path), "%s", at->path);
	look_file(AT_FDCWD, at->path, 0, s);
}

const struct task_ops look_ops = { .run = look_run, .size = sizeof(struct seen) };

int look_error(const struct look_at *at, const struct seen *s, struct te_err *err)
{
	const char *where = at->dir ? " in " : "", *dir = at->dir ? at->dir : "";

	switch (s->rc) {
	case 0:
		return 0;
	case -ENOENT:
		return te_fail(err, s->rc, "no file '%s'%s%s", at->path, where, dir);
	case -ENOTSUP:
		return te_fail(err, s->rc, "'%s' is neither a regular file nor a block device",
			       s->path);
	case -EXDEV:
	case -ELOOP:
		return te_fail(err, s->rc, "'%s' leads out of '%s'", s->path, dir);
	default:
		return te_fail(err, s->rc, "cannot look at '%s'%s%s: %s", at->path, where, dir,
			       strerror(-s->rc));
	}
}

int look(const struct look_at *at, const struct limit *l, struct seen *out, struct te_err *err)
{
	int rc = task_run(&look_ops, at, l, out, err);

	if (rc == 0)
		return look_error(at, out, err);
	if (rc == -EINTR)
		return te_fail(err, rc, "interrupted");
	if (rc == -ETIMEDOUT || rc == -ECHILD)
		return te_fail(err, rc, "'%s' does not answer in time",
			       at->dir ? at->dir : at->path);
	return rc;
}

int look_length(const struct seen *s, uint64_t length, const char *file_path, struct te_err *err)
{
	if (s->length == length)
		return 0;
	return te_fail(err, -ERANGE,
		       "'%s' has %" PRIu64 " bytes, '%s' was registered with %" PRIu64
		       ": register it again, or look for the right file",
		       s->path, s->length, file_path, length);
}
