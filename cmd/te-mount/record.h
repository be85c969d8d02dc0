/*
 * record.h - what te-mount has connected and mounted on this host, in /run/te/mounts.json: so that it takes away its own things
 * and nobody else's. One te-mount at a time has it.
 *
 *	{"te_mount":1, "boot_id":"...", "mounts":[{"mount_point", "disk", "mounted":bool, "made":"/folder"|"",
 *	  "controller", "connected":bool, "nqn", "transport", "traddr", "trsvcid",
 *	  "files":[{"store", "segment", "host", "file_path", "local_path"}]}]}
 *
 * What is about to be done is written down before it is done: "connected" with "controller":"" is a connection in the making.
 */
#ifndef TE_MOUNT_RECORD_H
#define TE_MOUNT_RECORD_H

#include <jansson.h>
#include <stdbool.h>

#include "fabric.h"
#include "task.h"

struct record {
	int lock;			/* -1: only read */
	json_t *doc;
	json_t *mounts;			/* in doc */
};

/* Waits for others, as long as the limit. What another boot of this machine wrote is forgotten. */
int record_open(struct record *r, const struct limit *l, struct te_err *err);
/* Without waiting, for those who only look. What cannot be read counts as empty. */
void record_read(struct record *r);
void record_close(struct record *r);
int record_save(struct record *r, struct te_err *err);

/* The entry of a mount point, or NULL. */
json_t *record_find(const struct record *r, const char *mount_point);
/* "" where there is none. */
const char *record_text(const json_t *entry, const char *member);
bool record_flag(const json_t *entry, const char *member);
/* An entry other than this one whose connection is that, made by te-mount; NULL. */
json_t *record_owner(const struct record *r, const json_t *but, const char *controller);

/* Does a file of the entry belong to that segment for that host? file_path NULL: any. */
bool record_has_file(const json_t *entry, const char *store, const char *segment, const char *host,
		     const char *file_path);
/* Takes those files out; how many are left. */
size_t record_drop_files(json_t *entry, const char *store, const char *segment, const char *host,
			 const char *file_path);
/* Replaces an older entry of the same file. */
void record_add_file(json_t *entry, const char *store, const char *segment, const char *host,
		     const char *file_path, const char *local_path);

#endif
