/* engine.c - engines, transports and what is told about them under the names of
 * transfer_engine_c.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "compat/compat.h"
#include "te_topo.h"

/* ---- engines ------------------------------------------------------------------------------ */

static int open_engine(struct compat_engine *e, unsigned rpc_port, struct te_err *err)
{
	struct te_engine_options opt = { .metadata_server = e->conn,
					 .local_server_name = e->name,
					 .protocol = e->protocol,
					 .nic_priority_matrix = e->matrix,
					 .rpc_port = rpc_port,
					 .auto_discovery = true };

	return te_engine_open(&e->te, &opt, err);
}

static void engine_free(struct compat_engine *e)
{
	te_engine_close(e->te);
	compat_buffers_free(e->buffers);
	free(e->open);
	free(e->conn);
	free(e->name);
	free(e->matrix);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

static struct compat_engine *engine_new(const char *conn, const char *name, const char *protocol)
{
	struct compat_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	pthread_mutex_init(&e->lock, NULL);
	e->conn = te_strdup(conn);
	e->name = te_strdup(name);
	e->protocol = protocol;
	if ((!conn || e->conn) && (!name || e->name))
		return e;
	engine_free(e);
	return NULL;
}

transfer_engine_t createTransferEngine(const char *conn, const char *local_server_name,
				       const char *ip_or_host_name, uint64_t rpc_port,
				       int auto_discover)
{
	struct compat_engine *e;
	transfer_engine_t h = NULL;
	struct te_conf conf;
	struct te_err err;

	(void)ip_or_host_name;
	(void)rpc_port;
	te_conf_read(&conf);
	/* Without discovery installTransport() decides; until then what every host has. */
	e = engine_new(conn, local_server_name, auto_discover || conf.force_hca ? "auto" : "tcp");
	if (!e)
		return NULL;
	if (open_engine(e, 0, &err)) {
		te_log(TE_LOG_ERROR, "createTransferEngine: %s", err.msg);
		e->te = NULL;
	} else {
		h = compat_handle_new(e);
	}
	if (!h)
		engine_free(e);
	return h;
}

void destroyTransferEngine(transfer_engine_t h)
{
	compat_handle_free(h, engine_free);
}

int discoverTopology(transfer_engine_t h)
{
	return compat_check(h);
}

int getLocalIpAndPort(transfer_engine_t h, char *buf, size_t len)
{
	struct compat_engine *e = compat_get(h);
	struct te_engine_info info;
	bool v6;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	te_engine_info(e->te, &info);
	v6 = strchr(info.host, ':');
	if (buf && len)
		snprintf(buf, len, "%s%s%s:%u", v6 ? "[" : "", info.host, v6 ? "]" : "",
			 info.rpc_port);
	compat_put(h);
	return buf && len ? 0 : TE_CODE_INVALID_ARGUMENT;
}

/* ---- transports --------------------------------------------------------------------------- */

/* On the port where peers know us. */
static int open_again(struct compat_engine *e, unsigned rpc_port, struct te_err *err)
{
	int r = open_engine(e, rpc_port, err);

	if (r) {
		e->te = NULL;
		return r;
	}
	/* In the order in which it was: peers count on it. */
	r = compat_register(e, e->buffers, err);
	if (r) {
		te_engine_close(e->te);
		e->te = NULL;
	}
	return r;
}

/* The engine opens anew, under the same name and port; as it was where that fails. */
static int reopen(struct compat_engine *e, const char *protocol, const char *matrix,
		  struct te_err *err)
{
	char *old_matrix = e->matrix, *new_matrix = te_strdup(matrix);
	const char *old_protocol = e->protocol;
	struct te_engine_info info;
	struct te_err again;
	unsigned port;
	int r;

	if (matrix && !new_matrix)
		return te_fail(err, -ENOMEM, "out of memory");
	te_engine_info(e->te, &info);
	port = info.rpc_port;
	te_engine_close(e->te);
	e->protocol = protocol;
	e->matrix = new_matrix;
	r = open_again(e, port, err);
	if (!r) {
		free(old_matrix);
		return 0;
	}
	e->protocol = old_protocol;
	e->matrix = old_matrix;
	free(new_matrix);
	if (open_again(e, port, &again))
		te_log(TE_LOG_ERROR, "installTransport: the engine is lost: %s", again.msg);
	return r;
}

static int install(struct compat_engine *e, const char *protocol, const char *matrix,
		   struct te_err *err)
{
	struct te_engine_info info;
	bool same_matrix = !matrix || !*matrix || (e->matrix && !strcmp(e->matrix, matrix));

	if (!e->te)
		return te_fail(err, -ESHUTDOWN, "the engine could not be opened again");
	te_engine_info(e->te, &info);
	/* tcp serves beside rdma; its peers need no matrix. */
	if (!strcmp(protocol, "tcp") || (!strcmp(info.protocol, protocol) && same_matrix))
		return 0;
	if (atomic_load(&e->used))
		return te_fail(
			err, -EBUSY,
			"transport '%s' must be installed before the first segment is opened "
			"and the first batch allocated",
			protocol);
	return reopen(e, protocol, same_matrix ? e->matrix : matrix, err);
}

static const char *const transports[] = { "tcp", "rdma", "nvmeof", "local", "shm" };

/* Its place in the list plus one; 0: unknown. */
static size_t find_transport(const char *proto)
{
	for (size_t i = 0; proto && i < ARRAY_SIZE(transports); i++)
		if (!strcmp(transports[i], proto))
			return i + 1;
	return 0;
}

transport_t installTransport(transfer_engine_t h, const char *proto, void **args)
{
	struct compat_engine *e = compat_get_alone(h);
	size_t place = find_transport(proto);
	struct te_err err = { 0 };

	if (!e)
		return NULL;
	if (!place)
		te_fail(&err, -ENOTSUP, "unknown transport '%s' (tcp, rdma, nvmeof)",
			proto ? proto : "");
	else if (place <= 2)
		install(e, transports[place - 1], args ? args[0] : NULL, &err);
	compat_put_alone(h);
	if (err.code)
		te_log(TE_LOG_ERROR, "installTransport: %s", err.msg);
	return err.code ? NULL : (void *)&transports[place - 1];
}

int uninstallTransport(transfer_engine_t h, const char *proto)
{
	int r = compat_check(h);

	return r ? r : find_transport(proto) ? 0 : TE_CODE_INVALID_ARGUMENT;
}
