/* test_lost_files.c - file systems that are unmounted, full, broken or frozen while their files are
 * in use. Mounts are made in a mount namespace of our own, which root alone may have. */
#include <dirent.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include "files_rig.h"

#define SHUTDOWN _IOR('X', 125, uint32_t) /* of ext4, from XFS */

enum { IMAGE = 32 << 20, EACH = 64 << 10 };

static char top[64]; /* a folder on disk */

/* ---- file systems ------------------------------------------------------------------------- */

static bool run(const char *const *argv)
{
	extern char **environ;
	int status = -1;
	pid_t pid;

	if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ))
		return false;
	waitpid(pid, &status, 0);
	return status == 0;
}

/* The next free one; another program may be faster. */
static int take_loop(int control, int file, char *name, size_t size)
{
	struct loop_config config = { .fd = (uint32_t)file, .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	int loop;

	snprintf(name, size, "/dev/loop%d", ioctl(control, LOOP_CTL_GET_FREE));
	loop = open(name, O_RDWR | O_CLOEXEC);
	if (loop < 0 || ioctl(loop, LOOP_CONFIGURE, &config) == 0)
		return loop;
	close(loop);
	return -1;
}

/* A loop device that goes when nobody uses it any more; its fd, or -1. */
static int loop_new(const char *image, char *name, size_t size)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), loop = -1;
	int file = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (control >= 0 && file >= 0 && !ftruncate(file, IMAGE))
		for (int tries = 0; tries < 20 && loop < 0; tries++)
			loop = take_loop(control, file, name, size);
	close(control);
	close(file);
	return loop;
}

struct fs {
	char dir[80], image[80], loop[32];
};

static bool fs_mount(const struct fs *fs)
{
	return mount(fs->loop, fs->dir, "ext4", 0, NULL) == 0;
}

/* An ext4 of its own at top/NAME. */
static bool fs_new(struct fs *fs, const char *name)
{
	int fd;
	bool good;

	snprintf(fs->dir, sizeof(fs->dir), "%s/%s", top, name);
	snprintf(fs->image, sizeof(fs->image), "%s/%s.image", top, name);
	mkdir(fs->dir, 0700);
	fd = loop_new(fs->image, fs->loop, sizeof(fs->loop));
	good = fd >= 0 && run((const char *[]){ "mkfs.ext4", "-q", "-F", fs->loop, NULL }) &&
	       fs_mount(fs);
	if (fd >= 0)
		close(fd);
	return good;
}

static void fs_free(struct fs *fs)
{
	umount2(fs->dir, MNT_DETACH);
	rmdir(fs->dir);
	unlink(fs->image);
}

/* ---- small things ------------------------------------------------------------------------- */

static int read_one(struct rig *r, struct batch *b, size_t file)
{
	int rc = move(r, b, TE_READ, 0, r->start[file], 4096);

	if (!rc && memcmp(r->mem, r->files + r->start[file], 4096))
		rc = -EBADMSG;
	memcpy(r->mem, r->expect, MEMORY);
	return rc;
}

static bool says(const struct batch *b, const struct rig *r, size_t file)
{
	return strstr(b->why.msg, r->path[file]) != NULL;
}

/* Two files: the first below `dir`, the second on the disk. */
static bool two_files(struct rig *r, const char *dir)
{
	static const uint64_t len[] = { EACH, EACH };
	struct te_err err;

	if (!rig_files(r, top, len, 2))
		return false;
	unlink(r->path[0]);
	snprintf(r->path[0], sizeof(r->path[0]), "%s/file", dir);
	put_file(r->path[0], r->files, EACH);
	rig_describe(r);
	return rig_open(r, &err) == 0;
}

/* ---- mounts ------------------------------------------------------------------------------- */

static void unmounted(void)
{
	struct batch b;
	struct rig r;
	char dir[80];

	snprintf(dir, sizeof(dir), "%s/mem", top);
	mkdir(dir, 0700);
	mount("none", dir, "tmpfs", 0, NULL);
	two_files(&r, dir);
	ok(read_one(&r, &b, 0) == 0, "a file of a mounted file system");
	mount("none", dir, "tmpfs", 0, NULL);
	ok(read_one(&r, &b, 0) == -ENOENT && says(&b, &r, 0), "mounted over: %s", b.why.msg);
	put_file(r.path[0], r.files + EACH, EACH);
	r.p->ops->update(r.p, r.d);
	memcpy(r.files, r.files + EACH, EACH);
	ok(read_one(&r, &b, 0) == 0, "a file there is another one, read after an update");
	umount2(dir, MNT_DETACH); /* not less: we have files there */
	umount2(dir, MNT_DETACH);
	ok(read_one(&r, &b, 0) == -ENOENT && says(&b, &r, 0), "unmounted: %s", b.why.msg);
	ok(read_one(&r, &b, 1) == 0, "the other file goes on");
	rig_close(&r);
	umount2(dir, MNT_DETACH);
	rmdir(dir);
}

static void read_only(void)
{
	struct batch b;
	struct rig r;
	char dir[80];

	snprintf(dir, sizeof(dir), "%s/ro", top);
	mkdir(dir, 0700);
	mount(dir, dir, "none", MS_BIND, NULL);
	two_files(&r, dir);
	r.p->ops->peer_close(r.p);
	mount("none", dir, "none", MS_BIND | MS_REMOUNT | MS_RDONLY, NULL);
	ok(side_peer(&r.s, NULL, r.d, &r.p, NULL) == 0 && read_one(&r, &b, 0) == 0,
	   "a file of a read-only mount is read");
	ok(move(&r, &b, TE_WRITE, 0, 0, 100) == -EROFS && says(&b, &r, 0), "not written: %s",
	   b.why.msg);
	mount("none", dir, "none", MS_BIND | MS_REMOUNT, NULL);
	r.p->ops->update(r.p, r.d);
	memcpy(r.files, r.mem, 100);
	ok(move(&r, &b, TE_WRITE, 0, 0, 100) == 0 && rig_is_right(&r), "until it is writable");
	rig_close(&r);
	ok(umount(dir) == 0, "closed: the mount goes at once");
	rmdir(dir);
}

static void full(void)
{
	struct batch b;
	struct rig r;
	char dir[80];
	int rc;

	snprintf(dir, sizeof(dir), "%s/full", top);
	mkdir(dir, 0700);
	mount("none", dir, "tmpfs", 0, "size=1m");
	two_files(&r, dir);
	truncate(r.path[0], 0);
	truncate(r.path[0], 4 << 20);
	r.len[0] = 4 << 20;
	rig_describe(&r);
	r.p->ops->update(r.p, r.d);
	rc = move(&r, &b, TE_WRITE, 0, 4096, 3 << 20);
	ok(rc == -ENOSPC && says(&b, &r, 0), "a sparse file and no space: %s", b.why.msg);
	memset(r.mem, 1, 4096);
	ok(move(&r, &b, TE_READ, 0, 0, 4096) == 0 && !r.mem[0] && !r.mem[4095], "it is read");
	rig_close(&r);
	umount2(dir, MNT_DETACH);
	rmdir(dir);
}

/* ---- broken ------------------------------------------------------------------------------- */

static void broken(struct fs *fs)
{
	uint32_t no_flush = 2;
	struct batch b;
	struct rig r;
	int fd, rc;

	two_files(&r, fs->dir);
	ok(read_one(&r, &b, 0) == 0, "a file of an ext4");
	fd = open(fs->dir, O_RDONLY | O_CLOEXEC);
	if (ioctl(fd, SHUTDOWN, &no_flush))
		printf("# shutdown: %s\n", strerror(errno));
	close(fd);
	rc = move(&r, &b, TE_WRITE, 0, 1, 100);
	ok(rc == -EIO && says(&b, &r, 0), "broken: %s", b.why.msg);
	ok(read_one(&r, &b, 1) == 0, "the other file goes on");
	umount2(fs->dir, MNT_DETACH);
	r.p->ops->update(r.p, r.d); /* closes it */
	ok(read_one(&r, &b, 0) == -ENOENT && says(&b, &r, 0), "unmounted: %s", b.why.msg);
	rig_close(&r);
}

static void device(void)
{
	char image[80];
	struct rig r = { .n = 1, .len = { IMAGE } };
	struct te_err err = { 0 };
	struct batch b;
	int loop, rc;

	snprintf(image, sizeof(image), "%s/device.image", top);
	loop = loop_new(image, r.path[0], sizeof(r.path[0]));
	rig_describe(&r);
	r.files = calloc(1, IMAGE);
	rc = rig_open(&r, &err);
	ok(rc == 0, "a block device is opened %s", err.msg);
	if (rc)
		return;
	memcpy(r.files + 12345, r.mem, 1000);
	ok(move(&r, &b, TE_WRITE, 0, 12345, 1000) == 0 && rig_is_right(&r),
	   "a WRITE of some bytes of it");
	ok(read_one(&r, &b, 0) == 0, "and a READ");
	truncate(image, 8192);
	rc = move(&r, &b, TE_READ, 0, 16 << 20, 4096);
	ok(rc < 0 && says(&b, &r, 0), "its medium is cut: %s", b.why.msg);
	close(loop);
	r.n = 0;
	rig_close(&r);
	unlink(image);
}

/* ---- frozen: WRITEs hang until it thaws ---------------------------------------------------- */

/* Thaws when we are gone or after some time: what hangs must not hang for ever. */
struct freezer {
	int dir, pipe;
	pid_t guard;
};

static bool freeze(struct freezer *f, const struct fs *fs)
{
	int fds[2];

	f->dir = open(fs->dir, O_RDONLY | O_CLOEXEC);
	pipe2(fds, O_CLOEXEC);
	fflush(stdout);
	f->guard = fork();
	if (!f->guard) {
		struct pollfd p = { .fd = fds[0], .events = POLLIN };

		close(fds[1]);
		poll(&p, 1, 30000);
		ioctl(f->dir, FITHAW, 0);
		_exit(0);
	}
	close(fds[0]);
	f->pipe = fds[1];
	return ioctl(f->dir, FIFREEZE, 0) == 0;
}

static void thaw(struct freezer *f)
{
	close(f->pipe);
	waitpid(f->guard, NULL, 0);
	close(f->dir);
}

static bool expires(struct batch *b, uint32_t count, uint64_t ns)
{
	uint64_t until = te_now() + ns;
	uint32_t seen;

	while ((seen = atomic_load(&b->expired)) < count && te_now() < until)
		te_futex_wait(&b->expired, seen, until);
	return seen == count;
}

static bool is_stuck(const char *task)
{
	char path[300], line[300] = "";
	const char *state;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", task);
	in = fopen(path, "re");
	if (!in)
		return false;
	state = fgets(line, sizeof(line), in) ? strrchr(line, ')') : NULL;
	fclose(in);
	return state && state[1] && state[2] == 'D';
}

/* Until a thread of ours (io_uring's are among them) hangs in the frozen file system. */
static bool wait_stuck(void)
{
	uint64_t until = te_now() + 5 * SEC;
	bool stuck = false;

	while (!stuck && te_now() < until) {
		DIR *tasks = opendir("/proc/self/task");

		for (struct dirent *d; tasks && !stuck && (d = readdir(tasks));)
			stuck = is_stuck(d->d_name);
		closedir(tasks);
	}
	return stuck;
}

/* WRITEs of some bytes of one block: one is at it, the others wait for that one. */
static void frozen(struct fs *fs)
{
	struct te_slice v[4];
	struct freezer f;
	struct batch b, c;
	struct rig r;
	uint64_t began;

	two_files(&r, fs->dir);
	if (!freeze(&f, fs))
		printf("# freeze: %s\n", strerror(errno));
	for (uint32_t i = 0; i < 4; i++) {
		slice(&r, &v[i], TE_WRITE, i * 100, 1000 + i * 100, 100);
		v[i].deadline = te_now() + 400 * MS;
	}
	began = te_now();
	batch_submit(r.p, &b, v, 4);
	ok(expires(&b, 4, 5 * SEC) && te_now() - began < 2 * SEC, "frozen: time-out after %u ms",
	   (unsigned)((te_now() - began) / MS));
	ok(says(&b, &r, 0) && strstr(b.why.msg, "still holds"), "told: %s", b.why.msg);
	ok(batch_await(r.p, &b, v, true, SEC / 2) == -ETIME && atomic_load(&b.pending) == 1,
	   "those that waited are back, the kernel holds one");
	ok(read_one(&r, &c, 1) == 0, "the other file goes on");

	thaw(&f);
	ok(batch_await(r.p, &b, v, false, 10 * SEC) < 0, "thawed: all are back, as failed");
	r.p->ops->update(r.p, r.d);
	memcpy(r.files + 100, r.mem, 5000);
	ok(move(&r, &b, TE_WRITE, 0, 100, 5000) == 0, "and the file is written again %s",
	   b.why.msg);
	ok(rig_is_right(&r), "as it should be");
	rig_close(&r);
}

/* Across the border to a file that fails at once: the first half hangs all the same. */
static void half_failed(struct fs *fs)
{
	struct te_slice s;
	struct freezer f;
	struct batch b;
	struct rig r;

	two_files(&r, fs->dir);
	truncate(r.path[1], EACH + 1);
	freeze(&f, fs);
	slice(&r, &s, TE_WRITE, 0, EACH - 4096, 8192);
	s.deadline = te_now() + 300 * MS;
	batch_submit(r.p, &b, &s, 1);
	/* Or the kernel had not begun with it: then it need not. */
	ok(expires(&b, 1, 2 * SEC) || !atomic_load(&b.pending),
	   "one that hangs and has failed as well ends in time");
	thaw(&f);
	ok(batch_await(r.p, &b, &s, false, 10 * SEC) == -ESTALE, "and is back after the thaw");
	rig_close(&r);
}

/* Cancelled while the kernel has it: its time may be up all the same. */
static void cancelled(struct fs *fs)
{
	_Atomic bool yes = false;
	struct te_slice s;
	struct freezer f;
	struct batch b;
	struct rig r;

	two_files(&r, fs->dir);
	freeze(&f, fs);
	slice(&r, &s, TE_WRITE, 0, 0, 4096);
	s.deadline = te_now() + 3 * SEC;
	s.cancelled = &yes;
	batch_submit(r.p, &b, &s, 1);
	if (!wait_stuck())
		printf("# nobody is stuck\n");
	atomic_store(&yes, true);
	ok(expires(&b, 1, 5 * SEC), "frozen and cancelled: expires");
	ok(atomic_load(&b.pending) == 1, "and is not back");
	thaw(&f);
	ok(batch_await(r.p, &b, &s, true, 10 * SEC) < 0, "but after the thaw");
	rig_close(&r);
}

static void everything(void)
{
	struct fs fs;

	unmounted();
	read_only();
	full();
	if (!fs_new(&fs, "ext4")) {
		skip("no loop device or no mkfs.ext4: nothing is broken or frozen");
		return;
	}
	device();
	frozen(&fs);
	half_failed(&fs);
	cancelled(&fs);
	broken(&fs);
	fs_free(&fs);
}

int main(void)
{
	if (geteuid() || unshare(CLONE_NEWNS) ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL)) {
		skip("only root may mount");
		return tap_end();
	}
	snprintf(top, sizeof(top), "%s/te-lost-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp");
	mkdtemp(top);
	without_io_uring(everything);
	everything();
	rmdir(top);
	return tap_end();
}
