/*
 * te_conf.h - the tunables: every MC_* variable that libte reads, in one table.
 *
 * Read at each engine open into that engine's own struct. A bad value is a warning that names
 * variable, value and range, and the default is used. te(7) explains each.
 */
#ifndef TE_CONF_H
#define TE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "te_log.h"

#ifdef __cplusplus
extern "C" {
#endif

struct te_err;

struct te_conf {
	/* metadata */
	char metadata_server[512];	/* MC_METADATA_SERVER */
	char cluster_id[128];		/* MC_METADATA_CLUSTER_ID */
	char redis_username[128], redis_password[256];
	int64_t redis_db_index;
	char etcd_username[128], etcd_password[256];
	char http_token[512];
	bool use_proxy;			/* MC_TE_USE_PROXY */
	bool disable_metacache;		/* MC_DISABLE_METACACHE */
	int64_t metadata_refresh_s;	/* MC_TE_METADATA_REFRESH_INTERVAL_SECONDS, 0 = off */
	int64_t ttl_s;			/* MC_TE_TTL_SECONDS, 0 = no TTL */

	/* handshake daemon, ports and addresses */
	int64_t handshake_backlog, handshake_max_length, handshake_connect_timeout_s, handshake_port;
	int64_t min_rpc_port, max_rpc_port;
	bool legacy_rpc_port;		/* MC_LEGACY_RPC_PORT_BINDING */
	char tcp_bind_address[64];	/* MC_TCP_BIND_ADDRESS */
	bool use_ipv6;

	/* what forces a transport */
	bool force_tcp, force_hca, force_mnnvl, intranode_nvlink;

	/* transfers */
	double transfer_timeout_s;	/* MC_TRANSFER_TIMEOUT, > 0 */
	int64_t slice_size, fragment_ratio, retry_cnt;
	int64_t slice_timeout_s;	/* MC_SLICE_TIMEOUT, 0 = off */
	int64_t spin_us;		/* MC_TE_SPIN_US: how long a thread polls before it sleeps */

	/* files */
	bool file_sync;			/* MC_TE_FILE_SYNC: WRITEs are durable when COMPLETED */

	/* tcp */
	bool tcp_connection_pool;	/* accepted, has no effect: te always keeps connections */
	int64_t tcp_slice_size;		/* same: te has no I/O chunk */
	int64_t tcp_proto;		/* MC_TCP_PROTO: 1 forces v1, else 0 */
	double tcp_status_timeout_s;	/* MC_TCP_STATUS_TIMEOUT_SEC */
	int64_t tcp_lanes;		/* MC_TCP_LANES_PER_PEER: connections to one peer */

	/* rdma, for each NIC; what the device cannot do cuts it down */
	int64_t num_cq, num_comp_channels;
	int64_t ib_port;
	int64_t gid_index;		/* MC_GID_INDEX, -1 = chosen */
	int64_t auto_gid_max_retries, pkey_index;
	int64_t ib_tc, ib_sl;		/* -1 = not set */
	int64_t relaxed_ordering;	/* 0 off, 1 on, 2 where it is supported */
	int64_t max_cqe, max_ep;
	int64_t num_qp;			/* MC_NUM_QP_PER_EP: queue pairs of an endpoint */
	int64_t max_sge, max_wr, max_inline;
	int64_t mtu;			/* bytes */
	int64_t workers;		/* MC_WORKERS_PER_CTX: threads */
	int64_t max_mr_size;		/* bytes */
	int64_t parallel_reg;		/* register on all NICs side by side: 0, 1, -1 automatic */
	bool endpoint_fifo;		/* MC_ENDPOINT_STORE_TYPE=FIFO */
	bool track_slices;		/* MC_TRACK_RDMA_POSTED_SLICES */
	bool mlx5_lag_balance;		/* MC_MLX5_QP_LAG_PORT_BALANCE */
	char mlx5_udp_sports[256];	/* MC_MLX5_QP_UDP_SPORTS */
	char rdma_bind_address[64];	/* MC_RDMA_BIND_ADDRESS */
	int64_t nvidia_peermem;		/* WITH_NVIDIA_PEERMEM: -1 unset, 0, 1 */

	/* rdma, choice of paths */
	int64_t conn_pause_ms;		/* MC_CONN_PAUSE_TTL_MS, 0 = off */
	int64_t rail_pause_s;		/* MC_RDMA_RAIL_PAUSE_SECONDS */
	bool dest_affinity;		/* MC_ENABLE_DEST_DEVICE_AFFINITY */
	bool hca_peer_affinity;		/* MC_ENABLE_HCA_PEER_AFFINITY */
	char nic_peer_affinity[1024];	/* MC_NIC_PEER_AFFINITY */
	bool log_slice_affinity;	/* MC_LOG_RDMA_SLICE_AFFINITY */
	bool path_roundrobin;		/* MC_PATH_ROUNDROBIN */

	/* topology */
	char te_filters[1024];		/* MC_TE_FILTERS */
	char custom_topo_json[512];	/* MC_CUSTOM_TOPO_JSON, a file */

	/* logging and metrics */
	enum te_log_level log_level;
	char log_dir[256];
	bool metric;
	int64_t metric_interval_s;
};

/* Read the environment. Never fails; warnings go to the log. Applies MC_LOG_LEVEL and MC_LOG_DIR
   to the log. */
void te_conf_read(struct te_conf *conf);
/* Two variables that exclude each other, or one that forces a transport which this build or
   `protocol` (may be NULL) rules out: -EINVAL or -ENOTSUP, naming them. */
int te_conf_check(const struct te_conf *conf, const char *protocol, struct te_err *err);

/* What --env prints, one variable: the callback form serves text and JSON alike. */
struct te_conf_entry {
	const char *name, *value, *origin /* "default", "environment", "invalid, default used" */, *range,
		*def, *help;
	bool used;		/* false: known, checked, but without effect in this build */
	bool secret;		/* value is "(set)" or "" */
};
void te_conf_each(void (*cb)(void *arg, const struct te_conf_entry *e), void *arg);

#ifdef __cplusplus
}
#endif

#endif
