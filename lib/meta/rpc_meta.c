/* rpc_meta.c - the value under rpc_meta/NAME: where a segment's handshake daemon listens. */
#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "meta/ops.h"

int te_rpc_meta_parse(const char *text, size_t len, struct te_rpc_meta *out, struct te_err *err)
{
	const char *host = NULL;
	uint64_t port = 0;
	json_t *root;
	int rc = te_json_parse(text, len, &root, err);

	if (rc)
		return te_wrap(err, rc, "bad rpc_meta");
	rc = te_json_str(root, "ip_or_host_name", &host, err);
	if (!rc)
		rc = te_json_u64(root, "rpc_port", 65535, &port, err);
	if (rc)
		rc = te_recode(err, -EINVAL, "bad rpc_meta");
	else if (!*host || strlen(host) >= sizeof(out->host) || !port)
		rc = te_fail(err, -EINVAL, "bad rpc_meta: no usable host and port in it");
	if (!rc) {
		te_strlcpy(out->host, host, sizeof(out->host));
		out->port = (unsigned)port;
	}
	json_decref(root);
	return rc;
}

char *te_rpc_meta_format(const struct te_rpc_meta *r)
{
	json_t *root = json_object();
	char *text = NULL;

	if (root && !json_object_set_new(root, "ip_or_host_name", json_string(r->host)) &&
	    !json_object_set_new(root, "rpc_port", json_integer(r->port)))
		text = te_json_format(root);
	json_decref(root);
	return text;
}
