/* te-mount.h - what the parts of te-mount share. */
#ifndef TE_MOUNT_H
#define TE_MOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "fabric.h"
#include "file_segment.h"
#include "mounts.h"

/* ---- what was done, for the printers ------------------------------------------------------ */

struct step {
	const char *action;		/* "connect", "mount", "publish", ...; of static storage */
	char *detail;
};

struct report {				/* of add, --connect and --unmount */
	const char *segment, *host;	/* "nvmeof/NAME", the key in local_path_map */
	bool dry_run;
	struct step *steps;
	size_t nsteps;
};
/* When memory is out the program ends with a message. */
void report_step(struct report *r, const char *action, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void report_clear(struct report *r);

enum { PROBLEM_MAX = 400, PATHS_MAX = 8 };

struct buffer_state {			/* one buffer, as it is on this host */
	const char *file_path;
	uint64_t length;		/* published */
	const char *local_path;		/* NULL: not on this host */
	bool answered, exists, readable;
	uint64_t found_length;
	bool has_mount;
	struct mounted mount;		/* that local_path is in */
	struct fabric_ctrl paths[PATHS_MAX];
	size_t npaths;
	char problem[PROBLEM_MAX];	/* "" = all is well */
};

struct status {
	const char *segment, *host, *server_name;
	struct buffer_state *buffers;
	size_t n, bad;
};

struct printer {
	void (*report)(const struct report *r);
	void (*status)(const struct status *s);
};
extern const struct printer print_text, print_json;

/* ---- the command -------------------------------------------------------------------------- */

struct cmd {				/* on main's stack */
	struct cli cli;
	const char **args;
	size_t nargs;
	bool connect, unmount, all, no_check, dry_run, read_only;
	const char *fstype, *options, *path_in_fs;
	double timeout_s;
	struct fabric_target target;

	struct te_conf conf;
	struct te_meta *meta;
	char host_name[256];
	const char *host;		/* whose entry of local_path_map it is */
	char *key;			/* of the segment */
	const char *segment;		/* "nvmeof/NAME", in key */
	int stop;			/* signals, or -1 */
	const struct printer *print;
};

/* Each returns an exit status and has said on stderr what failed. */
int verb_add(struct cmd *c);
int verb_connect(struct cmd *c);
int verb_unmount(struct cmd *c);
int verb_status(struct cmd *c);

/* "needs root: ..." and CLI_FAIL, unless we are. */
int need_root(const char *what);

#endif
