/* diff.c - what differs between two topologies, as their matrices have it. */
#include <stdlib.h>
#include <string.h>

#include "te-topo.h"

static void add(struct diff *d, enum change_kind kind, const char *name,
		const struct te_topo_row *a, const struct te_topo_row *b)
{
	d->v[d->n++] = (struct change){ kind, name, a, b };
}

static bool has(const struct te_topo_row *row, size_t from, size_t to, const char *nic)
{
	for (size_t i = from; i < to; i++)
		if (strcmp(row->nics[i], nic) == 0)
			return true;
	return false;
}

/* Lists are sets: engines do not care for their order. */
static bool same_row(const struct te_topo_row *a, const struct te_topo_row *b)
{
	if (a->n != b->n || a->npreferred != b->npreferred)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (i < a->npreferred ? !has(b, 0, b->npreferred, a->nics[i])
				      : !has(b, b->npreferred, b->n, a->nics[i]))
			return false;
	return true;
}

/* Both sides are sorted by location. */
static void compare_rows(struct diff *d, const struct te_topo *a, const struct te_topo *b)
{
	const struct te_topo_row *x, *y;
	size_t nx = te_topo_rows(a, &x), ny = te_topo_rows(b, &y), i = 0, j = 0;

	while (i < nx || j < ny) {
		int order = i == nx ? 1 : j == ny ? -1 : strcmp(x[i].location, y[j].location);

		if (order < 0)
			add(d, ROW_ONLY_A, x[i].location, &x[i], NULL);
		else if (order > 0)
			add(d, ROW_ONLY_B, y[j].location, NULL, &y[j]);
		else if (!same_row(&x[i], &y[j]))
			add(d, ROW_CHANGED, x[i].location, &x[i], &y[j]);
		i += order <= 0;
		j += order >= 0;
	}
}

/* NICs of one matrix that the other does not name. */
static void compare_nics(struct diff *d, enum change_kind kind, const struct te_topo *a,
			 const struct te_topo *b)
{
	const struct te_topo_row *x = te_topo_row(a, "*"), *y = te_topo_row(b, "*");

	for (size_t i = 0; i < x->n; i++)
		if (!has(y, 0, y->n, x->nics[i]))
			add(d, kind, x->nics[i], NULL, NULL);
}

static size_t most_changes(const struct te_topo *t)
{
	const struct te_topo_row *rows;

	return te_topo_rows(t, &rows) + te_topo_row(t, "*")->n;
}

int verb_diff(struct cmd *c)
{
	struct source a = { 0 }, b = { 0 };
	int status = source_word(c, c->args[0], &a);
	struct diff d = { .a = c->args[0], .b = c->args[1] };

	if (status == CLI_OK)
		status = source_word(c, c->args[1], &b);
	if (status == CLI_OK) {
		d.v = zalloc(most_changes(a.topo) + most_changes(b.topo), sizeof(*d.v));
		compare_nics(&d, NIC_ONLY_A, a.topo, b.topo);
		compare_nics(&d, NIC_ONLY_B, b.topo, a.topo);
		compare_rows(&d, a.topo, b.topo);
		c->print->diff(&d);
		status = d.n ? CLI_FAIL : CLI_OK;
		free(d.v);
	}
	source_close(&a);
	source_close(&b);
	return status;
}
