/* file_segment.h - segments of files in the store: their names, and the parts of their descriptors that commands change. */
#ifndef TE_CMD_FILE_SEGMENT_H
#define TE_CMD_FILE_SEGMENT_H

#include "desc_store.h"

/*
 * Whole key of a segment of files, malloc'ed, from what a user may write: NAME, nvmeof/NAME, or the key itself, as Mooncake's
 * mount.py wants it. -EINVAL: empty, not UTF-8, or the key of something else.
 */
int file_segment_key(const struct te_meta *m, const char *given, char **key, struct te_err *err);
/* NAME in such a key; part of it. */
const char *file_segment_name(const struct te_meta *m, const char *key);

/* desc_store_load() and desc_store_edit() of such a key. -ENOENT: "no segment 'nvmeof/NAME' in URI"; -EINVAL: what is there is no segment of files. */
int file_segment_load(struct te_meta *m, const char *key, struct te_desc **out, char tag[TE_META_TAG_MAX], struct te_err *err);
int file_segment_edit(struct te_meta *m, const char *key, const struct desc_edit *edit, struct te_desc **out, struct te_err *err);

/* Whose entry of local_path_map it is: -n, else the host name, for which buf is. -EINVAL: there is none, or no engine could
   have that name. */
int file_segment_host(const struct cli *cli, char buf[256], const char **host, struct te_err *err);
/*
 * A path as it is published, which means the same wherever an engine is started: as given, absolute and tidy. Only where it goes
 * up, and all of it is there, are links followed, since "/a/link/../b" is not "/a/b". malloc'ed; NULL: errno.
 */
char *file_segment_path(const char *name);
/* The buffer with that file_path; NULL. */
struct te_desc_buffer *file_segment_file(const struct te_desc *d, const char *file_path);
/* host's entry in local_path_map; NULL. */
const char *file_segment_mapped(const struct te_desc_buffer *b, const char *host);
/* Sets it. 1 changed, 0 as it was, -ENOMEM. */
int file_segment_map(struct te_desc_buffer *b, const char *host, const char *path, struct te_err *err);
/* Takes it out. 1 changed, 0 there was none. */
int file_segment_unmap(struct te_desc_buffer *b, const char *host);

/* Can JSON carry it? Names and paths of segments have to be UTF-8. */
bool file_segment_is_text(const char *s);

#endif
