/*
 * disk.h - the file of --data: SQLite, written by a thread of its own in groups.
 *
 * The server's thread gives it one batch at a time, a chain of ops, and goes on serving; the thread
 * writes the whole batch in one transaction and syncs it. What waits meanwhile is the next batch.
 */
#ifndef TE_HTTP_META_DISK_H
#define TE_HTTP_META_DISK_H

#include "store.h"
#include "te_err.h"

struct disk;

struct disk_op {
	struct store_op op; /* first: chains of op.next */
	bool expired; /* drop the row of that key and revision (op.rev); memory has done so already
		       */
};

/* Opens or creates. -EINVAL: not our file, or damaged; -EBUSY: another process has it. */
int disk_open(const char *path, struct disk **out, struct te_err *err);
void disk_close(struct disk *d);
/* Fills an empty store. now: the store's moment now; what expired while nobody ran is left out. */
int disk_load(struct disk *d, struct store *s, uint64_t now, struct te_err *err);

/* Start the writer. done is called on it after each batch. */
int disk_start(struct disk *d, void (*done)(void *arg), void *arg, struct te_err *err);
/* Waits for the batch in flight, if any. */
void disk_stop(struct disk *d);

/* No batch may be in flight. Only ops that are STORE_STAGED or expired are written. now: as for
 * disk_load(). */
void disk_write(struct disk *d, struct store_op *batch, uint64_t now);
bool disk_is_busy(const struct disk *d);
/* The batch that is done, or NULL. err->code is 0 when it is on the disk, else nothing of it is:
 * -ENOSPC, -EIO ... */
struct store_op *disk_take(struct disk *d, struct te_err *err);
/* Batches that reached the disk; on the thread of disk_take(). */
uint64_t disk_commits(const struct disk *d);

#endif
