/* te-meta.h - what the verbs of te-meta share. */
#ifndef TE_META_CMD_H
#define TE_META_CMD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli.h"
#include "owner.h"
#include "strings_list.h"

/* ---- what verbs find out, for the printers ------------------------------------------------ */

struct pong {
	const char *uri, *scheme;
	double seconds;
	unsigned caps;
};

struct shown { /* a segment */
	const char *name, *key;
	const struct te_meta_value *value;
	const struct te_desc *desc;
	const struct te_rpc_meta *rpc; /* NULL: there is none */
	bool alive;
	const char *reason; /* why not alive */
	const struct strings *notes;
};

struct owner { /* of one rpc_meta entry */
	char *name;
	struct te_rpc_meta at;
	enum owner_state state;
	char reason[256];
	char *key[2]; /* rpc_meta and segment; NULL: not there */
	char tag[2][TE_META_TAG_MAX];
	bool deleted;
	char failure[256]; /* why not deleted */
};

struct printer {
	void (*value)(const char *key, const struct te_meta_value *v);
	void (*tag)(const char *key, const char *tag);
	void (*put)(const char *key, const char *tag);
	void (*deleted)(char *const *keys, size_t n);
	void (*keys)(const struct strings *keys);
	void (*pong)(const struct pong *p);
	void (*change)(const struct te_meta_event *ev);
	void (*loaded)(size_t done, size_t failed);
	void (*segment)(const struct shown *s);
	void (*owners)(const struct owner *list, size_t n, bool delete);
};
extern const struct printer print_text, print_json;

/* {"key":..., "value":...}, or "value_base64" for what is no UTF-8 text. */
json_t *entry_json(const char *key, const char *data, size_t len);

/* ---- the verbs ---------------------------------------------------------------------------- */

struct cmd { /* on main's stack */
	struct cli cli;
	const char *verb;
	struct strings args;
	unsigned ttl_s;
	bool if_absent, tag, delete;
	const char *if_match;

	struct te_conf conf;
	struct te_meta *meta;
	const struct printer *print;
};

/* Each returns an exit status and has said on stderr what failed. */
int verb_get(struct cmd *c);
int verb_put(struct cmd *c);
int verb_del(struct cmd *c);
int verb_ls(struct cmd *c);
int verb_watch(struct cmd *c);
int verb_ping(struct cmd *c);
int verb_show(struct cmd *c);
int verb_dump(struct cmd *c);
int verb_load(struct cmd *c);
int verb_gc(struct cmd *c);

/* The first argument, or the cluster's prefix. */
const char *prefix_of(const struct cmd *c);
/* All keys with that prefix, sorted. 0 or the exit status. */
int list_keys(struct cmd *c, const char *prefix, struct strings *out);
/* What --ttl, --if-absent and --if-match say; a message and CLI_FAIL where the store cannot do it.
 */
int put_options(struct cmd *c, struct te_meta_put *opt);

#endif
