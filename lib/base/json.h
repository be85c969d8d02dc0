/*
 * json.h - jansson behind typed, bounded getters. The only user of jansson in libte.
 *
 * Text from peers and stores is hostile: te_json_parse() bounds size and nesting, takes what a
 * jsoncpp reader takes (a trailing newline, NUL-free text), and no getter converts types silently.
 * A missing member is -ENOENT, a wrong type or range -EINVAL with a sentence that names the member.
 */
#ifndef TE_BASE_JSON_H
#define TE_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct te_err;

/* Root of any type; json_decref() it. Nesting above 64 levels or invalid text: -EINVAL. */
int te_json_parse(const char *text, size_t len, json_t **out, struct te_err *err);
/* Compact, keys sorted, non-ASCII as \uXXXX: what jsoncpp's fast writer gives. malloc'ed. */
char *te_json_format(const json_t *root);
/* A new string; bytes of text that is not UTF-8 become '?' (JSON cannot carry them). NULL stays
 * NULL. */
json_t *te_json_text(const char *s);

/* out is untouched unless 0 comes back. obj must be an object (else -EINVAL). */
int te_json_u64(const json_t *obj, const char *member, uint64_t max, uint64_t *out,
		struct te_err *err);
int te_json_bool(const json_t *obj, const char *member, bool *out, struct te_err *err);
/* Borrowed from obj. */
int te_json_str(const json_t *obj, const char *member, const char **out, struct te_err *err);
int te_json_array(const json_t *obj, const char *member, json_t **out, struct te_err *err);
int te_json_object(const json_t *obj, const char *member, json_t **out, struct te_err *err);

#endif
