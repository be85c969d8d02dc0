/* print_json.c - what te-topo found out, for programs. */
#include <stdio.h>
#include <string.h>

#include "out.h"
#include "te-topo.h"

/* The matrix as it is published, byte for byte. */
static void show(const struct source *s)
{
	puts(te_topo_json(s->topo));
}

static json_t *text_or_null(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static json_t *number_or_null(bool known, long long number)
{
	return known ? json_integer(number) : json_null();
}

static json_t *gid(const struct te_topo_nic *n)
{
	if (!*n->gid)
		return json_null();
	return json_pack("{s:o, s:s, s:o, s:o, s:o}", "index",
			 number_or_null(n->gid_index >= 0, n->gid_index), "gid", n->gid, "address",
			 text_or_null(n->gid_text), "type", text_or_null(n->gid_type), "netdev",
			 text_or_null(n->netdev));
}

static json_t *nic(const struct te_topo_nic *n)
{
	json_t *o = json_pack("{s:s, s:b, s:o, s:o, s:o, s:o}", "name", n->name, "present",
			      n->present, "port", number_or_null(n->port, n->port), "state",
			      text_or_null(n->state), "link_layer", text_or_null(n->link_layer),
			      "gbps", n->gbps > 0 ? json_real(n->gbps) : json_null());
	json_t *more = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:b, s:s}", "mtu", number_or_null(n->mtu, n->mtu),
		"max_mtu", number_or_null(n->max_mtu, n->max_mtu), "numa_node",
		number_or_null(n->numa_node >= 0, n->numa_node), "pci", text_or_null(n->pci), "gid",
		gid(n), "usable", n->usable, "why", n->why);

	json_object_update(o, more);
	json_decref(more);
	return o;
}

static void nics(const struct te_topo_nic *list, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, nic(&list[i]));
	out_json(json_pack("{s:o}", "nics", array));
}

static json_t *names(const struct te_topo_row *row, size_t from, size_t to)
{
	json_t *list = json_array();

	for (size_t i = from; i < to; i++)
		json_array_append_new(list, json_string(row->nics[i]));
	return list;
}

static void pick(const struct te_topo_row *row)
{
	out_json(json_pack("{s:s, s:o, s:o}", "location", row->location, "preferred",
			   names(row, 0, row->npreferred), "others",
			   names(row, row->npreferred, row->n)));
}

static json_t *pair(const struct pair *p)
{
	return json_pack("{s:s, s:s, s:b, s:b, s:i, s:o, s:s}", "local", p->local, "remote",
			 p->remote, "first", p->first, "usable", p->usable, "tier", (int)p->tier,
			 "same_subnet", p->near < 0 ? json_null() : json_boolean(p->near), "why",
			 p->why);
}

static void path(const struct path *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->n; i++) {
		const struct pairs *l = &p->v[i];
		json_t *array = json_array();

		for (size_t j = 0; j < l->n; j++)
			json_array_append_new(array, pair(&l->v[j]));
		json_array_append_new(list, json_pack("{s:s, s:o}", "remote_location",
						      l->remote_location, "pairs", array));
	}
	out_json(json_pack("{s:s, s:s, s:o}", "local_location", p->local_location, "segment",
			   p->segment, "paths", list));
}

static json_t *row_or_null(const struct te_topo_row *row)
{
	if (!row)
		return json_null();
	return json_pack("[oo]", names(row, 0, row->npreferred),
			 names(row, row->npreferred, row->n));
}

static void diff(const struct diff *d)
{
	json_t *only_a = json_array(), *only_b = json_array(), *rows = json_array();

	for (size_t i = 0; i < d->n; i++) {
		const struct change *c = &d->v[i];

		if (c->kind == NIC_ONLY_A || c->kind == NIC_ONLY_B)
			json_array_append_new(c->kind == NIC_ONLY_A ? only_a : only_b,
					      json_string(c->name));
		else
			json_array_append_new(rows,
					      json_pack("{s:s, s:o, s:o}", "location", c->name, "a",
							row_or_null(c->a), "b", row_or_null(c->b)));
	}
	out_json(json_pack("{s:b, s:o, s:o, s:o}", "same", d->n == 0, "nics_only_a", only_a,
			   "nics_only_b", only_b, "rows", rows));
}

const struct printer print_json = {
	.show = show,
	.nics = nics,
	.pick = pick,
	.path = path,
	.diff = diff,
};
