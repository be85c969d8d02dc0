/* topo.h - from hwloc and the NICs to a priority matrix: what te_topo.h shows, for engines. */
#ifndef TE_HOST_TOPO_H
#define TE_HOST_TOPO_H

#include <stdbool.h>

struct te_conf;
struct te_err;

/* What an engine asks for; strings may be NULL. */
struct te_topo_wish {
	const char *device_name;	/* comma list; an unknown one is an error that lists those there are */
	const char *nic_priority_matrix;	/* JSON text */
	bool auto_discovery;
};

/*
 * The matrix that an engine here publishes, malloc'ed JSON: nic_priority_matrix, else MC_CUSTOM_TOPO_JSON (conf->custom_topo_json, a file; malformed:
 * -EINVAL that says where), else discovered; NICs cut to device_name and MC_TE_FILTERS (conf->te_filters). A device_name list without
 * auto_discovery and without a matrix means what the real bench means: each is preferred for every location of this host?  No: the discovered
 * matrix cut to the list, which is better and still valid. Does not look at port states.
 */
int te_topo_matrix(const struct te_conf *conf, const struct te_topo_wish *wish, char **out, struct te_err *err);

#endif
