/* dump.c - dump and load: entries as JSON, one a line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "te-meta.h"

/* Keys that went away since the list are left out. */
static int dump_one(struct cmd *c, const char *key)
{
	struct te_meta_value v;
	struct te_err err = { 0 };
	json_t *line;
	int rc = te_meta_get(c->meta, key, &v, &err);

	if (rc)
		return rc == -ENOENT ? CLI_OK : cli_error(&err);
	line = entry_json(key, v.data, v.len);
	te_meta_value_clear(&v);
	if (!line)
		return cli_fail(CLI_FAIL, "key '%s' is not UTF-8 text and cannot be dumped", key);
	json_dumpf(line, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(line);
	return CLI_OK;
}

int verb_dump(struct cmd *c)
{
	struct strings keys = { 0 };
	int status = list_keys(c, prefix_of(c), &keys);

	for (size_t i = 0; i < keys.n; i++) {
		int one = dump_one(c, keys.v[i]);

		if (one != CLI_OK)
			status = one;
		if (ferror(stdout))
			break;
	}
	strings_clear(&keys);
	return status;
}

struct entry {
	char *key, *data;
	size_t len;
};

struct entries {
	struct entry *v;
	size_t n, cap;
};

static void entries_clear(struct entries *list)
{
	for (size_t i = 0; i < list->n; i++) {
		free(list->v[i].key);
		free(list->v[i].data);
	}
	free(list->v);
}

static void add(struct entries *list, const struct entry *e)
{
	if (list->n == list->cap) {
		list->cap = list->cap ? 2 * list->cap : 64;
		list->v = reallocarray(list->v, list->cap, sizeof(*list->v));
		if (!list->v)
			exit(cli_fail(CLI_FAIL, "out of memory"));
	}
	list->v[list->n++] = *e;
}

/* malloc'ed bytes of "value" or "value_base64"; NULL: neither is there or good. */
static char *entry_value(const json_t *line, size_t *len)
{
	const json_t *text = json_object_get(line, "value");
	const json_t *coded = json_object_get(line, "value_base64");
	char *data;

	if (json_is_string(text) && !coded) {
		*len = json_string_length(text);
		return strdup(json_string_value(text));
	}
	if (!json_is_string(coded) || text ||
	    te_base64_decode(json_string_value(coded), json_string_length(coded), &data, len))
		return NULL;
	return data;
}

static bool parse_line(const char *text, size_t len, struct entry *e)
{
	json_t *line = json_loadb(text, len, 0, NULL);
	const char *key = json_string_value(json_object_get(line, "key"));
	bool good = false;

	*e = (struct entry){ 0 };
	if (key && *key) {
		e->key = strdup(key);
		e->data = entry_value(line, &e->len);
		good = e->key && e->data;
	}
	json_decref(line);
	if (!good) {
		free(e->key);
		free(e->data);
	}
	return good;
}

/* All lines, or none: a file that is not a whole dump changes nothing. */
static int read_entries(FILE *f, const char *name, struct entries *list)
{
	char *line = NULL;
	size_t size = 0, number = 0;
	int status = CLI_OK;
	struct entry e;
	ssize_t len;

	while ((len = getline(&line, &size, f)) >= 0) {
		number++;
		if (strspn(line, " \t\r\n") == (size_t)len)
			continue;
		if (!parse_line(line, (size_t)len, &e)) {
			status = cli_fail(
				CLI_FAIL,
				"%s, line %zu: not {\"key\", \"value\" or \"value_base64\"}; "
				"nothing was loaded",
				name, number);
			break;
		}
		add(list, &e);
	}
	if (ferror(f))
		status = cli_fail(CLI_FAIL, "cannot read '%s': %s", name, strerror(errno));
	free(line);
	return status;
}

static int put_entries(struct cmd *c, const struct entries *list)
{
	struct te_meta_put opt;
	size_t failed = 0;
	int status = put_options(c, &opt);

	if (status != CLI_OK)
		return status;
	for (size_t i = 0; i < list->n; i++) {
		const struct entry *e = &list->v[i];
		struct te_err err = { 0 };

		if (te_meta_put(c->meta, e->key, e->data, e->len, &opt, NULL, &err)) {
			status = cli_error(&err);
			failed++;
		}
	}
	c->print->loaded(list->n - failed, failed);
	return status;
}

int verb_load(struct cmd *c)
{
	const char *name = c->args.n ? c->args.v[0] : "-";
	bool is_stdin = strcmp(name, "-") == 0;
	FILE *f = is_stdin ? stdin : fopen(name, "re");
	struct entries list = { 0 };
	int status;

	if (!f)
		return cli_fail(CLI_FAIL, "cannot open '%s': %s", name, strerror(errno));
	status = read_entries(f, is_stdin ? "standard input" : name, &list);
	if (!is_stdin)
		fclose(f);
	if (status == CLI_OK)
		status = put_entries(c, &list);
	entries_clear(&list);
	return status;
}
