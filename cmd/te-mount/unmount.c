/* unmount.c - te-mount --unmount: take back what te-mount published, mounted and connected, and
 * nothing else. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publish.h"
#include "record.h"

struct work {
	struct cmd *c;
	struct limit limit;
	struct report report;
	const char *const *files; /* those named, or all of them: nfiles 0 */
	size_t nfiles;
	struct te_desc *desc; /* NULL: the segment is not in the store (any more) */
	struct record record;
};

/* Has an entry files that this call is about? */
static bool concerns(const struct work *w, const json_t *entry)
{
	const char *store = te_meta_uri(w->c->meta);
	bool any = record_has_file(entry, store, w->c->segment, w->c->host,
				   w->nfiles ? w->files[0] : NULL);

	for (size_t i = 1; i < w->nfiles && !any; i++)
		any = record_has_file(entry, store, w->c->segment, w->c->host, w->files[i]);
	return any;
}

/* How many are left. */
static size_t drop_files(const struct work *w, json_t *entry)
{
	const char *store = te_meta_uri(w->c->meta);
	size_t left = record_drop_files(entry, store, w->c->segment, w->c->host,
					w->nfiles ? w->files[0] : NULL);

	for (size_t i = 1; i < w->nfiles; i++)
		left = record_drop_files(entry, store, w->c->segment, w->c->host, w->files[i]);
	return left;
}

static bool is_recorded(const struct work *w)
{
	json_t *e;
	size_t i;

	json_array_foreach(w->record.mounts, i, e)
	{
		if (concerns(w, e))
			return true;
	}
	return false;
}

/* ---- one mount ---------------------------------------------------------------------------- */

static int unmount(struct work *w, const json_t *entry, struct te_err *err)
{
	const char *target = record_text(entry, "mount_point"), *disk = record_text(entry, "disk");
	/* The rest is for the connection. */
	const struct limit half = { limit_now_ms() + limit_left_ms(&w->limit) / 2, w->limit.stop };
	struct mounted m;
	bool lazy = false;
	int rc = 0;

	if (!record_flag(entry, "mounted") || !mounts_at(target, &m))
		return 0;
	if (strncmp(m.source, "/dev/", 5) != 0 || strcmp(m.source + 5, disk) != 0) {
		report_step(&w->report, "leave", "%s: '%s' is mounted there, by somebody else",
			    target, m.source);
		return 0;
	}
	if (!w->c->dry_run)
		rc = mounts_unmount(target, &half, &lazy, err);
	if (!rc)
		report_step(&w->report, "unmount", "%s%s", target,
			    lazy ? ": it did not let go, and is only out of sight" : "");
	return rc;
}

/* The connection that the record means, if it still is that one. */
static bool same_ctrl(const json_t *entry, struct fabric_ctrl *out)
{
	const struct fabric_target t = { .nqn = record_text(entry, "nqn"),
					 .transport = record_text(entry, "transport"),
					 .traddr = record_text(entry, "traddr"),
					 .trsvcid = record_text(entry, "trsvcid") };
	const char *name = record_text(entry, "controller");

	/* No name: te-mount was killed while it connected. */
	if (!*name)
		return fabric_find(&t, out);
	return fabric_ctrl(name, out) && strcmp(out->nqn, t.nqn) == 0 &&
	       strcmp(out->traddr, t.traddr) == 0 && strcmp(out->trsvcid, t.trsvcid) == 0;
}

static int disconnect(struct work *w, const json_t *entry, struct te_err *err)
{
	const char *disk = record_text(entry, "disk");
	struct fabric_ctrl ctrl;
	json_t *other;
	int rc = 0;

	if (!same_ctrl(entry, &ctrl))
		return 0;
	other = record_owner(&w->record, entry, ctrl.name);
	if (!record_flag(entry, "connected") || other) {
		report_step(&w->report, "leave", "%s: %s %s", ctrl.name,
			    other ? "te-mount uses it for" : "te-mount did not connect it",
			    other ? record_text(other, "mount_point") : "");
		return 0;
	}
	if (!w->c->dry_run && *disk && mounts_of_disk(disk)) {
		report_step(&w->report, "leave", "%s: /dev/%s is mounted elsewhere", ctrl.name,
			    disk);
		return 0;
	}
	if (!w->c->dry_run)
		rc = fabric_disconnect(ctrl.name, &w->limit, err);
	if (!rc)
		report_step(&w->report, "disconnect", "%s: %s at %s %s, port %s", ctrl.name,
			    ctrl.nqn, ctrl.transport, ctrl.traddr, ctrl.trsvcid);
	return rc;
}

/* All that te-mount did for a mount point; what is done stays done when a later step fails. */
static int release(struct work *w, json_t *entry, struct te_err *err)
{
	json_t *left = json_deep_copy(entry);
	int rc = 0;

	if (!left)
		return te_fail(err, -ENOMEM, "out of memory");
	if (drop_files(w, left) == 0) {
		rc = unmount(w, entry, err);
		if (!rc && !w->c->dry_run)
			mounts_rmdir(record_text(entry, "mount_point"), record_text(entry, "made"));
		if (!rc)
			rc = disconnect(w, entry, err);
	} else {
		report_step(&w->report, "leave", "%s: other files are used there",
			    record_text(entry, "mount_point"));
	}
	json_decref(left);
	return rc;
}

static int release_all(struct work *w, struct te_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < json_array_size(w->record.mounts) && !rc;) {
		json_t *e = json_array_get(w->record.mounts, i);

		if (!concerns(w, e)) {
			i++;
			continue;
		}
		rc = release(w, e, err);
		if (rc || w->c->dry_run) {
			i++;
			continue;
		}
		if (drop_files(w, e) == 0)
			json_array_remove(w->record.mounts, i);
		rc = record_save(&w->record, err);
	}
	return rc;
}

/* ---- all together ------------------------------------------------------------------------- */

/* A file that neither the segment nor the record knows is a slip of the pen. */
static int check_files(const struct work *w, struct te_err *err)
{
	int rc = 0;

	for (size_t i = 0; w->desc && i < w->nfiles && !rc; i++) {
		struct work one = *w;

		one.files = &w->files[i];
		one.nfiles = 1;
		if (!is_recorded(&one))
			rc = segment_has(w->c, w->desc, w->files[i], NULL, err);
	}
	return rc;
}

static void report_unpublished(struct work *w)
{
	const char *host = w->c->host;

	for (size_t i = 0; i < w->desc->nbuffers; i++) {
		const struct te_desc_buffer *b = &w->desc->buffers[i];
		const char *path = b->file_path ? file_segment_mapped(b, host) : NULL;

		if (path && is_wanted(w->files, w->nfiles, b->file_path))
			report_step(&w->report, "unpublish", "%s is %s on %s", b->file_path, path,
				    host);
	}
}

static int run(struct work *w, struct te_err *err)
{
	struct cmd *c = w->c;
	struct te_err gone = { 0 };
	int rc = file_segment_load(c->meta, c->key, &w->desc, NULL, &gone);

	record_read(&w->record);
	if (rc && (rc != -ENOENT || !is_recorded(w)))
		return te_fail(err, rc, "%s", gone.msg);
	rc = check_files(w, err);
	if (rc)
		return rc;
	if (is_recorded(w) && !c->dry_run) {
		if (need_root("unmounting and disconnecting"))
			return -EPERM;
		record_close(&w->record);
		rc = record_open(&w->record, &w->limit, err);
	}
	if (!rc)
		rc = release_all(w, err);
	if (rc || !w->desc)
		return rc;
	rc = unpublish(c, w->files, w->nfiles, c->dry_run, err);
	if (rc > 0)
		report_unpublished(w);
	return rc < 0 ? rc : 0;
}

int verb_unmount(struct cmd *c)
{
	struct work w = { .c = c,
			  .files = c->args + 1,
			  .nfiles = c->nargs - 1,
			  .record = { .lock = -1 },
			  .report = {
				  .segment = c->segment, .host = c->host, .dry_run = c->dry_run } };
	struct te_err err = { 0 };
	int status = CLI_OK;

	c->stop = cli_signals();
	if (c->stop < 0)
		return CLI_FAIL;
	w.limit = limit_in(c->timeout_s, c->stop);
	if (run(&w, &err))
		status = *err.msg ? cli_error(&err) : CLI_FAIL;
	else
		c->print->report(&w.report);
	record_close(&w.record);
	te_desc_free(w.desc);
	report_clear(&w.report);
	return status;
}
