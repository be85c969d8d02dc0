/* print.c - what te-mount says, as text and as JSON. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"
#include "te-mount.h"

void report_step(struct report *r, const char *action, const char *fmt, ...)
{
	char *detail;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&detail, fmt, ap) < 0)
		detail = NULL;
	va_end(ap);
	r->steps = reallocarray(r->steps, r->nsteps + 1, sizeof(*r->steps));
	if (!r->steps || !detail)
		exit(cli_fail(CLI_FAIL, "out of memory"));
	r->steps[r->nsteps++] = (struct step){ action, detail };
}

void report_clear(struct report *r)
{
	for (size_t i = 0; i < r->nsteps; i++)
		free(r->steps[i].detail);
	free(r->steps);
	r->steps = NULL;
	r->nsteps = 0;
}

/* ---- text --------------------------------------------------------------------------------- */

static void text_report(const struct report *r)
{
	for (size_t i = 0; i < r->nsteps; i++)
		out_line(stdout, "%s%-11s %s", r->dry_run ? "would " : "", r->steps[i].action,
			 r->steps[i].detail);
	if (!r->nsteps)
		out_line(stdout, "nothing to do: %s has nothing on %s", r->segment, r->host);
}

static void text_mount(const struct buffer_state *b)
{
	const struct mounted *m = &b->mount;

	if (b->has_mount)
		out_line(stdout, "  mount       %s (%s%s) at %s", m->source, m->fstype,
			 m->read_only ? ", read-only" : "", m->target);
	for (size_t i = 0; i < b->npaths; i++)
		out_line(stdout, "  connection  %s: %s at %s %s, port %s: %s", b->paths[i].name,
			 b->paths[i].nqn, b->paths[i].transport, b->paths[i].traddr,
			 b->paths[i].trsvcid, b->paths[i].state);
}

static void text_status(const struct status *s)
{
	out_line(stdout, "segment       %s", s->segment);
	out_line(stdout, "registered    by %s", s->server_name ? s->server_name : "?");
	out_line(stdout, "this host     %s", s->host);
	for (size_t i = 0; i < s->n; i++) {
		const struct buffer_state *b = &s->buffers[i];

		out_line(stdout, "%s", b->file_path);
		out_line(stdout, "  length      %" PRIu64, b->length);
		if (b->local_path)
			out_line(stdout, "  here        %s", b->local_path);
		text_mount(b);
		out_line(stdout, "  %s%s", *b->problem ? "wrong       " : "ok", b->problem);
	}
}

const struct printer print_text = { .report = text_report, .status = text_status };

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
	json_t *v = text ? json_string(text) : NULL;

	return v ? v : json_null();
}

static void json_report(const struct report *r)
{
	json_t *doc = json_object(), *steps = json_array();

	for (size_t i = 0; i < r->nsteps; i++) {
		json_t *step = json_object();

		json_object_set_new(step, "action", json_string(r->steps[i].action));
		json_object_set_new(step, "detail", text_or_null(r->steps[i].detail));
		json_array_append_new(steps, step);
	}
	json_object_set_new(doc, "segment", text_or_null(r->segment));
	json_object_set_new(doc, "host", text_or_null(r->host));
	json_object_set_new(doc, "dry_run", json_boolean(r->dry_run));
	json_object_set_new(doc, "steps", steps);
	out_json(doc);
}

static json_t *json_mount(const struct mounted *m)
{
	json_t *o = json_object();

	json_object_set_new(o, "mount_point", text_or_null(m->target));
	json_object_set_new(o, "source", text_or_null(m->source));
	json_object_set_new(o, "file_system", text_or_null(m->fstype));
	json_object_set_new(o, "read_only", json_boolean(m->read_only));
	json_object_set_new(o, "turned_read_only", json_boolean(m->turned_read_only));
	return o;
}

static json_t *json_paths(const struct buffer_state *b)
{
	json_t *list = json_array();

	for (size_t i = 0; i < b->npaths; i++) {
		json_t *o = json_object();

		json_object_set_new(o, "controller", text_or_null(b->paths[i].name));
		json_object_set_new(o, "nqn", text_or_null(b->paths[i].nqn));
		json_object_set_new(o, "transport", text_or_null(b->paths[i].transport));
		json_object_set_new(o, "traddr", text_or_null(b->paths[i].traddr));
		json_object_set_new(o, "trsvcid", text_or_null(b->paths[i].trsvcid));
		json_object_set_new(o, "state", text_or_null(b->paths[i].state));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *json_buffer(const struct buffer_state *b)
{
	json_t *o = json_object();

	json_object_set_new(o, "file_path", text_or_null(b->file_path));
	json_object_set_new(o, "length", json_integer((json_int_t)b->length));
	json_object_set_new(o, "local_path", text_or_null(b->local_path));
	json_object_set_new(o, "answered", json_boolean(b->answered));
	json_object_set_new(o, "exists", json_boolean(b->exists));
	json_object_set_new(o, "readable", json_boolean(b->readable));
	json_object_set_new(o, "local_length",
			    b->exists ? json_integer((json_int_t)b->found_length) : json_null());
	json_object_set_new(o, "mount", b->has_mount ? json_mount(&b->mount) : json_null());
	json_object_set_new(o, "connections", json_paths(b));
	json_object_set_new(o, "ok", json_boolean(!*b->problem));
	json_object_set_new(o, "problem", *b->problem ? text_or_null(b->problem) : json_null());
	return o;
}

static void json_status(const struct status *s)
{
	json_t *doc = json_object(), *buffers = json_array();

	for (size_t i = 0; i < s->n; i++)
		json_array_append_new(buffers, json_buffer(&s->buffers[i]));
	json_object_set_new(doc, "segment", text_or_null(s->segment));
	json_object_set_new(doc, "host", text_or_null(s->host));
	json_object_set_new(doc, "server_name", text_or_null(s->server_name));
	json_object_set_new(doc, "ok", json_boolean(s->bad == 0));
	json_object_set_new(doc, "buffers", buffers);
	out_json(doc);
}

const struct printer print_json = { .report = json_report, .status = json_status };
