/* nic_sysfs.h - what only sysfs says about an RDMA device. `root` is "/sys/class/infiniband" but in tests. */
#ifndef TE_HOST_NIC_SYSFS_H
#define TE_HOST_NIC_SYSFS_H

#include <stddef.h>

#define TE_NIC_SYSFS "/sys/class/infiniband"

/* PCI address, "" for what is no PCI device. */
void te_nic_sysfs_pci(const char *root, const char *device, char *buf, size_t size);
/* NUMA node, -1: unknown. */
int te_nic_sysfs_numa(const char *root, const char *device);
/* Network interface of a GID, "" when it has none. */
void te_nic_sysfs_netdev(const char *root, const char *device, unsigned port, unsigned gid, char *buf, size_t size);

#endif
