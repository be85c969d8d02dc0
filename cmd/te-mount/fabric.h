/*
 * fabric.h - NVMe over Fabrics, the host's side: discover, connect, find the block device, disconnect.
 *
 * Connecting is libnvme's business. What is connected is read from sysfs, which answers at once, whatever the state of the
 * controller. Nothing here waits for longer than its limit.
 */
#ifndef TE_MOUNT_FABRIC_H
#define TE_MOUNT_FABRIC_H

#include <stdbool.h>

#include "task.h"

enum { FABRIC_NQN_MAX = 224, FABRIC_ADDR_MAX = 256, FABRIC_NAME_MAX = 32, FABRIC_CTRLS_MAX = 64, FABRIC_NS_MAX = 64 };

struct fabric_target {			/* what to connect to, and how; strings are borrowed, NULL = not given */
	const char *transport;		/* "tcp", "rdma" */
	const char *traddr, *trsvcid;	/* a name is resolved by fabric_discover() */
	const char *nqn;
	const char *host_traddr, *host_iface;
	const char *hostnqn, *hostid;
	int fast_io_fail_tmo, reconnect_delay, ctrl_loss_tmo;	/* seconds */
	int keep_alive_tmo, nr_io_queues, queue_size;		/* 0 = the kernel's default */
	unsigned nsid;			/* 0 = the only one */
};

struct fabric_ctrl {			/* one connection */
	char name[FABRIC_NAME_MAX];	/* "nvme0"; "" = none */
	char nqn[FABRIC_NQN_MAX], transport[16], traddr[FABRIC_ADDR_MAX], trsvcid[32];
	char state[32];			/* "live", "connecting", ... */
};

struct fabric_host {			/* whom targets know this host as */
	char nqn[FABRIC_NQN_MAX], id[40];
};
/* As given, else from /etc/nvme, else made up, and then kept there for the next time. nqn, id: NULL = not given. */
int fabric_host(const char *nqn, const char *id, struct fabric_host *out, struct te_err *err);

/* ---- what the kernel has ------------------------------------------------------------------ */

/* Is there a connection to that target? Yes: *out is set. */
bool fabric_find(const struct fabric_target *t, struct fabric_ctrl *out);
/* By its name. */
bool fabric_ctrl(const char *name, struct fabric_ctrl *out);
/* The connections that a block device ("nvme0n1") is reached by; how many, at most max. 0: not NVMe, or gone. */
size_t fabric_paths(const char *disk, struct fabric_ctrl *out, size_t max);

/* ---- what takes time ---------------------------------------------------------------------- */

/* Ask the discovery service at that address for t->nqn. numeric (FABRIC_ADDR_MAX bytes): the address that t->traddr is. */
int fabric_discover(const struct fabric_target *t, const struct limit *l, char *numeric,
		    struct te_err *err);
/* Connect; when the limit is over, or nobody waits any more, there is no connection. */
int fabric_connect(const struct fabric_target *t, const struct limit *l, struct fabric_ctrl *out,
		   struct te_err *err);
/* The namespace's block device, "nvme0n1", once it is there; waits for a connection that is not live, too. */
int fabric_disk(const struct fabric_target *t, const struct fabric_ctrl *c, const struct limit *l,
		char disk[FABRIC_NAME_MAX], struct te_err *err);
int fabric_disconnect(const char *name, const struct limit *l, struct te_err *err);

#endif
