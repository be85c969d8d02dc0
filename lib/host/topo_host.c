/* topo_host.c - the machine that this program runs on: NICs from libibverbs and sysfs, the rest
 * from hwloc. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "host/addr.h"
#include "host/gid.h"
#include "host/nic_sysfs.h"
#include "host/topo_load.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"

#define NODES "/sys/devices/system/node"

enum { NICS_MAX = 256 };

/* ---- NICs ---- */

static void fill_gid(struct te_topo_nic *f, const struct te_nic_gid *g)
{
	f->gid_index = (int)g->index;
	te_nic_gid_text(&g->gid, f->gid);
	inet_ntop(AF_INET6, g->gid.raw, f->gid_text, sizeof(f->gid_text));
	te_strlcpy(f->gid_type, te_gid_type_text(g->type), sizeof(f->gid_type));
	te_strlcpy(f->netdev, g->netdev, sizeof(f->netdev));
}

/* What its port says now; what is wrong with it takes the place of the reason for the GID. */
static void ask_nic(const struct te_conf *conf, struct te_topo_nic *f)
{
	struct te_nic_port *p = calloc(1, sizeof(*p));
	struct te_err err = { 0 };
	int rc = p ? te_nic_query(conf, f->name, p, &err) : te_fail(&err, -ENOMEM, "out of memory");

	if (p && p->state_text) {
		f->port = p->port;
		te_strlcpy(f->state, p->state_text, sizeof(f->state));
		te_strlcpy(f->link_layer, p->link_layer, sizeof(f->link_layer));
		f->gbps = p->gbps;
		f->mtu = p->mtu;
		f->max_mtu = p->max_mtu;
	}
	if (!rc && p->chosen >= 0)
		fill_gid(f, &p->gids[p->chosen]);
	f->usable = !rc && !te_nic_usable(p, &err);
	te_strlcpy(f->why, f->usable ? p->why : err.msg, sizeof(f->why));
	free(p);
}

static int find_nics(struct te_load *l, const struct te_conf *conf)
{
	char(*names)[TE_NIC_NAME] = calloc(NICS_MAX, sizeof(*names));
	struct te_err why = { 0 };
	int n = names ? te_nic_list(names, NICS_MAX, &why) : -ENOMEM;

	for (int i = 0; i < n; i++) {
		struct te_found *f = te_load_add(&l->nics, &l->nnics);

		if (!f) {
			n = -ENOMEM;
			break;
		}
		te_strlcpy(f->facts.name, names[i], sizeof(f->facts.name));
		te_nic_sysfs_pci(TE_NIC_SYSFS, names[i], f->facts.pci, sizeof(f->facts.pci));
		f->facts.numa_node = te_nic_sysfs_numa(TE_NIC_SYSFS, names[i]);
		f->node = f->facts.numa_node < 0 ? -2 : f->facts.numa_node;
		f->facts.present = true;
		f->facts.gid_index = -1;
		if (conf)
			ask_nic(conf, &f->facts);
	}
	free(names);
	if (n == -ENOMEM)
		return te_fail(l->err, n, "out of memory");
	/* None is no error: an engine then has tcp, and te-topo an empty matrix. */
	if (n < 0)
		te_info("%s", why.msg);
	return 0;
}

/* ---- hwloc ---- */

/* Components that start drivers which say nothing that is wanted here; the one that moves the
   calling thread from processor to processor to ask each; and libpciaccess, which loses a list of
   all PCI devices in the world each time. Sysfs has what they know. */
static void without_components(hwloc_topology_t topo)
{
	static const char *const names[] = { "opencl", "gl", "rsmi", "levelzero", "x86", "pci" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		hwloc_topology_set_components(topo, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
					      names[i]);
}

static void name_machine(struct te_machine *m)
{
	if (m->nobjects)
		te_host_name(m->objects[0].name, sizeof(m->objects[0].name));
}

int te_machine_load_host(struct te_machine *m, const struct te_conf *conf, struct te_err *err)
{
	struct te_load l;
	int rc = te_load_init(&l, m, err);

	if (rc)
		return rc;
	without_components(l.topo);
	rc = find_nics(&l, conf);
	if (!rc)
		rc = te_load_topology(&l, "this host");
	for (size_t i = 0; i < l.nnics && !rc; i++)
		if (*l.nics[i].facts.pci)
			l.nics[i].at = hwloc_get_pcidev_by_busidstring(l.topo, l.nics[i].facts.pci);
	if (!rc)
		rc = te_load_machine(&l);
	name_machine(m);
	te_load_clear(&l);
	return rc;
}

/* ---- memory only ---- */

static int add_node(struct te_machine *m, int node)
{
	struct te_topo_object o = { .kind = TE_TOPO_MEMORY, .parent = 0 };
	hwloc_bitmap_t none = hwloc_bitmap_alloc();
	int object, rc = -ENOMEM;

	snprintf(o.name, sizeof(o.name), "cpu:%d", node);
	object = none ? te_machine_add_object(m, &o) : -1;
	if (object >= 0)
		rc = te_machine_add_place(&m->memory, object, node, none, none);
	hwloc_bitmap_free(none);
	return rc;
}

int te_machine_load_nodes(struct te_machine *m, struct te_err *err)
{
	struct te_topo_object o = { .kind = TE_TOPO_MACHINE, .parent = -1 };
	DIR *dir = opendir(NODES);
	struct dirent *e;
	int64_t node;
	int rc = te_machine_add_object(m, &o);

	name_machine(m);
	while (rc >= 0 && dir && (e = readdir(dir)))
		if (!strncmp(e->d_name, "node", 4) &&
		    te_parse_i64(e->d_name + 4, 0, INT_MAX, &node))
			rc = add_node(m, (int)node);
	if (rc >= 0 && !m->memory.n)
		rc = add_node(m, 0);
	if (dir)
		closedir(dir);
	return rc < 0 ? te_fail(err, -ENOMEM, "out of memory") : 0;
}
