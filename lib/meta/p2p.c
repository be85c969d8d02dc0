/*
 * p2p.c - no store: a descriptor comes from its owner, whose address is the segment's name.
 *
 * INTEROP 1.1 and 2.3: the name is host:rpc_port, and a handshake of type 1 returns the descriptor.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "host/addr.h"
#include "host/rpc.h"
#include "meta/ops.h"

static int p2p_open(const struct te_uri *u, const struct te_conf *conf, struct te_meta **out,
		    struct te_err *err)
{
	struct te_meta *m = calloc(1, sizeof(*m));

	(void)u;
	(void)conf;
	if (!m)
		return te_fail(err, -ENOMEM, "out of memory");
	*out = m;
	return 0;
}

static void p2p_close(struct te_meta *m)
{
	free(m);
}

static unsigned p2p_caps(struct te_meta *m)
{
	(void)m;
	return TE_META_P2P;
}

/* The segment name in key after prefix/kind, and the address in it. */
static int owner(struct te_meta *m, const char *name, char *host, size_t size, unsigned *port,
		 struct te_err *err)
{
	bool has_port;

	*port = (unsigned)m->conf.handshake_port;
	if (!te_addr_split(name, host, size, port, &has_port))
		return te_fail(
			err, -EINVAL,
			"without a metadata server a segment's name is HOST:PORT, and '%s' is not",
			name);
	return 0;
}

static int get_descriptor(struct te_meta *m, const char *name, struct te_meta_value *out,
			  struct te_err *err)
{
	char host[256], *reply;
	size_t len;
	unsigned port;
	int rc = owner(m, name, host, sizeof(host), &port, err);

	if (rc)
		return rc;
	rc = te_rpc_call(&m->conf, host, port, TE_RPC_METADATA, "{}", te_store_until(m), &reply,
			 &len, err);
	if (rc)
		return rc;
	/* What an engine says that has no segment yet, or that keeps it in a store (INTEROP 2.3).
	 */
	if (len >= 4 && memcmp(reply, "null", 4) == 0 && strspn(reply + 4, " \r\n") == len - 4) {
		free(reply);
		return te_fail(err, -ENOENT,
			       "%s answers, but offers no segment without a metadata server", name);
	}
	out->data = reply;
	out->len = len;
	return 0;
}

static int get_rpc_meta(struct te_meta *m, const char *name, struct te_meta_value *out,
			struct te_err *err)
{
	struct te_rpc_meta r;
	int rc = owner(m, name, r.host, sizeof(r.host), &r.port, err);

	if (rc)
		return rc;
	out->data = te_rpc_meta_format(&r);
	if (!out->data)
		return te_fail(err, -ENOMEM, "out of memory");
	out->len = strlen(out->data);
	return 0;
}

static const char *after(const char *key, const char *start)
{
	return strncmp(key, start, strlen(start)) == 0 ? key + strlen(start) : NULL;
}

static int p2p_get(struct te_meta *m, const char *key, struct te_meta_value *out,
		   struct te_err *err)
{
	const char *rest = after(key, m->prefix);
	const char *ram = rest ? after(rest, "ram/") : NULL;
	const char *rpc = rest ? after(rest, "rpc_meta/") : NULL;

	if (ram)
		return get_descriptor(m, ram, out, err);
	if (rpc)
		return get_rpc_meta(m, rpc, out, err);
	return te_fail(err, -ENOENT, "no such key: there is no metadata server");
}

static int p2p_put(struct te_meta *m, const char *key, const char *data, size_t len,
		   const struct te_meta_put *opt, char *tag_out, struct te_err *err)
{
	(void)m, (void)key, (void)data, (void)len, (void)opt, (void)tag_out, (void)err;
	return 0;
}

static int p2p_del(struct te_meta *m, const char *key, const char *if_match, struct te_err *err)
{
	(void)m, (void)key, (void)if_match, (void)err;
	return 0;
}

static int p2p_list(struct te_meta *m, const char *prefix, struct te_keys *keys, struct te_err *err)
{
	(void)m, (void)prefix, (void)keys;
	return te_fail(err, -EOPNOTSUPP,
		       "there is no metadata server to ask, only peers; name one with "
		       "MC_METADATA_SERVER");
}

static int p2p_ping(struct te_meta *m, struct te_err *err)
{
	(void)m, (void)err;
	return 0;
}

const struct te_meta_ops te_store_p2p = {
	.scheme = "p2p",
	.open = p2p_open,
	.close = p2p_close,
	.caps = p2p_caps,
	.get = p2p_get,
	.put = p2p_put,
	.del = p2p_del,
	.list = p2p_list,
	.ping = p2p_ping,
};
