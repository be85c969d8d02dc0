/* cli.h - what all te commands share: common options, exit status, sizes, errors. */
#ifndef TE_CLI_H
#define TE_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "te.h"

enum { CLI_OK = 0, CLI_FAIL = 1, CLI_USAGE = 2 };

struct cli {
	const char *metadata;		/* -m, else NULL: libte reads MC_METADATA_SERVER itself */
	const char *name;		/* -n, else NULL */
	bool json;
	int verbose;			/* 0, 1 = INFO, 2 = TRACE; -1 = quiet */
};

/*
 * Sets *cli and calls argp_parse() with the common options as a child (keys of the command must be < 0x1000; 'h', 'j', 'm', 'n', 'q',
 * 'v', 'V' are taken), usage errors as one line on stderr and exit 2, --help on stdout, and every long option
 * also accepted with underscores for dashes (rewritten in place: argv[] that has underscores must be writable).
 * input is the command's own state, as in argp_parse(). Parsers report bad values with cli_usage(), not argp_error().
 * Applies -v/-q to the log. --env prints the tunables and exits.
 */
void cli_parse(const struct argp *argp, int argc, char **argv, struct cli *cli, void *input);
/* The children that every command's argp must name. */
extern const struct argp_child cli_children[];

/* Reads the tunables, for the command's own use and to be handed to te_engine_open() and the like. Exit 2 when -m or else
   MC_METADATA_SERVER names a kind of store that this build has not. */
void cli_conf(const struct cli *cli, struct te_conf *conf);

/* "te-x: message" on stderr; returns CLI_FAIL. */
int cli_error(const struct te_err *err);
/* printf form of the same; status is returned. */
int cli_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same line for what is no failure; nothing with -q. */
void cli_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* For option parsers and whoever checks options later (state NULL): "te-x: message; try te-x --help", exit 2. */
void cli_usage(const struct argp_state *state, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
/* Last act of every main: a full disk or closed pipe is a failure too. */
int cli_finish(int status);

/*
 * Boolean flags as the Mooncake programs have them: --NAME, --NAME=true|false, --noNAME. The option table has NAME with
 * OPTION_ARG_OPTIONAL and, hidden, "noNAME"; this gives the value of the first (arg NULL: true), or a usage error.
 */
bool cli_switch(const struct argp_state *state, const char *option, const char *arg);

/* "64K", "1G", "17", binary; 1..2^62. false: not a size. */
bool cli_size(const char *text, uint64_t *out);
/* Whole decimal in [min, max]. */
bool cli_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
/* Seconds, fractions allowed, >= 0: "10", "0.5", "10s", "500ms", "2m". */
bool cli_seconds(const char *text, double *out);

/* A signalfd for SIGINT, SIGTERM and SIGHUP, which are blocked for all threads started later. -1 and a message on failure. */
int cli_signals(void);
/* As many open files as the hard limit allows: for many clients, or a segment of many files. */
void cli_raise_files(void);

#endif
