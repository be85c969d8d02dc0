/* topo.h - from hwloc and the NICs to a priority matrix: what te_topo.h shows, for engines. */
#ifndef TE_HOST_TOPO_H
#define TE_HOST_TOPO_H

struct te_conf;
struct te_err;
struct te_machine;
struct te_matrix;

/* What an engine asks for; each may be NULL. */
struct te_topo_wish {
	const char *device_name;	/* comma list; an unknown one is an error that lists those there are */
	const char *nic_priority_matrix;	/* JSON text */
};

/*
 * The matrix that an engine here publishes, malloc'ed JSON: nic_priority_matrix, else MC_CUSTOM_TOPO_JSON (conf->custom_topo_json, a file; malformed:
 * -EINVAL that says where), else discovered, with auto-discovery and without; NICs cut to device_name and MC_TE_FILTERS (conf->te_filters). A plain
 * device_name list is the discovered matrix cut to the list: where Mooncake's bench would make each of them preferred everywhere, ours keeps
 * what is near apart from what is not. Does not look at port states. Without any NIC rows are empty lists, of memory only, and
 * hwloc is not asked, which on large hosts takes seconds.
 */
int te_topo_matrix(const struct te_conf *conf, const struct te_topo_wish *wish, char **out, struct te_err *err);

/* The same from a machine that was looked at already. */
int te_topo_matrix_of(const struct te_conf *conf, const struct te_topo_wish *wish, const struct te_machine *m, struct te_matrix **out,
		      struct te_err *err);
/* Is it the wish that is wrong, and not only the host that is poor? A matrix that cannot be read, a NIC that it does not name,
   or a NIC that this host, which has some, does not have. 0: nothing is. */
int te_topo_check(const struct te_conf *conf, const struct te_topo_wish *wish, struct te_err *err);
/* A whole text file, malloc'ed with a NUL, bounded; "cannot read 'PATH': reason". */
int te_topo_read_file(const char *path, char **out, size_t *len, struct te_err *err);

#endif
