/* desc_lint.c - what te takes in a descriptor and a real reader would refuse or stumble over. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "segment/matrix.h"
#include "te_segment.h"

struct lint {
	void (*cb)(void *arg, const char *sentence);
	void *arg;
};

__attribute__((format(printf, 2, 3))) static void say(const struct lint *l, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	l->cb(l->arg, text);
}

/* 16 two-digit lower-case hex bytes joined by ':'. */
static bool is_gid(const char *s)
{
	if (strlen(s) != 47)
		return false;
	for (int i = 0; i < 47; i++)
		if (i % 3 == 2 ? s[i] != ':'
			       : !isxdigit((unsigned char)s[i]) || isupper((unsigned char)s[i]))
			return false;
	return true;
}

static void lint_keys(const struct lint *l, const struct te_desc_buffer *b, size_t i)
{
	if (!b->nkeys)
		say(l, "buffers[%zu] has no rkey: engines up to v0.3.12 refuse the descriptor", i);
	else if (!b->lkey)
		say(l, "buffers[%zu] has no lkey: Mooncake engines refuse the descriptor", i);
}

static bool list_has(const json_t *list, const char *name)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v) if (json_is_string(v) &&
					   !strcmp(json_string_value(v), name)) return true;
	return false;
}

static bool has_device(const struct te_desc *d, const char *name)
{
	for (size_t i = 0; i < d->ndevices; i++)
		if (!strcmp(d->devices[i].name, name))
			return true;
	return false;
}

static void lint_names(const struct lint *l, const struct te_desc *d, const char *location,
		       const json_t *list)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i,
			   v) if (json_is_string(v) && !has_device(d, json_string_value(v)))
		say(l, "priority_matrix names '%s' for %s, which is not in devices",
		    json_string_value(v), location);
}

/* Real readers count devices by the matrix, not by `devices` (INTEROP 1.6): one that it leaves out
   shifts the rest. */
static void lint_matrix(const struct lint *l, const struct te_desc *d)
{
	json_t *matrix, *row;
	const char *location;

	if (!d->priority_matrix ||
	    te_json_parse(d->priority_matrix, strlen(d->priority_matrix), &matrix, NULL)) {
		say(l, "no priority_matrix: Mooncake engines can choose no device");
		return;
	}
	json_object_foreach(matrix, location, row)
	{
		if (json_array_size(row) != 2 || !json_is_array(json_array_get(row, 0)) ||
		    !json_is_array(json_array_get(row, 1))) {
			say(l, "priority_matrix of %s is not two lists: Mooncake engines ignore it",
			    location);
			continue;
		}
		lint_names(l, d, location, json_array_get(row, 0));
		lint_names(l, d, location, json_array_get(row, 1));
	}
	for (size_t i = 0; i < d->ndevices; i++) {
		const char *name = d->devices[i].name;
		bool found = false;

		json_object_foreach(matrix, location, row) found =
			found || list_has(json_array_get(row, 0), name) ||
			list_has(json_array_get(row, 1), name);
		if (!found)
			say(l,
			    "devices[%zu] '%s' is not in priority_matrix: Mooncake engines take "
			    "wrong devices from there on",
			    i, name);
	}
	json_decref(matrix);
}

/* They count devices in an order of their own. Of what they cannot count at all, lint_matrix()
 * speaks. */
static void lint_order(const struct lint *l, const struct te_desc *d)
{
	struct te_matrix *m;
	size_t i = 0;

	if (!d->priority_matrix ||
	    te_matrix_parse(d->priority_matrix, strlen(d->priority_matrix), &m, NULL))
		return;
	while (i < d->ndevices && i < m->nnames && !strcmp(d->devices[i].name, m->names[i]))
		i++;
	if (m->nnames == d->ndevices && i < m->nnames && has_device(d, m->names[i]))
		say(l,
		    "devices[%zu] is '%s', and '%s' by the order in which Mooncake engines read "
		    "priority_matrix: they take another device than is meant",
		    i, d->devices[i].name, m->names[i]);
	te_matrix_free(m);
}

void te_desc_lint(const struct te_desc *d, void (*cb)(void *arg, const char *sentence), void *arg)
{
	const struct lint l = { .cb = cb, .arg = arg };

	if (!strcmp(d->protocol, "nvmeof"))
		return;
	if (d->seed_form)
		say(&l, "no member 'name': Mooncake engines do not read 'server_name'");
	else if (!*d->name)
		say(&l, "no member 'name': peers cannot connect");
	/* What is only registered has no buffers, and no engine yet. */
	if (!strcmp(d->protocol, "tcp") && !d->tcp_data_port && d->nbuffers)
		say(&l, "no tcp_data_port: peers do not know where to connect");
	if (strcmp(d->protocol, "rdma"))
		return;
	for (size_t i = 0; i < d->ndevices; i++)
		if (!is_gid(d->devices[i].gid))
			say(&l, "devices[%zu] '%s': gid '%s' is not 16 hexadecimal bytes", i,
			    d->devices[i].name, d->devices[i].gid);
	for (size_t i = 0; i < d->nbuffers; i++)
		lint_keys(&l, &d->buffers[i], i);
	lint_matrix(&l, d);
	lint_order(&l, d);
}
