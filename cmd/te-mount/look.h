/* look.h - a file on this host, looked at by a process that may get stuck in a dead mount. */
#ifndef TE_MOUNT_LOOK_H
#define TE_MOUNT_LOOK_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "task.h"

struct look_at {
	const char *path;		/* with dir: a name on another host, of which the last parts are looked for */
	const char *dir;		/* NULL, or the mount point to look in: path must not lead out of it */
	bool exact;			/* dir: path is that in dir, not just its end */
};

struct seen {
	int rc;				/* 0, or why there is no file to speak of */
	char path[PATH_MAX];		/* where it is */
	uint64_t length;
	int mount;			/* mounted.id; 0 = unknown */
	int read_rc;			/* 0: its first bytes could be read, from the device where that can be had */
	int change_rc;			/* -EROFS, -EIO: the file system takes no changes (if it is not mounted so) */
};

extern const struct task_ops look_ops;	/* struct look_at, struct seen */

/* rc of what was seen, in words: "no such file ...". */
int look_error(const struct look_at *at, const struct seen *s, struct te_err *err);
/* Both at once; -ETIMEDOUT and so on in words too. */
int look(const struct look_at *at, const struct limit *l, struct seen *out, struct te_err *err);
/* -ERANGE unless it is as long as that. */
int look_length(const struct seen *s, uint64_t length, const char *file_path, struct te_err *err);

#endif
