/* te-topo.h - what the verbs of te-topo share. */
#ifndef TE_TOPO_CMD_H
#define TE_TOPO_CMD_H

#include <stdbool.h>
#include <stddef.h>

#include "cli.h"
#include "te_topo.h"

/* ---- where a topology comes from ---------------------------------------------------------- */

struct source { /* source_close() */
	const char *label;	/* "this host", or what the user called it */
	struct te_topo *topo;
	struct te_desc *desc;	/* of a segment; else NULL */
	bool host;
};

struct cmd { /* on main's stack */
	struct cli cli;
	const char *verb, *args[4];
	size_t nargs;
	const char *input, *segment, *peer, *format;
	struct te_conf conf;
	const struct printer *print;
};

/* Each returns an exit status, and has said on stderr what failed. */
/* --input, --segment, else this host. */
int source_open(struct cmd *c, struct source *s);
int source_segment(struct cmd *c, const char *name, struct source *s);
int source_input(const char *input, struct source *s);
/* A word of diff: "host", a file, "segment:NAME", a synthetic description, a segment's name. */
int source_word(struct cmd *c, const char *word, struct source *s);
void source_close(struct source *s);

/* ---- what verbs find out, for the printers ------------------------------------------------ */

struct pair { /* of NICs */
	const char *local, *remote;
	unsigned tier;		/* 0: both preferred, 1: one, 2: none */
	int near;		/* same subnet: 1, 0; -1: not known */
	bool same_name;
	bool usable;		/* nothing is known that keeps it from being used */
	bool first;		/* as good as the best: used from the start */
	char why[256];
};
struct pairs { /* for one location there, best first */
	const char *remote_location;
	struct pair *v;
	size_t n;
};
struct path {
	const char *local_location, *segment;
	struct pairs *v;
	size_t n;
};

enum change_kind { ROW_ONLY_A, ROW_ONLY_B, ROW_CHANGED, NIC_ONLY_A, NIC_ONLY_B };
struct change {
	enum change_kind kind;
	const char *name;	/* location or NIC */
	const struct te_topo_row *a, *b;
};
struct diff {
	const char *a, *b;
	struct change *v;
	size_t n;
};

struct printer {
	void (*show)(const struct source *s);
	void (*nics)(const struct te_topo_nic *nics, size_t n);
	void (*pick)(const struct te_topo_row *row);
	void (*path)(const struct path *p);
	void (*diff)(const struct diff *d);
};
extern const struct printer print_text, print_json;

/* ---- the verbs ---------------------------------------------------------------------------- */

int verb_show(struct cmd *c);
int verb_nics(struct cmd *c);
int verb_pick(struct cmd *c);
int verb_path(struct cmd *c);
int verb_diff(struct cmd *c);
int verb_draw(struct cmd *c);

/* The row, or NULL and a message that lists those there are. */
const struct te_topo_row *find_row(const struct source *s, const char *location);
/* calloc() that ends the program with a message when memory is out. */
void *zalloc(size_t n, size_t size);

#endif
