/* topo_machine.c - a machine, put together piece by piece. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "host/topo_machine.h"

/* Room for one more: it doubles at each power of two. */
static void *grown(void *list, size_t n, size_t size)
{
	return n & (n - 1) ? list : reallocarray(list, n ? 2 * n : 1, size);
}

int te_machine_add_object(struct te_machine *m, const struct te_topo_object *o)
{
	struct te_topo_object *list = grown(m->objects, m->nobjects, sizeof(*list));

	if (!list)
		return -ENOMEM;
	m->objects = list;
	list[m->nobjects] = *o;
	return (int)m->nobjects++;
}

int te_machine_add_place(struct te_places *list, int object, int number, hwloc_const_bitmap_t nodes,
			 hwloc_const_bitmap_t package)
{
	struct te_place *v = grown(list->v, list->n, sizeof(*v)), *p;

	if (!v)
		return -ENOMEM;
	list->v = v;
	p = &v[list->n++];
	p->object = object;
	p->number = number;
	p->nodes = hwloc_bitmap_dup(nodes);
	p->package = hwloc_bitmap_dup(package);
	return p->nodes && p->package ? 0 : -ENOMEM;
}

int te_machine_add_nic(struct te_machine *m, const struct te_topo_nic *facts, int parent,
		       hwloc_const_bitmap_t nodes, hwloc_const_bitmap_t package)
{
	struct te_topo_object o = { .kind = TE_TOPO_NIC, .parent = parent };
	struct te_topo_nic *list = grown(m->facts, m->nfacts, sizeof(*list));
	int object;

	if (!list)
		return -ENOMEM;
	m->facts = list;
	list[m->nfacts] = *facts;
	te_strlcpy(o.name, facts->name, sizeof(o.name));
	te_strlcpy(o.pci, facts->pci, sizeof(o.pci));
	object = te_machine_add_object(m, &o);
	return object < 0
		       ? object
		       : te_machine_add_place(&m->nics, object, (int)m->nfacts++, nodes, package);
}

static void clear_places(struct te_places *list)
{
	for (size_t i = 0; i < list->n; i++) {
		hwloc_bitmap_free(list->v[i].nodes);
		hwloc_bitmap_free(list->v[i].package);
	}
	free(list->v);
}

void te_machine_clear(struct te_machine *m)
{
	clear_places(&m->memory);
	clear_places(&m->gpus);
	clear_places(&m->nics);
	free(m->objects);
	free(m->facts);
	memset(m, 0, sizeof(*m));
}
