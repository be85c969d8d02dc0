/* desc_store.h - descriptors in the metadata store, read and changed by commands. */
#ifndef TE_CMD_DESC_STORE_H
#define TE_CMD_DESC_STORE_H

#include <stdbool.h>

#include "cli.h"
#include "te.h"

/*
 * The store of -m, else MC_METADATA_SERVER; does not connect. need: P2PHANDSHAKE, where nothing is stored, will not do. CLI_OK,
 * or the exit status after a message.
 */
int desc_store_open(const struct cli *cli, const struct te_conf *conf, bool need, struct te_meta **out);

struct desc_edit {
	/*
	 * Makes of d what it should be: 1 when it changed something, 0 when there was nothing to do, else a negative errno. Called
	 * again, with what is there then, when somebody else was faster: it may depend on d alone. The second call for a d that it
	 * changed returns 0. A new d has no protocol.
	 */
	int (*change)(void *arg, struct te_desc *d, struct te_err *err);
	void *arg;
	bool create;			/* no such key: begin with a new descriptor, else -ENOENT */
	bool mend;			/* a value that is no descriptor: begin with a new one, else -EINVAL */
	bool dry_run;			/* write nothing */
};

/*
 * Changes the descriptor under key by compare-and-swap, as often as it takes, for 10 s at most (-EBUSY). Where the store cannot
 * compare, the change is read back, and made again if somebody wrote over it; a warning says that this is no promise.
 * 1: written (dry_run: would be); 0: it was so already. *out (may be NULL) is the descriptor after the change: te_desc_free().
 */
int desc_store_edit(struct te_meta *m, const char *key, const struct desc_edit *edit, struct te_desc **out, struct te_err *err);

/* The descriptor under key. -ENOENT: no such key. tag (may be NULL): for desc_store_delete(). */
int desc_store_load(struct te_meta *m, const char *key, struct te_desc **out, char tag[TE_META_TAG_MAX], struct te_err *err);
/* Deletes key if its value still has that tag (-ESTALE); where the store has no tags, whatever it is. */
int desc_store_delete(struct te_meta *m, const char *key, const char *tag, struct te_err *err);

#endif
