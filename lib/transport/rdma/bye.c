/* bye.c - farewells: a te peer is told that an endpoint is retired, by a thread that nobody waits
 * for. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "host/rpc.h"
#include "transport/rdma/rdma.h"

enum { BYES_MAX = 32 }; /* threads at a time */

struct bye {
	struct rdma *t;
	struct te_shake say;
	char host[256];
	unsigned port;
	struct rdma_peer *peers[RDMA_WRITERS];
	size_t npeers;
};

static void send_bye(struct bye *b)
{
	struct te_directory *d = b->t->base.env->directory;
	uint64_t until = te_now() + (uint64_t)RDMA_BYE_MS * TE_NSEC_PER_MSEC;
	char *at = strchr(b->say.peer_path, '@'), *text, *reply = NULL;
	char server[TE_SHAKE_PATH];
	struct te_err err;
	size_t len;

	te_strlcpy(server, b->say.peer_path, at ? (size_t)(at - b->say.peer_path) + 1 : 1);
	if (!b->host[0] && d->address(d, server, b->host, sizeof(b->host), &b->port, &err) < 0)
		return;
	text = te_shake_format_retire(&b->say);
	if (text && te_rpc_call(b->t->base.env->conf, b->host, b->port, TE_RPC_RETIRE, text, until,
				&reply, &len, &err) < 0)
		te_info("%s was not told that its endpoint is retired: %s", b->say.peer_path,
			err.msg);
	free(text);
	free(reply);
}

static void *bye_main(void *arg)
{
	struct bye *b = arg;
	struct rdma *t = b->t;

	send_bye(b);
	for (size_t i = 0; i < b->npeers; i++)
		rdma_unfence(b->peers[i]);
	free(b);
	rdma_janitor_wake(t);
	pthread_mutex_lock(&t->bye_lock);
	if (!--t->byes)
		pthread_cond_broadcast(&t->bye_cond);
	pthread_mutex_unlock(&t->bye_lock);
	return NULL;
}

static bool start_bye(struct bye *b)
{
	struct rdma *t = b->t;
	pthread_t thread;
	bool good;

	pthread_mutex_lock(&t->bye_lock);
	good = t->byes < BYES_MAX && !te_thread_start(&thread, "te-rdma-bye", bye_main, b);
	if (good) {
		t->byes++;
		pthread_detach(thread);
	}
	pthread_mutex_unlock(&t->bye_lock);
	return good;
}

static bool tell(struct rdma_ep *ep, struct rdma_peer *const *peers, size_t npeers)
{
	struct bye *b = calloc(1, sizeof(*b));

	if (!b)
		return false;
	b->t = ep->ctx->t;
	rdma_ep_shake(ep, &b->say);
	pthread_mutex_lock(&ep->lock);
	te_strlcpy(b->host, ep->host, sizeof(b->host));
	b->port = ep->port;
	pthread_mutex_unlock(&ep->lock);
	b->npeers = npeers;
	memcpy(b->peers, peers, npeers * sizeof(*peers));
	if (start_bye(b))
		return true;
	free(b);
	return false;
}

void rdma_bye(struct rdma_ep *ep, struct rdma_peer *const *peers, size_t npeers)
{
	bool te;

	assert(npeers <= RDMA_WRITERS);
	pthread_mutex_lock(&ep->lock);
	te = ep->te; /* others have no such message */
	pthread_mutex_unlock(&ep->lock);
	if (te && tell(ep, peers, npeers))
		return;
	/* Our caller may hold a peer's lock: the janitor delivers what was fenced. */
	for (size_t i = 0; i < npeers; i++) {
		if (te)
			rdma_fence(peers[i]);
		atomic_fetch_sub(&peers[i]->jobs, 1);
	}
}

void rdma_byes_wait(struct rdma *t)
{
	pthread_mutex_lock(&t->bye_lock);
	while (t->byes)
		pthread_cond_wait(&t->bye_cond, &t->bye_lock);
	pthread_mutex_unlock(&t->bye_lock);
}
