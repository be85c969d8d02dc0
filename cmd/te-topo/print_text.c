/* print_text.c - what te-topo found out, for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"
#include "table.h"
#include "te-topo.h"

static void or_dash(struct table *t, const char *text)
{
	table_cell(t, "%s", *text ? text : "-");
}

static void number_or_dash(struct table *t, bool known, double number, const char *unit)
{
	if (known)
		table_cell(t, "%.4g%s", number, unit);
	else
		table_cell(t, "-");
}

/* Names from..to of a row, joined. */
static void names(struct table *t, const struct te_topo_row *row, size_t from, size_t to)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = from < to ? open_memstream(&text, &size) : NULL;

	for (size_t i = from; f && i < to; i++)
		fprintf(f, "%s%s", i > from ? " " : "", row->nics[i]);
	if (f)
		fclose(f);
	or_dash(t, text ? text : "");
	free(text);
}

static void print_ports(const struct te_topo_nic *nics, size_t n)
{
	static const char *const titles[] = { "NIC",   "port", "state", "link",
					      "speed", "MTU",  "node",	"PCI" };
	struct table t = { .columns = sizeof(titles) / sizeof(*titles) };

	for (int i = 0; i < t.columns; i++)
		table_cell(&t, "%s", titles[i]);
	for (size_t i = 0; i < n; i++) {
		or_dash(&t, nics[i].name);
		number_or_dash(&t, nics[i].port, nics[i].port, "");
		or_dash(&t, nics[i].state);
		or_dash(&t, nics[i].link_layer);
		number_or_dash(&t, nics[i].gbps > 0, nics[i].gbps, " Gb/s");
		number_or_dash(&t, nics[i].mtu, nics[i].mtu, "");
		number_or_dash(&t, nics[i].numa_node >= 0, nics[i].numa_node, "");
		or_dash(&t, nics[i].pci);
	}
	table_print(&t);
}

static void print_gids(const struct te_topo_nic *nics, size_t n)
{
	static const char *const titles[] = { "NIC", "GID", "address", "type", "netdev", "why" };
	struct table t = { .columns = sizeof(titles) / sizeof(*titles) };

	for (int i = 0; i < t.columns; i++)
		table_cell(&t, "%s", titles[i]);
	for (size_t i = 0; i < n; i++) {
		or_dash(&t, nics[i].name);
		number_or_dash(&t, nics[i].gid_index >= 0, nics[i].gid_index, "");
		or_dash(&t, nics[i].gid_text);
		or_dash(&t, nics[i].gid_type);
		or_dash(&t, nics[i].netdev);
		or_dash(&t, nics[i].why);
	}
	table_print(&t);
}

static void nics(const struct te_topo_nic *list, size_t n)
{
	if (!n) {
		puts("no RDMA NIC");
		return;
	}
	print_ports(list, n);
	putchar('\n');
	print_gids(list, n);
}

static void show(const struct source *s)
{
	struct table t = { .columns = 3 };
	const struct te_topo_nic *list;
	const struct te_topo_row *rows;
	size_t n = te_topo_nics(s->topo, &list);

	if (n)
		print_ports(list, n);
	else
		puts("no RDMA NIC");
	putchar('\n');
	table_cell(&t, "location");
	table_cell(&t, "preferred");
	table_cell(&t, "others");
	n = te_topo_rows(s->topo, &rows);
	for (size_t i = 0; i < n; i++) {
		table_cell(&t, "%s", rows[i].location);
		names(&t, &rows[i], 0, rows[i].npreferred);
		names(&t, &rows[i], rows[i].npreferred, rows[i].n);
	}
	table_print(&t);
}

/* What an engine takes first: without preferred ones any of the others. */
static void pick(const struct te_topo_row *row)
{
	size_t n = row->npreferred ? row->npreferred : row->n;

	for (size_t i = 0; i < n; i++)
		out_line(stdout, "%s", row->nics[i]);
}

static void path(const struct path *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct pairs *l = &p->v[i];
		struct table t = { .columns = 4 };

		out_line(stdout, "%s%s here -> %s of %s", i ? "\n" : "", p->local_location,
			 l->remote_location, p->segment);
		for (size_t j = 0; j < l->n; j++) {
			table_cell(&t, "  %s -> %s", l->v[j].local, l->v[j].remote);
			table_cell(&t, "%s",
				   l->v[j].first    ? "first"
				   : l->v[j].usable ? "spare"
						    : "unusable");
			table_cell(&t, "%s", l->v[j].why);
			table_cell(&t, "%s", l->v[j].same_name ? "same name" : "");
		}
		if (l->n)
			table_print(&t);
		else
			puts("  no NIC");
	}
}

static void diff_row(struct table *t, char sign, const struct te_topo_row *row)
{
	table_cell(t, "%c %s", sign, row->location);
	names(t, row, 0, row->npreferred);
	names(t, row, row->npreferred, row->n);
}

static void diff(const struct diff *d)
{
	struct table t = { .columns = 3 };

	if (!d->n)
		return;
	out_line(stdout, "--- %s", d->a);
	out_line(stdout, "+++ %s", d->b);
	for (size_t i = 0; i < d->n; i++) {
		const struct change *c = &d->v[i];

		if (c->kind == NIC_ONLY_A || c->kind == NIC_ONLY_B)
			out_line(stdout, "%c NIC %s", c->kind == NIC_ONLY_A ? '-' : '+', c->name);
		if (!c->a && !c->b)
			continue;
		if (!t.n) {
			table_cell(&t, "  location");
			table_cell(&t, "preferred");
			table_cell(&t, "others");
		}
		if (c->a)
			diff_row(&t, '-', c->a);
		if (c->b)
			diff_row(&t, '+', c->b);
	}
	if (t.n)
		table_print(&t);
}

const struct printer print_text = {
	.show = show,
	.nics = nics,
	.pick = pick,
	.path = path,
	.diff = diff,
};
