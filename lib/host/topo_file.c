/* topo_file.c - machines that are not here: hwloc XML and synthetic descriptions. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "host/gid.h"
#include "host/topo_load.h"
#include "te_err.h"

/* hwloc keeps what sysfs said: "Port1State" "4", "Port1GID0" "fe80:0000:...". */
static void read_port(hwloc_obj_t os, struct te_topo_nic *f)
{
	static const char *const states[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE" };
	const char *state = hwloc_obj_get_info_by_name(os, "Port1State");
	const char *gid = hwloc_obj_get_info_by_name(os, "Port1GID0");
	union ibv_gid raw;
	int64_t n;

	te_strlcpy(f->why, "recorded: the file has no GID table", sizeof(f->why));
	if (!state)
		return;
	f->port = 1;
	if (te_parse_i64(state, 0, (int64_t)ARRAY_SIZE(states) - 1, &n))
		te_strlcpy(f->state, states[n], sizeof(f->state));
	if (gid && inet_pton(AF_INET6, gid, raw.raw) == 1) {
		inet_ntop(AF_INET6, raw.raw, f->gid_text, sizeof(f->gid_text));
		te_nic_gid_text(&raw, f->gid);
		f->gid_index = 0;
		te_strlcpy(f->why, "recorded: the only one in the file", sizeof(f->why));
	}
}

static int find_nics(struct te_load *l)
{
	hwloc_obj_t o = NULL;

	while ((o = hwloc_get_next_osdev(l->topo, o))) {
		struct te_found *f;

		if (o->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS || !o->name)
			continue;
		f = te_load_add(&l->nics, &l->nnics);
		if (!f)
			return te_fail(l->err, -ENOMEM, "out of memory");
		f->at = te_load_device(o);
		te_strlcpy(f->facts.name, o->name, sizeof(f->facts.name));
		f->facts.present = true;
		f->facts.gid_index = f->facts.numa_node = -1;
		if (f->at->type == HWLOC_OBJ_PCI_DEVICE)
			snprintf(f->facts.pci, sizeof(f->facts.pci), "%04x:%02x:%02x.%01x",
				 f->at->attr->pcidev.domain, f->at->attr->pcidev.bus,
				 f->at->attr->pcidev.dev, f->at->attr->pcidev.func);
		read_port(o, &f->facts);
	}
	return 0;
}

static int load(struct te_load *l, const char *what)
{
	int rc = te_load_topology(l, what);

	if (!rc)
		rc = find_nics(l);
	return rc ? rc : te_load_machine(l);
}

int te_machine_load_xml(struct te_machine *m, const char *path, const char *text, size_t len,
			struct te_err *err)
{
	struct te_load l;
	int rc = te_load_init(&l, m, err);

	if (rc)
		return rc;
	if (hwloc_topology_set_xmlbuffer(l.topo, text, (int)len + 1))
		rc = te_fail(err, -EINVAL, "'%s' is no hwloc XML file", path);
	else
		rc = load(&l, "the XML");
	te_load_clear(&l);
	return rc;
}

int te_machine_load_synthetic(struct te_machine *m, const char *spec, struct te_err *err)
{
	struct te_load l;
	int rc = te_load_init(&l, m, err);

	if (rc)
		return rc;
	if (hwloc_topology_set_synthetic(l.topo, spec))
		rc = te_fail(err, -EINVAL, "'%s' is no hwloc synthetic description", spec);
	else
		rc = load(&l, "the synthetic description");
	te_load_clear(&l);
	return rc;
}
