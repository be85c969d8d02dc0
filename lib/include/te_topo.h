/*
 * te_topo.h - the topology of a host: which NICs are near which memory, and where all of it sits.
 *
 * From this host (libibverbs for the NICs, hwloc for memory, GPUs and bridges), from an hwloc XML file, from an
 * hwloc synthetic description, or from a priority matrix alone. An open topology is constant: any thread may read it,
 * and what it returns lives until te_topo_close(). Opening may take seconds on large hosts.
 */
#ifndef TE_TOPO_H
#define TE_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct te_conf;
struct te_err;
struct te_topo;

/* A line of the priority matrix. */
struct te_topo_row {
	const char *location;		/* "cpu:0", "cuda:1" */
	const char *const *nics;	/* first the preferred, then the others */
	size_t npreferred, n;
};

/* A NIC: of this host what its port says now, of a file what was recorded, of a matrix no more than its name. */
struct te_topo_nic {
	char name[64];
	bool present;			/* false: named by the matrix, and not seen */
	unsigned port;			/* 0: not known */
	char state[16], link_layer[16];	/* "ACTIVE", "Ethernet"; "": not known */
	double gbps;			/* 0: not known */
	unsigned mtu, max_mtu;		/* bytes, 0: not known */
	int numa_node;			/* -1: not known */
	char pci[16];			/* "0000:3b:00.0"; "" for a software device */
	int gid_index;			/* the one that an engine would use; -1: none */
	char gid[48];			/* as 16 hexadecimal bytes, what descriptors carry; "" */
	char gid_text[48];		/* as an IPv6 address */
	char gid_type[16], netdev[16];	/* "RoCE v2", "eth0" */
	char why[512];			/* why that GID, or what is wrong */
	bool usable;			/* port active and a GID */
};

enum te_topo_kind {
	TE_TOPO_MACHINE, TE_TOPO_PACKAGE, TE_TOPO_GROUP, TE_TOPO_MEMORY, TE_TOPO_BRIDGE, TE_TOPO_GPU, TE_TOPO_NIC
};

/* A piece of hardware. Bridges with neither NIC nor GPU below them are left out, and so are other devices. */
struct te_topo_object {
	enum te_topo_kind kind;
	int parent;			/* its place in the list, before this one; -1 for the machine */
	char name[64];			/* "package 0"; memory and GPUs: the location; bridges: "0000:3a" and the bus below */
	char detail[96];		/* model, host name; "" */
	char pci[16];			/* of devices */
	uint64_t bytes;			/* memory */
	unsigned cpus;			/* packages: hardware threads */
};

/*
 * This host: its matrix is that which an engine here would publish, MC_CUSTOM_TOPO_JSON and MC_TE_FILTERS included. No RDMA
 * device is no error. -EINVAL: a malformed MC_CUSTOM_TOPO_JSON, and where.
 */
int te_topo_open_host(const struct te_conf *conf, struct te_topo **out, struct te_err *err);
/* An hwloc XML file, a file with a priority matrix, or (no such file) an hwloc synthetic description such as "pack:2 [numa] core:4 pu:1". */
int te_topo_open_input(const char *input, struct te_topo **out, struct te_err *err);
/* A priority matrix: JSON text. What is published says no more. */
int te_topo_open_matrix(const char *json, size_t len, struct te_topo **out, struct te_err *err);
void te_topo_close(struct te_topo *t);

/* The priority matrix as JSON text, compact: what is published, and accepted as MC_CUSTOM_TOPO_JSON. */
const char *te_topo_json(const struct te_topo *t);
/* Rows sorted by location, bytewise; the count. */
size_t te_topo_rows(const struct te_topo *t, const struct te_topo_row **out);
/* The row of a location; "*" is every NIC. NULL: there is none, and an engine takes any NIC. */
const struct te_topo_row *te_topo_row(const struct te_topo *t, const char *location);
/* All NICs, sorted by name; the count. */
size_t te_topo_nics(const struct te_topo *t, const struct te_topo_nic **out);
/* Are a NIC of this host, with its chosen GID, and a peer's GID ("00:...:4c") in one subnet? 1, 0; -1: not known. */
int te_topo_near(const struct te_topo_nic *own, const char *peer_gid);
/* The hardware, parents first; the count. What only the matrix names is right below the machine. */
size_t te_topo_objects(const struct te_topo *t, const struct te_topo_object **out);

#ifdef __cplusplus
}
#endif

#endif
