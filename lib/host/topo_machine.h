/* topo_machine.h - a machine as the rules of the priority matrix see it. */
#ifndef TE_HOST_TOPO_MACHINE_H
#define TE_HOST_TOPO_MACHINE_H

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>

#include "te_topo.h"

struct te_conf;
struct te_err;

/* What memory, GPUs and NICs have in common: where they are. Bits are the kernel's node numbers. */
struct te_place {
	int object;			/* in te_machine.objects */
	int number;			/* memory: its node; GPUs: theirs; NICs: index into te_machine.facts */
	hwloc_bitmap_t nodes;		/* nearest */
	hwloc_bitmap_t package;		/* all of the package; empty when in none */
};

struct te_places {
	struct te_place *v;
	size_t n;
};

struct te_machine {
	struct te_topo_object *objects;	/* parents before children; 0 is the machine */
	size_t nobjects;
	struct te_places memory, gpus, nics;
	struct te_topo_nic *facts;
	size_t nfacts;
};

/* Zeroed before. -ENOMEM without text. */
int te_machine_add_object(struct te_machine *m, const struct te_topo_object *o);	/* its place */
int te_machine_add_place(struct te_places *list, int object, int number, hwloc_const_bitmap_t nodes,
			 hwloc_const_bitmap_t package);
int te_machine_add_nic(struct te_machine *m, const struct te_topo_nic *facts, int parent, hwloc_const_bitmap_t nodes,
		       hwloc_const_bitmap_t package);
void te_machine_clear(struct te_machine *m);

/* From hwloc XML, len bytes with a NUL after them; NICs are the OpenFabrics devices of the file. */
int te_machine_load_xml(struct te_machine *m, const char *path, const char *text, size_t len, struct te_err *err);
/* -EINVAL: not a synthetic description. */
int te_machine_load_synthetic(struct te_machine *m, const char *spec, struct te_err *err);
/* This host, its NICs from libibverbs. With conf their ports are asked, too (facts); NULL: names and places only. */
int te_machine_load_host(struct te_machine *m, const struct te_conf *conf, struct te_err *err);
/* The same without hwloc, memory only: when there are no NICs nothing else matters to an engine. */
int te_machine_load_nodes(struct te_machine *m, struct te_err *err);

/* topo_rules.c: the priority matrix (DESIGN 5), JSON text, malloc'ed; NULL when memory is out. */
char *te_machine_matrix(const struct te_machine *m);
/* Steps from one object to another by way of their parents. */
unsigned te_machine_hops(const struct te_machine *m, int a, int b);

#endif
