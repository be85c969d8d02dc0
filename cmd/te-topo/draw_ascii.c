/* draw_ascii.c - a topology as a tree of text lines. */
#include <stdio.h>

#include "draw.h"

static void print_indent(const struct drawing *d, int box)
{
	int parent = d->v[box].parent;

	if (parent < 0)
		return;
	print_indent(d, parent);
	if (parent > 0)
		fputs(draw_last_child(d, (size_t)parent) ? "    " : "|   ", stdout);
}

void draw_ascii(const struct drawing *d)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct box *b = &d->v[i];

		print_indent(d, (int)i);
		if (i)
			fputs(draw_last_child(d, i) ? "`-- " : "|-- ", stdout);
		fputs(b->text, stdout);
		for (size_t j = 0; b->row && j < b->row->npreferred; j++)
			printf("%s%s", j ? " " : "  => ", b->row->nics[j]);
		putchar('\n');
	}
}
