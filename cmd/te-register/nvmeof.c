/* nvmeof.c - nvmeof: files of this host as a segment. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "desc_store.h"
#include "file_segment.h"
#include "te-register.h"

struct plan {
	const char *key, *host;
	const struct file *files;
	size_t n;
	bool replace;
	struct strings notes; /* of the change that was made */
};

__attribute__((format(printf, 2, 3))) static void note(struct plan *p, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	strings_add(&p->notes, text);
}

static int set_text(char **member, const char *text, struct te_err *err)
{
	char *copy = strdup(text);

	if (!copy)
		return te_fail(err, -ENOMEM, "out of memory");
	free(*member);
	*member = copy;
	return 0;
}

static int set_names(struct te_desc *d, const char *host, struct te_err *err)
{
	int rc = set_text(&d->protocol, "nvmeof", err);

	return rc ? rc : set_text(&d->server_name, host, err);
}

/* What its former server wrote about its own file is true of another host's no more. */
static bool is_void(const struct te_desc *from, const struct plan *p,
		    const struct te_desc_buffer *b, const struct te_desc_map *m)
{
	return strcmp(m->host, p->host) == 0 ||
	       (strcmp(m->host, server_of(from)) == 0 && strcmp(m->path, b->file_path) == 0);
}

/* Other hosts that have mounted what goes away. */
static void note_dropped(const struct te_desc *d, struct plan *p, const struct te_desc_buffer *b)
{
	for (size_t i = 0; i < b->nmap; i++)
		if (!is_void(d, p, b, &b->map[i]))
			note(p, "'%s' is no part of the segment any more; %s has it at '%s'",
			     b->file_path, b->map[i].host, b->map[i].path);
}

static int append(struct te_desc *d, const struct plan *p, const struct file *f, struct te_err *err)
{
	struct te_desc_buffer *b = te_desc_add_buffer(d);
	int rc;

	if (!b)
		return te_fail(err, -ENOMEM, "out of memory");
	b->length = f->length;
	rc = set_text(&b->file_path, f->path, err);
	return rc ? rc : file_segment_map(b, p->host, f->path, err);
}

/* A file that was registered before: only its length may have changed. */
static int update(struct te_desc *d, struct plan *p, struct te_desc_buffer *b, const struct file *f,
		  struct te_err *err)
{
	if (b->length != f->length)
		note(p, "'%s' had %llu bytes, and has %llu now%s", f->path,
		     (unsigned long long)b->length, (unsigned long long)f->length,
		     b + 1 < d->buffers + d->nbuffers ? ": what is behind it in the segment moves"
						      : "");
	b->length = f->length;
	return file_segment_map(b, p->host, f->path, err);
}

/* Under another name it would be in the segment twice. */
static int check_twins(const struct te_desc *d, const struct plan *p, struct te_err *err)
{
	for (size_t i = 0; i < d->nbuffers; i++) {
		const char *path = d->buffers[i].file_path;
		const struct file *twin = files_same(p->files, p->n, path);

		if (twin)
			return te_fail(
				err, -EEXIST,
				"cannot register '%s': '%s' in segment '%s' is the same file",
				twin->path, path, p->key);
	}
	return 0;
}

static int merge(struct te_desc *d, struct plan *p, struct te_err *err)
{
	int rc = check_twins(d, p, err);

	for (size_t i = 0; rc >= 0 && i < p->n; i++) {
		struct te_desc_buffer *b = file_segment_file(d, p->files[i].path);

		rc = b ? update(d, p, b, &p->files[i], err) : append(d, p, &p->files[i], err);
	}
	return rc;
}

/* The old buffer gives its map away. */
static int take_over(struct te_desc *from, struct te_desc *to, struct plan *p, const struct file *f,
		     struct te_err *err)
{
	struct te_desc_buffer *old = file_segment_file(from, f->path), *b;
	int rc = append(to, p, f, err);

	if (rc < 0 || !old)
		return rc;
	b = &to->buffers[to->nbuffers - 1];
	for (size_t i = 0; rc >= 0 && i < old->nmap; i++)
		if (!is_void(from, p, old, &old->map[i]))
			rc = file_segment_map(b, old->map[i].host, old->map[i].path, err);
	if (old->length != b->length)
		note(p, "'%s' had %llu bytes, and has %llu now", f->path,
		     (unsigned long long)old->length, (unsigned long long)b->length);
	return rc;
}

static bool is_planned(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->files[i].path, path) == 0)
			return true;
	return false;
}

static void swap(struct te_desc *a, struct te_desc *b)
{
	struct te_desc t = *a;

	*a = *b;
	*b = t;
}

/* Old files that stay keep what other hosts said about them. */
static int start_over(struct te_desc *d, struct plan *p, struct te_err *err)
{
	struct te_desc *fresh = te_desc_new();
	int rc = fresh ? 0 : te_fail(err, -ENOMEM, "out of memory");

	for (size_t i = 0; rc >= 0 && i < p->n; i++)
		rc = take_over(d, fresh, p, &p->files[i], err);
	if (rc >= 0) {
		for (size_t i = 0; i < d->nbuffers; i++)
			if (d->buffers[i].file_path && !is_planned(p, d->buffers[i].file_path))
				note_dropped(d, p, &d->buffers[i]);
		if (*server_of(d) && strcmp(server_of(d), p->host) != 0)
			note(p,
			     "the segment was of '%s': where other hosts have mounted its files, "
			     "there have to be those of '%s' now",
			     server_of(d), p->host);
		swap(d, fresh);
	}
	te_desc_free(fresh);
	return rc;
}

static int check_server(const struct te_desc *d, const struct plan *p, struct te_err *err)
{
	const char *server = server_of(d);

	if (p->replace || !*server || strcmp(server, p->host) == 0)
		return 0;
	return te_fail(err, -EEXIST,
		       "'%s' has files of '%s', and the files of a segment are of one server ('%s' "
		       "here): take another name, or --replace it",
		       p->key, server, p->host);
}

static int check_total(const struct te_desc *d, const char *key, struct te_err *err)
{
	uint64_t total = 0;

	for (size_t i = 0; i < d->nbuffers; i++) {
		if (d->buffers[i].length > INT64_MAX - total)
			return te_fail(err, -EFBIG, "'%s' would be longer than 2^63 bytes", key);
		d->buffers[i].addr = total;
		total += d->buffers[i].length;
	}
	return 0;
}

static int rewrite(struct te_desc *d, struct plan *p, struct te_err *err)
{
	int rc = check_server(d, p, err);

	if (!rc)
		rc = p->replace ? start_over(d, p, err) : merge(d, p, err);
	if (rc >= 0)
		rc = set_names(d, p->host, err);
	return rc ? rc : check_total(d, p->key, err);
}

static int change(void *arg, struct te_desc *d, struct te_err *err)
{
	struct plan *p = arg;
	struct strings before_notes = p->notes;
	char *before = te_desc_format(d), *after = NULL;
	int rc;

	p->notes = (struct strings){ 0 };
	rc = before ? rewrite(d, p, err) : te_fail(err, -ENOMEM, "out of memory");
	if (!rc) {
		after = te_desc_format(d);
		rc = after ? strcmp(before, after) != 0 : te_fail(err, -ENOMEM, "out of memory");
	}
	free(before);
	free(after);
	/* Read back, it is as it should be; what was changed before that is worth telling. */
	if (!rc) {
		strings_clear(&p->notes);
		p->notes = before_notes;
	} else {
		strings_clear(&before_notes);
	}
	return rc;
}

static int write_segment(struct cmd *c, struct plan *p)
{
	struct desc_edit edit = { .change = change,
				  .arg = p,
				  .create = true,
				  .mend = p->replace,
				  .dry_run = c->dry_run };
	struct entry e = { .key = strdup(p->key) };
	struct te_err err = { 0 };
	int rc = file_segment_edit(c->meta, p->key, &edit, &e.desc, &err);

	if (rc >= 0)
		c->print->written(c->meta, &e, rc, c->dry_run);
	for (size_t i = 0; rc > 0 && i < p->notes.n; i++)
		cli_warn("%s", p->notes.v[i]);
	entry_clear(&e);
	return rc < 0 ? cli_error(&err) : CLI_OK;
}

static int register_files(struct cmd *c, const char *key, const char *host)
{
	struct plan p = { .key = key, .host = host, .n = c->args.n - 1, .replace = c->replace };
	struct file *files;
	int status = files_open(c->args.v + 1, p.n, &files);

	if (status != CLI_OK)
		return status;
	p.files = files;
	status = write_segment(c, &p);
	strings_clear(&p.notes);
	files_clear(files, p.n);
	return status;
}

int verb_nvmeof(struct cmd *c)
{
	struct te_err err = { 0 };
	char buf[256], *key;
	const char *host;
	int status, rc = file_segment_host(&c->cli, buf, &host, &err);

	if (!rc)
		rc = file_segment_key(c->meta, c->args.v[0], &key, &err);
	if (rc)
		return cli_fail(rc == -EINVAL ? CLI_USAGE : CLI_FAIL, "%s", err.msg);
	check_new_name(file_segment_name(c->meta, key));
	status = register_files(c, key, host);
	free(key);
	return status;
}
