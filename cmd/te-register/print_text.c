/* print_text.c - te-register's results for people. */
#include <stdio.h>
#include <string.h>

#include "out.h"
#include "table.h"
#include "te-register.h"

static void line(const char *label, const char *text)
{
	if (text && *text)
		out_line(stdout, "%-12s %s", label, text);
}

static void text_file(const struct te_desc_buffer *b)
{
	char size[32];

	out_line(stdout, "  0x%012llx  %12llu bytes  %-9s  %s", (unsigned long long)b->addr,
		 (unsigned long long)b->length, out_bytes((double)b->length, size, sizeof(size)),
		 b->file_path ? b->file_path : "");
	for (size_t i = 0; i < b->nmap; i++)
		out_line(stdout, "    %s: %s", b->map[i].host, b->map[i].path);
}

static void text_memory(const struct te_desc_buffer *b)
{
	char size[32];

	out_line(stdout, "  0x%012llx  %12llu bytes  %-9s  %s", (unsigned long long)b->addr,
		 (unsigned long long)b->length, out_bytes((double)b->length, size, sizeof(size)),
		 b->location ? b->location
		 : b->name   ? b->name
			     : "");
}

static void text_show(struct te_meta *m, const struct entry *e)
{
	const struct te_desc *d = e->desc;
	bool files = strcmp(d->protocol, "nvmeof") == 0;

	line("segment", entry_name(m, e));
	line("key", e->key);
	line("protocol", d->protocol);
	line("server", entry_server(e));
	line("published", d->timestamp);
	for (size_t i = 0; i < d->ndevices; i++)
		out_line(stdout, "%-12s %s, lid %u, gid %s", "device", d->devices[i].name,
			 d->devices[i].lid, d->devices[i].gid);
	line("matrix", d->priority_matrix);
	out_line(stdout, "%-12s %zu, %llu bytes", files ? "files" : "buffers", d->nbuffers,
		 (unsigned long long)entry_bytes(e));
	for (size_t i = 0; i < d->nbuffers; i++) {
		if (files)
			text_file(&d->buffers[i]);
		else
			text_memory(&d->buffers[i]);
	}
}

static void text_written(struct te_meta *m, const struct entry *e, bool changed, bool dry_run)
{
	line("outcome", !changed  ? "registered already"
			: dry_run ? "would be registered"
				  : "registered");
	text_show(m, e);
}

static void text_row(struct te_meta *m, const struct entry *e, struct table *t)
{
	struct strings hosts = { 0 };
	char size[32], list[256] = "";
	size_t len = 0;

	entry_hosts(e, &hosts);
	for (size_t i = 0; i < hosts.n && len < sizeof(list); i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len ? "," : "",
					hosts.v[i]);
	if (len >= sizeof(list))
		memcpy(list + sizeof(list) - 4, "...", 4);
	table_cell(t, "%s", entry_name(m, e));
	table_cell(t, "%s", entry_kind(m, e));
	table_cell(t, "%s", e->desc ? entry_server(e) : "?");
	if (e->desc)
		table_cell(t, "%zu", e->desc->nbuffers);
	else
		table_cell(t, "?");
	table_cell(t, "%s", e->desc ? out_bytes((double)entry_bytes(e), size, sizeof(size)) : "?");
	table_cell(t, "%s", list);
	strings_clear(&hosts);
}

static void text_list(struct te_meta *m, const struct entry *v, size_t n)
{
	static const char *const titles[] = { "SEGMENT", "KIND",  "SERVER",
					      "BUFFERS", "BYTES", "HOSTS" };
	struct table t = { .columns = 6 };

	for (size_t i = 0; n && i < 6; i++)
		table_cell(&t, "%s", titles[i]);
	for (size_t i = 0; i < n; i++)
		text_row(m, &v[i], &t);
	table_print(&t);
}

static void text_removed(const struct strings *keys, bool dry_run)
{
	for (size_t i = 0; i < keys->n; i++)
		out_line(stdout, "%s %s", dry_run ? "would remove" : "removed", keys->v[i]);
}

const struct printer print_text = {
	.written = text_written,
	.list = text_list,
	.show = text_show,
	.removed = text_removed,
};
