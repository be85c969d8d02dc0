/* draw.c - draw: hardware simplified for a picture, then written in one of the formats. */
#include "draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"

struct build {
	const struct source *source;
	const struct te_topo_object *objects;
	size_t nobjects;
	struct drawing d;
};

int draw_find(const struct drawing *d, const char *nic)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].nic && strcmp(d->v[i].nic->name, nic) == 0)
			return (int)i;
	return -1;
}

bool draw_last_child(const struct drawing *d, size_t box)
{
	for (size_t i = box + 1; i < d->n; i++)
		if (d->v[i].parent == d->v[box].parent)
			return false;
	return true;
}

/* ---- text in boxes ---- */

static void nic_text(const struct source *s, const struct te_topo_nic *nic, char *buf, size_t size)
{
	const char *state = *nic->state || !s->host ? nic->state : "not here";
	bool odd = strcmp(nic->state, "ACTIVE") == 0 && s->host && !nic->usable;
	char speed[32] = "";

	if (nic->gbps > 0)
		snprintf(speed, sizeof(speed), "  %.4g Gb/s", nic->gbps);
	snprintf(buf, size, "%s  %s%s%s", nic->name, state, speed, odd ? "  unusable" : "");
}

static void box_text(const struct source *s, struct box *b)
{
	const struct te_topo_object *o = b->object;
	char bytes[32];

	if (b->nic)
		nic_text(s, b->nic, b->text, sizeof(b->text));
	else if (o->kind == TE_TOPO_MEMORY && o->bytes)
		snprintf(b->text, sizeof(b->text), "%s  %s", o->name,
			 out_bytes((double)o->bytes, bytes, sizeof(bytes)));
	else if (o->kind == TE_TOPO_PACKAGE && o->cpus)
		snprintf(b->text, sizeof(b->text), "%s  %u CPUs  %s", o->name, o->cpus, o->detail);
	else if (o->kind == TE_TOPO_BRIDGE)
		snprintf(b->text, sizeof(b->text), "%s %s",
			 strncmp(o->detail, "host", 4) == 0 ? "host bridge" : "PCI bridge",
			 o->name);
	else if (o->kind == TE_TOPO_MACHINE && strcmp(o->name, "machine") == 0)
		snprintf(b->text, sizeof(b->text), "%s", s->label); /* it has no name of its own */
	else
		snprintf(b->text, sizeof(b->text), "%s  %s%s%s", o->name, o->detail,
			 *o->detail ? "  " : "", o->pci);
	for (char *p = b->text; *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
	for (size_t n = strlen(b->text); n && b->text[n - 1] == ' '; n--)
		b->text[n - 1] = '\0';
}

/* ---- the tree ---- */

static const struct te_topo_nic *find_nic(const struct te_topo *t, const char *name)
{
	const struct te_topo_nic *nics;
	size_t n = te_topo_nics(t, &nics);

	for (size_t i = 0; i < n; i++)
		if (strcmp(nics[i].name, name) == 0)
			return &nics[i];
	return NULL;
}

static int add_box(struct build *b, const struct te_topo_object *o, int parent)
{
	struct box *box = &b->d.v[b->d.n];
	bool has_row = o->kind == TE_TOPO_MEMORY || o->kind == TE_TOPO_GPU;

	box->object = o;
	box->parent = parent;
	box->depth = parent < 0 ? 0 : b->d.v[parent].depth + 1;
	box->column = parent <= 0 ? -1 : b->d.v[parent].column;
	if (o->kind == TE_TOPO_NIC)
		box->nic = find_nic(b->source->topo, o->name);
	if (has_row)
		box->row = te_topo_row(b->source->topo, o->name);
	box_text(b->source, box);
	return (int)b->d.n++;
}

static size_t count_children(const struct build *b, int object, int kind)
{
	size_t n = 0;

	for (size_t i = 0; i < b->nobjects; i++)
		n += b->objects[i].parent == object &&
		     (kind < 0 || (int)b->objects[i].kind == kind);
	return n;
}

/* Groups, and bridges that lead to one thing only, say nothing: what is in them takes their place.
 */
static bool is_transparent(const struct build *b, int object)
{
	const struct te_topo_object *o = &b->objects[object];

	if (o->kind == TE_TOPO_GROUP)
		return true;
	return o->kind == TE_TOPO_BRIDGE && strncmp(o->detail, "host", 4) != 0 &&
	       count_children(b, object, -1) == 1;
}

/* What hangs on an object, under the box of it; where there is one node of memory, devices are
 * drawn below that. */
static void add_children(struct build *b, int object, int box)
{
	bool one_node = count_children(b, object, TE_TOPO_MEMORY) == 1;

	for (int i = 0; i < (int)b->nobjects; i++) {
		const struct te_topo_object *o = &b->objects[i];
		int at = box;

		if (o->parent != object)
			continue;
		if (!is_transparent(b, i))
			at = add_box(b, o, box);
		add_children(b, i, at);
		if (o->kind == TE_TOPO_MEMORY && one_node && object)
			box = at;
	}
}

/* Side by side: packages, and what is in none. */
static void set_columns(struct drawing *d)
{
	int outside = -1;

	for (size_t i = 1; i < d->n; i++) {
		struct box *box = &d->v[i];

		if (box->parent > 0)
			box->column = d->v[box->parent].column;
		else if (box->object->kind == TE_TOPO_PACKAGE)
			box->column = d->columns++;
		else
			box->column = outside >= 0 ? outside : (outside = d->columns++);
	}
}

int verb_draw(struct cmd *c)
{
	static const struct {
		const char *name;
		void (*draw)(const struct drawing *d);
	} formats[] = { { "svg", draw_svg }, { "dot", draw_dot }, { "ascii", draw_ascii } };
	const char *format = c->format ? c->format : "svg";
	void (*draw)(const struct drawing *d) = NULL;
	struct source s = { 0 };
	struct build b = { 0 };
	int status;

	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (strcmp(formats[i].name, format) == 0)
			draw = formats[i].draw;
	if (!draw)
		cli_usage(NULL, "--format is svg, dot or ascii, not '%s'", format);
	status = source_open(c, &s);
	if (status == CLI_OK) {
		b.source = &s;
		b.nobjects = te_topo_objects(s.topo, &b.objects);
		b.d.v = zalloc(b.nobjects, sizeof(*b.d.v));
		add_box(&b, &b.objects[0], -1);
		add_children(&b, 0, 0);
		set_columns(&b.d);
		draw(&b.d);
		free(b.d.v);
	}
	source_close(&s);
	return status;
}
