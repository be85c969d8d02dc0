/* topo_rules.c - from a machine to its priority matrix. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "host/topo_machine.h"

unsigned te_machine_hops(const struct te_machine *m, int a, int b)
{
	unsigned hops = 0;

	/* Parents come before their children: the later one is never above the other. */
	for (; a != b; hops++) {
		if (a > b)
			a = m->objects[a].parent;
		else
			b = m->objects[b].parent;
	}
	return hops;
}

static bool same_node(const struct te_place *a, const struct te_place *b)
{
	return hwloc_bitmap_weight(a->nodes) == 1 && hwloc_bitmap_isequal(a->nodes, b->nodes);
}

static bool same_package(const struct te_place *a, const struct te_place *nic)
{
	return !hwloc_bitmap_iszero(nic->nodes) && hwloc_bitmap_isincluded(nic->nodes, a->package);
}

/* Marks the NICs that share most with the place: its node, else its package; false when none shares
 * either. */
static bool mark_near(const struct te_machine *m, const struct te_place *at, bool *near)
{
	bool found = false;

	for (size_t i = 0; i < m->nics.n; i++)
		found |= near[i] = same_node(at, &m->nics.v[i]);
	for (size_t i = 0; i < m->nics.n && !found; i++)
		near[i] = same_package(at, &m->nics.v[i]);
	for (size_t i = 0; i < m->nics.n && !found; i++)
		found = near[i];
	return found;
}

/* Of those marked only the ones with the fewest steps stay. */
static void keep_nearest(const struct te_machine *m, const struct te_place *gpu, bool *near)
{
	unsigned best = UINT_MAX;

	for (size_t i = 0; i < m->nics.n; i++)
		if (near[i])
			best = MIN(best, te_machine_hops(m, gpu->object, m->nics.v[i].object));
	for (size_t i = 0; i < m->nics.n; i++)
		near[i] = near[i] && te_machine_hops(m, gpu->object, m->nics.v[i].object) == best;
}

static int add_row(const struct te_machine *m, json_t *root, const struct te_place *at,
		   const bool *near)
{
	json_t *lists[2] = { json_array(), json_array() };
	const char *location = m->objects[at->object].name;
	int bad = !lists[0] || !lists[1];

	for (size_t i = 0; i < m->nics.n && !bad; i++)
		bad = json_array_append_new(lists[!near[i]],
					    te_json_text(m->objects[m->nics.v[i].object].name));
	if (!bad)
		bad = json_object_set_new(root, location, json_pack("[OO]", lists[0], lists[1]));
	json_decref(lists[0]);
	json_decref(lists[1]);
	return bad;
}

static int add_memory_row(const struct te_machine *m, json_t *root, const struct te_place *at,
			  bool *near)
{
	mark_near(m, at, near);
	return add_row(m, root, at, near);
}

static int add_gpu_row(const struct te_machine *m, json_t *root, const struct te_place *at,
		       bool *near)
{
	if (!mark_near(m, at, near))
		memset(near, true, m->nics.n * sizeof(*near));
	keep_nearest(m, at, near);
	return add_row(m, root, at, near);
}

char *te_machine_matrix(const struct te_machine *m)
{
	bool *near = calloc(m->nics.n + 1, sizeof(*near));
	json_t *root = json_object();
	int bad = !near || !root;
	char *text = NULL;

	for (size_t i = 0; i < m->memory.n && !bad; i++)
		bad = add_memory_row(m, root, &m->memory.v[i], near);
	for (size_t i = 0; i < m->gpus.n && !bad; i++)
		bad = add_gpu_row(m, root, &m->gpus.v[i], near);
	if (!bad)
		text = te_json_format(root);
	json_decref(root);
	free(near);
	return text;
}
