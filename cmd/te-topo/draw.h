/* draw.h - a topology made ready for drawing: boxes in a tree, and links from memory and GPUs to what they prefer. */
#ifndef TE_TOPO_DRAW_H
#define TE_TOPO_DRAW_H

#include "te-topo.h"

struct box {
	const struct te_topo_object *object;
	int parent;			/* box; -1 */
	int depth;			/* 0: the machine */
	int column;			/* which package, as drawn side by side; -1: the machine itself */
	char text[192];			/* name first, one line, printable ASCII */
	const struct te_topo_nic *nic;	/* NICs */
	const struct te_topo_row *row;	/* memory, GPUs; NULL when the matrix has none */
};

struct drawing {
	struct box *v;			/* depth first */
	size_t n;
	int columns;
};

/* The box of a NIC, -1. */
int draw_find(const struct drawing *d, const char *nic);
bool draw_last_child(const struct drawing *d, size_t box);
/* Each writes to stdout. */
void draw_svg(const struct drawing *d);
void draw_dot(const struct drawing *d);
void draw_ascii(const struct drawing *d);

#endif
