/* connect.c - te-mount --connect: from a target's address to published paths, or back to where it
 * began. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "look.h"
#include "publish.h"
#include "record.h"

static const double undo_s = 15;

struct work {
	struct cmd *c;
	struct limit limit;
	struct report report;
	struct fabric_target target;
	struct fabric_host host;
	char address[FABRIC_ADDR_MAX]; /* target.traddr, as a number */
	char mount_point[PATH_MAX];
	struct place *places;
	size_t nplaces;
	struct te_desc *desc; /* the places' names lie in it */

	struct record record;
	json_t *before; /* what the record was */
	json_t *entry;	/* ours in it */
	bool known;	/* it was there */
	struct fabric_ctrl ctrl;
	char disk[FABRIC_NAME_MAX], device[FABRIC_NAME_MAX + 8];

	/* What this call has done, and takes back when it fails. */
	bool connected, mounted;
	char made[PATH_MAX];
};

/* ---- what it is about --------------------------------------------------------------------- */

static void add_place(struct work *w, const struct te_desc_buffer *b)
{
	w->places[w->nplaces++] = (struct place){ .file_path = b->file_path, .length = b->length };
}

static int choose_files(struct work *w, struct te_err *err)
{
	const struct cmd *c = w->c;
	const struct te_desc_buffer *b = NULL;
	int rc = file_segment_load(c->meta, c->key, &w->desc, NULL, err);

	if (rc)
		return rc;
	w->places = calloc(w->desc->nbuffers + c->nargs, sizeof(*w->places));
	if (!w->places)
		return te_fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; c->all && i < w->desc->nbuffers; i++) {
		if (w->desc->buffers[i].file_path)
			add_place(w, &w->desc->buffers[i]);
	}
	for (size_t i = 1; !c->all && i + 1 < c->nargs && !rc; i++) {
		rc = segment_has(c, w->desc, c->args[i], &b, err);
		if (!rc)
			add_place(w, b);
	}
	if (!rc && !w->nplaces)
		return te_fail(err, -ENOENT, "segment '%s' has no files", c->segment);
	return rc;
}

static int choose_mount_point(struct work *w, struct te_err *err)
{
	const char *given = w->c->args[w->c->nargs - 1];

	if (*given != '/')
		return te_fail(err, -EINVAL, "the mount point '%s' is no absolute path", given);
	if (!file_segment_is_text(given))
		return te_fail(err, -EINVAL, "the mount point '%s' is not UTF-8", given);
	return mounts_canonical(given, &w->limit, w->mount_point, err);
}

/* ---- the connection ----------------------------------------------------------------------- */

static void set(struct work *w, const char *member, json_t *value)
{
	json_object_set_new(w->entry, member, value);
}

static void add_entry(struct work *w)
{
	w->entry = json_pack("{s:s, s:s, s:b, s:s, s:s, s:b, s:[]}", "mount_point", w->mount_point,
			     "disk", "", "mounted", 0, "made", "", "controller", "", "connected", 0,
			     "files");
	if (w->entry)
		json_array_append_new(w->record.mounts, w->entry);
}

static void note_file(struct work *w, const struct place *p, const char *local_path)
{
	record_add_file(w->entry, te_meta_uri(w->c->meta), w->c->segment, w->c->host, p->file_path,
			local_path);
}

static int begin_entry(struct work *w, struct te_err *err)
{
	const struct cmd *c = w->c;
	int rc = record_open(&w->record, &w->limit, err);

	if (rc)
		return rc;
	w->before = json_deep_copy(w->record.doc);
	w->entry = record_find(&w->record, w->mount_point);
	w->known = w->entry != NULL;
	if (!w->known)
		add_entry(w);
	if (!w->before || !w->entry)
		return te_fail(err, -ENOMEM, "out of memory");
	/* From now on --unmount finds what there is, should this call be killed. */
	for (size_t i = 0; i < w->nplaces; i++) {
		if (!record_has_file(w->entry, te_meta_uri(c->meta), c->segment, c->host,
				     w->places[i].file_path))
			note_file(w, &w->places[i], "");
	}
	return 0;
}

static void note_target(struct work *w, bool ours)
{
	set(w, "controller", json_string(w->ctrl.name));
	set(w, "connected", json_boolean(ours));
	set(w, "nqn", json_string(w->target.nqn));
	set(w, "transport", json_string(w->target.transport));
	set(w, "traddr", json_string(w->target.traddr));
	set(w, "trsvcid", json_string(w->target.trsvcid));
}

/* A connection that te-mount made for this mount point may not fall into oblivion. */
static int check_older(const struct work *w, struct te_err *err)
{
	const char *older = record_text(w->entry, "controller");
	struct fabric_ctrl c;

	if (!record_flag(w->entry, "connected") || strcmp(older, w->ctrl.name) == 0 ||
	    !fabric_ctrl(older, &c) || strcmp(c.nqn, record_text(w->entry, "nqn")) != 0)
		return 0;
	return te_fail(err, -EBUSY,
		       "te-mount has connected %s ('%s') for '%s': --unmount that first", older,
		       c.nqn, w->mount_point);
}

static int connect_new(struct work *w, struct te_err *err)
{
	int rc;

	w->ctrl = (struct fabric_ctrl){ 0 };
	rc = check_older(w, err);
	if (rc)
		return rc;
	note_target(w, true);
	rc = record_save(&w->record, err);
	if (!rc)
		rc = fabric_connect(&w->target, &w->limit, &w->ctrl, err);
	if (rc)
		return rc;
	w->connected = true;
	report_step(&w->report, "connect", "%s: %s at %s %s, port %s", w->ctrl.name, w->target.nqn,
		    w->target.transport, w->target.traddr, w->target.trsvcid);
	note_target(w, true);
	return record_save(&w->record, err);
}

/* Did an earlier call make it, perhaps one that was killed before it could write down what it got?
 */
static bool is_ours(const struct work *w)
{
	return record_owner(&w->record, NULL, w->ctrl.name) ||
	       (record_flag(w->entry, "connected") && !*record_text(w->entry, "controller") &&
		strcmp(record_text(w->entry, "nqn"), w->ctrl.nqn) == 0 &&
		strcmp(record_text(w->entry, "traddr"), w->ctrl.traddr) == 0 &&
		strcmp(record_text(w->entry, "trsvcid"), w->ctrl.trsvcid) == 0);
}

/* One that is there is used. */
static int take_over(struct work *w, struct te_err *err)
{
	bool ours = is_ours(w);
	int rc = check_older(w, err);

	if (rc)
		return rc;
	report_step(&w->report, "use", "%s: %s at %s %s, port %s is connected", w->ctrl.name,
		    w->target.nqn, w->target.transport, w->target.traddr, w->target.trsvcid);
	note_target(w, ours);
	return 0;
}

static int reach(struct work *w, struct te_err *err)
{
	int rc;

	if (fabric_find(&w->target, &w->ctrl))
		return take_over(w, err);
	rc = fabric_host(w->c->target.hostnqn, w->c->target.hostid, &w->host, err);
	if (rc)
		return rc;
	w->target.hostnqn = w->host.nqn;
	w->target.hostid = w->host.id;
	rc = fabric_discover(&w->target, &w->limit, w->address, err);
	if (rc)
		return rc;
	report_step(&w->report, "discover", "%s at %s %s, port %s", w->target.nqn,
		    w->target.transport, w->address, w->target.trsvcid);
	w->target.traddr = w->address;
	return fabric_find(&w->target, &w->ctrl) ? take_over(w, err) : connect_new(w, err);
}

static int wait_disk(struct work *w, struct te_err *err)
{
	int rc = fabric_disk(&w->target, &w->ctrl, &w->limit, w->disk, err);

	if (rc)
		return rc;
	snprintf(w->device, sizeof(w->device), "/dev/%s", w->disk);
	report_step(&w->report, "find", "block device %s", w->device);
	return 0;
}

/* ---- the mount ---------------------------------------------------------------------------- */

static int turned_read_only(const struct work *w, struct te_err *err)
{
	return te_fail(err, -EROFS,
		       "'%s' has become read-only after errors of its device: te-mount --unmount, "
		       "then --connect again",
		       w->mount_point);
}

static int keep_mount(struct work *w, const struct mounted *m, struct te_err *err)
{
	if (strcmp(m->disk, w->disk) != 0)
		return te_fail(err, -EBUSY, "'%s' is taken: '%s' (%s%s) is mounted there%s",
			       w->mount_point, m->source, m->fstype, *m->disk ? "" : ", no device",
			       w->known ? "; te-mount knows that place: --unmount first" : "");
	if (m->turned_read_only)
		return turned_read_only(w, err);
	if (strcmp(record_text(w->entry, "disk"), w->disk) != 0)
		set(w, "mounted", json_false());
	report_step(&w->report, "use", "%s (%s) is mounted at %s", w->device, m->fstype,
		    w->mount_point);
	return 0;
}

static int mount_new(struct work *w, struct te_err *err)
{
	struct mount_plan plan = { .device = w->device,
				   .target = w->mount_point,
				   .fstype = w->c->fstype,
				   .options = w->c->options,
				   .read_only = w->c->read_only };
	char type[32];
	int rc = 0;

	if (!plan.fstype) {
		rc = mounts_probe(w->device, &w->limit, type, err);
		plan.fstype = type;
	}
	if (!rc)
		rc = mounts_mkdir(w->mount_point, w->made, err);
	if (rc)
		return rc;
	if (*w->made)
		set(w, "made", json_string(w->made));
	set(w, "mounted", json_true());
	set(w, "disk", json_string(w->disk));
	rc = record_save(&w->record, err);
	if (!rc)
		rc = mounts_mount(&plan, &w->limit, err);
	if (rc)
		return rc;
	w->mounted = true;
	report_step(&w->report, "mount", "%s (%s%s) at %s", w->device, plan.fstype,
		    plan.read_only ? ", read-only" : "", w->mount_point);
	return 0;
}

static int do_mount(struct work *w, struct te_err *err)
{
	struct mounted m;
	int rc = mounts_at(w->mount_point, &m) ? keep_mount(w, &m, err) : mount_new(w, err);

	if (!rc)
		set(w, "disk", json_string(w->disk));
	return rc;
}

/* ---- the files ---------------------------------------------------------------------------- */

static int find_file(struct work *w, struct place *p, struct te_err *err)
{
	const struct cmd *c = w->c;
	const struct look_at at = { .path = c->path_in_fs ? c->path_in_fs : p->file_path,
				    .dir = w->mount_point,
				    .exact = c->path_in_fs != NULL };
	struct mounted m;
	struct seen seen;
	int rc = look(&at, &w->limit, &seen, err);

	if (!rc && seen.change_rc && mounts_at(w->mount_point, &m) && !m.read_only)
		rc = turned_read_only(w, err);
	if (!rc && !c->no_check)
		rc = look_length(&seen, p->length, p->file_path, err);
	if (!rc && seen.read_rc)
		rc = te_fail(err, seen.read_rc, "cannot read '%s': %s", seen.path,
			     strerror(-seen.read_rc));
	if (rc)
		return rc;
	report_step(&w->report, "check", "%s: %" PRIu64 " bytes", seen.path, seen.length);
	p->local_path = strdup(seen.path);
	return p->local_path ? 0 : te_fail(err, -ENOMEM, "out of memory");
}

static int publish_all(struct work *w, struct te_err *err)
{
	struct cmd *c = w->c;
	int rc = 0;

	for (size_t i = 0; i < w->nplaces && !rc; i++) {
		rc = find_file(w, &w->places[i], err);
		if (!rc)
			note_file(w, &w->places[i], w->places[i].local_path);
	}
	if (!rc)
		rc = record_save(&w->record, err);
	if (!rc)
		rc = publish(c, w->places, w->nplaces, false, err);
	for (size_t i = 0; i < w->nplaces && rc >= 0; i++)
		report_step(&w->report, rc ? "publish" : "keep", "%s is %s on %s",
			    w->places[i].file_path, w->places[i].local_path, c->host);
	return rc < 0 ? rc : 0;
}

/* ---- all together ------------------------------------------------------------------------- */

static void undo(struct work *w)
{
	const struct limit l = limit_in(undo_s, -1);
	struct te_err err = { 0 };
	bool lazy, left = false;

	if (w->mounted && mounts_unmount(w->mount_point, &l, &lazy, &err)) {
		left = true;
		cli_warn("left behind: %s", err.msg);
	}
	if (!left)
		mounts_rmdir(w->mount_point, w->made);
	if (w->connected && !left && fabric_disconnect(w->ctrl.name, &l, &err)) {
		left = true;
		cli_warn("left behind: %s", err.msg);
	}
	/* What is left is still te-mount's, for --unmount to take away. */
	if (left || w->record.lock < 0 || !w->before)
		return;
	json_decref(w->record.doc);
	w->record.doc = json_incref(w->before);
	w->record.mounts = json_object_get(w->record.doc, "mounts");
	if (record_save(&w->record, &err))
		cli_warn("left behind: %s", err.msg);
}

/* What is known without doing anything. */
static void plan(struct work *w)
{
	struct report *r = &w->report;
	const struct fabric_target *t = &w->target;
	bool there = fabric_find(t, &w->ctrl);
	struct mounted m;

	if (!there)
		report_step(r, "discover", "%s at %s %s, port %s", t->nqn, t->transport, t->traddr,
			    t->trsvcid);
	report_step(r, there ? "use" : "connect", "%s at %s %s, port %s%s%s", t->nqn, t->transport,
		    t->traddr, t->trsvcid, there ? ": " : "", w->ctrl.name);
	report_step(r, "find", "its block device, in %.3g s at most", w->c->timeout_s);
	if (mounts_at(w->mount_point, &m))
		report_step(r, "use", "%s (%s) at %s, if that is it", m.source, m.fstype, m.target);
	else
		report_step(r, "mount", "it at %s%s", w->mount_point,
			    w->c->read_only ? ", read-only" : "");
	for (size_t i = 0; i < w->nplaces; i++) {
		report_step(r, "check", "%s below %s: %" PRIu64 " bytes", w->places[i].file_path,
			    w->mount_point, w->places[i].length);
		report_step(r, "publish", "%s for %s", w->places[i].file_path, w->c->host);
	}
}

static int run(struct work *w, struct te_err *err)
{
	static int (*const steps[])(struct work *, struct te_err *) = { reach, wait_disk, do_mount,
									publish_all };
	int rc = choose_files(w, err);

	if (!rc)
		rc = choose_mount_point(w, err);
	if (!rc && w->c->dry_run)
		plan(w);
	if (rc || w->c->dry_run)
		return rc;
	rc = begin_entry(w, err);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps) && !rc; i++)
		rc = steps[i](w, err);
	if (rc)
		undo(w);
	return rc;
}

static void clear(struct work *w)
{
	record_close(&w->record);
	json_decref(w->before);
	for (size_t i = 0; i < w->nplaces; i++)
		free(w->places[i].local_path);
	free(w->places);
	te_desc_free(w->desc);
	report_clear(&w->report);
}

int verb_connect(struct cmd *c)
{
	struct work w = { .c = c,
			  .target = c->target,
			  .record = { .lock = -1 },
			  .report = {
				  .segment = c->segment, .host = c->host, .dry_run = c->dry_run } };
	struct te_err err = { 0 };
	int status = CLI_OK;

	if (!c->dry_run && need_root("connecting and mounting"))
		return CLI_FAIL;
	c->stop = cli_signals();
	if (c->stop < 0)
		return CLI_FAIL;
	w.limit = limit_in(c->timeout_s, c->stop);
	if (run(&w, &err))
		status = cli_error(&err);
	else
		c->print->report(&w.report);
	clear(&w);
	return status;
}
