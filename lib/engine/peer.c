/* peer.c - choosing the transport that reaches a segment, and the life of the resulting peer. */
#include <errno.h>
#include <string.h>

#include "engine/engine.h"

/* Why this transport may not even try; NULL when it may. */
static const char *ruled_out(const struct te_engine *e, const struct te_transport_ops *ops,
			     const char *host, const struct te_desc *desc)
{
	bool own_initiator = !host && e->initiator_only;
	bool files = !strcmp(desc->protocol, "nvmeof");

	if (e->only[0] && strcmp(e->only, ops->name))
		return "another transport is required";
	if (files != (ops == &te_transport_nvmeof))
		return files ? "a segment of files" : "not a segment of files";
	if (files) /* what forces a transport is about memory */
		return NULL;
	if (e->conf.force_tcp && strcmp(ops->name, "tcp") && !own_initiator)
		return "MC_FORCE_TCP";
	if (e->conf.force_hca && strcmp(ops->name, "rdma") && !own_initiator)
		return "MC_FORCE_HCA";
	return NULL;
}

static void adopt(struct te_engine *e, struct te_transport *t, struct te_peer *p, const char *name)
{
	te_strlcpy(p->segment, name, sizeof(p->segment));
	p->ops = t->ops;
	p->transport = t;
	atomic_store(&p->refs, 1);
	pthread_mutex_lock(&e->peers_lock);
	p->all_next = e->all_peers;
	e->all_peers = p;
	pthread_mutex_unlock(&e->peers_lock);
}

/* By what can a segment of this protocol be reached at all? */
static int check_protocol(const char *name, const struct te_desc *desc, struct te_err *err)
{
	if (!strcmp(desc->protocol, "tcp") || !strcmp(desc->protocol, "rdma") ||
	    !strcmp(desc->protocol, "nvmeof"))
		return 0;
	return te_fail(err, -EPROTONOSUPPORT,
		       "segment '%s' has protocol '%s', which this build cannot reach", name,
		       desc->protocol);
}

/* An rdma segment that tcp reaches: never in silence. */
static void say_fallback(const char *name, const struct te_desc *desc, const char *by,
			 const char *why)
{
	if (!strcmp(desc->protocol, "rdma") && !strcmp(by, "tcp"))
		te_warn("segment '%s' has protocol rdma, but tcp serves: %s", name,
			*why ? why : "this engine has no rdma");
}

int te_peer_choose(struct te_engine *e, const char *name, const char *host,
		   const struct te_desc *desc, struct te_peer **out, struct te_err *err)
{
	const struct te_peer_info info = { .name = name, .host = host, .desc = desc };
	struct te_err last = { 0 };
	char no_rdma[sizeof(last.msg)] = "";
	int r;

	r = host ? check_protocol(name, desc, err) : 0;
	if (r < 0)
		return r;
	for (size_t i = 0; te_transports[i]; i++) {
		const char *no = ruled_out(e, te_transports[i], host, desc);

		if (!e->transports[i] || no) {
			te_trace("segment '%s': not %s (%s)", name, te_transports[i]->name,
				 no ? no : "not open");
			continue;
		}
		r = te_transports[i]->peer_open(e->transports[i], &info, out, &last);
		if (!r) {
			adopt(e, e->transports[i], *out, name);
			te_info("segment '%s' is reached by %s", name, te_transports[i]->name);
			say_fallback(name, desc, te_transports[i]->name, no_rdma);
			return 0;
		}
		if (!strcmp(te_transports[i]->name, "rdma"))
			te_strlcpy(no_rdma, last.msg, sizeof(no_rdma));
		te_info("segment '%s': not %s: %s", name, te_transports[i]->name, last.msg);
		if (r != -EOPNOTSUPP)
			break;
	}
	if (!last.code && e->only[0])
		return te_fail(err, -EPROTONOSUPPORT, "no transport '%s' for segment '%s'", e->only,
			       name);
	return te_fail(err, last.code ? last.code : -EPROTONOSUPPORT,
		       "cannot reach segment '%s'%s%s%s: %s", name, e->only[0] ? " by " : "",
		       e->only, host ? "" : " (our own)",
		       last.code ? last.msg : "no transport serves it");
}

void te_peer_ref(struct te_peer *p)
{
	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}

void te_peer_put(struct te_engine *e, struct te_peer *p)
{
	if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
		return;
	pthread_mutex_lock(&e->peers_lock);
	for (struct te_peer **at = &e->all_peers; *at; at = &(*at)->all_next)
		if (*at == p) {
			*at = p->all_next;
			break;
		}
	te_stats_peer_gone(e, p);
	pthread_mutex_unlock(&e->peers_lock);
	p->ops->peer_close(p);
}
