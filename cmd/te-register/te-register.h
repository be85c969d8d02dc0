/* te-register.h - what the verbs of te-register share. */
#ifndef TE_REGISTER_CMD_H
#define TE_REGISTER_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"
#include "strings_list.h"
#include "te.h"

/* ---- what verbs find out, for the printers ------------------------------------------------ */

struct entry { /* of the store; entry_clear() */
	char *key;
	struct te_desc *desc; /* NULL: it cannot be read */
	char problem[504];    /* why */
};

struct printer {
	void (*written)(struct te_meta *m, const struct entry *e, bool changed, bool dry_run);
	void (*list)(struct te_meta *m, const struct entry *v, size_t n);
	void (*show)(struct te_meta *m, const struct entry *e);
	void (*removed)(const struct strings *keys, bool dry_run);
};
extern const struct printer print_text, print_json;

void entry_clear(struct entry *e);
/* What the segment is opened by: "nvmeof/NAME", or NAME of a RAM segment. Part of e->key. */
const char *entry_name(const struct te_meta *m, const struct entry *e);
/* "nvmeof" or "ram", by its key. */
const char *entry_kind(const struct te_meta *m, const struct entry *e);
uint64_t entry_bytes(const struct entry *e);
const char *server_of(const struct te_desc *d);   /* "": not said */
const char *entry_server(const struct entry *e); /* "": not said */
/* All hosts of all local_path_map, each once, sorted. */
void entry_hosts(const struct entry *e, struct strings *out);

/* ---- files -------------------------------------------------------------------------------- */

struct file { /* files_clear() */
	char *path;	 /* absolute */
	uint64_t length; /* bytes */
	uint64_t dev, ino;
};
/* Looks at each; CLI_OK, or CLI_FAIL after a line for each that will not do. *out: n of them. */
int files_open(char *const *names, size_t n, struct file **out);
void files_clear(struct file *v, size_t n);
/* Is path, here, one of them under another name? NULL: no, or nobody knows. */
const struct file *files_same(const struct file *v, size_t n, const char *path);

/* A usage error, and the end, unless a new segment may have that name: te-bench and others take lists of names. */
void check_new_name(const char *name);

/* ---- the verbs ---------------------------------------------------------------------------- */

struct cmd { /* on main's stack */
	struct cli cli;
	const char *verb;
	struct strings args;
	bool replace, dry_run, force;
	const char *protocol, *devices, *matrix;

	struct te_conf conf;
	struct te_meta *meta;
	const struct printer *print;
};

/* Each returns an exit status and has said on stderr what failed. */
int verb_nvmeof(struct cmd *c);
int verb_ram(struct cmd *c);
int verb_list(struct cmd *c);
int verb_show(struct cmd *c);
int verb_remove(struct cmd *c);

/* ---- RAM segments and their owners ------------------------------------------------------------ */

/* What is to be done with the entry of a RAM segment. */
struct claim { /* claim_clear() */
	char *rpc_key, rpc_tag[TE_META_TAG_MAX]; /* of an owner that is dead; NULL: there is none */
};
/*
 * May the entry d be replaced or removed? Not while its owner lives, or nobody knows (-EADDRINUSE). With neither buffers nor
 * rpc_meta it was only registered. d NULL: it cannot be read, or is not there. force: what has buffers, but no owner who could
 * be asked, is nobody's.
 */
int claim_ram(struct cmd *c, const char *name, const struct te_desc *d, bool force, struct claim *out, struct te_err *err);
void claim_clear(struct claim *claim);

#endif
