/* entries.c - list, show and remove: segments as they are in the store. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "desc_store.h"
#include "file_segment.h"
#include "te-register.h"

void entry_clear(struct entry *e)
{
	free(e->key);
	te_desc_free(e->desc);
	*e = (struct entry){ 0 };
}

static bool is_of_files(const struct te_meta *m, const struct entry *e)
{
	return strncmp(e->key + strlen(te_meta_prefix(m)), "nvmeof/", 7) == 0;
}

const char *entry_kind(const struct te_meta *m, const struct entry *e)
{
	return is_of_files(m, e) ? "nvmeof" : "ram";
}

const char *entry_name(const struct te_meta *m, const struct entry *e)
{
	return e->key + strlen(te_meta_prefix(m)) + (is_of_files(m, e) ? 0 : strlen("ram/"));
}

uint64_t entry_bytes(const struct entry *e)
{
	uint64_t total = 0;

	for (size_t i = 0; e->desc && i < e->desc->nbuffers; i++)
		total += e->desc->buffers[i].length;
	return total;
}

const char *server_of(const struct te_desc *d)
{
	const char *server = d->server_name ? d->server_name : d->name;

	return server ? server : "";
}

const char *entry_server(const struct entry *e)
{
	return e->desc ? server_of(e->desc) : "";
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void entry_hosts(const struct entry *e, struct strings *out)
{
	size_t to = 0;

	for (size_t i = 0; e->desc && i < e->desc->nbuffers; i++)
		for (size_t j = 0; j < e->desc->buffers[i].nmap; j++)
			strings_add(out, e->desc->buffers[i].map[j].host);
	if (!out->n)
		return;
	qsort(out->v, out->n, sizeof(*out->v), by_text);
	for (size_t i = 1; i < out->n; i++) {
		if (strcmp(out->v[to], out->v[i]) == 0)
			free(out->v[i]);
		else
			out->v[++to] = out->v[i];
	}
	out->n = to + 1;
}

/* ---- list --------------------------------------------------------------------------------- */

static int add_key(void *arg, const char *key)
{
	strings_add(arg, key);
	return 0;
}

/* Those that went away since the list are left out. */
static int load(struct cmd *c, const char *key, struct entry *e)
{
	struct te_err err = { 0 };
	int rc = desc_store_load(c->meta, key, &e->desc, NULL, &err);

	if (rc == -ENOENT)
		return rc;
	e->key = strdup(key);
	if (!e->key)
		exit(cli_fail(CLI_FAIL, "out of memory"));
	if (rc)
		snprintf(e->problem, sizeof(e->problem), "%s", err.msg);
	return 0;
}

static int print_all(struct cmd *c, const struct strings *keys)
{
	struct entry *v = calloc(keys->n + 1, sizeof(*v));
	int status = CLI_OK;
	size_t n = 0;

	if (!v)
		return cli_fail(CLI_FAIL, "out of memory");
	for (size_t i = 0; i < keys->n; i++)
		n += load(c, keys->v[i], &v[n]) == 0;
	c->print->list(c->meta, v, n);
	for (size_t i = 0; i < n; i++) {
		if (v[i].problem[0])
			status = cli_fail(CLI_FAIL, "%s", v[i].problem);
		entry_clear(&v[i]);
	}
	free(v);
	return status;
}

int verb_list(struct cmd *c)
{
	static const char *const kinds[] = { "nvmeof/", "ram/" };
	struct strings keys = { 0 };
	int status = CLI_OK;

	for (size_t i = 0; status == CLI_OK && i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct te_err err = { 0 };
		char prefix[1024];

		snprintf(prefix, sizeof(prefix), "%s%s", te_meta_prefix(c->meta), kinds[i]);
		if (te_meta_list(c->meta, prefix, add_key, &keys, &err))
			status = cli_error(&err);
	}
	if (status == CLI_OK)
		status = print_all(c, &keys);
	strings_clear(&keys);
	return status;
}

/* ---- one that is named ---------------------------------------------------------------------- */

static const char *behind(const char *s, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(s, prefix, len) == 0 ? s + len : NULL;
}

static char *key_of(struct cmd *c, const char *kind, const char *name)
{
	char *key;

	if (asprintf(&key, "%s%s%s", te_meta_prefix(c->meta), kind, name) < 0)
		exit(cli_fail(CLI_FAIL, "out of memory"));
	return key;
}

struct found {
	struct te_meta_value value;
	char *key;
};

/* 1: there; 0: not there. */
static int look(struct cmd *c, const char *kind, const char *name, struct found *f,
		struct te_err *err)
{
	int rc;

	f->key = key_of(c, kind, name);
	rc = te_meta_get(c->meta, f->key, &f->value, err);
	if (!rc)
		return 1;
	free(f->key);
	f->key = NULL;
	return rc == -ENOENT ? 0 : rc;
}

static void found_clear(struct found *f)
{
	te_meta_value_clear(&f->value);
	free(f->key);
}

/* NAME may be of either kind, and is wrong where it is of both. */
static int find_any(struct cmd *c, const char *name, struct found *out, struct te_err *err)
{
	struct found ram = { 0 }, files = { 0 };
	int rc = strchr(name, '/') ? 0 : look(c, "ram/", name, &ram, err);

	if (rc >= 0)
		rc = look(c, "nvmeof/", name, &files, err);
	if (rc >= 0 && ram.key && files.key)
		rc = te_fail(err, -EEXIST, "there are two segments '%s': say ram/%s or nvmeof/%s",
			     name, name, name);
	else if (rc >= 0 && !ram.key && !files.key)
		rc = te_fail(err, -ENOENT, "no segment '%s' in %s", name, te_meta_uri(c->meta));
	if (rc < 0) {
		found_clear(&ram);
		found_clear(&files);
		return rc;
	}
	*out = ram.key ? ram : files;
	return 0;
}

static int find(struct cmd *c, const char *given, struct found *out, struct te_err *err)
{
	const char *name = given + strspn(given, "/"),
		   *rest = behind(name, te_meta_prefix(c->meta));
	const char *kind = NULL;
	int rc;

	name = rest ? rest : name;
	if ((rest = behind(name, "ram/")) != NULL)
		kind = "ram/";
	else if ((rest = behind(name, "nvmeof/")) != NULL)
		kind = "nvmeof/";
	if (!*(kind ? rest : name))
		cli_usage(NULL, "a segment's name is not empty");
	*out = (struct found){ 0 };
	if (!kind)
		return find_any(c, name, out, err);
	rc = look(c, kind, rest, out, err);
	if (rc == 0)
		return te_fail(err, -ENOENT, "no segment '%s' in %s", name, te_meta_uri(c->meta));
	return rc < 0 ? rc : 0;
}

/* The key moves from *f to *e. */
static int decode(struct found *f, struct entry *e, struct te_err *err)
{
	int rc = te_desc_parse(f->value.data, f->value.len, &e->desc, err);

	e->key = f->key;
	f->key = NULL;
	return rc ? te_wrap(err, rc, "'%s'", e->key) : 0;
}

int verb_show(struct cmd *c)
{
	struct found f = { 0 };
	struct entry e = { 0 };
	struct te_err err = { 0 };
	int rc = find(c, c->args.v[0], &f, &err);

	if (!rc)
		rc = decode(&f, &e, &err);
	if (!rc)
		c->print->show(c->meta, &e);
	entry_clear(&e);
	found_clear(&f);
	return rc ? cli_error(&err) : CLI_OK;
}

/* ---- remove --------------------------------------------------------------------------------- */

/* A host other than host that has a file of the segment mounted, and has not said that it gave it
 * back. */
static void others(const struct entry *e, const char *host, char *buf, size_t size)
{
	struct strings hosts = { 0 };
	size_t len = 0;

	buf[0] = '\0';
	entry_hosts(e, &hosts);
	for (size_t i = 0; i < hosts.n && len < size; i++)
		if (strcmp(hosts.v[i], host) != 0 && strcmp(hosts.v[i], entry_server(e)) != 0)
			len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "",
						hosts.v[i]);
	strings_clear(&hosts);
}

static int may_remove_files(struct cmd *c, const struct entry *e, struct te_err *err)
{
	const char *name = entry_name(c->meta, e), *server = entry_server(e), *host;
	char buf[256], list[256];

	if (c->force || !e->desc)
		return 0;
	if (file_segment_host(&c->cli, buf, &host, err))
		return -EINVAL;
	if (*server && strcmp(server, host) != 0)
		return te_fail(err, -EPERM,
			       "'%s' has files of '%s', and this is '%s': remove it there, or here "
			       "with --force",
			       name, server, host);
	others(e, host, list, sizeof(list));
	if (*list)
		return te_fail(err, -EBUSY,
			       "'%s' is mounted on %s: te-mount --unmount it there, or --force",
			       name, list);
	return 0;
}

/* The descriptor first: should the second deletion fail, te-meta gc finds the rest. */
static int delete_keys(struct cmd *c, const struct entry *e, const char *tag,
		       const struct claim *claim, struct te_err *err)
{
	struct strings keys = { 0 };
	int rc = c->dry_run ? 0 : desc_store_delete(c->meta, e->key, tag, err);

	if (!rc)
		strings_add(&keys, e->key);
	if (!rc && claim->rpc_key) {
		rc = c->dry_run ? 0
				: desc_store_delete(c->meta, claim->rpc_key, claim->rpc_tag, err);
		if (!rc)
			strings_add(&keys, claim->rpc_key);
	}
	if (keys.n)
		c->print->removed(&keys, c->dry_run);
	strings_clear(&keys);
	return rc;
}

/* What cannot be read is nobody's: only --force takes it out. */
static int decode_for_removal(struct cmd *c, struct found *f, struct entry *e, struct te_err *err)
{
	int rc = decode(f, e, err);

	if (rc && c->force)
		return 0;
	return rc ? te_wrap(err, rc, "not removed without --force") : 0;
}

static int remove_found(struct cmd *c, struct found *f, struct te_err *err)
{
	struct claim claim = { 0 };
	struct entry e = { 0 };
	int rc = decode_for_removal(c, f, &e, err);

	if (!rc && is_of_files(c->meta, &e))
		rc = may_remove_files(c, &e, err);
	else if (!rc)
		rc = claim_ram(c, entry_name(c->meta, &e), e.desc, c->force, &claim, err);
	if (!rc)
		rc = delete_keys(c, &e, f->value.tag, &claim, err);
	claim_clear(&claim);
	entry_clear(&e);
	return rc;
}

/* Somebody else may change the entry between our look and our deletion: looked at again. */
int verb_remove(struct cmd *c)
{
	struct te_err err = { 0 };
	int tries = 5, rc;

	do {
		struct found f = { 0 };

		rc = find(c, c->args.v[0], &f, &err);
		if (!rc)
			rc = remove_found(c, &f, &err);
		found_clear(&f);
	} while (rc == -ESTALE && --tries);
	return rc ? cli_error(&err) : CLI_OK;
}
