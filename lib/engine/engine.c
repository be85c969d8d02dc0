/* engine.c - opening and closing an engine: names, ports, transports, in order and in reverse. */
#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/daemon.h"
#include "host/addr.h"
#include "host/sock.h"

const char *te_version(void)
{
	return TE_VERSION;
}

/* ---- name and port ------------------------------------------------------------------------ */

struct wish { /* what local_server_name asks for */
	char host[256];
	unsigned port;
	bool has_host, has_port;
};

/* What has a '/' is no address, and no port is in it. */
static bool split_name(const char *name, struct wish *w)
{
	return strchr(name, '/') ||
	       te_addr_split(name, w->host, sizeof(w->host), &w->port, &w->has_port);
}

bool te_server_name_ok(const char *name)
{
	struct wish w;

	return *name && split_name(name, &w);
}

static int read_name(struct te_engine *e, const char *given, struct wish *w, struct te_err *err)
{
	char own[256];

	if (given && *given) {
		e->name = te_strdup(given);
		w->has_host = true;
		if (!split_name(given, w))
			return te_fail(err, -EINVAL, "'%s' is not a name, host or host:port",
				       given);
	} else {
		te_host_name(own, sizeof(own));
		/* An initiator must not take the name of a target on its host for its own. */
		e->name = e->initiator_only ? te_asprintf("%s.%d", own, (int)getpid())
					    : te_strdup(own);
	}
	return e->name ? 0 : te_fail(err, -ENOMEM, "out of memory");
}

static int choose_host(struct te_engine *e, const struct wish *w, struct te_err *err)
{
	if (w->has_host && w->host[0] && (e->p2p || e->conf.legacy_rpc_port)) {
		te_strlcpy(e->host, w->host, sizeof(e->host));
		return 0;
	}
	return te_addr_own(&e->conf, e->host, sizeof(e->host), err);
}

/* The listening socket of the daemon, or negative errno. */
static int bind_rpc(struct te_engine *e, const struct wish *w, struct te_err *err)
{
	const struct te_conf *c = &e->conf;
	unsigned want = w->has_port	     ? w->port
			: c->legacy_rpc_port ? (unsigned)c->handshake_port
					     : 0;
	struct te_err taken;
	int fd;

	if (want) {
		e->rpc_port = want;
		fd = te_sock_listen(c->tcp_bind_address, want, (int)c->handshake_backlog, &taken);
		if (fd >= 0)
			return fd;
		if (c->legacy_rpc_port || fd != -EADDRINUSE)
			return te_fail(err, fd, "cannot listen on RPC port %u%s: %s", want,
				       c->legacy_rpc_port ? " (MC_LEGACY_RPC_PORT_BINDING)" : "",
				       taken.msg);
	}
	fd = te_sock_listen_range(c->tcp_bind_address, (unsigned)c->min_rpc_port,
				  (unsigned)c->max_rpc_port, (int)c->handshake_backlog,
				  &e->rpc_port, err);
	if (fd >= 0 && want)
		te_warn("port %u of '%s' is taken, listening on %u instead", want, e->name,
			e->rpc_port);
	return fd;
}

/* In P2P the name is the address. */
static int take_p2p_name(struct te_engine *e, struct te_err *err)
{
	char *name;

	if (!e->p2p)
		return 0;
	name = te_addr_join(e->host, e->rpc_port);
	if (!name)
		return te_fail(err, -ENOMEM, "out of memory");
	free(e->name);
	e->name = name;
	return 0;
}

/* ---- what the daemon answers -------------------------------------------------------------- */

static char *handle(void *arg, enum te_rpc_type type, const char *body, size_t len, uint64_t client)
{
	struct te_engine *e = arg;

	switch (type) {
	case TE_RPC_CONNECTION:
	case TE_RPC_OLD:
	case TE_RPC_RETIRE:
		return te_guest_handle(e, type, body, len, client);
	case TE_RPC_METADATA:
		if (!te_notify_is_object(body, len))
			return NULL;
		return e->p2p && atomic_load(&e->ready) ? te_engine_describe(e) : te_strdup("null");
	case TE_RPC_NOTIFY:
		return te_notify_handle(e, body, len);
	case TE_RPC_PROBE:
		return te_probe_handle(e, body, len);
	}
	return NULL;
}

static int start_daemon(struct te_engine *e, const struct wish *w, struct te_err *err)
{
	static const struct te_daemon_ops ops = { .handle = handle };
	int fd = bind_rpc(e, w, err);

	if (fd < 0)
		return fd;
	return te_daemon_start(&e->conf, fd, &ops, e, &e->daemon, err);
}

/* ---- transports --------------------------------------------------------------------------- */

/* Only an engine that is published can have its queue pairs connected; what says tcp gets nothing
 * else. */
static bool wants_rdma(const struct te_engine *e)
{
	return !e->initiator_only && !e->conf.force_tcp && strcmp(e->protocol, "tcp") != 0;
}

/* "auto" takes rdma where it works, and says so where it does not; but a wish that is wrong is told
   as that. */
static int without_rdma(struct te_engine *e, int r, struct te_err *err)
{
	struct te_err wrong;
	int w;

	if (!strcmp(e->protocol, "rdma") || e->conf.force_hca)
		return e->conf.force_hca ? te_wrap(err, r, "MC_FORCE_HCA") : r;
	w = te_topo_check(&e->conf, &e->wish, &wrong);
	if (w < 0) {
		*err = wrong;
		return w;
	}
	/* What was asked for by name and is not there is a mistake, not a host without RDMA. */
	if (r == -EINVAL && (e->conf.gid_index >= 0 || e->conf.ib_port != 1))
		return r;
	if (r == -ENODEV)
		te_info("no rdma: %s", err->msg);
	else
		te_warn("no rdma, tcp serves: %s", err->msg);
	return 0;
}

static int open_transport(struct te_engine *e, size_t i, struct te_err *err)
{
	const struct te_transport_ops *ops = te_transports[i];
	bool rdma = ops == &te_transport_rdma;
	struct te_err why = { 0 };
	struct te_transport *t;
	int r;

	if (rdma && !wants_rdma(e))
		return 0;
	r = ops->open(&e->env, &t, &why);
	if (r < 0 && rdma)
		r = without_rdma(e, r, &why);
	else if (!r) {
		e->transports[i] = t;
		if (e->env.serve && ops->listen)
			r = ops->listen(t, &why);
		if (rdma)
			e->published = "rdma";
	}
	if (r < 0 && err)
		*err = why;
	return r;
}

static int open_transports(struct te_engine *e, struct te_err *err)
{
	te_directory_init(&e->directory);
	e->env = (struct te_transport_env){
		.conf = &e->conf,
		.name = e->name,
		.wish = &e->wish,
		.directory = &e->directory,
		.regions = e->regions,
		.sink = &e->sink,
		.serve = !e->initiator_only,
		.token = e->token,
		.served_requests = &e->served_requests,
		.served_bytes = &e->served_bytes,
		.refused = &e->refused,
		.retries = &e->retries,
	};
	for (size_t i = 0; te_transports[i]; i++) {
		int r = open_transport(e, i, err);

		if (r < 0)
			return te_wrap(err, r, "transport '%s'", te_transports[i]->name);
	}
	return 0;
}

static void close_transports(struct te_engine *e)
{
	for (size_t i = TE_MAX_TRANSPORTS; i-- > 0;)
		if (e->transports[i]) {
			e->transports[i]->ops->close(e->transports[i]);
			e->transports[i] = NULL;
		}
}

static int check_transport_option(struct te_engine *e, const char *only, struct te_err *err)
{
	if (!only || !*only || !strcmp(only, "auto"))
		return 0;
	for (size_t i = 0; te_transports[i]; i++)
		if (!strcmp(te_transports[i]->name, only)) {
			te_strlcpy(e->only, only, sizeof(e->only));
			if (e->conf.force_tcp && strcmp(only, "tcp") && strcmp(only, "nvmeof"))
				return te_fail(err, -EINVAL, "MC_FORCE_TCP excludes transport '%s'",
					       only);
			return 0;
		}
	return te_fail(err, -ENOTSUP,
		       "transport '%s' is not in this build (local, shm, rdma, tcp, nvmeof are)",
		       only);
}

static int check_options(struct te_engine *e, const struct te_engine_options *opt,
			 struct te_err *err)
{
	const char *protocol = opt->protocol ? opt->protocol : "auto";
	int r = te_conf_check(&e->conf, protocol, err);

	if (r < 0)
		return r;
	if (strcmp(protocol, "auto") && strcmp(protocol, "tcp") && strcmp(protocol, "rdma"))
		return te_fail(err, -EINVAL, "unknown protocol '%s' (auto, tcp, rdma)", protocol);
	e->protocol = !strcmp(protocol, "auto")	 ? "auto"
		      : !strcmp(protocol, "tcp") ? "tcp"
						 : "rdma";
	if (e->conf.force_tcp)
		e->protocol = "tcp";
	e->published = "tcp";
	return check_transport_option(e, opt->transport, err);
}

/* ---- open and close ----------------------------------------------------------------------- */

static struct te_engine *engine_new(const struct te_engine_options *opt)
{
	struct te_engine *e = calloc(1, sizeof(*e));
	uint8_t random[16];

	if (!e)
		return NULL;
	if (opt->conf)
		e->conf = *opt->conf;
	else
		te_conf_read(&e->conf);
	e->sink.done = te_task_done;
	e->sink.expired = te_task_expired;
	e->initiator_only = opt->initiator_only;
	e->wish = (struct te_topo_wish){
		.device_name = te_strdup(opt->device_name),
		.nic_priority_matrix = te_strdup(opt->nic_priority_matrix),
	};
	e->keeper_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	atomic_store(&e->efd, -1);
	te_random(random, sizeof(random));
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(e->token + 2 * i, 3, "%02x", random[i]);
	pthread_mutex_init(&e->memory_lock, NULL);
	pthread_mutex_init(&e->publish_lock, NULL);
	pthread_mutex_init(&e->peers_lock, NULL);
	pthread_mutex_init(&e->news_lock, NULL);
	pthread_mutex_init(&e->guests_lock, NULL);
	pthread_cond_init(&e->guests_gone, NULL);
	pthread_rwlock_init(&e->segs_lock, NULL);
	pthread_rwlock_init(&e->batches_lock, NULL);
	return e;
}

static void engine_free(struct te_engine *e)
{
	te_regions_free(e->regions);
	te_meta_close(e->meta);
	if (e->keeper_fd >= 0) /* not before: transports wake the keeper until they are closed */
		close(e->keeper_fd);
	if (atomic_load(&e->efd) >= 0)
		close(atomic_load(&e->efd));
	while (e->path_sums) {
		struct te_path_sum *next = e->path_sums->next;

		free(e->path_sums);
		e->path_sums = next;
	}
	free(e->key_rpc);
	free(e->key_ram);
	free(e->name);
	pthread_rwlock_destroy(&e->batches_lock);
	pthread_rwlock_destroy(&e->segs_lock);
	pthread_mutex_destroy(&e->peers_lock);
	pthread_cond_destroy(&e->guests_gone);
	pthread_mutex_destroy(&e->guests_lock);
	pthread_mutex_destroy(&e->news_lock);
	for (size_t i = 0; i < ARRAY_SIZE(e->news); i++)
		free(e->news[i]);
	free((char *)e->wish.device_name);
	free((char *)e->wish.nic_priority_matrix);
	pthread_mutex_destroy(&e->publish_lock);
	pthread_mutex_destroy(&e->memory_lock);
	free(e);
}

static int open_store(struct te_engine *e, const struct te_engine_options *opt, struct te_err *err)
{
	int r = te_meta_open(opt->metadata_server, &e->conf, &e->meta, err);

	if (r < 0)
		return r;
	e->p2p = !strcmp(te_meta_scheme(e->meta), "p2p");
	e->regions = te_regions_new();
	return e->regions ? 0 : te_fail(err, -ENOMEM, "out of memory");
}

/* What only an engine that others can reach has. */
static int go_public(struct te_engine *e, const struct wish *w, struct te_err *err)
{
	int r;

	r = te_publish_check_name(e, err);
	if (!r)
		r = start_daemon(e, w, err);
	if (!r)
		r = take_p2p_name(e, err);
	return r;
}

static int start(struct te_engine *e, const struct te_engine_options *opt, struct te_err *err)
{
	struct wish w = { 0 };
	int r = check_options(e, opt, err);

	if (!r)
		r = open_store(e, opt, err);
	if (!r)
		r = read_name(e, opt->local_server_name, &w, err);
	if (opt->rpc_port) {
		w.port = opt->rpc_port;
		w.has_port = true;
	}
	if (!r && !e->initiator_only)
		r = choose_host(e, &w, err);
	if (!r && !e->initiator_only)
		r = go_public(e, &w, err);
	if (!r)
		r = te_segs_init(e, err);
	if (!r)
		r = open_transports(e, err);
	if (!r)
		r = te_courier_start(e, err);
	atomic_store(&e->ready, true);
	if (!r && !e->initiator_only)
		r = te_publish_first(e, err);
	if (!r && (!e->initiator_only || e->conf.metric || e->conf.metadata_refresh_s))
		r = te_publish_start_keeper(e, err);
	return r;
}

int te_engine_open(struct te_engine **out, const struct te_engine_options *opt, struct te_err *err)
{
	static const struct te_engine_options none;
	struct te_engine *e = engine_new(opt ? opt : &none);
	int r;

	if (!e)
		return te_fail(err, -ENOMEM, "out of memory");
	r = start(e, opt ? opt : &none, err);
	if (r < 0) {
		te_engine_close(e);
		return r;
	}
	*out = e;
	te_info("engine '%s' is open, RPC port %u, store %s", e->name, e->rpc_port,
		te_meta_uri(e->meta));
	return 0;
}

static void abort_all(struct te_engine *e)
{
	struct te_err why;

	te_fail(&why, -ECANCELED, "the engine is closing");
	pthread_rwlock_rdlock(&e->batches_lock);
	for (size_t i = 0; i < e->nslots; i++)
		if (e->slots[i].batch)
			for (size_t k = 0; k < atomic_load(&e->slots[i].batch->n); k++)
				atomic_store(&e->slots[i].batch->tasks[k].stopped, true);
	pthread_rwlock_unlock(&e->batches_lock);
	pthread_rwlock_rdlock(&e->segs_lock);
	for (size_t i = 0; i < e->nsegs; i++)
		if (e->segs[i])
			te_seg_abort(e->segs[i], -ECANCELED, &why);
	pthread_rwlock_unlock(&e->segs_lock);
}

void te_engine_close(struct te_engine *e)
{
	if (!e)
		return;
	atomic_store(&e->closing, true);
	te_publish_stop(e);
	te_courier_stop(e);
	abort_all(e);
	if (!te_batches_clear(e)) {
		te_log(TE_LOG_ERROR,
		       "engine '%s': the kernel still has transfers of it: their memory must "
		       "not be used again, and the engine's is left as it is",
		       e->name);
		return;
	}
	te_segs_clear(e);
	te_guests_wait(e);
	te_daemon_stop(e->daemon);
	te_memory_unregister_all(e);
	close_transports(e);
	te_courier_free(e);
	te_memory_clear(e);
	engine_free(e);
}

void te_engine_info(const struct te_engine *e, struct te_engine_info *out)
{
	struct te_desc *d = te_publish_desc((struct te_engine *)e);

	*out = (struct te_engine_info){
		.name = e->name,
		.host = e->host,
		.rpc_port = e->rpc_port,
		.tcp_data_port = d ? d->tcp_data_port : 0,
		.metadata_server = te_meta_uri(e->meta),
		.protocol = e->published,
	};
	te_desc_free(d);
}

char *te_engine_describe(struct te_engine *e)
{
	struct te_desc *d = te_publish_desc(e);
	char *text = d ? te_desc_format(d) : NULL;

	te_desc_free(d);
	return text;
}
