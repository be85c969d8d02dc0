/* publish.h - this host's entries in a segment's local_path_map. */
#ifndef TE_MOUNT_PUBLISH_H
#define TE_MOUNT_PUBLISH_H

#include "te-mount.h"

struct place {				/* a file of the segment, on this host */
	const char *file_path;
	char *local_path;		/* malloc'ed; NULL: not known yet */
	uint64_t length;		/* registered */
};

/* -ENOENT, with the files there are, unless the segment has that one. */
int segment_has(const struct cmd *c, const struct te_desc *d, const char *file_path,
		const struct te_desc_buffer **out, struct te_err *err);
/* Is it one of these files? n 0: they are all. */
bool is_wanted(const char *const *files, size_t n, const char *file_path);
/* All at once. -ERANGE: a length has changed meanwhile. 1: done; 0: they were there; dry: nothing is written. */
int publish(struct cmd *c, const struct place *places, size_t n, bool dry, struct te_err *err);
/* Takes out this host's entries of these files (n 0: of all), as publish() does. */
int unpublish(struct cmd *c, const char *const *files, size_t n, bool dry, struct te_err *err);

#endif
