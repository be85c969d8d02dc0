/* print_json.c - te-register's results as JSON. */
#include <stdlib.h>
#include <string.h>

#include "out.h"
#include "te-register.h"

/* Keys of the store may be no UTF-8. */
static json_t *text_or_null(const char *s)
{
	json_t *v = s && *s ? json_string(s) : NULL;

	return v ? v : json_null();
}

static json_t *names(const struct strings *list)
{
	json_t *v = json_array();

	for (size_t i = 0; i < list->n; i++)
		json_array_append_new(v, text_or_null(list->v[i]));
	return v;
}

/* As it is stored. */
static json_t *descriptor(const struct te_desc *d)
{
	char *text = te_desc_format(d);
	json_t *v = text ? json_loads(text, 0, NULL) : NULL;

	free(text);
	return v ? v : json_null();
}

static json_t *document(struct te_meta *m, const struct entry *e)
{
	return json_pack("{s:o, s:s, s:o, s:o, s:I, s:o}", "segment",
			 text_or_null(entry_name(m, e)), "kind", entry_kind(m, e), "key",
			 text_or_null(e->key), "server_name", text_or_null(entry_server(e)),
			 "bytes", (json_int_t)entry_bytes(e), "descriptor", descriptor(e->desc));
}

static void json_show(struct te_meta *m, const struct entry *e)
{
	out_json(document(m, e));
}

static void json_written(struct te_meta *m, const struct entry *e, bool changed, bool dry_run)
{
	json_t *doc = document(m, e);

	json_object_set_new(doc, "changed", json_boolean(changed));
	json_object_set_new(doc, "dry_run", json_boolean(dry_run));
	out_json(doc);
}

static json_t *row(struct te_meta *m, const struct entry *e)
{
	struct strings hosts = { 0 };
	json_t *o;

	entry_hosts(e, &hosts);
	o = json_pack("{s:o, s:s, s:o, s:o, s:o, s:o}", "segment", text_or_null(entry_name(m, e)),
		      "kind", entry_kind(m, e), "key", text_or_null(e->key), "server_name",
		      text_or_null(entry_server(e)), "hosts", names(&hosts), "error",
		      text_or_null(e->problem));
	json_object_set_new(o, "protocol", e->desc ? json_string(e->desc->protocol) : json_null());
	json_object_set_new(o, "buffers",
			    e->desc ? json_integer((json_int_t)e->desc->nbuffers) : json_null());
	json_object_set_new(o, "bytes",
			    e->desc ? json_integer((json_int_t)entry_bytes(e)) : json_null());
	strings_clear(&hosts);
	return o;
}

static void json_list(struct te_meta *m, const struct entry *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, row(m, &v[i]));
	out_json(json_pack("{s:o}", "segments", list));
}

static void json_removed(const struct strings *keys, bool dry_run)
{
	out_json(json_pack("{s:o, s:b}", "removed", names(keys), "dry_run", dry_run));
}

const struct printer print_json = {
	.written = json_written,
	.list = json_list,
	.show = json_show,
	.removed = json_removed,
};
