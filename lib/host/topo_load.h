/* topo_load.h - hwloc's objects walked into a machine; topo_host.c and topo_file.c say which devices count. */
#ifndef TE_HOST_TOPO_LOAD_H
#define TE_HOST_TOPO_LOAD_H

#include "host/topo_machine.h"

/* A device that counts. */
struct te_found {
	hwloc_obj_t at;			/* PCI device, or what it hangs on; NULL: hwloc does not know it */
	int number;			/* GPUs */
	struct te_topo_nic facts;	/* NICs; name and present at least */
	int node;			/* NICs: known NUMA node; -1: as hwloc has it, -2: unknown */
	char detail[96];		/* GPUs: model */
	bool placed;
};

struct te_load {
	hwloc_topology_t topo;
	struct te_machine *m;
	struct te_found *nics, *gpus;
	size_t nnics, ngpus;
	struct te_err *err;
};

/* A topology with te's filters, not loaded yet. */
int te_load_init(struct te_load *l, struct te_machine *m, struct te_err *err);
/* hwloc_topology_load(), then the GPUs into l->gpus. */
int te_load_topology(struct te_load *l, const char *what);
/* The machine from topology, l->nics and l->gpus. */
int te_load_machine(struct te_load *l);
void te_load_clear(struct te_load *l);
struct te_found *te_load_add(struct te_found **list, size_t *n);
/* The PCI device that an OS device belongs to, else itself. */
hwloc_obj_t te_load_device(hwloc_obj_t os);

#endif
