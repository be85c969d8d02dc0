/* publish.c - this host's entries in a segment's local_path_map; and te-mount NAME FILE_PATH
 * LOCAL_PATH. */
#include "publish.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "look.h"

int segment_has(const struct cmd *c, const struct te_desc *d, const char *file_path,
		const struct te_desc_buffer **out, struct te_err *err)
{
	const struct te_desc_buffer *b = file_segment_file(d, file_path);
	char list[300] = "";
	size_t len = 0;

	if (out)
		*out = b;
	if (b)
		return 0;
	for (size_t i = 0; i < d->nbuffers; i++) {
		const char *name = d->buffers[i].file_path;

		if (name && len + strlen(name) + 8 < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
						len ? ", " : "; it has ", name);
	}
	return te_fail(err, -ENOENT, "segment '%s' has no file '%s'%s", c->segment, file_path,
		       list);
}

struct change {
	struct cmd *c;
	const struct place *places;
	const char *const *files;
	size_t n;
};

static int map_one(const struct change *ch, struct te_desc *d, const struct place *p,
		   struct te_err *err)
{
	int changed = 0;

	/* The same file may be there twice. */
	for (size_t i = 0; i < d->nbuffers; i++) {
		struct te_desc_buffer *b = &d->buffers[i];
		int rc;

		if (!b->file_path || strcmp(b->file_path, p->file_path) != 0)
			continue;
		if (b->length != p->length && !ch->c->no_check)
			return te_fail(err, -ERANGE,
				       "'%s' is registered with %" PRIu64
				       " bytes now, it had %" PRIu64
				       " a moment ago: run this again",
				       p->file_path, b->length, p->length);
		rc = file_segment_map(b, ch->c->host, p->local_path, err);
		if (rc < 0)
			return rc;
		changed |= rc;
	}
	return changed;
}

static int map_all(void *arg, struct te_desc *d, struct te_err *err)
{
	const struct change *ch = arg;
	int changed = 0;

	for (size_t i = 0; i < ch->n; i++) {
		int rc = segment_has(ch->c, d, ch->places[i].file_path, NULL, err);

		if (!rc)
			rc = map_one(ch, d, &ch->places[i], err);
		if (rc < 0)
			return rc;
		changed |= rc;
	}
	return changed;
}

int publish(struct cmd *c, const struct place *places, size_t n, bool dry, struct te_err *err)
{
	struct change ch = { .c = c, .places = places, .n = n };
	const struct desc_edit edit = { .change = map_all, .arg = &ch, .dry_run = dry };

	return file_segment_edit(c->meta, c->key, &edit, NULL, err);
}

bool is_wanted(const char *const *files, size_t n, const char *file_path)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(files[i], file_path) == 0)
			return true;
	}
	return n == 0;
}

static int unmap_all(void *arg, struct te_desc *d, struct te_err *err)
{
	const struct change *ch = arg;
	int changed = 0;

	(void)err;
	for (size_t i = 0; i < d->nbuffers; i++) {
		struct te_desc_buffer *b = &d->buffers[i];

		if (b->file_path && is_wanted(ch->files, ch->n, b->file_path))
			changed |= file_segment_unmap(b, ch->c->host);
	}
	return changed;
}

int unpublish(struct cmd *c, const char *const *files, size_t n, bool dry, struct te_err *err)
{
	struct change ch = { .c = c, .files = files, .n = n };
	const struct desc_edit edit = { .change = unmap_all, .arg = &ch, .dry_run = dry };

	return file_segment_edit(c->meta, c->key, &edit, NULL, err);
}

/* ---- te-mount NAME FILE_PATH LOCAL_PATH --------------------------------------------------- */

static int check_local(const struct cmd *c, const struct place *p, struct te_err *err)
{
	const struct limit l = limit_in(c->timeout_s, c->stop);
	const struct look_at at = { .path = p->local_path };
	struct seen seen;
	int rc;

	if (c->no_check)
		return 0;
	rc = look(&at, &l, &seen, err);
	return rc ? rc : look_length(&seen, p->length, p->file_path, err);
}

static int add(struct cmd *c, struct place *p, struct report *r, struct te_err *err)
{
	const struct te_desc_buffer *b = NULL;
	struct te_desc *d = NULL;
	int rc = file_segment_load(c->meta, c->key, &d, NULL, err);

	if (!rc)
		rc = segment_has(c, d, p->file_path, &b, err);
	if (b)
		p->length = b->length;
	te_desc_free(d);
	if (!rc)
		rc = check_local(c, p, err);
	if (!rc)
		rc = publish(c, p, 1, c->dry_run, err);
	if (rc >= 0)
		report_step(r, rc ? "publish" : "keep", "%s is %s on %s", p->file_path,
			    p->local_path, c->host);
	return rc < 0 ? rc : 0;
}

int verb_add(struct cmd *c)
{
	struct report r = { .segment = c->segment, .host = c->host, .dry_run = c->dry_run };
	struct place p = { .file_path = c->args[1], .local_path = file_segment_path(c->args[2]) };
	struct te_err err = { 0 };
	int status = CLI_OK;

	if (!p.local_path || !file_segment_is_text(p.local_path))
		status = cli_fail(CLI_FAIL, "cannot publish '%s': %s", c->args[2],
				  p.local_path ? "it is not UTF-8" : strerror(errno));
	else if (add(c, &p, &r, &err))
		status = cli_error(&err);
	else
		c->print->report(&r);
	report_clear(&r);
	free(p.local_path);
	return status;
}
