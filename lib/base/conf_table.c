/* conf_table.c - the table of tunables. Names, defaults and ranges: INTEROP 8 and DESIGN 4.1. */
#include "base/conf_table.h"
#include "base/util.h"
#include "te_conf.h"

#define FIELD(f)     .off = offsetof(struct te_conf, f), .size = sizeof(((struct te_conf *)0)->f)
#define ROW(n, d, h) .name = n, .def = d, .help = h
/* Stored and used, or only checked and printed. */
#define INT(n, d, lo, hi, f, h)                                                                    \
	{                                                                                          \
		ROW(n, d, h), .kind = TE_CONF_INT, .min = lo, .max = hi, FIELD(f)                  \
	}
#define UNUSED_INT(n, d, lo, hi, h)                                                                \
	{                                                                                          \
		ROW(n, d, h), .kind = TE_CONF_INT, .use = TE_CONF_UNUSED, .min = lo, .max = hi     \
	}
#define SWITCH(n, d, f, h)                                                                         \
	{                                                                                          \
		ROW(n, d, h), .kind = TE_CONF_SWITCH, FIELD(f)                                     \
	}
#define UNUSED_SWITCH(n, d, h)                                                                     \
	{                                                                                          \
		ROW(n, d, h), .kind = TE_CONF_SWITCH, .use = TE_CONF_UNUSED                        \
	}
#define CHOICE(n, d, w, v, f, h)                                                                   \
	{                                                                                          \
		ROW(n, d, h), .kind = TE_CONF_CHOICE, .words = w, .stored = v, FIELD(f)            \
	}
#define POSITIVE(n, d, f, h)                                                                       \
	{                                                                                          \
		ROW(n, d, h), .kind = TE_CONF_POSITIVE, FIELD(f)                                   \
	}
#define TEXT(n, f, h)                                                                              \
	{                                                                                          \
		ROW(n, "", h), .kind = TE_CONF_TEXT, FIELD(f)                                      \
	}
#define SECRET(n, f, h)                                                                            \
	{                                                                                          \
		ROW(n, "", h), .kind = TE_CONF_SECRET, FIELD(f)                                    \
	}

#define TIB ((int64_t)1 << 40)

/* What the words of a choice are stored as. */
static const int64_t mtus[] = { 512, 1024, 2048, 4096 };
static const int64_t fifo_first[] = { true, false };
static const int64_t no_yes[] = { 0, 1, 0, 1, 0, 1, 0, 1, 0, 1 };

const struct te_conf_var te_conf_vars[] = {
	/* metadata */
	TEXT("MC_METADATA_SERVER", metadata_server,
	     "the store, when none is given: P2PHANDSHAKE, http://, redis://, etcd://"),
	TEXT("MC_METADATA_CLUSTER_ID", cluster_id,
	     "keys begin with mooncake/ID/ instead of mooncake/"),
	TEXT("MC_REDIS_USERNAME", redis_username, "user for redis AUTH"),
	SECRET("MC_REDIS_PASSWORD", redis_password, "password for redis AUTH"),
	INT("MC_REDIS_DB_INDEX", "0", 0, 255, redis_db_index, "redis data base"),
	TEXT("MC_TE_ETCD_USERNAME", etcd_username, "user for etcd"),
	SECRET("MC_TE_ETCD_PASSWORD", etcd_password, "password for etcd"),
	SECRET("MC_TE_HTTP_TOKEN", http_token, "bearer token for http metadata servers"),
	SWITCH("MC_TE_USE_PROXY", "0", use_proxy,
	       "honour http_proxy and the like for http and etcd"),
	SWITCH("MC_DISABLE_METACACHE", "0", disable_metacache,
	       "fetch a descriptor on every open of its segment"),
	INT("MC_TE_METADATA_REFRESH_INTERVAL_SECONDS", "0", 0, 86400, metadata_refresh_s,
	    "fetch all descriptors in use again so often; 0: only when needed"),
	INT("MC_TE_TTL_SECONDS", "30", 0, 86400, ttl_s,
	    "our entries vanish so long after a crash; 0: never"),

	/* handshake daemon, ports and addresses */
	INT("MC_HANDSHAKE_LISTEN_BACKLOG", "128", 1, 65535, handshake_backlog,
	    "backlog of the handshake port"),
	INT("MC_HANDSHAKE_MAX_LENGTH", "1048576", 1 << 20, 128 << 20, handshake_max_length,
	    "longest handshake message that is read, in bytes"),
	INT("MC_HANDSHAKE_CONNECT_TIMEOUT", "5", 1, 3599, handshake_connect_timeout_s,
	    "seconds to connect to a handshake port"),
	INT("MC_HANDSHAKE_PORT", "12001", 1, 65535, handshake_port,
	    "handshake port of names without a port"),
	{ ROW("MC_MIN_RPC_PORT", "15000", "first port of the range for automatic ports"),
	  .alias = "MC_MIN_PRC_PORT", .kind = TE_CONF_INT, .min = 1024, .max = 65535,
	  FIELD(min_rpc_port) },
	{ ROW("MC_MAX_RPC_PORT", "17000", "last port of that range"), .alias = "MC_MAX_PRC_PORT",
	  .kind = TE_CONF_INT, .min = 1024, .max = 65535, FIELD(max_rpc_port) },
	SWITCH("MC_LEGACY_RPC_PORT_BINDING", "0", legacy_rpc_port,
	       "the port in the local server name is the RPC port, or the start fails"),
	TEXT("MC_TCP_BIND_ADDRESS", tcp_bind_address,
	     "local address that is published and that all listeners bind to"),
	SWITCH("MC_USE_IPV6", "0", use_ipv6, "publish an IPv6 address"),

	/* what forces a transport */
	SWITCH("MC_FORCE_TCP", "0", force_tcp, "tcp only"),
	SWITCH("MC_FORCE_HCA", "0", force_hca, "rdma only; fails where there is none"),
	SWITCH("MC_FORCE_MNNVL", "0", force_mnnvl,
	       "multi-node NVLink only; fails where there is none"),
	{ ROW("MC_INTRA_NVLINK", "0", "NVLink inside this host only; fails where there is none"),
	  .alias = "MC_INTRANODE_NVLINK", .kind = TE_CONF_SWITCH, FIELD(intranode_nvlink) },

	/* transfers */
	POSITIVE("MC_TRANSFER_TIMEOUT", "30", transfer_timeout_s,
		 "seconds without progress after which a transfer times out"),
	INT("MC_SLICE_SIZE", "65536", 1, TIB, slice_size, "bytes of a slice (rdma)"),
	INT("MC_FRAGMENT_RATIO", "4", 1, TIB, fragment_ratio,
	    "a last piece up to slice/RATIO joins the slice before; below the slice size (rdma)"),
	INT("MC_RETRY_CNT", "9", 1, 127, retry_cnt, "tries of a slice in all"),
	INT("MC_SLICE_TIMEOUT", "0", 0, 65535, slice_timeout_s,
	    "seconds after which a slice has timed out; 0: off"),
	INT("MC_TE_SPIN_US", "50", 0, 10000, spin_us,
	    "microseconds that a waiting thread polls before it sleeps"),

	/* files */
	SWITCH("MC_TE_FILE_SYNC", "0", file_sync,
	       "a WRITE to a file segment is on stable storage when it completes"),

	/* tcp */
	{ ROW("MC_TCP_ENABLE_CONNECTION_POOL", "0", "no effect: te always keeps its connections"),
	  .kind = TE_CONF_SWITCH, .use = TE_CONF_UNUSED, FIELD(tcp_connection_pool) },
	{ ROW("MC_TCP_SLICE_SIZE", "65536", "no effect: te moves as much as a system call takes"),
	  .kind = TE_CONF_INT, .use = TE_CONF_UNUSED, .min = 1, .max = TIB, FIELD(tcp_slice_size) },
	INT("MC_TCP_PROTO", "0", 0, 1, tcp_proto, "1: never use framing v2"),
	POSITIVE("MC_TCP_STATUS_TIMEOUT_SEC", "30", tcp_status_timeout_s,
		 "seconds to wait for the status of a v2 request"),
	{ ROW("MC_TCP_LANES_PER_PEER", "4", "most connections to one peer"),
	  .alias = "MC_TCP_MAX_CONNECTIONS_PER_PEER", .kind = TE_CONF_INT, .min = 1, .max = 16,
	  FIELD(tcp_lanes) },
	UNUSED_INT("MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER", "1024", 1, 65535,
		   "no effect: queues have no fixed length"),
	UNUSED_INT("MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER", "1024", 1, 65535,
		   "no effect: queues have no fixed length"),
	UNUSED_INT("MC_TCP_ADMISSION_TIMEOUT_MS", "1000", 1, 600000,
		   "no effect: queues have no fixed length"),

	/* logging and metrics */
	{ ROW("MC_LOG_LEVEL", "WARNING", "least severe lines that are logged"),
	  .kind = TE_CONF_LEVEL, .words = "TRACE|INFO|WARNING|ERROR", FIELD(log_level) },
	TEXT("MC_LOG_DIR", log_dir, "directory for log files instead of standard error"),
	SWITCH("MC_TE_METRIC", "0", metric, "log throughput and latency regularly"),
	INT("MC_TE_METRIC_INTERVAL_SECONDS", "5", 1, 86400, metric_interval_s, "so often"),

	/* rdma */
	INT("MC_NUM_CQ_PER_CTX", "1", 1, 255, num_cq, "completion queues of a NIC"),
	{ ROW("MC_NUM_COMP_CHANNELS_PER_CTX", "1",
	      "no effect: each completion queue has a channel of its own"),
	  .kind = TE_CONF_INT, .use = TE_CONF_UNUSED, .min = 1, .max = 255,
	  FIELD(num_comp_channels) },
	INT("MC_IB_PORT", "1", 1, 255, ib_port, "port of each NIC"),
	{ ROW("MC_GID_INDEX", "-1", "GID of each NIC; -1: chosen"), .alias = "NCCL_IB_GID_INDEX",
	  .kind = TE_CONF_INT, .min = -1, .max = 255, FIELD(gid_index) },
	INT("MC_AUTO_GID_MAX_RETRIES", "2", 0, 16, auto_gid_max_retries,
	    "other GIDs tried when the chosen one fails"),
	INT("MC_PKEY_INDEX", "0", 0, 65535, pkey_index, "partition key of a queue pair"),
	INT("MC_IB_TC", "-1", -1, 255, ib_tc, "traffic class; -1: not set"),
	INT("MC_IB_SL", "-1", -1, 15, ib_sl, "service level; -1: not set"),
	INT("MC_IB_PCI_RELAXED_ORDERING", "0", 0, 2, relaxed_ordering,
	    "PCI relaxed ordering: 0 off, 1 on, 2 where it is supported"),
	INT("MC_MAX_CQE_PER_CTX", "4096", 1, 65535, max_cqe, "entries of a completion queue"),
	INT("MC_MAX_EP_PER_CTX", "65536", 1, 65536, max_ep, "endpoints of a NIC"),
	INT("MC_NUM_QP_PER_EP", "2", 1, 255, num_qp,
	    "queue pairs of an endpoint; both sides need the same"),
	INT("MC_MAX_SGE", "4", 1, 65535, max_sge,
	    "scatter entries of a request, cut to what the NIC can"),
	INT("MC_MAX_WR", "256", 1, 65535, max_wr,
	    "requests in a queue pair, cut to what the NIC can"),
	INT("MC_MAX_INLINE", "64", 0, 65535, max_inline,
	    "inline bytes of a request, cut to what the NIC can"),
	CHOICE("MC_MTU", "4096", "512|1024|2048|4096", mtus, mtu,
	       "largest path MTU, cut to what the NIC can"),
	INT("MC_WORKERS_PER_CTX", "2", 1, 8, workers,
	    "threads of a NIC that wait for completions, at most one for each of its queues"),
	INT("MC_MAX_MR_SIZE", "1099511627776", 1, INT64_MAX, max_mr_size,
	    "largest memory region, cut to what the NIC can"),
	INT("MC_CONN_PAUSE_TTL_MS", "0", 0, 600000, conn_pause_ms,
	    "milliseconds without reconnection to a peer that failed"),
	INT("MC_RDMA_RAIL_PAUSE_SECONDS", "30", 1, 3599, rail_pause_s,
	    "seconds that a path which failed is avoided"),
	SWITCH("MC_ENABLE_DEST_DEVICE_AFFINITY", "0", dest_affinity,
	       "prefer the peer's NIC of the same name"),
	SWITCH("MC_ENABLE_HCA_PEER_AFFINITY", "0", hca_peer_affinity,
	       "for GPU memory of peers choose the NIC by MC_NIC_PEER_AFFINITY"),
	TEXT("MC_NIC_PEER_AFFINITY", nic_peer_affinity, "rules LOCAL=PEER,PEER;..."),
	SWITCH("MC_LOG_RDMA_SLICE_AFFINITY", "0", log_slice_affinity, "log the NICs of each slice"),
	{ ROW("MC_TRACK_RDMA_POSTED_SLICES", "0", "no effect: te always knows what is posted"),
	  .kind = TE_CONF_SWITCH, .use = TE_CONF_UNUSED, FIELD(track_slices) },
	INT("MC_ENABLE_PARALLEL_REG_MR", "-1", -1, 1, parallel_reg,
	    "register on all NICs side by side: 0 no, 1 yes, -1 automatic"),
	CHOICE("MC_ENDPOINT_STORE_TYPE", "SIEVE", "FIFO|SIEVE", fifo_first, endpoint_fifo,
	       "which endpoint gives way when there are too many"),
	SWITCH("MC_PATH_ROUNDROBIN", "0", path_roundrobin,
	       "NICs in turn instead of by expected time"),
	/* These two need the mlx5 driver's own calls, and the last one GPU memory. */
	{ ROW("MC_MLX5_QP_UDP_SPORTS", "", "UDP source ports of queue pairs (mlx5)"),
	  .kind = TE_CONF_TEXT, .use = TE_CONF_UNUSED, FIELD(mlx5_udp_sports) },
	{ ROW("MC_MLX5_QP_LAG_PORT_BALANCE", "0", "spread queue pairs over LAG ports (mlx5)"),
	  .kind = TE_CONF_SWITCH, .use = TE_CONF_UNUSED, FIELD(mlx5_lag_balance) },
	TEXT("MC_RDMA_BIND_ADDRESS", rdma_bind_address,
	     "address in the names of our NICs, P2P only"),
	{ ROW("WITH_NVIDIA_PEERMEM", "",
	      "GPU memory: 1 ibv_reg_mr, 0 DMA-BUF; unset: DMA-BUF first"),
	  .kind = TE_CONF_CHOICE, .use = TE_CONF_UNUSED,
	  .words = "0|1|false|true|off|on|no|yes|disable|enable", .stored = no_yes,
	  FIELD(nvidia_peermem) },

	/* topology */
	TEXT("MC_TE_FILTERS", te_filters, "comma list of the NICs that may be used"),
	TEXT("MC_CUSTOM_TOPO_JSON", custom_topo_json, "file with a priority matrix"),

	/* the real engine's successor */
	UNUSED_SWITCH("MC_USE_TENT", "0", "no effect: te is one engine"),
	UNUSED_SWITCH("MC_USE_TEV1", "0", "no effect: te is one engine"),
};

const size_t te_conf_nvars = ARRAY_SIZE(te_conf_vars);
