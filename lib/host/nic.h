/*
 * nic.h - the RDMA devices of this host: ports, GIDs, where they sit. libibverbs and sysfs, wrapped.
 *
 * Looking changes nothing and keeps nothing open, except te_nic_open().
 */
#ifndef TE_HOST_NIC_H
#define TE_HOST_NIC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct te_conf;
struct te_err;

enum { TE_NIC_NAME = 64, TE_NIC_GIDS = 256, TE_GID_TEXT = 48 };

struct te_nic_gid {
	unsigned index;
	union ibv_gid gid;
	uint32_t type;			/* enum ibv_gid_type of <infiniband/verbs.h>: IB, ROCE_V1, ROCE_V2 */
	char netdev[16];		/* "" when it has none */
	int v4_prefix;			/* of an IPv4 address: bits of its netmask; -1: not known */
	int rank;			/* INTEROP 4.1: 1 is best ... 7; 0: never chosen (null) */
};

/* What a port says now. */
struct te_nic_port {
	char name[TE_NIC_NAME];		/* device */
	unsigned port;
	enum ibv_port_state state;
	const char *state_text;		/* "ACTIVE", "DOWN", as ibv_devinfo prints without PORT_ */
	const char *link_layer;		/* "Ethernet", "InfiniBand" */
	double gbps;			/* active width x speed */
	unsigned mtu, max_mtu;		/* bytes */
	unsigned lid;
	int numa_node;			/* -1: unknown */
	char pci[16];			/* "0000:3b:00.0"; "" for a software device */
	struct te_nic_gid gids[TE_NIC_GIDS];
	size_t ngids;			/* non-null ones, by index */
	int chosen;			/* into gids; -1: none will do */
	char why[160];			/* why that one, a phrase: "RoCE v2, routable, has a netdev (rank 1)" */
};

/* Names of all devices, sorted bytewise, at most max; the count. -ENOENT when this host has none (err says where it looked). */
int te_nic_list(char names[][TE_NIC_NAME], size_t max, struct te_err *err);
/* Ask one device about port conf->ib_port; the GID is chosen as conf->gid_index says. A down port is no error here;
   -ENODEV: no such device (err lists those there are); -EINVAL: no such port, or no GID at that index (err shows the table).
   *out has what was found out before an error: with the name set, it can be shown. */
int te_nic_query(const struct te_conf *conf, const char *name, struct te_nic_port *out, struct te_err *err);
/* The same from an open device. Skips `tried` (a bit for each index of gids[]) when choosing: another GID after one that failed. */
int te_nic_query_open(const struct te_conf *conf, struct ibv_context *ctx, const uint64_t tried[TE_NIC_GIDS / 64],
		      struct te_nic_port *out, struct te_err *err);
/* ibv_open_device by name, with the reason and what to try when it fails (permissions of /dev/infiniband ...). */
int te_nic_open(const char *name, struct ibv_context **out, struct te_err *err);
/* Is it usable for transfers (port active, a GID)? Else why not: one sentence that names device, port, GID index and shows the table. */
int te_nic_usable(const struct te_nic_port *p, struct te_err *err);
/* "00:00:...:2a", 16 two-digit hex bytes: as descriptors and handshakes carry it. */
const char *te_nic_gid_text(const union ibv_gid *gid, char buf[TE_GID_TEXT]);
/* Exactly that form, else false. */
bool te_nic_gid_parse(const char *text, union ibv_gid *gid);
/* Could a packet reach the peer's GID from ours without a router? For IPv4-mapped GIDs by the netdev's netmask, for IPv6 by the
   first 64 bits, for InfiniBand by the subnet prefix. False when the netmask is not known, as in a foreign network namespace. */
bool te_nic_same_subnet(const struct te_nic_gid *own, const union ibv_gid *peer);

#endif
