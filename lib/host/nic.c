/* nic.c - the RDMA devices of this host, as libibverbs and sysfs have them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "host/gid.h"
#include "host/nic.h"
#include "host/nic_sysfs.h"
#include "te_conf.h"
#include "te_err.h"

/* More than any device has valid ones on all its ports together. */
/* The kernel takes at most 64 KiB of them. */
enum { GID_ENTRIES = 1024 };

/* ---- which devices there are ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

int te_nic_list(char names[][TE_NIC_NAME], size_t max, struct te_err *err)
{
	struct ibv_device **list;
	int n = 0;

	errno = 0;
	list = ibv_get_device_list(&n);
	if (!list && errno != ENOSYS)
		return te_fail(err, -errno, "cannot list RDMA devices: %s", strerror(errno));
	n = list ? (int)MIN((size_t)n, max) : 0;
	for (int i = 0; i < n; i++)
		te_strlcpy(names[i], ibv_get_device_name(list[i]), TE_NIC_NAME);
	if (list)
		ibv_free_device_list(list);
	if (!n)
		return te_fail(err, -ENOENT,
			       "no RDMA device on this host: libibverbs finds none in %s%s",
			       TE_NIC_SYSFS,
			       access(TE_NIC_SYSFS, F_OK) ? " (which is not there: no RDMA driver "
							    "is loaded)"
							  : "");
	qsort(names, (size_t)n, TE_NIC_NAME, by_name);
	return n;
}

static int no_such_device(struct ibv_device **list, int n, const char *name, struct te_err *err)
{
	char known[320] = "";
	size_t len = 0;

	for (int i = 0; i < n && len < sizeof(known); i++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", i ? ", " : "",
					ibv_get_device_name(list[i]));
	if (len >= sizeof(known))
		te_strlcpy(known + sizeof(known) - 4, "...", 4);
	return te_fail(err, -ENODEV, "no RDMA device '%s' on this host; there %s%s", name,
		       n == 0	? "is none"
		       : n == 1 ? "is "
				: "are ",
		       known);
}

/* Why a device that is there does not open is mostly a matter of /dev/infiniband. */
static int explain_open(const struct ibv_device *device, int error, struct te_err *err)
{
	const char *hint = "";

	if (error == EACCES || error == EPERM)
		hint = ": this user needs to read and write it";
	else if (error == ENOENT || error == ENXIO)
		hint = ": a container needs the devices of /dev/infiniband passed in";
	else if (error == EMFILE)
		hint = ": raise `ulimit -n`";
	return te_fail(err, -error, "cannot open RDMA device '%s' (/dev/infiniband/%s): %s%s",
		       device->name, device->dev_name, strerror(error), hint);
}

int te_nic_open(const char *name, struct ibv_context **out, struct te_err *err)
{
	struct ibv_device **list, *device = NULL;
	int n = 0, rc = 0;

	list = ibv_get_device_list(&n);
	for (int i = 0; list && i < n && !device; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			device = list[i];
	if (!device) {
		rc = no_such_device(list, list ? n : 0, name, err);
		goto out;
	}
	errno = 0;
	*out = ibv_open_device(device);
	if (!*out)
		rc = explain_open(device, errno ? errno : EIO, err);
out:
	if (list)
		ibv_free_device_list(list);
	return rc;
}

/* ---- what a port says ---- */

static const char *state_text(enum ibv_port_state state)
{
	static const char *const names[] = { "NOP",   "DOWN",	"INIT",
					     "ARMED", "ACTIVE", "ACTIVE_DEFER" };

	return (size_t)state < ARRAY_SIZE(names) ? names[state] : "UNKNOWN";
}

static const char *link_layer_text(uint8_t link_layer)
{
	switch (link_layer) {
	case IBV_LINK_LAYER_ETHERNET:
		return "Ethernet";
	case IBV_LINK_LAYER_UNSPECIFIED: /* of drivers older than RoCE */
	case IBV_LINK_LAYER_INFINIBAND:
		return "InfiniBand";
	default:
		return "Unknown";
	}
}

/* Both are bits (InfiniBand specification, PortInfo): SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR; 1x,
 * 4x, 8x, 12x, 2x. */
static double gbps(const struct ibv_port_attr *a)
{
	static const double lane[] = { 2.5, 5, 10, 10, 14, 25, 50, 100 };
	static const unsigned lanes[] = { 1, 4, 8, 12, 2 };
	double speed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lane); i++)
		if (a->active_speed == 1u << i)
			speed = lane[i];
	for (size_t i = 0; i < ARRAY_SIZE(lanes); i++)
		if (a->active_width == 1u << i)
			return speed * lanes[i];
	return 0;
}

static unsigned mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static int by_index(const void *a, const void *b)
{
	unsigned x = ((const struct te_nic_gid *)a)->index;
	unsigned y = ((const struct te_nic_gid *)b)->index;

	return (x > y) - (x < y);
}

static int read_gids(struct ibv_context *ctx, struct te_nic_port *p, struct te_err *err)
{
	struct ibv_gid_entry *entries = calloc(GID_ENTRIES, sizeof(*entries));
	ssize_t n = entries ? ibv_query_gid_table(ctx, entries, GID_ENTRIES, 0) : -ENOMEM;

	for (ssize_t i = 0; i < n; i++) {
		struct te_nic_gid *g = &p->gids[p->ngids];

		if (entries[i].port_num != p->port || entries[i].gid_index >= TE_NIC_GIDS ||
		    p->ngids == TE_NIC_GIDS)
			continue;
		g->index = entries[i].gid_index;
		g->gid = entries[i].gid;
		g->type = entries[i].gid_type;
		te_nic_sysfs_netdev(TE_NIC_SYSFS, p->name, p->port, g->index, g->netdev,
				    sizeof(g->netdev));
		g->rank = te_gid_rank(g);
		p->ngids += g->rank != 0;
	}
	qsort(p->gids, p->ngids, sizeof(*p->gids), by_index);
	te_gid_find_prefixes(p->gids, p->ngids);
	free(entries);
	if (n < 0)
		return te_fail(err, (int)n, "cannot read the GID table of device '%s': %s", p->name,
			       strerror((int)-n));
	return 0;
}

static int read_port(struct ibv_context *ctx, struct te_nic_port *p, struct te_err *err)
{
	struct ibv_device_attr device;
	struct ibv_port_attr a;
	int rc = ibv_query_device(ctx, &device);

	if (rc)
		return te_fail(err, -rc, "cannot query device '%s': %s", p->name, strerror(rc));
	if (p->port < 1 || p->port > device.phys_port_cnt)
		return te_fail(err, -EINVAL, "device '%s' has no port %u (MC_IB_PORT), only %s%d",
			       p->name, p->port, device.phys_port_cnt > 1 ? "1 to " : "",
			       device.phys_port_cnt);
	rc = ibv_query_port(ctx, (uint8_t)p->port, &a);
	if (rc)
		return te_fail(err, -rc, "cannot query port %u of device '%s': %s", p->port,
			       p->name, strerror(rc));
	p->state = a.state;
	p->state_text = state_text(a.state);
	p->link_layer = link_layer_text(a.link_layer);
	p->gbps = gbps(&a);
	p->mtu = mtu_bytes(a.active_mtu);
	p->max_mtu = mtu_bytes(a.max_mtu);
	p->lid = a.lid;
	return 0;
}

int te_nic_query_open(const struct te_conf *conf, struct ibv_context *ctx,
		      const uint64_t tried[TE_NIC_GIDS / 64], struct te_nic_port *out,
		      struct te_err *err)
{
	int rc;

	memset(out, 0, sizeof(*out));
	te_strlcpy(out->name, ibv_get_device_name(ctx->device), sizeof(out->name));
	out->port = (unsigned)conf->ib_port;
	out->chosen = -1;
	out->numa_node = te_nic_sysfs_numa(TE_NIC_SYSFS, out->name);
	te_nic_sysfs_pci(TE_NIC_SYSFS, out->name, out->pci, sizeof(out->pci));
	rc = read_port(ctx, out, err);
	if (!rc)
		rc = read_gids(ctx, out, err);
	return rc ? rc : te_gid_choose(out, conf->gid_index, tried, err);
}

int te_nic_query(const struct te_conf *conf, const char *name, struct te_nic_port *out,
		 struct te_err *err)
{
	struct ibv_context *ctx;
	int rc = te_nic_open(name, &ctx, err);

	if (rc)
		return rc;
	rc = te_nic_query_open(conf, ctx, NULL, out, err);
	ibv_close_device(ctx);
	return rc;
}

int te_nic_usable(const struct te_nic_port *p, struct te_err *err)
{
	char table[320];

	te_gid_table(p, table, sizeof(table));
	if (p->state != IBV_PORT_ACTIVE)
		return te_fail(err, -ENETDOWN,
			       "device '%s' port %u is %s, not ACTIVE (see `rdma link`); %s",
			       p->name, p->port, p->state_text, table);
	if (p->chosen < 0)
		return te_fail(err, -EADDRNOTAVAIL, "device '%s' port %u: no GID to use: %s; %s",
			       p->name, p->port, p->why, table);
	return 0;
}
