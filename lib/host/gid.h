/* gid.h - GIDs of a port: which is the best, and how they read. Pure, except that netmasks are the host's. */
#ifndef TE_HOST_GID_H
#define TE_HOST_GID_H

#include "host/nic.h"

/* "RoCE v2", "RoCE v1", "IB". */
const char *te_gid_type_text(uint32_t type);
/* Sets v4_prefix of n GIDs, whose gid and netdev are set. Asks the kernel for all addresses of the host. */
void te_gid_find_prefixes(struct te_nic_gid *gids, size_t n);
/* By INTEROP 4.1, from gid, type and netdev. */
int te_gid_rank(const struct te_nic_gid *g);
/*
 * Sets p->chosen and p->why from p->gids, whose ranks are set: the one with index `fixed`, or (-1) the lowest rank, then
 * the lowest index, without those in tried (a bit for each place in gids[], may be NULL). -EINVAL only for a fixed
 * index that is not there; chosen is -1 when none is left.
 */
int te_gid_choose(struct te_nic_port *p, int64_t fixed, const uint64_t *tried, struct te_err *err);
/* "GID table: 0 fe80::1 RoCE v1 (eth0); 1 ...", and how many more did not fit. */
const char *te_gid_table(const struct te_nic_port *p, char *buf, size_t size);
/* Is the address, IPv4 in its IPv6 form or IPv6, within `bits` bits the same? */
bool te_gid_same_prefix(const union ibv_gid *a, const union ibv_gid *b, unsigned bits);

#endif
