/* topo_load.c - hwloc's objects walked into a machine: packages, memory, bridges, GPUs, NICs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "host/topo_load.h"
#include "te_err.h"

enum { VENDOR_NVIDIA = 0x10de, CLASS_VGA = 0x0300, CLASS_3D = 0x0302 };

int te_load_init(struct te_load *l, struct te_machine *m, struct te_err *err)
{
	memset(l, 0, sizeof(*l));
	l->m = m;
	l->err = err;
	if (hwloc_topology_init(&l->topo))
		return te_fail(err, -ENOMEM, "cannot start hwloc: %s", strerror(errno));
	/* What is not looked at is not discovered either. */
	hwloc_topology_set_cache_types_filter(l->topo, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_icache_types_filter(l->topo, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_type_filter(l->topo, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_io_types_filter(l->topo, HWLOC_TYPE_FILTER_KEEP_ALL);
	hwloc_topology_set_flags(l->topo, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
	return 0;
}

struct te_found *te_load_add(struct te_found **list, size_t *n)
{
	struct te_found *v = reallocarray(*list, *n + 1, sizeof(*v));

	if (!v)
		return NULL;
	*list = v;
	memset(&v[*n], 0, sizeof(*v));
	v[*n].node = -1;
	return &v[(*n)++];
}

void te_load_clear(struct te_load *l)
{
	free(l->nics);
	free(l->gpus);
	if (l->topo)
		hwloc_topology_destroy(l->topo);
}

/* ---- GPUs ---- */

hwloc_obj_t te_load_device(hwloc_obj_t os)
{
	hwloc_obj_t o = os;

	while (o && o->type != HWLOC_OBJ_PCI_DEVICE)
		o = o->parent;
	return o ? o : os;
}

static int add_gpu(struct te_load *l, hwloc_obj_t at, int number, const char *model)
{
	struct te_found *f = te_load_add(&l->gpus, &l->ngpus);

	if (!f)
		return te_fail(l->err, -ENOMEM, "out of memory");
	f->at = at;
	f->number = number;
	te_strlcpy(f->detail, model ? model : "", sizeof(f->detail));
	return 0;
}

/* GPUs that have a number already: "cuda3" of the CUDA runtime, "nvml3" of the driver. */
static int find_numbered_gpus(struct te_load *l, const char *prefix)
{
	size_t len = strlen(prefix);
	hwloc_obj_t o = NULL;
	int64_t number;
	int rc = 0;

	while (!rc && (o = hwloc_get_next_osdev(l->topo, o))) {
		if (!o->name || strncmp(o->name, prefix, len) != 0 ||
		    !te_parse_i64(o->name + len, 0, 4095, &number))
			continue;
		rc = add_gpu(l, te_load_device(o), (int)number,
			     hwloc_obj_get_info_by_name(o, "GPUModel"));
	}
	return rc;
}

static int by_pci_address(const void *a, const void *b)
{
	const struct hwloc_pcidev_attr_s *x = &((const struct te_found *)a)->at->attr->pcidev;
	const struct hwloc_pcidev_attr_s *y = &((const struct te_found *)b)->at->attr->pcidev;
	uint64_t p = (uint64_t)x->domain << 32 | x->bus << 16 | x->dev << 8 | x->func;
	uint64_t q = (uint64_t)y->domain << 32 | y->bus << 16 | y->dev << 8 | y->func;

	return (p > q) - (p < q);
}

/* And where nobody asked the driver: NVIDIA's display controllers in the order of their addresses.
 */
static int find_pci_gpus(struct te_load *l)
{
	hwloc_obj_t o = NULL;
	int rc = 0;

	while (!rc && (o = hwloc_get_next_pcidev(l->topo, o))) {
		const struct hwloc_pcidev_attr_s *pci = &o->attr->pcidev;

		if (pci->vendor_id == VENDOR_NVIDIA &&
		    (pci->class_id == CLASS_VGA || pci->class_id == CLASS_3D))
			rc = add_gpu(l, o, 0, hwloc_obj_get_info_by_name(o, "PCIDevice"));
	}
	if (l->ngpus)
		qsort(l->gpus, l->ngpus, sizeof(*l->gpus), by_pci_address);
	for (size_t i = 0; i < l->ngpus; i++)
		l->gpus[i].number = (int)i;
	return rc;
}

int te_load_topology(struct te_load *l, const char *what)
{
	int rc;

	if (hwloc_topology_load(l->topo))
		return te_fail(l->err, -EINVAL, "hwloc cannot load %s: %s", what, strerror(errno));
	rc = find_numbered_gpus(l, "cuda");
	if (!rc && !l->ngpus)
		rc = find_numbered_gpus(l, "nvml");
	if (!rc && !l->ngpus)
		rc = find_pci_gpus(l);
	return rc;
}

/* ---- places ---- */

/* All nodes of the package around a normal object. A machine without packages is one. */
static hwloc_const_bitmap_t package_of(const struct te_load *l, hwloc_obj_t o)
{
	hwloc_obj_t root = hwloc_get_root_obj(l->topo);

	if (hwloc_get_nbobjs_by_type(l->topo, HWLOC_OBJ_PACKAGE) <= 0)
		return root->nodeset;
	while (o && o->type != HWLOC_OBJ_PACKAGE)
		o = o->parent;
	return o ? o->nodeset : NULL;
}

static int out_of_memory(const struct te_load *l)
{
	return te_fail(l->err, -ENOMEM, "out of memory");
}

/* At a normal object, or at one node of it. */
static int add_place(struct te_load *l, struct te_places *list, int object, int number,
		     hwloc_obj_t normal, int node)
{
	hwloc_bitmap_t nodes = hwloc_bitmap_alloc(), none = hwloc_bitmap_alloc();
	hwloc_const_bitmap_t package = package_of(l, normal);
	int rc = nodes && none ? 0 : -ENOMEM;

	if (!rc && node >= 0)
		hwloc_bitmap_only(nodes, (unsigned)node);
	else if (!rc)
		hwloc_bitmap_copy(nodes, normal->nodeset);
	if (!rc)
		rc = te_machine_add_place(list, object, number, nodes, package ? package : none);
	hwloc_bitmap_free(nodes);
	hwloc_bitmap_free(none);
	return rc ? out_of_memory(l) : 0;
}

static hwloc_obj_t node_object(const struct te_load *l, int node)
{
	return node < 0 ? NULL : hwloc_get_numanode_obj_by_os_index(l->topo, (unsigned)node);
}

/* A node's nearest normal object. */
static hwloc_obj_t above_memory(hwloc_obj_t o)
{
	while (o->type == HWLOC_OBJ_NUMANODE || o->type == HWLOC_OBJ_MEMCACHE)
		o = o->parent;
	return o;
}

static int add_nic(struct te_load *l, struct te_found *f, int parent, hwloc_obj_t normal)
{
	hwloc_obj_t node = node_object(l, f->node);
	hwloc_bitmap_t nodes = hwloc_bitmap_dup(normal->nodeset);
	hwloc_const_bitmap_t package = package_of(l, node ? above_memory(node) : normal);
	hwloc_bitmap_t none = hwloc_bitmap_alloc();
	int rc = -ENOMEM;

	f->placed = true;
	if (!nodes || !none)
		goto out;
	if (f->node >= 0)
		hwloc_bitmap_only(nodes, (unsigned)f->node);
	else if (f->node < -1)
		hwloc_bitmap_copy(nodes, hwloc_get_root_obj(l->topo)->nodeset);
	if (f->facts.numa_node < 0 && hwloc_bitmap_weight(nodes) == 1)
		f->facts.numa_node = hwloc_bitmap_first(nodes);
	rc = te_machine_add_nic(l->m, &f->facts, parent, nodes, package ? package : none);
out:
	hwloc_bitmap_free(nodes);
	hwloc_bitmap_free(none);
	return rc ? out_of_memory(l) : 0;
}

/* ---- the walk ---- */

static int walk(struct te_load *l, hwloc_obj_t o, int parent);

static bool is_found(const struct te_found *list, size_t n, hwloc_obj_t o)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].at == o)
			return true;
	return false;
}

/* Is there a device that counts at or below o? */
static bool leads_to_device(const struct te_load *l, hwloc_obj_t o)
{
	if (is_found(l->nics, l->nnics, o) || is_found(l->gpus, l->ngpus, o))
		return true;
	for (hwloc_obj_t c = o->io_first_child; c; c = c->next_sibling)
		if (leads_to_device(l, c))
			return true;
	return false;
}

static void pci_text(const struct hwloc_pcidev_attr_s *pci, char *buf, size_t size)
{
	snprintf(buf, size, "%04x:%02x:%02x.%01x", pci->domain, pci->bus, pci->dev, pci->func);
}

static int add_gpu_object(struct te_load *l, struct te_found *f, int parent)
{
	struct te_topo_object o = { .kind = TE_TOPO_GPU, .parent = parent };
	int object;

	f->placed = true;
	snprintf(o.name, sizeof(o.name), "cuda:%d", f->number);
	te_strlcpy(o.detail, f->detail, sizeof(o.detail));
	if (f->at->type == HWLOC_OBJ_PCI_DEVICE)
		pci_text(&f->at->attr->pcidev, o.pci, sizeof(o.pci));
	object = te_machine_add_object(l->m, &o);
	if (object < 0)
		return out_of_memory(l);
	return add_place(l, &l->m->gpus, object, f->number,
			 hwloc_get_non_io_ancestor_obj(l->topo, f->at), -1);
}

/* What was found at this very device; it stands where the device stands. */
static int add_devices(struct te_load *l, hwloc_obj_t at, int parent)
{
	int rc = 0;

	for (size_t i = 0; i < l->ngpus && !rc; i++)
		if (l->gpus[i].at == at)
			rc = add_gpu_object(l, &l->gpus[i], parent);
	for (size_t i = 0; i < l->nnics && !rc; i++)
		if (l->nics[i].at == at)
			rc = add_nic(l, &l->nics[i], parent,
				     hwloc_get_non_io_ancestor_obj(l->topo, at));
	return rc;
}

static int add_bridge(struct te_load *l, hwloc_obj_t bridge, int parent)
{
	const struct hwloc_bridge_attr_s *a = &bridge->attr->bridge;
	struct te_topo_object o = { .kind = TE_TOPO_BRIDGE, .parent = parent };

	if (a->upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
		pci_text(&a->upstream.pci, o.name, sizeof(o.name));
		snprintf(o.detail, sizeof(o.detail), "PCI bridge to bus %02x",
			 a->downstream.pci.secondary_bus);
	} else {
		snprintf(o.name, sizeof(o.name), "%04x:%02x", a->downstream.pci.domain,
			 a->downstream.pci.secondary_bus);
		te_strlcpy(o.detail, "host bridge", sizeof(o.detail));
	}
	return te_machine_add_object(l->m, &o);
}

static int add_memory(struct te_load *l, hwloc_obj_t node, int parent)
{
	struct te_topo_object o = { .kind = TE_TOPO_MEMORY, .parent = parent };
	int object;

	snprintf(o.name, sizeof(o.name), "cpu:%u", node->os_index);
	o.bytes = node->attr->numanode.local_memory;
	object = te_machine_add_object(l->m, &o);
	if (object < 0)
		return out_of_memory(l);
	return add_place(l, &l->m->memory, object, (int)node->os_index, above_memory(node),
			 (int)node->os_index);
}

static int add_container(struct te_load *l, hwloc_obj_t from, enum te_topo_kind kind, int parent)
{
	const char *host = hwloc_obj_get_info_by_name(from, "HostName");
	const char *model = hwloc_obj_get_info_by_name(from, "CPUModel");
	struct te_topo_object o = { .kind = kind, .parent = parent };

	if (kind == TE_TOPO_MACHINE)
		te_strlcpy(o.name, host ? host : "machine", sizeof(o.name));
	else
		snprintf(o.name, sizeof(o.name), "%s %u",
			 kind == TE_TOPO_PACKAGE ? "package" : "group",
			 kind == TE_TOPO_PACKAGE ? from->os_index : from->logical_index);
	te_strlcpy(o.detail, kind == TE_TOPO_PACKAGE && model ? model : "", sizeof(o.detail));
	if (from->cpuset)
		o.cpus = (unsigned)MAX(hwloc_bitmap_weight(from->cpuset), 0);
	return te_machine_add_object(l->m, &o);
}

static int walk_children(struct te_load *l, hwloc_obj_t o, int parent)
{
	int rc = 0;

	for (hwloc_obj_t c = o->memory_first_child; c && !rc; c = c->next_sibling)
		rc = walk(l, c, parent);
	for (hwloc_obj_t c = o->io_first_child; c && !rc; c = c->next_sibling)
		rc = walk(l, c, parent);
	for (hwloc_obj_t c = o->first_child; c && !rc; c = c->next_sibling)
		rc = walk(l, c, parent);
	return rc;
}

/* parent: the place of what o's parent became. Types without a meaning here become nothing, their
 * children do. */
static int walk(struct te_load *l, hwloc_obj_t o, int parent)
{
	int object = parent, rc = 0;

	switch (o->type) {
	case HWLOC_OBJ_MACHINE:
		object = add_container(l, o, TE_TOPO_MACHINE, parent);
		break;
	case HWLOC_OBJ_PACKAGE:
		object = add_container(l, o, TE_TOPO_PACKAGE, parent);
		break;
	case HWLOC_OBJ_GROUP:
		object = add_container(l, o, TE_TOPO_GROUP, parent);
		break;
	case HWLOC_OBJ_NUMANODE:
		rc = add_memory(l, o, parent);
		break;
	case HWLOC_OBJ_BRIDGE:
		if (!leads_to_device(l, o))
			return 0;
		object = add_bridge(l, o, parent);
		break;
	case HWLOC_OBJ_PCI_DEVICE:
	case HWLOC_OBJ_OS_DEVICE:
		rc = add_devices(l, o, parent);
		break;
	default:
		break;
	}
	if (object < -1 || (object < 0 && o->type == HWLOC_OBJ_MACHINE))
		return out_of_memory(l);
	return rc ? rc : walk_children(l, o, object);
}

/* Where in the list the memory of a node hangs; the machine when there is no such node. */
static int parent_of_node(const struct te_machine *m, int node)
{
	for (size_t i = 0; i < m->memory.n; i++)
		if (m->memory.v[i].number == node)
			return m->objects[m->memory.v[i].object].parent;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct te_found *)a)->facts.name,
		      ((const struct te_found *)b)->facts.name);
}

static int by_nic_name(const void *a, const void *b, void *m)
{
	const struct te_topo_object *objects = ((const struct te_machine *)m)->objects;

	return strcmp(objects[((const struct te_place *)a)->object].name,
		      objects[((const struct te_place *)b)->object].name);
}

int te_load_machine(struct te_load *l)
{
	int rc;

	if (l->nnics)
		qsort(l->nics, l->nnics, sizeof(*l->nics), by_name);
	rc = walk(l, hwloc_get_root_obj(l->topo), -1);
	/* Software devices, and what hwloc may not see in a container. */
	for (size_t i = 0; i < l->nnics && !rc; i++)
		if (!l->nics[i].placed)
			rc = add_nic(l, &l->nics[i], parent_of_node(l->m, l->nics[i].node),
				     hwloc_get_root_obj(l->topo));
	if (l->m->nics.n)
		qsort_r(l->m->nics.v, l->m->nics.n, sizeof(*l->m->nics.v), by_nic_name, l->m);
	return rc;
}
