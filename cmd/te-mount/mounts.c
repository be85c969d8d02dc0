/* mounts.c - what is mounted where, and folders to mount on. */
#include "mounts.h"

#include <errno.h>
#include <libmount/libmount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool has_option(const char *options, const char *name)
{
	return options && mnt_optstr_get_option(options, name, NULL, NULL) == 0;
}

static void copy(char *out, size_t size, const char *text)
{
	snprintf(out, size, "%s", text ? text : "");
}

/* The name by number: the device may have been taken away and another be there under its old name.
 */
static void disk_name(unsigned major, unsigned minor, char *out, size_t size)
{
	char path[64], link[256], *name;
	ssize_t n;

	*out = 0;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major, minor);
	n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return;
	link[n] = 0;
	name = strrchr(link, '/');
	copy(out, size, name ? name + 1 : link);
}

static void describe(struct libmnt_fs *fs, struct mounted *out)
{
	bool here = has_option(mnt_fs_get_vfs_options(fs), "ro");
	/* emergency_ro, shutdown: how ext4 and xfs of later kernels say it. */
	const char *inside = mnt_fs_get_fs_options(fs);
	bool below = has_option(inside, "ro") || has_option(inside, "emergency_ro") ||
		     has_option(inside, "shutdown");
	dev_t dev = mnt_fs_get_devno(fs);

	*out = (struct mounted){ .id = mnt_fs_get_id(fs),
				 .major = major(dev),
				 .minor = minor(dev) };
	copy(out->target, sizeof(out->target), mnt_fs_get_target(fs));
	copy(out->source, sizeof(out->source), mnt_fs_get_source(fs));
	copy(out->fstype, sizeof(out->fstype), mnt_fs_get_fstype(fs));
	disk_name(out->major, out->minor, out->disk, sizeof(out->disk));
	out->read_only = here || below;
	out->turned_read_only = below && !here;
}

/* Is path in the tree at dir? How much of it dir is; 0: no. */
static size_t lies_in(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (len == 1)
		return 1;
	return strncmp(path, dir, len) == 0 && (!path[len] || path[len] == '/') ? len : 0;
}

enum how { AT, OF };

/* Later lines are mounted over earlier ones. */
static bool find(enum how how, int id, const char *path, struct mounted *out)
{
	struct libmnt_table *t = mnt_new_table_from_file("/proc/self/mountinfo");
	struct libmnt_iter *i = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs, *best = NULL;
	size_t best_len = 1;

	while (t && i && mnt_table_next_fs(t, i, &fs) == 0) {
		const char *target = mnt_fs_get_target(fs);
		size_t len = target ? lies_in(path, target) : 0;

		if (id		? mnt_fs_get_id(fs) == id
		    : how == AT ? target && strcmp(target, path) == 0
				: len >= best_len) {
			best = fs;
			best_len = len;
		}
	}
	if (best)
		describe(best, out);
	mnt_free_iter(i);
	mnt_unref_table(t);
	return best != NULL;
}

bool mounts_at(const char *path, struct mounted *out)
{
	return find(AT, 0, path, out);
}

bool mounts_of(int id, const char *path, struct mounted *out)
{
	return find(OF, id, path, out) || (id && find(OF, 0, path, out));
}

unsigned mounts_of_disk(const char *disk)
{
	struct libmnt_table *t = mnt_new_table_from_file("/proc/self/mountinfo");
	struct libmnt_iter *i = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;
	unsigned n = 0;

	while (t && i && mnt_table_next_fs(t, i, &fs) == 0) {
		dev_t dev = mnt_fs_get_devno(fs);
		char name[32];

		disk_name(major(dev), minor(dev), name, sizeof(name));
		n += strcmp(name, disk) == 0;
	}
	mnt_free_iter(i);
	mnt_unref_table(t);
	return n;
}

/* ---- folders ------------------------------------------------------------------------------ */

/* Length of the part of path that ends before the next '/' behind from, or all of it. */
static size_t part_end(const char *path, size_t from)
{
	const char *slash = strchr(path + from + 1, '/');

	return slash ? (size_t)(slash - path) : strlen(path);
}

int mounts_mkdir(const char *path, char made[PATH_MAX], struct te_err *err)
{
	char part[PATH_MAX];
	struct stat st;

	*made = 0;
	for (size_t end = part_end(path, 0);; end = part_end(path, end)) {
		snprintf(part, sizeof(part), "%.*s", (int)end, path);
		if (mkdir(part, 0755) == 0 && !*made)
			snprintf(made, PATH_MAX, "%s", part);
		if (stat(part, &st) != 0 || !S_ISDIR(st.st_mode)) {
			int rc = access(part, F_OK) == 0 ? -ENOTDIR : -errno;

			mounts_rmdir(path, made);
			return te_fail(err, rc, "cannot make the folder '%s': %s", part,
				       strerror(-rc));
		}
		if (!path[end])
			return 0;
	}
}

void mounts_rmdir(const char *path, const char *made)
{
	char part[PATH_MAX];
	size_t stop = strlen(made);

	if (!stop)
		return;
	snprintf(part, sizeof(part), "%s", path);
	/* A folder above that was never made is no reason to stop. */
	while (strlen(part) >= stop && (rmdir(part) == 0 || errno == ENOENT))
		*strrchr(part, '/') = 0;
}
