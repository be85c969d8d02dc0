/* draw_dot.c - a topology for graphviz. */
#include <stdio.h>

#include "draw.h"

static const char *const styles[] = {
	[TE_TOPO_MACHINE] = "shape=house,fillcolor=white",
	[TE_TOPO_PACKAGE] = "fillcolor=\"#eeeeee\"",
	[TE_TOPO_GROUP] = "fillcolor=white",
	[TE_TOPO_MEMORY] = "fillcolor=\"#d8f0d8\"",
	[TE_TOPO_BRIDGE] = "fillcolor=white,style=\"rounded,filled\",color=\"#999999\"",
	[TE_TOPO_GPU] = "fillcolor=\"#e8dcf4\"",
	[TE_TOPO_NIC] = "fillcolor=\"#d8e6f8\"",
};

static void quoted(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

static void preferred(const struct drawing *d, size_t box)
{
	const struct te_topo_row *row = d->v[box].row;

	for (size_t i = 0; row && i < row->npreferred; i++) {
		int nic = draw_find(d, row->nics[i]);

		if (nic >= 0)
			printf("\tb%zu -> b%d [color=\"#d06000\",penwidth=2.5,constraint=false];\n",
			       box, nic);
	}
}

void draw_dot(const struct drawing *d)
{
	printf("// bold: preferred\ndigraph topology {\n\trankdir=LR;\n"
	       "\tnode [shape=box,style=filled,fontname=monospace,fontsize=10];\n"
	       "\tedge [arrowhead=none,color=\"#999999\"];\n");
	for (size_t i = 0; i < d->n; i++) {
		printf("\tb%zu [%s,label=", i, styles[d->v[i].object->kind]);
		quoted(d->v[i].text);
		puts("];");
		if (d->v[i].parent >= 0)
			printf("\tb%d -> b%zu;\n", d->v[i].parent, i);
	}
	for (size_t i = 0; i < d->n; i++)
		preferred(d, i);
	puts("}");
}
