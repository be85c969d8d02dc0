/* nic_sysfs.c - what only sysfs says about an RDMA device: PCI address, NUMA node, interfaces. */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "host/nic_sysfs.h"

/* First line of a small file, "" when it cannot be read. */
static void read_line(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, buf, size - 1);

	buf[MAX(n, 0)] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	if (fd >= 0)
		close(fd);
}

/* "0000:3b:00.0"; domains of more digits exist. */
static bool is_pci_address(const char *s)
{
	unsigned domain, bus, slot, function;
	int end = 0;

	return sscanf(s, "%x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &end) == 4 && !s[end];
}

void te_nic_sysfs_pci(const char *root, const char *device, char *buf, size_t size)
{
	char link[PATH_MAX], real[PATH_MAX];

	*buf = '\0';
	snprintf(link, sizeof(link), "%s/%s/device", root, device);
	if (realpath(link, real) && is_pci_address(basename(real)))
		te_strlcpy(buf, basename(real), size);
}

int te_nic_sysfs_numa(const char *root, const char *device)
{
	char path[PATH_MAX], text[16];
	int64_t node;

	snprintf(path, sizeof(path), "%s/%s/device/numa_node", root, device);
	read_line(path, text, sizeof(text));
	return te_parse_i64(text, 0, INT_MAX, &node) ? (int)node : -1;
}

void te_nic_sysfs_netdev(const char *root, const char *device, unsigned port, unsigned gid,
			 char *buf, size_t size)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/ports/%u/gid_attrs/ndevs/%u", root, device, port, gid);
	read_line(path, buf, size);
}
