/* json.c - jansson behind typed, bounded getters. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "te_err.h"

enum { NEST_MAX = 64 };

/* jansson would go 2048 levels deep before it gives up. */
static bool nested_too_deep(const char *text, size_t len)
{
	bool in_string = false;
	int depth = 0;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == '[' || c == '{') {
			if (++depth > NEST_MAX)
				return true;
		} else if (c == ']' || c == '}') {
			depth--;
		}
	}
	return false;
}

int te_json_parse(const char *text, size_t len, json_t **out, struct te_err *err)
{
	json_error_t why;
	json_t *root;

	if (nested_too_deep(text, len))
		return te_fail(err, -EINVAL, "JSON is nested deeper than %d levels", NEST_MAX);
	root = json_loadb(text, len, JSON_DECODE_ANY, &why);
	if (!root)
		return te_fail(err, -EINVAL, "invalid JSON at line %d, column %d: %s", why.line,
			       why.column, why.text);
	*out = root;
	return 0;
}

/* jansson writes \u00E9 where jsoncpp writes \u00e9. */
static void lower_escapes(char *s)
{
	for (; *s; s++) {
		if (*s != '\\')
			continue;
		s++;
		if (*s != 'u')
			continue;
		for (int i = 1; i <= 4; i++)
			if (s[i] >= 'A' && s[i] <= 'F')
				s[i] = (char)(s[i] + ('a' - 'A'));
	}
}

char *te_json_format(const json_t *root)
{
	char *s = json_dumps(root,
			     JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);

	if (s)
		lower_escapes(s);
	return s;
}

json_t *te_json_text(const char *s)
{
	json_t *v = NULL;
	char *copy;

	if (!s)
		return NULL;
	v = json_string(s);
	if (v)
		return v;
	/* Not UTF-8 (or memory is out, which the copy finds out): keep what is ASCII. */
	copy = strdup(s);
	if (!copy)
		return NULL;
	for (char *p = copy; *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	v = json_string(copy);
	free(copy);
	return v;
}

static int member(const json_t *obj, const char *name, json_t **out, struct te_err *err)
{
	json_t *v = NULL;

	if (!json_is_object(obj))
		return te_fail(err, -EINVAL, "not an object where member '%s' should be", name);
	v = json_object_get(obj, name);
	if (!v)
		return te_fail(err, -ENOENT, "member '%s' is missing", name);
	*out = v;
	return 0;
}

static int typed(const json_t *obj, const char *name, json_type type, const char *type_name,
		 json_t **out, struct te_err *err)
{
	json_t *v = NULL;
	int rc = member(obj, name, &v, err);

	if (rc)
		return rc;
	if (json_typeof(v) != type)
		return te_fail(err, -EINVAL, "member '%s' is not %s", name, type_name);
	*out = v;
	return 0;
}

int te_json_u64(const json_t *obj, const char *name, uint64_t max, uint64_t *out,
		struct te_err *err)
{
	json_t *v = NULL;
	int rc = typed(obj, name, JSON_INTEGER, "an integer", &v, err);

	if (rc)
		return rc;
	if (json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > max)
		return te_fail(err, -EINVAL, "member '%s' is %lld, not in [0..%llu]", name,
			       (long long)json_integer_value(v), (unsigned long long)max);
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

int te_json_bool(const json_t *obj, const char *name, bool *out, struct te_err *err)
{
	json_t *v = NULL;
	int rc = member(obj, name, &v, err);

	if (rc)
		return rc;
	if (!json_is_boolean(v))
		return te_fail(err, -EINVAL, "member '%s' is not true or false", name);
	*out = json_is_true(v);
	return 0;
}

int te_json_str(const json_t *obj, const char *name, const char **out, struct te_err *err)
{
	json_t *v = NULL;
	int rc = typed(obj, name, JSON_STRING, "a string", &v, err);

	if (!rc)
		*out = json_string_value(v);
	return rc;
}

int te_json_array(const json_t *obj, const char *name, json_t **out, struct te_err *err)
{
	return typed(obj, name, JSON_ARRAY, "an array", out, err);
}

int te_json_object(const json_t *obj, const char *name, json_t **out, struct te_err *err)
{
	return typed(obj, name, JSON_OBJECT, "an object", out, err);
}
