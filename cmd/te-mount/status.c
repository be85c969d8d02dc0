/* status.c - te-mount status: what is published of a segment, beside what is on this host. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "look.h"
#include "record.h"
#include "te-mount.h"

/* Processes that look at files, at one time. */
enum { LOOKERS = 32 };

static void say(struct buffer_state *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct buffer_state *b, const char *fmt, ...)
{
	size_t len = strlen(b->problem);
	va_list ap;

	if (len)
		len += (size_t)snprintf(b->problem + len, sizeof(b->problem) - len, "; ");
	if (len >= sizeof(b->problem))
		return;
	va_start(ap, fmt);
	vsnprintf(b->problem + len, sizeof(b->problem) - len, fmt, ap);
	va_end(ap);
}

/* ---- the file ----------------------------------------------------------------------------- */

static void judge_file(struct buffer_state *b, const struct seen *s)
{
	const struct look_at at = { .path = b->local_path };
	struct te_err err;

	b->answered = true;
	if (look_error(&at, s, &err)) {
		say(b, "%s", err.msg);
		return;
	}
	b->exists = true;
	b->found_length = s->length;
	b->readable = s->read_rc == 0;
	if (s->length != b->length)
		say(b, "it has %" PRIu64 " bytes, not %" PRIu64, s->length, b->length);
	if (s->read_rc)
		say(b, "cannot read it: %s", strerror(-s->read_rc));
}

static int look_at_one(struct task *t, struct buffer_state *b, const struct limit *l,
		       double seconds)
{
	struct seen s = { 0 };
	int rc = t->pid ? task_wait(t, l, &s) : -ECHILD;

	b->has_mount = mounts_of(rc ? 0 : s.mount, b->local_path, &b->mount);
	if (b->has_mount && !b->mount.read_only && s.change_rc)
		b->mount.read_only = b->mount.turned_read_only = true;
	if (rc == 0)
		judge_file(b, &s);
	else if (rc == -ETIMEDOUT)
		say(b, "it does not answer within %.3g s", seconds);
	else
		say(b, "cannot look at it: %s", strerror(-rc));
	return rc;
}

/* Mounts with a file that has not answered. */
struct silent {
	int ids[LOOKERS];
	size_t n;
};

static bool is_silent(const struct silent *mounts, int id)
{
	for (size_t i = 0; i < mounts->n; i++)
		if (mounts->ids[i] == id)
			return true;
	return false;
}

/* All that is not on a mount of its own is in "/", links to silent mounts too. */
static void note_silent(struct silent *mounts, const struct buffer_state *b)
{
	if (b->has_mount && strcmp(b->mount.target, "/") != 0 && mounts->n < LOOKERS &&
	    !is_silent(mounts, b->mount.id))
		mounts->ids[mounts->n++] = b->mount.id;
}

/* Is there sense in it? One more process would wait, and for all of the time. */
static bool may_look(const struct silent *mounts, struct buffer_state *b)
{
	if (!b->local_path)
		return false;
	if (!mounts->n || !mounts_of(0, b->local_path, &b->mount) ||
	    !is_silent(mounts, b->mount.id))
		return true;
	b->has_mount = true;
	say(b, "not looked at: another file of %s does not answer", b->mount.target);
	return false;
}

/* Several at once: a dead mount would make each of its files wait for all of the time. */
static void look_at_some(struct buffer_state *v, size_t n, struct silent *mounts, double seconds)
{
	struct task tasks[LOOKERS] = { 0 };
	struct look_at at[LOOKERS] = { 0 };
	struct limit l;

	for (size_t i = 0; i < n; i++) {
		if (!may_look(mounts, &v[i]))
			continue;
		at[i].path = v[i].local_path;
		task_start(&tasks[i], &look_ops, &at[i], NULL);
	}
	l = limit_in(seconds, -1);
	for (size_t i = 0; i < n; i++) {
		if (at[i].path && look_at_one(&tasks[i], &v[i], &l, seconds) == -ETIMEDOUT)
			note_silent(mounts, &v[i]);
	}
}

static void look_at_files(struct status *s, double seconds)
{
	struct silent mounts = { 0 };

	for (size_t from = 0; from < s->n; from += LOOKERS) {
		size_t left = s->n - from;

		look_at_some(&s->buffers[from], left < LOOKERS ? left : LOOKERS, &mounts, seconds);
	}
}

/* ---- the mount and the connection --------------------------------------------------------- */

static void judge_paths(struct buffer_state *b)
{
	bool live = false;

	for (size_t i = 0; i < b->npaths; i++)
		live |= strcmp(b->paths[i].state, "live") == 0;
	if (b->npaths && !live)
		say(b, "connection %s to %s is '%s'", b->paths[0].name, b->paths[0].traddr,
		    b->paths[0].state);
}

static void judge_mount(struct buffer_state *b)
{
	const struct mounted *m = &b->mount;

	if (!b->has_mount)
		return;
	if (m->turned_read_only)
		say(b, "its file system %s has become read-only", m->target);
	if (*m->disk) {
		b->npaths = fabric_paths(m->disk, b->paths, PATHS_MAX);
		judge_paths(b);
	} else if (strncmp(m->source, "/dev/", 5) == 0 && m->major) {
		say(b, "the device %s of %s is gone", m->source, m->target);
	}
}

/* What te-mount mounted and somebody took away since. */
static void judge_record(struct buffer_state *b, const struct record *r, const struct cmd *c)
{
	struct mounted m;
	json_t *e;
	size_t i;

	json_array_foreach(r->mounts, i, e)
	{
		const char *target = record_text(e, "mount_point");

		if (record_has_file(e, te_meta_uri(c->meta), c->segment, c->host, b->file_path) &&
		    !mounts_at(target, &m))
			say(b, "nothing is mounted at %s any more", target);
	}
}

static void judge(struct status *s, const struct cmd *c)
{
	struct record r;

	record_read(&r);
	for (size_t i = 0; i < s->n; i++) {
		struct buffer_state *b = &s->buffers[i];

		if (b->local_path) {
			judge_mount(b);
			judge_record(b, &r, c);
		} else {
			say(b, "not on this host: no entry for '%s'", c->host);
		}
		s->bad += *b->problem != 0;
	}
	record_close(&r);
}

int verb_status(struct cmd *c)
{
	struct status s = { .segment = c->segment, .host = c->host };
	struct te_desc *d = NULL;
	struct te_err err = { 0 };

	if (file_segment_load(c->meta, c->key, &d, NULL, &err))
		return cli_error(&err);
	s.server_name = d->server_name;
	s.buffers = calloc(d->nbuffers + 1, sizeof(*s.buffers));
	if (!s.buffers) {
		te_desc_free(d);
		return cli_fail(CLI_FAIL, "out of memory");
	}
	for (s.n = 0; s.n < d->nbuffers; s.n++) {
		struct buffer_state *b = &s.buffers[s.n];

		b->file_path = d->buffers[s.n].file_path ? d->buffers[s.n].file_path : "";
		b->length = d->buffers[s.n].length;
		b->local_path = te_desc_file_here(d, &d->buffers[s.n], c->host, c->host);
	}
	look_at_files(&s, c->timeout_s);
	judge(&s, c);
	c->print->status(&s);
	free(s.buffers);
	te_desc_free(d);
	return s.bad ? CLI_FAIL : CLI_OK;
}
