/*
 * draw_svg.c - a topology as a picture.
 *
 * Packages stand side by side. In each the hardware is a tree of boxes, one a line, whose right
 * edges are aligned; in the gutter to the right of them run the links from memory and GPUs to the
 * NICs that they prefer, one lane for each. Links to another package go round below. So lines never
 * cross text, and since the type is monospaced, boxes fit theirs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"

enum {
	MARGIN = 20,
	TITLE = 34,
	LINE = 38, /* from box to box */
	BOX = 28,
	INDENT = 22,
	PAD = 10,
	LANE = 8,
	LEGEND = 40,
	BASELINE = 18, /* of text, in a box */
};
#define GLYPH_WIDTH 7.9 /* of 13 pixels monospaced, rounded up */

struct column {
	int x, inner;	 /* left edge, and how wide without the gutter */
	int lanes, used; /* in the gutter */
	int lines;
};

struct svg {
	const struct drawing *d;
	struct column *columns;
	int *line; /* of each box in its column */
	int *ends; /* links that end at a box so far */
	int height, width;
	int lanes, used; /* of links that go round below */
	int link;
};

static const char *const fills[] = {
	[TE_TOPO_MACHINE] = "#ffffff", [TE_TOPO_PACKAGE] = "#e4e4e4", [TE_TOPO_GROUP] = "#ffffff",
	[TE_TOPO_MEMORY] = "#cfeacf",  [TE_TOPO_BRIDGE] = "#ffffff",  [TE_TOPO_GPU] = "#e2d4f2",
	[TE_TOPO_NIC] = "#cfe0f6",
};
static const char *const colours[] = { "#d1495b", "#00798c", "#edae49", "#30638e",
				       "#6a994e", "#8e5aa8", "#b5651d", "#444444" };

/* Printable ASCII in, so that only the four are left. */
static void escaped(const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			fputs("&amp;", stdout);
		else if (*text == '<')
			fputs("&lt;", stdout);
		else if (*text == '>')
			fputs("&gt;", stdout);
		else if (*text == '"')
			fputs("&quot;", stdout);
		else
			putchar(*text);
	}
}

/* ---- where things are ---- */

static int depth_in_column(const struct box *b)
{
	return b->depth - 1;
}

static int text_width(const char *text)
{
	return (int)((double)strlen(text) * GLYPH_WIDTH) + 2 * PAD;
}

/* NICs have a lamp before their text. */
static int box_width(const struct box *b)
{
	return text_width(b->text) + (b->nic ? 14 : 0);
}

static struct column *column_of(const struct svg *s, size_t box)
{
	return &s->columns[s->d->v[box].column];
}

static int left(const struct svg *s, size_t box)
{
	return column_of(s, box)->x + PAD + depth_in_column(&s->d->v[box]) * INDENT;
}

static int right(const struct svg *s, size_t box)
{
	return column_of(s, box)->x + column_of(s, box)->inner - PAD;
}

static int top(const struct svg *s, size_t box)
{
	return MARGIN + TITLE + PAD + s->line[box] * LINE;
}

static int gutter(const struct column *c, int lane)
{
	return c->x + c->inner + lane * LANE + LANE / 2;
}

static int column_width(const struct column *c)
{
	return c->inner + (c->lanes ? c->lanes * LANE + PAD : 0);
}

/* Has a location preferred NICs in this column? */
static bool links_into(const struct svg *s, const struct te_topo_row *row, int column)
{
	for (size_t i = 0; row && i < row->npreferred; i++) {
		int nic = draw_find(s->d, row->nics[i]);

		if (nic >= 0 && s->d->v[nic].column == column)
			return true;
	}
	return false;
}

/* A location has a lane in its own gutter, and one in that of each other column where it prefers
 * something. */
static void count_lanes(struct svg *s)
{
	for (size_t i = 1; i < s->d->n; i++) {
		const struct box *b = &s->d->v[i];
		bool away = false;

		if (!b->row || !b->row->npreferred)
			continue;
		for (int c = 0; c < s->d->columns; c++) {
			if (!links_into(s, b->row, c))
				continue;
			s->columns[c].lanes += c != b->column;
			away = away || c != b->column;
		}
		column_of(s, i)->lanes++;
		s->lanes += away;
	}
}

static void lay_out(struct svg *s)
{
	int x = MARGIN, lines = 0, title = text_width(s->d->v[0].text);

	for (size_t i = 1; i < s->d->n; i++) {
		struct column *c = column_of(s, i);
		int width =
			box_width(&s->d->v[i]) + depth_in_column(&s->d->v[i]) * INDENT + 2 * PAD;

		s->line[i] = c->lines++;
		c->inner = width > c->inner ? width : c->inner;
		lines = c->lines > lines ? c->lines : lines;
	}
	count_lanes(s);
	for (int i = 0; i < s->d->columns; i++) {
		s->columns[i].x = x;
		x += column_width(&s->columns[i]) + MARGIN;
	}
	s->width = x > title + 2 * MARGIN ? x : title + 2 * MARGIN;
	s->width = s->width > 480 ? s->width : 480;
	s->height = MARGIN + TITLE + PAD + lines * LINE + PAD + s->lanes * LANE;
}

/* ---- boxes ---- */

static const char *lamp(const struct te_topo_nic *nic)
{
	if (!*nic->state)
		return "#aaaaaa";
	return strcmp(nic->state, "ACTIVE") == 0 ? "#2e9e44" : "#cc2222";
}

static void draw_text(int x, int y, const char *weight, const char *text)
{
	printf("<text x=\"%d\" y=\"%d\"%s>", x, y, weight);
	escaped(text);
	puts("</text>");
}

static void draw_box(const struct svg *s, size_t i)
{
	const struct box *b = &s->d->v[i];
	int x = left(s, i), y = top(s, i), text = x + PAD;
	bool down = b->nic && *b->nic->state && strcmp(b->nic->state, "ACTIVE") != 0;

	printf("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" "
	       "stroke=\"%s\"%s/>\n",
	       x, y, right(s, i) - x, BOX, fills[b->object->kind], down ? "#cc2222" : "#666666",
	       b->object->kind == TE_TOPO_BRIDGE || down ? " stroke-dasharray=\"4 3\"" : "");
	if (b->nic) {
		printf("<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/>\n", x + PAD + 3,
		       y + BOX / 2, lamp(b->nic));
		text += 14;
	}
	draw_text(text, y + BASELINE, b->object->kind == TE_TOPO_BRIDGE ? " fill=\"#555555\"" : "",
		  b->text);
}

/* From the parent down and to the box. */
static void draw_branch(const struct svg *s, size_t i)
{
	int parent = s->d->v[i].parent, x, y = top(s, i) + BOX / 2;

	if (parent <= 0)
		return;
	x = left(s, (size_t)parent) + INDENT / 2;
	printf("<path d=\"M%d %dV%dH%d\" stroke=\"#999999\" fill=\"none\"/>\n", x,
	       top(s, (size_t)parent) + BOX, y, left(s, i));
}

/* ---- links ---- */

/* Several that end at one box do so beside each other. */
static int end_y(struct svg *s, size_t nic)
{
	static const int offsets[] = { 0, -4, 4, -8, 8, -11, 11 };
	int n = s->ends[nic]++;

	return top(s, nic) + BOX / 2 + offsets[(size_t)n % (sizeof(offsets) / sizeof(*offsets))];
}

static void draw_link(struct svg *s, const struct te_topo_row *row, int column, int lane_x,
		      int from_x, int from_y, const char *colour)
{
	for (size_t i = 0; i < row->npreferred; i++) {
		int nic = draw_find(s->d, row->nics[i]), x, y;

		if (nic < 0 || s->d->v[nic].column != column)
			continue;
		x = right(s, (size_t)nic);
		y = end_y(s, (size_t)nic);
		printf("<path d=\"M%d %dH%dV%dH%d\" stroke=\"%s\" stroke-width=\"2.5\" "
		       "stroke-linejoin=\"round\" fill=\"none\"/>\n"
		       "<circle cx=\"%d\" cy=\"%d\" r=\"3.5\" fill=\"%s\"/>\n",
		       from_x, from_y, lane_x, y, x + 3, colour, x, y, colour);
	}
}

/* Down in the own gutter, along below everything, up in the other gutter. */
static void draw_detour(struct svg *s, size_t box, int own_lane, const char *colour)
{
	const struct box *b = &s->d->v[box];
	int from_y = top(s, box) + BOX / 2, below = s->height - LANE / 2 - s->used * LANE;
	bool used = false;

	for (int c = 0; c < s->d->columns; c++) {
		int x;

		if (c == b->column || !links_into(s, b->row, c))
			continue;
		x = gutter(&s->columns[c], s->columns[c].used++);
		printf("<path d=\"M%d %dH%dV%dH%d\" stroke=\"%s\" stroke-width=\"2.5\" "
		       "stroke-linejoin=\"round\" fill=\"none\"/>\n",
		       right(s, box), from_y, own_lane, below, x, colour);
		draw_link(s, b->row, c, x, x, below, colour);
		used = true;
	}
	s->used += used;
}

static void draw_links(struct svg *s, size_t box)
{
	const struct box *b = &s->d->v[box];
	const char *colour = colours[(size_t)s->link % (sizeof(colours) / sizeof(*colours))];
	int lane;

	if (!b->row || !b->row->npreferred)
		return;
	s->link++;
	lane = gutter(column_of(s, box), column_of(s, box)->used++);
	draw_link(s, b->row, b->column, lane, right(s, box), top(s, box) + BOX / 2, colour);
	draw_detour(s, box, lane, colour);
}

static void draw_legend(const struct svg *s)
{
	static const struct {
		const char *colour, *text;
	} lamps[] = { { "#2e9e44", "active" }, { "#cc2222", "down" }, { "#aaaaaa", "not known" } };
	int x = MARGIN, y = s->height + LEGEND / 2;

	for (size_t i = 0; i < sizeof(lamps) / sizeof(*lamps); i++) {
		printf("<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/>\n", x + 5, y,
		       lamps[i].colour);
		draw_text(x + 16, y + 4, "", lamps[i].text);
		x += text_width(lamps[i].text) + 16;
	}
	printf("<path d=\"M%d %dH%d\" stroke=\"#444444\" stroke-width=\"2.5\"/>\n"
	       "<circle cx=\"%d\" cy=\"%d\" r=\"3.5\" fill=\"#444444\"/>\n",
	       x, y, x + 30, x + 30, y);
	draw_text(x + 42, y + 4, "", "preferred NICs");
}

static void draw_columns(const struct svg *s)
{
	for (int i = 0; i < s->d->columns; i++)
		printf("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" "
		       "fill=\"#fafafa\" stroke=\"#bbbbbb\"/>\n",
		       s->columns[i].x, MARGIN + TITLE, column_width(&s->columns[i]),
		       PAD + s->columns[i].lines * LINE);
}

void draw_svg(const struct drawing *d)
{
	struct svg s = { .d = d };

	s.columns = zalloc((size_t)d->columns, sizeof(*s.columns));
	s.line = zalloc(d->n, sizeof(*s.line));
	s.ends = zalloc(d->n, sizeof(*s.ends));
	lay_out(&s);
	printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
	       "viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans Mono, monospace\" "
	       "font-size=\"13\">\n"
	       "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
	       s.width, s.height + LEGEND, s.width, s.height + LEGEND);
	draw_text(MARGIN, MARGIN + BASELINE, " font-weight=\"bold\"", d->v[0].text);
	draw_columns(&s);
	for (size_t i = 1; i < d->n; i++)
		draw_branch(&s, i);
	for (size_t i = 1; i < d->n; i++)
		draw_box(&s, i);
	for (size_t i = 1; i < d->n; i++)
		draw_links(&s, i);
	draw_legend(&s);
	puts("</svg>");
	free(s.columns);
	free(s.line);
	free(s.ends);
}
