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

	/* tcp */
	bool tcp_connection_pool;	/* accepted, has no effect: te always keeps connections */
	int64_t tcp_slice_size;		/* same: te has no I/O chunk */
	int64_t tcp_proto;		/* MC_TCP_PROTO: 1 forces v1, else 0 */
	double tcp_status_timeout_s;	/* MC_TCP_STATUS_TIMEOUT_SEC */
	int64_t tcp_lanes;		/* MC_TCP_LANES_PER_PEER: connections to one peer */

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
