/* mounts_do.c - finding a file system, mounting and unmounting it, in processes that may get stuck.
 */
#include <blkid/blkid.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <libmount/libmount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mounts.h"

struct answer {
	int rc;
	char text[PATH_MAX]; /* what was asked for, or why not */
};

static int give_up(int rc, struct te_err *err, const char *what, const char *name)
{
	if (rc == -EINTR)
		return te_fail(err, rc, "interrupted");
	if (rc == -ETIMEDOUT)
		return te_fail(err, rc, "cannot %s '%s': the device does not answer in time", what,
			       name);
	if (rc == -ECHILD)
		return te_fail(err, rc, "cannot %s '%s': the process that did it has died", what,
			       name);
	return rc;
}

/* ---- canonical names ---------------------------------------------------------------------- */

static void canonical_run(const void *arg, void *result)
{
	struct answer *a = result;
	char head[PATH_MAX], real[PATH_MAX], *slash;

	snprintf(head, sizeof(head), "%s", (const char *)arg);
	while (!realpath(*head ? head : "/", real)) {
		slash = strrchr(head, '/');
		if (errno != ENOENT || !slash) {
			a->rc = -errno;
			return;
		}
		*slash = 0;
	}
	a->rc = snprintf(a->text, sizeof(a->text), "%s%s", strcmp(real, "/") == 0 ? "" : real,
			 (const char *)arg + strlen(head)) >= PATH_MAX
			? -ENAMETOOLONG
			: 0;
	/* Of names that are not there yet, too. */
	for (char *end = a->text + strlen(a->text); end > a->text + 1 && end[-1] == '/';)
		*--end = 0;
	if (!*a->text)
		snprintf(a->text, sizeof(a->text), "/");
}

int mounts_canonical(const char *path, const struct limit *l, char out[PATH_MAX],
		     struct te_err *err)
{
	static const struct task_ops ops = { .run = canonical_run, .size = sizeof(struct answer) };
	struct answer a;
	int rc = task_run(&ops, path, l, &a, err);

	if (rc)
		return give_up(rc, err, "look at", path);
	if (a.rc)
		return te_fail(err, a.rc, "cannot look at '%s': %s", path, strerror(-a.rc));
	snprintf(out, PATH_MAX, "%s", a.text);
	return 0;
}

/* ---- which file system -------------------------------------------------------------------- */

static void probe_values(blkid_probe p, struct answer *a)
{
	const char *type = NULL, *table = NULL;
	int rc;

	blkid_probe_enable_superblocks(p, 1);
	blkid_probe_set_superblocks_flags(p, BLKID_SUBLKS_TYPE);
	blkid_probe_enable_partitions(p, 1);
	errno = 0;
	rc = blkid_do_safeprobe(p);
	if (rc == 0)
		blkid_probe_lookup_value(p, "TYPE", &type, NULL);
	if (rc == 0)
		blkid_probe_lookup_value(p, "PTTYPE", &table, NULL);
	a->rc = type ? 0 : -ENOENT;
	if (type)
		snprintf(a->text, sizeof(a->text), "%s", type);
	else if (rc == -2)
		snprintf(a->text, sizeof(a->text),
			 "it has marks of several; say which by --fstype");
	else if (rc < 0)
		snprintf(a->text, sizeof(a->text), "it cannot be read: %s",
			 strerror(errno ? errno : EIO));
	else if (table)
		snprintf(a->text, sizeof(a->text), "it has a partition table (%s)", table);
	else
		snprintf(a->text, sizeof(a->text),
			 "it has none; mkfs belongs to the target's host");
}

static void probe_run(const void *arg, void *result)
{
	struct answer *a = result;
	blkid_probe p = blkid_new_probe_from_filename(arg);

	if (p) {
		probe_values(p, a);
		blkid_free_probe(p);
		return;
	}
	a->rc = errno ? -errno : -EIO;
	snprintf(a->text, sizeof(a->text), "%s", strerror(-a->rc));
}

int mounts_probe(const char *device, const struct limit *l, char type[32], struct te_err *err)
{
	static const struct task_ops ops = { .run = probe_run, .size = sizeof(struct answer) };
	struct answer a;
	int rc = task_run(&ops, device, l, &a, err);

	if (rc)
		return give_up(rc, err, "read", device);
	if (a.rc)
		return te_fail(err, a.rc, "no file system found on '%s': %s", device, a.text);
	snprintf(type, 32, "%s", a.text);
	return 0;
}

/* ---- mount -------------------------------------------------------------------------------- */

static void mount_run(const void *arg, void *result)
{
	/* Files of another host: neither programs with rights nor devices. And who only reads makes
	   no change that a lost target would leave undone. The user's options come later, and win.
	 */
	static const char defaults[] = "nosuid,nodev,noatime";
	const struct mount_plan *p = arg;
	struct answer *a = result;
	struct libmnt_context *c = mnt_new_context();
	int rc;

	if (!c || mnt_context_set_source(c, p->device) || mnt_context_set_target(c, p->target) ||
	    mnt_context_set_fstype(c, p->fstype) || mnt_context_append_options(c, defaults) ||
	    (p->read_only && mnt_context_append_options(c, "ro")) ||
	    (p->options && mnt_context_append_options(c, p->options))) {
		a->rc = -ENOMEM;
		snprintf(a->text, sizeof(a->text), "%s", strerror(ENOMEM));
		return;
	}
	/* Such a mount would not be written to, and say so nowhere. */
	if (!p->read_only)
		mnt_context_enable_rwonly_mount(c, 1);
	rc = mnt_context_mount(c);
	if (mnt_context_get_excode(c, rc, a->text, sizeof(a->text)) != MNT_EX_SUCCESS)
		a->rc = mnt_context_get_syscall_errno(c) ? -mnt_context_get_syscall_errno(c) : -EIO;
	mnt_free_context(c);
}

static void mount_undo(const void *arg, void *result)
{
	const struct mount_plan *p = arg;
	const struct answer *a = result;

	if (a->rc == 0)
		umount2(p->target, UMOUNT_NOFOLLOW | MNT_DETACH);
}

int mounts_mount(const struct mount_plan *p, const struct limit *l, struct te_err *err)
{
	static const struct task_ops ops = { .run = mount_run,
					     .undo = mount_undo,
					     .size = sizeof(struct answer) };
	struct answer a;
	int rc = task_run(&ops, p, l, &a, err);

	if (rc)
		return give_up(rc, err, "mount", p->device);
	if (a.rc == 0)
		return 0;
	return te_fail(err, a.rc, "cannot mount '%s' (%s) at '%s': %s", p->device, p->fstype,
		       p->target, *a.text ? a.text : strerror(-a.rc));
}

/* ---- unmount ------------------------------------------------------------------------------ */

struct unmount_job {
	const char *target;
	int flags;
};

static void unmount_run(const void *arg, void *result)
{
	const struct unmount_job *j = arg;

	*(int *)result = umount2(j->target, UMOUNT_NOFOLLOW | j->flags) == 0 ? 0 : -errno;
}

static int unmount_once(const char *target, int flags, const struct limit *l, struct te_err *err)
{
	static const struct task_ops ops = { .run = unmount_run, .size = sizeof(int) };
	const struct unmount_job job = { target, flags };
	int done = 0, rc = task_run(&ops, &job, l, &done, err);

	return rc ? rc : done;
}

static bool link_in(const char *link, const char *dir)
{
	char to[PATH_MAX];
	ssize_t n = readlink(link, to, sizeof(to) - 1);
	size_t len = strlen(dir);

	if (n <= 0)
		return false;
	to[n] = 0;
	return strncmp(to, dir, len) == 0 && (!to[len] || to[len] == '/');
}

/* Does a process work in that tree, or have a file of it open? Links only: nothing that could hang.
 */
static bool uses(const char *pid, const char *dir)
{
	static const char *const own[] = { "cwd", "root", "exe" };
	char path[300];
	struct dirent *e;
	bool yes = false;
	DIR *d;

	for (size_t i = 0; i < sizeof(own) / sizeof(*own) && !yes; i++) {
		snprintf(path, sizeof(path), "/proc/%s/%s", pid, own[i]);
		yes = link_in(path, dir);
	}
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	d = yes ? NULL : opendir(path);
	while (d && !yes && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%s/fd/%s", pid, e->d_name);
		yes = link_in(path, dir);
	}
	if (d)
		closedir(d);
	return yes;
}

/* "te-bench (123), sh (124)", the first few. */
static void users_of(const char *dir, char *out, size_t size)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	size_t len = 0;

	*out = 0;
	while (d && len + 64 < size && (e = readdir(d))) {
		char path[300], name[32] = "?";
		FILE *f;

		if (!isdigit((unsigned char)*e->d_name) || !uses(e->d_name, dir))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		f = fopen(path, "re");
		if (f && fgets(name, sizeof(name), f))
			name[strcspn(name, "\n")] = 0;
		if (f)
			fclose(f);
		len += (size_t)snprintf(out + len, size - len, "%s%s (%s)", len ? ", " : "", name,
					e->d_name);
	}
	if (d)
		closedir(d);
}

int mounts_unmount(const char *target, const struct limit *l, bool *lazy, struct te_err *err)
{
	/* Who only looks whether there is a new device is gone by then. */
	const struct limit patience = { limit_now_ms() + 2000, l->stop };
	char users[300];
	int rc;

	*lazy = false;
	while ((rc = unmount_once(target, 0, l, err)) == -EBUSY && !limit_pause(&patience, 100))
		;
	if (rc == -ETIMEDOUT) {
		const struct limit detach = limit_in(5, l->stop);

		*lazy = true;
		rc = unmount_once(target, MNT_DETACH, &detach, err);
	}
	if (rc == 0 || rc == -EINVAL) /* EINVAL: nothing is mounted there */
		return 0;
	if (rc == -EBUSY) {
		users_of(target, users, sizeof(users));
		return te_fail(err, rc, "cannot unmount '%s': it is in use%s%s", target,
			       *users ? " by " : "", users);
	}
	if (rc == -EINTR || rc == -ETIMEDOUT || rc == -ECHILD)
		return give_up(rc, err, "unmount", target);
	return te_fail(err, rc, "cannot unmount '%s': %s", target, strerror(-rc));
}
