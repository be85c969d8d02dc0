/* files.c - the files that are to be a segment: are they there, and how long? */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_segment.h"
#include "te-register.h"

static int measure(int fd, const struct stat *st, uint64_t *out)
{
	*out = (uint64_t)st->st_size;
	return S_ISBLK(st->st_mode) ? ioctl(fd, BLKGETSIZE64, out) : 0;
}

static void identify(const struct stat *st, struct file *f)
{
	/* Two nodes of one device are one file. */
	f->dev = S_ISBLK(st->st_mode) ? UINT64_MAX : st->st_dev;
	f->ino = S_ISBLK(st->st_mode) ? st->st_rdev : st->st_ino;
}

static const char *kind_of(mode_t mode)
{
	return S_ISDIR(mode)	? "it is a directory"
	       : S_ISCHR(mode)	? "it is a character device"
	       : S_ISFIFO(mode) ? "it is a pipe"
	       : S_ISSOCK(mode) ? "it is a socket"
				: "it is no file";
}

/* Of an open file that stat() liked. NULL, or why not. */
static const char *look_inside(int fd, struct file *f)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return strerror(errno);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return kind_of(st.st_mode);
	if (measure(fd, &st, &f->length) != 0)
		return strerror(errno);
	identify(&st, f);
	return f->length ? NULL : "it is empty";
}

/* NULL, or why not. */
static const char *look_at(struct file *f)
{
	const char *reason;
	struct stat st;
	int fd;

	if (!file_segment_is_text(f->path))
		return "its name is not UTF-8";
	if (stat(f->path, &st) != 0)
		return strerror(errno);
	/* Opening the others may do something, or wait. */
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return kind_of(st.st_mode);
	fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return strerror(errno);
	reason = look_inside(fd, f);
	close(fd);
	return reason;
}

static const struct file *find(const struct file *v, size_t n, const struct file *f)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].dev == f->dev && v[i].ino == f->ino)
			return &v[i];
	return NULL;
}

/* The next of v; false after a message. */
static bool open_one(const char *name, struct file *v, size_t n)
{
	const struct file *twin;
	struct file *f = &v[n];
	const char *reason;

	f->path = file_segment_path(name);
	reason = f->path ? look_at(f) : strerror(errno);
	if (reason) {
		cli_fail(CLI_FAIL, "cannot register '%s': %s", f->path ? f->path : name, reason);
		return false;
	}
	twin = find(v, n, f);
	if (twin)
		cli_fail(CLI_FAIL, "cannot register '%s' twice: '%s' is the same file", f->path,
			 twin->path);
	return !twin;
}

int files_open(char *const *names, size_t n, struct file **out)
{
	struct file *v = calloc(n, sizeof(*v));
	int status = CLI_OK;
	size_t good = 0;

	if (!v)
		return cli_fail(CLI_FAIL, "out of memory");
	for (size_t i = 0; i < n; i++) {
		if (open_one(names[i], v, good)) {
			good++;
			continue;
		}
		free(v[good].path);
		v[good] = (struct file){ 0 };
		status = CLI_FAIL;
	}
	if (status == CLI_OK)
		*out = v;
	else
		files_clear(v, good);
	return status;
}

void files_clear(struct file *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		free(v[i].path);
	free(v);
}

const struct file *files_same(const struct file *v, size_t n, const char *path)
{
	struct file f = { 0 };
	const struct file *twin;
	struct stat st;

	if (stat(path, &st) != 0)
		return NULL;
	identify(&st, &f);
	twin = find(v, n, &f);
	return twin && strcmp(twin->path, path) != 0 ? twin : NULL;
}
