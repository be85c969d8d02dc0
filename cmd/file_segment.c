/* file_segment.c - segments of files in the store. */
#include "file_segment.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char kind[] = "nvmeof/";

/* Behind prefix, or NULL when s does not begin with it. */
static const char *behind(const char *s, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(s, prefix, len) == 0 ? s + len : NULL;
}

bool file_segment_is_text(const char *s)
{
	json_t *v = json_string(s);

	json_decref(v);
	return v;
}

int file_segment_key(const struct te_meta *m, const char *given, char **key, struct te_err *err)
{
	const char *prefix = te_meta_prefix(m), *name = given + strspn(given, "/"), *rest;

	rest = behind(name, prefix);
	if (rest && !behind(rest, kind))
		return te_fail(err, -EINVAL, "'%s' is not the key of a segment of files (%s%sNAME)",
			       given, prefix, kind);
	name = rest ? rest : name;
	rest = behind(name, kind);
	name = rest ? rest : name;
	if (!*name)
		return te_fail(err, -EINVAL, "a segment's name is not empty");
	if (!file_segment_is_text(name))
		return te_fail(err, -EINVAL, "the name '%s' is not UTF-8", given);
	if (asprintf(key, "%s%s%s", prefix, kind, name) < 0)
		return te_fail(err, -ENOMEM, "out of memory");
	return 0;
}

const char *file_segment_name(const struct te_meta *m, const char *key)
{
	return key + strlen(te_meta_prefix(m)) + strlen(kind);
}

static int check_protocol(const struct te_desc *d, const char *key, struct te_err *err)
{
	if (!d->protocol || strcmp(d->protocol, "nvmeof") == 0)
		return 0;
	return te_fail(err, -EINVAL, "'%s' is no segment of files: its protocol is '%s'", key,
		       d->protocol);
}

static int explain(struct te_meta *m, const char *key, int rc, struct te_err *err)
{
	if (rc != -ENOENT)
		return rc;
	return te_fail(err, rc, "no segment 'nvmeof/%s' in %s", file_segment_name(m, key),
		       te_meta_uri(m));
}

int file_segment_load(struct te_meta *m, const char *key, struct te_desc **out,
		      char tag[TE_META_TAG_MAX], struct te_err *err)
{
	struct te_desc *d = NULL;
	int rc = explain(m, key, desc_store_load(m, key, &d, tag, err), err);

	if (!rc)
		rc = check_protocol(d, key, err);
	if (rc)
		te_desc_free(d);
	else
		*out = d;
	return rc;
}

struct checked { /* an edit of somebody else's, and the key for messages */
	const struct desc_edit *edit;
	const char *key;
	int rc; /* of the last change: what it calls missing has its own words */
};

static int change_checked(void *arg, struct te_desc *d, struct te_err *err)
{
	struct checked *c = arg;

	c->rc = c->edit->mend ? 0 : check_protocol(d, c->key, err);
	if (!c->rc)
		c->rc = c->edit->change(c->edit->arg, d, err);
	return c->rc;
}

int file_segment_edit(struct te_meta *m, const char *key, const struct desc_edit *edit,
		      struct te_desc **out, struct te_err *err)
{
	struct checked c = { .edit = edit, .key = key };
	struct desc_edit own = *edit;
	int rc;

	own.change = change_checked;
	own.arg = &c;
	rc = desc_store_edit(m, key, &own, out, err);
	return c.rc < 0 ? rc : explain(m, key, rc, err);
}

int file_segment_host(const struct cli *cli, char buf[256], const char **host, struct te_err *err)
{
	buf[0] = buf[255] = '\0';
	*host = cli->name && *cli->name ? cli->name : gethostname(buf, 255) == 0 ? buf : "";
	if (!**host)
		return te_fail(err, -EINVAL, "this host has no name: give --local-server-name");
	if (!file_segment_is_text(*host))
		return te_fail(err, -EINVAL, "the server name '%s' is not UTF-8", *host);
	if (!te_server_name_ok(*host))
		return te_fail(err, -EINVAL, "'%s' is not a name, host or host:port", *host);
	return 0;
}

/* Takes "//" and "/./" out, and a '/' at the end. */
static void tidy(char *path)
{
	char *to = path;

	for (const char *from = path; *from;) {
		size_t len = strcspn(from + 1, "/");

		if (len && !(len == 1 && from[1] == '.')) {
			memmove(to, from, len + 1);
			to += len + 1;
		}
		from += len + 1;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

static bool goes_up(const char *path)
{
	const char *up = path;

	while ((up = strstr(up, "/..")) && up[3] && up[3] != '/')
		up += 3;
	return up;
}

char *file_segment_path(const char *name)
{
	char *cwd = *name == '/' ? strdup("") : getcwd(NULL, 0), *path = NULL, *real;

	if (!*name)
		errno = ENOENT;
	else if (cwd && asprintf(&path, "%s/%s", cwd, name) < 0)
		path = NULL;
	free(cwd);
	if (!path)
		return NULL;
	real = goes_up(path) ? realpath(path, NULL) : NULL;
	if (!real) {
		tidy(path);
		return path;
	}
	free(path);
	return real;
}

struct te_desc_buffer *file_segment_file(const struct te_desc *d, const char *file_path)
{
	for (size_t i = 0; i < d->nbuffers; i++)
		if (d->buffers[i].file_path && strcmp(d->buffers[i].file_path, file_path) == 0)
			return &d->buffers[i];
	return NULL;
}

static struct te_desc_map *find(const struct te_desc_buffer *b, const char *host)
{
	for (size_t i = 0; i < b->nmap; i++)
		if (strcmp(b->map[i].host, host) == 0)
			return &b->map[i];
	return NULL;
}

const char *file_segment_mapped(const struct te_desc_buffer *b, const char *host)
{
	const struct te_desc_map *m = find(b, host);

	return m ? m->path : NULL;
}

static int append(struct te_desc_buffer *b, char *host, char *path)
{
	struct te_desc_map *map = reallocarray(b->map, b->nmap + 1, sizeof(*map));

	if (!map)
		return -ENOMEM;
	map[b->nmap++] = (struct te_desc_map){ host, path };
	b->map = map;
	return 0;
}

int file_segment_map(struct te_desc_buffer *b, const char *host, const char *path,
		     struct te_err *err)
{
	struct te_desc_map *there = find(b, host);
	char *own_host, *own_path;

	if (there && strcmp(there->path, path) == 0)
		return 0;
	own_path = strdup(path);
	if (there && own_path) {
		free(there->path);
		there->path = own_path;
		return 1;
	}
	own_host = strdup(host);
	if (own_path && own_host && !append(b, own_host, own_path))
		return 1;
	free(own_host);
	free(own_path);
	return te_fail(err, -ENOMEM, "out of memory");
}

int file_segment_unmap(struct te_desc_buffer *b, const char *host)
{
	struct te_desc_map *there = find(b, host);

	if (!there)
		return 0;
	free(there->host);
	free(there->path);
	b->nmap--;
	memmove(there, there + 1, (size_t)(b->map + b->nmap - there) * sizeof(*there));
	return 1;
}
