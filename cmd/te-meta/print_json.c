/* print_json.c - te-meta's results as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"
#include "te-meta.h"

static json_t *base64(const char *data, size_t len)
{
	char *text = te_base64_encode(data, len);
	json_t *v = json_string(text);

	free(text);
	return v;
}

/* Text that JSON can carry, or null: a key or a name that is no UTF-8. */
static json_t *text_or_null(const char *s)
{
	json_t *v = s ? json_string(s) : NULL;

	return v ? v : json_null();
}

static void add_value(json_t *o, const char *data, size_t len)
{
	json_t *v = memchr(data, '\0', len) ? NULL : json_stringn(data, len);

	if (v)
		json_object_set_new(o, "value", v);
	else
		json_object_set_new(o, "value_base64", base64(data, len));
}

json_t *entry_json(const char *key, const char *data, size_t len)
{
	json_t *o = json_object(), *k = json_string(key);

	if (json_object_set_new(o, "key", k)) {
		json_decref(o);
		return NULL;
	}
	add_value(o, data, len);
	return o;
}

static void json_value(const char *key, const struct te_meta_value *v)
{
	json_t *o = json_object();

	json_object_set_new(o, "key", text_or_null(key));
	add_value(o, v->data, v->len);
	json_object_set_new(o, "tag", *v->tag ? json_string(v->tag) : json_null());
	out_json(o);
}

static void json_tag(const char *key, const char *tag)
{
	json_t *o = json_object();

	json_object_set_new(o, "key", text_or_null(key));
	json_object_set_new(o, "tag", *tag ? json_string(tag) : json_null());
	out_json(o);
}

static json_t *names(char *const *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, text_or_null(v[i]));
	return list;
}

static void json_deleted(char *const *keys, size_t n)
{
	out_json(json_pack("{s:o}", "deleted", names(keys, n)));
}

static void json_keys(const struct strings *keys)
{
	out_json(json_pack("{s:o}", "keys", names(keys->v, keys->n)));
}

static void json_pong(const struct pong *p)
{
	static const struct {
		unsigned cap;
		const char *name;
	} caps[] = { { TE_META_LIST, "list" },
		     { TE_META_WATCH, "watch" },
		     { TE_META_TTL, "ttl" },
		     { TE_META_CAS, "compare_and_swap" } };
	json_t *o = json_pack("{s:s, s:s, s:f, s:{}}", "metadata_server", p->uri, "store",
			      p->scheme, "seconds", p->seconds, "can");

	for (size_t i = 0; i < sizeof(caps) / sizeof(*caps); i++)
		json_object_set_new(json_object_get(o, "can"), caps[i].name,
				    json_boolean(p->caps & caps[i].cap));
	out_json(o);
}

/* One a line, so compact on a terminal too. */
static void json_change(const struct te_meta_event *ev)
{
	json_t *o = json_object();

	json_object_set_new(o, "type", json_string(ev->type == TE_META_PUT ? "put" : "delete"));
	json_object_set_new(o, "key", text_or_null(ev->key));
	if (ev->type == TE_META_PUT)
		add_value(o, ev->data, ev->len);
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static void json_loaded(size_t done, size_t failed)
{
	out_json(json_pack("{s:I, s:I}", "loaded", (json_int_t)done, "failed", (json_int_t)failed));
}

static json_t *address(const struct te_rpc_meta *at)
{
	return json_pack("{s:o, s:i}", "ip_or_host_name", text_or_null(at->host), "rpc_port",
			 (int)at->port);
}

static void json_segment(const struct shown *s)
{
	json_t *o = json_object(), *desc = json_loadb(s->value->data, s->value->len, 0, NULL);

	json_object_set_new(o, "segment", text_or_null(s->name));
	json_object_set_new(o, "key", text_or_null(s->key));
	json_object_set_new(o, "descriptor", desc ? desc : json_null());
	json_object_set_new(o, "rpc_meta", s->rpc ? address(s->rpc) : json_null());
	json_object_set_new(o, "alive", s->rpc ? json_boolean(s->alive) : json_null());
	json_object_set_new(o, "reason", s->alive ? json_null() : text_or_null(s->reason));
	json_object_set_new(o, "notes", names(s->notes->v, s->notes->n));
	out_json(o);
}

static json_t *owner(const struct owner *o)
{
	static const char *const states[] = { "alive", "dead", "unclear" };
	json_t *j = json_object(), *keys = json_array();

	for (int k = 0; k < 2; k++)
		if (o->key[k])
			json_array_append_new(keys, text_or_null(o->key[k]));
	json_object_set_new(j, "segment", text_or_null(o->name));
	json_object_set_new(j, "rpc_meta", address(&o->at));
	json_object_set_new(j, "state", json_string(states[o->state]));
	json_object_set_new(j, "reason", *o->reason ? text_or_null(o->reason) : json_null());
	json_object_set_new(j, "keys", keys);
	json_object_set_new(j, "deleted", json_boolean(o->deleted));
	return j;
}

static void json_owners(const struct owner *list, size_t n, bool delete)
{
	json_t *found = json_array();

	(void)delete;
	for (size_t i = 0; i < n; i++)
		if (list[i].state != OWNER_ALIVE)
			json_array_append_new(found, owner(&list[i]));
	out_json(json_pack("{s:I, s:o}", "asked", (json_int_t)n, "found", found));
}

const struct printer print_json = {
	.value = json_value,
	.tag = json_tag,
	.put = json_tag,
	.deleted = json_deleted,
	.keys = json_keys,
	.pong = json_pong,
	.change = json_change,
	.loaded = json_loaded,
	.segment = json_segment,
	.owners = json_owners,
};
