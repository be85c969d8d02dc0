/* links.c - showLinks(): the NICs of this host and its priority matrix. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "compat/compat.h"
#include "te_topo.h"

static json_t *nic_json(const struct te_topo_nic *n)
{
	return json_pack("{s:o, s:i, s:s, s:i, s:i, s:f, s:s}", "device", te_json_text(n->name),
			 "numa", n->numa_node, "gid", n->gid, "gid_index", n->gid_index, "port",
			 (int)n->port, "speed_gbps", n->gbps, "source",
			 n->present ? "verbs" : "matrix");
}

/* malloc'ed; NULL when memory is out. */
static char *as_json(const struct te_topo *t)
{
	json_t *list = json_array(), *topology = NULL, *root;
	const char *matrix = te_topo_json(t);
	const struct te_topo_nic *nics;
	size_t n = te_topo_nics(t, &nics);
	struct te_err err;
	char *text = NULL;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, nic_json(&nics[i]));
	te_json_parse(matrix, strlen(matrix), &topology, &err);
	/* It takes both, and fails where one is NULL. */
	root = json_pack("{s:o, s:o}", "local_nics", list, "topology", topology);
	if (root && json_array_size(list) == n)
		text = te_json_format(root);
	json_decref(root);
	return text;
}

static char *as_text(const struct te_topo *t)
{
	const struct te_topo_nic *nics;
	size_t n = te_topo_nics(t, &nics), size;
	char *text = NULL;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	if (!n)
		fputs("no RDMA NICs\n", f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s  numa %d  port %u  %g Gb/s  GID %d %s\n", nics[i].name,
			nics[i].numa_node, nics[i].port, nics[i].gbps, nics[i].gid_index,
			nics[i].gid);
	fprintf(f, "topology %s\n", te_topo_json(t));
	if (!fclose(f))
		return text;
	free(text);
	return NULL;
}

int showLinks(transfer_engine_t h, char *buf, size_t len, int json)
{
	struct te_conf conf;
	struct te_topo *t;
	struct te_err err;
	char *text;
	int r = compat_check(h);

	if (r || !buf || !len)
		return TE_CODE_INVALID_ARGUMENT;
	te_conf_read(&conf);
	r = te_topo_open_host(&conf, &t, &err);
	if (r)
		return compat_fail(r, "showLinks", &err);
	text = json ? as_json(t) : as_text(t);
	te_topo_close(t);
	if (!text)
		return TE_CODE_MEMORY;
	te_strlcpy(buf, text, len);
	r = strlen(text) < len ? 0 : TE_CODE_INVALID_ARGUMENT;
	free(text);
	return r;
}
