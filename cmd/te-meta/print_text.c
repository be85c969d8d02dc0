/* print_text.c - te-meta's results for people. */
#include <stdio.h>

#include "out.h"
#include "te-meta.h"

static void text_value(const char *key, const struct te_meta_value *v)
{
	(void)key;
	fwrite(v->data, 1, v->len, stdout);
}

static void text_tag(const char *key, const char *tag)
{
	(void)key;
	puts(tag);
}

/* Unix tools say nothing when all went well. */
static void text_put(const char *key, const char *tag)
{
	(void)key;
	(void)tag;
}

static void text_deleted(char *const *keys, size_t n)
{
	(void)keys;
	(void)n;
}

static void text_keys(const struct strings *keys)
{
	for (size_t i = 0; i < keys->n; i++)
		out_line(stdout, "%s", keys->v[i]);
}

static void text_pong(const struct pong *p)
{
	printf("%s (%s) answers in %.1f ms; it can get, put, delete%s%s%s%s\n", p->uri, p->scheme,
	       p->seconds * 1e3, p->caps & TE_META_LIST ? ", list" : "",
	       p->caps & TE_META_WATCH	? ", watch"
	       : p->caps & TE_META_LIST ? ", watch by polling"
					: "",
	       p->caps & TE_META_TTL ? ", expire" : "",
	       p->caps & TE_META_CAS ? ", compare and swap" : "");
}

static void text_change(const struct te_meta_event *ev)
{
	if (ev->type == TE_META_DELETED)
		out_line(stdout, "delete %s", ev->key);
	else
		out_line(stdout, "put    %s %zu bytes", ev->key, ev->len);
}

static void text_loaded(size_t done, size_t failed)
{
	out_line(stdout, "%zu entries loaded, %zu failed", done, failed);
}

static void line(const char *label, const char *text)
{
	out_line(stdout, "%-12s %s", label, text);
}

static void text_owner(const struct shown *s)
{
	if (!s->rpc) {
		line("owner", "unknown");
		return;
	}
	out_line(stdout, "%-12s %s:%u, %s%s", "owner", s->rpc->host, s->rpc->port,
		 s->alive ? "answers" : "does not answer: ", s->alive ? "" : s->reason);
}

static void text_buffer(const struct te_desc_buffer *b)
{
	char size[32];

	out_bytes((double)b->length, size, sizeof(size));
	if (b->file_path)
		out_line(stdout, "  %s  %s", b->file_path, size);
	else
		out_line(stdout, "  0x%012llx  %12llu bytes  %-9s  %s", (unsigned long long)b->addr,
			 (unsigned long long)b->length, size,
			 b->location ? b->location
			 : b->name   ? b->name
				     : "");
	for (size_t i = 0; i < b->nmap; i++)
		out_line(stdout, "    %s: %s", b->map[i].host, b->map[i].path);
}

static void text_segment(const struct shown *s)
{
	const struct te_desc *d = s->desc;
	unsigned long long total = 0;

	line("segment", s->name);
	line("key", s->key);
	line("protocol", d->protocol ? d->protocol : "");
	text_owner(s);
	if (d->tcp_data_port)
		out_line(stdout, "%-12s port %u, protocol version %u", "tcp data", d->tcp_data_port,
			 d->tcp_proto_version);
	if (d->timestamp)
		line("published", d->timestamp);
	if (d->te.present)
		out_line(stdout, "%-12s te, process %d", "engine", d->te.pid);
	for (size_t i = 0; i < d->ndevices; i++)
		out_line(stdout, "%-12s %s, lid %u, gid %s", "device", d->devices[i].name,
			 d->devices[i].lid, d->devices[i].gid);
	for (size_t i = 0; i < d->nbuffers; i++)
		total += d->buffers[i].length;
	out_line(stdout, "%-12s %zu, %llu bytes", "buffers", d->nbuffers, total);
	for (size_t i = 0; i < d->nbuffers; i++)
		text_buffer(&d->buffers[i]);
	for (size_t i = 0; i < s->notes->n; i++)
		line("note", s->notes->v[i]);
}

static void text_owners(const struct owner *list, size_t n, bool delete)
{
	size_t dead = 0, unclear = 0;

	for (size_t i = 0; i < n; i++) {
		const struct owner *o = &list[i];

		dead += o->state == OWNER_DEAD;
		unclear += o->state == OWNER_UNCLEAR;
		if (o->state == OWNER_ALIVE)
			continue;
		out_line(stdout, "%s  %s:%u  %s: %s", o->name, o->at.host, o->at.port,
			 o->state == OWNER_UNCLEAR ? "unclear"
			 : o->deleted		   ? "deleted"
			 : delete		   ? "not deleted"
						   : "dead",
			 *o->failure ? o->failure : o->reason);
		for (int k = 0; k < 2 && o->state == OWNER_DEAD; k++)
			if (o->key[k])
				out_line(stdout, "  %s", o->key[k]);
	}
	if (n)
		fprintf(stderr, "%zu owner%s asked: %zu dead, %zu unclear%s\n", n,
			n == 1 ? "" : "s", dead, unclear,
			dead && !delete ? " (--delete takes the entries of the dead out)" : "");
}

const struct printer print_text = {
	.value = text_value,
	.tag = text_tag,
	.put = text_put,
	.deleted = text_deleted,
	.keys = text_keys,
	.pong = text_pong,
	.change = text_change,
	.loaded = text_loaded,
	.segment = text_segment,
	.owners = text_owners,
};
