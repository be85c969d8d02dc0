/* verb.h - commands that do one of several things, named by their first argument. */
#ifndef CMD_VERB_H
#define CMD_VERB_H

#include <stdbool.h>
#include <stddef.h>

struct cmd;	/* the command's own state */

struct verb {
	const char *name, *args;	/* "put", "KEY [VALUE|-]" */
	size_t min, max;		/* how many arguments */
	unsigned takes;			/* the command's own bits: which options */
	int (*run)(struct cmd *c);
};

/* The one of that name, which takes nargs arguments; anything else is a usage error. name NULL: none was given. */
const struct verb *verb_find(const struct verb *verbs, size_t n, const char *name, size_t nargs);
/* A usage error if an option was given that only others take. */
void verb_takes(const struct verb *v, bool given, unsigned who, const char *option);

#endif
