/* guest.c - handshakes that take time: each is answered on a thread of its own, so that the daemon
 * never waits. And what transports may ask of the store meanwhile. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/daemon.h"
#include "engine/engine.h"

enum { THREADS_MAX = 16 }; /* at a time; the daemon has at most 1024 clients, who wait in line */

struct te_guest {
	struct te_guest *next;
	struct te_transport *transport;
	enum te_rpc_type type;
	uint64_t client;
	size_t len;
	char body[];
};

static struct te_transport *host_of(struct te_engine *e)
{
	for (size_t i = 0; i < TE_MAX_TRANSPORTS; i++)
		if (e->transports[i] && e->transports[i]->ops->handshake)
			return e->transports[i];
	return NULL;
}

/* The next in line; NULL: none, and this thread is counted out. */
static struct te_guest *next_guest(struct te_engine *e)
{
	struct te_guest *g;

	pthread_mutex_lock(&e->guests_lock);
	g = e->guests;
	if (g)
		e->guests = g->next;
	else if (!--e->guest_threads)
		pthread_cond_broadcast(&e->guests_gone);
	pthread_mutex_unlock(&e->guests_lock);
	return g;
}

static void *answer_all(void *arg)
{
	struct te_engine *e = arg;
	struct te_guest *g;

	while ((g = next_guest(e))) {
		char *text = NULL;

		if (!atomic_load(&e->closing))
			text = g->transport->ops->handshake(g->transport, g->type, g->body, g->len);
		te_daemon_reply(e->daemon, g->client, text);
		free(g);
	}
	return NULL;
}

/* false: there is no thread for them, and none can be made. */
static bool line_up(struct te_engine *e, struct te_guest *g)
{
	struct te_guest **end = &e->guests;
	pthread_t thread;
	bool good;

	pthread_mutex_lock(&e->guests_lock);
	if (e->guest_threads < THREADS_MAX &&
	    !te_thread_start(&thread, "te-guest", answer_all, e)) {
		pthread_detach(thread);
		e->guest_threads++;
	}
	good = e->guest_threads && !atomic_load(&e->closing);
	while (good && *end)
		end = &(*end)->next;
	if (good)
		*end = g;
	pthread_mutex_unlock(&e->guests_lock);
	return good;
}

/* Without RDMA there is nothing to connect: the empty descriptor of a tcp engine (INTEROP 2.3). */
static char *answer_empty(const char *body, size_t len)
{
	static const char empty[] =
		"{\"local_gid\":\"\",\"local_lid\":0,\"local_nic_path\":\"\",\"payload\":\"\","
		"\"peer_nic_path\":\"\",\"qp_num\":[],\"reply_msg\":\"\"}";

	return te_notify_is_object(body, len) ? te_strdup(empty) : NULL;
}

char *te_guest_handle(struct te_engine *e, enum te_rpc_type type, const char *body, size_t len,
		      uint64_t client)
{
	struct te_transport *t = atomic_load(&e->ready) ? host_of(e) : NULL;
	struct te_guest *g;

	if (!t)
		return type == TE_RPC_RETIRE ? NULL : answer_empty(body, len);
	g = malloc(sizeof(*g) + len);
	if (!g)
		return NULL;
	*g = (struct te_guest){ .transport = t, .type = type, .client = client, .len = len };
	memcpy(g->body, body, len);
	if (line_up(e, g))
		return TE_DAEMON_LATER;
	free(g);
	return NULL;
}

void te_guests_wait(struct te_engine *e)
{
	pthread_mutex_lock(&e->guests_lock);
	while (e->guest_threads)
		pthread_cond_wait(&e->guests_gone, &e->guests_lock);
	pthread_mutex_unlock(&e->guests_lock);
}

/* ---- the directory ------------------------------------------------------------------------ */

static int address(struct te_directory *d, const char *server, char *host, size_t size,
		   unsigned *port, struct te_err *err)
{
	struct te_engine *e = container_of(d, struct te_engine, directory);
	struct te_rpc_meta owner;
	int r = te_find_owner(e, server, &owner, err);

	if (r < 0)
		return r;
	te_strlcpy(host, owner.host, size);
	*port = owner.port;
	return 0;
}

static int descriptor(struct te_directory *d, const char *server, struct te_desc **out,
		      struct te_err *err)
{
	struct te_engine *e = container_of(d, struct te_engine, directory);
	struct te_rpc_meta owner;

	return te_seg_fetch(e, server, out, &owner, err);
}

static void changed(struct te_directory *d)
{
	te_publish_soon(container_of(d, struct te_engine, directory));
}

static void refresh(struct te_directory *d, const char *segment)
{
	te_publish_fetch_soon(container_of(d, struct te_engine, directory), segment);
}

void te_directory_init(struct te_directory *d)
{
	*d = (struct te_directory){
		.address = address,
		.descriptor = descriptor,
		.changed = changed,
		.refresh = refresh,
	};
}
