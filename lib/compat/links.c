/* links.c - showLinks(): the NICs of this host and its priority matrix. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "compat/compat.h"
#include "te_topo.h"

static void quoted(FILE *f, const char *s)
{
	putc('"', f);
	for (; *s; s++)
		if (*s == '"' || *s == '\\' || (unsigned char)*s < ' ')
			fprintf(f, "\\u%04x", (unsigned char)*s);
		else
			putc(*s, f);
	putc('"', f);
}

/* printf would write a comma where the program's locale has one. */
static void speed(FILE *f, double gbps)
{
	unsigned tenths = (unsigned)(gbps * 10 + 0.5);

	fprintf(f, "%u.%u", tenths / 10, tenths % 10);
}

static void nic_json(FILE *f, const struct te_topo_nic *n)
{
	fputs("{\"device\":", f);
	quoted(f, n->name);
	fprintf(f, ",\"numa\":%d,\"gid\":", n->numa_node);
	quoted(f, n->gid);
	fprintf(f, ",\"gid_index\":%d,\"port\":%u,\"speed_gbps\":", n->gid_index, n->port);
	speed(f, n->gbps);
	fputs(",\"source\":", f);
	quoted(f, n->present ? "verbs" : "matrix");
	putc('}', f);
}

static void as_json(FILE *f, const struct te_topo *t)
{
	const struct te_topo_nic *nics;
	size_t n = te_topo_nics(t, &nics);

	fputs("{\"local_nics\":[", f);
	for (size_t i = 0; i < n; i++) {
		if (i)
			putc(',', f);
		nic_json(f, &nics[i]);
	}
	fprintf(f, "],\"topology\":%s}", te_topo_json(t));
}

static void as_text(FILE *f, const struct te_topo *t)
{
	const struct te_topo_nic *nics;
	size_t n = te_topo_nics(t, &nics);

	if (!n)
		fputs("no RDMA NICs\n", f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s  numa %d  port %u  %g Gb/s  GID %d %s\n", nics[i].name,
			nics[i].numa_node, nics[i].port, nics[i].gbps, nics[i].gid_index,
			nics[i].gid);
	fprintf(f, "topology %s\n", te_topo_json(t));
}

/* malloc'ed; NULL when memory is out. */
static char *describe(const struct te_topo *t, int json)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	if (json)
		as_json(f, t);
	else
		as_text(f, t);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
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
	text = describe(t, json);
	te_topo_close(t);
	if (!text)
		return TE_CODE_MEMORY;
	te_strlcpy(buf, text, len);
	r = strlen(text) < len ? 0 : TE_CODE_INVALID_ARGUMENT;
	free(text);
	return r;
}
