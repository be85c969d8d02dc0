/* mounts.h - file systems: what is mounted where, mounting by libblkid and libmount, unmounting even the dead. */
#ifndef TE_MOUNT_MOUNTS_H
#define TE_MOUNT_MOUNTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "task.h"

struct mounted {			/* a line of mountinfo */
	int id;
	char target[PATH_MAX], source[256], fstype[32];
	char disk[32];			/* the block device in /sys/class/block, by number; "" = none (any more) */
	unsigned major, minor;
	bool read_only;			/* one way or the other ... */
	bool turned_read_only;		/* ... though it was mounted to be written to: the file system has seen errors */
};

/* The file system that is mounted exactly there (the last, if several are). path is canonical. */
bool mounts_at(const char *path, struct mounted *out);
/* That with this id (statx); id 0: the one that path, canonical, is in. */
bool mounts_of(int id, const char *path, struct mounted *out);
/* How many mounts are of that block device ("nvme0n1"). */
unsigned mounts_of_disk(const char *disk);

/* ---- what takes time ---------------------------------------------------------------------- */

/* path without symbolic links; its last parts need not exist. It is absolute. */
int mounts_canonical(const char *path, const struct limit *l, char out[PATH_MAX],
		     struct te_err *err);
/* The folder and those above it that are missing. made: the first of them, "" when none was missing. */
int mounts_mkdir(const char *path, char made[PATH_MAX], struct te_err *err);
/* Takes away what mounts_mkdir() made, as far as it is empty. */
void mounts_rmdir(const char *path, const char *made);

/* The type of the file system on a block device, "ext4". */
int mounts_probe(const char *device, const struct limit *l, char type[32], struct te_err *err);
struct mount_plan {
	const char *device, *target, *fstype;
	const char *options;		/* NULL = none */
	bool read_only;
};
/* When the limit is over, or nobody waits any more, it is not mounted. */
int mounts_mount(const struct mount_plan *p, const struct limit *l, struct te_err *err);
/* -EBUSY names who uses it. A file system that does not let go within the limit is taken out of sight (MNT_DETACH): *lazy. */
int mounts_unmount(const char *target, const struct limit *l, bool *lazy, struct te_err *err);

#endif
