/* conf_table.h - one row a tunable: what conf.c reads and te-* --env prints. */
#ifndef TE_BASE_CONF_TABLE_H
#define TE_BASE_CONF_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum te_conf_kind {
	TE_CONF_INT,	  /* int64_t in [min, max] */
	TE_CONF_POSITIVE, /* double > 0 */
	TE_CONF_SWITCH,	  /* bool */
	TE_CONF_CHOICE,	  /* one word of `words`, any case; int64_t or bool, -1 without a default */
	TE_CONF_LEVEL,	  /* the same, stored as enum te_log_level */
	TE_CONF_TEXT,
	TE_CONF_SECRET, /* text that is never printed */
};

enum te_conf_use {
	TE_CONF_USED,
	TE_CONF_UNUSED, /* for a part that this build has not, or without effect in te */
};

struct te_conf_var {
	const char *name, *alias; /* alias: older or foreign name, NULL when none */
	const char *def;	  /* as one would set it; "" for text: unset */
	const char *help;
	enum te_conf_kind kind;
	enum te_conf_use use;
	int64_t min, max;      /* TE_CONF_INT */
	const char *words;     /* choices, separated by '|' */
	const int64_t *stored; /* TE_CONF_CHOICE: what each word becomes in the field */
	size_t off, size;      /* of the field in struct te_conf; size 0: not stored */
};

extern const struct te_conf_var te_conf_vars[];
extern const size_t te_conf_nvars;

#endif
