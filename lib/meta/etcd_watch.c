/*
 * etcd_watch.c - /v3/watch: a stream of JSON documents, one a line.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "meta/etcd.h"

struct stream {
	struct te_watch *w;
	struct te_err *err;
	char *line; /* what has come of the next document */
	size_t len, cap;
};
static const size_t line_max = 64u << 20;

static int on_event(struct te_watch *w, const json_t *event, struct te_err *err)
{
	const json_t *kv = json_object_get(event, "kv");
	const char *type;
	char *key, *data;
	size_t key_len, len;
	int rc = te_etcd_bytes(kv, "key", &key, &key_len, err);

	if (rc)
		return rc;
	/* The type of a put is the zero of its enumeration, so it is absent. */
	if (te_json_str(event, "type", &type, NULL) == 0 && strcmp(type, "DELETE") == 0) {
		rc = te_watch_deleted(w, key);
	} else {
		rc = te_etcd_bytes(kv, "value", &data, &len, err);
		if (!rc) {
			rc = te_watch_put(w, key, data, len);
			free(data);
		}
	}
	free(key);
	return rc;
}

static int on_document(struct stream *s, const char *text, size_t len)
{
	json_t *root, *result, *events, *event;
	const char *reason = "no reason given";
	size_t i;
	int rc = te_json_parse(text, len, &root, s->err);

	if (rc)
		return te_recode(s->err, -EBADMSG, "etcd's event is of no use");
	if (te_json_object(root, "result", &result, NULL)) {
		json_t *error = json_object_get(root, "error");

		te_json_str(error, "message", &reason, NULL);
		rc = te_fail(s->err, -ECONNRESET, "the server says '%.200s'", reason);
	} else if (json_is_true(json_object_get(result, "canceled"))) {
		te_json_str(result, "cancel_reason", &reason, NULL);
		rc = te_fail(s->err, -ERESTART, "the server ended the watch: %.200s", reason);
	} else if (te_json_array(result, "events", &events, NULL) == 0) {
		json_array_foreach(events, i, event)
		{
			rc = on_event(s->w, event, s->err);
			if (rc)
				break;
		}
	}
	json_decref(root);
	return rc;
}

static int append(struct stream *s, const char *data, size_t len)
{
	if (len > line_max - s->len)
		return te_fail(s->err, -EMSGSIZE, "etcd's event is longer than %zu MiB",
			       line_max >> 20);
	if (s->len + len > s->cap) {
		size_t cap = MAX(2 * s->cap, s->len + len);
		char *line = realloc(s->line, cap);

		if (!line)
			return te_fail(s->err, -ENOMEM, "out of memory");
		s->line = line;
		s->cap = cap;
	}
	memcpy(s->line + s->len, data, len);
	s->len += len;
	return 0;
}

static int on_data(void *arg, const char *data, size_t len)
{
	struct stream *s = arg;
	int rc = 0;

	while (len && !rc) {
		const char *end = memchr(data, '\n', len);
		size_t part = end ? (size_t)(end - data) : len;

		rc = append(s, data, part);
		if (!rc && end) {
			rc = on_document(s, s->line, s->len);
			s->len = 0;
		}
		part += end != NULL;
		data += part;
		len -= part;
	}
	return rc;
}

static json_t *create_request(const char *prefix, int64_t revision)
{
	json_t *root = json_object(), *create = te_etcd_range(prefix, NULL, 0);
	char from[24];

	snprintf(from, sizeof(from), "%" PRId64, revision);
	if (json_object_set_new(create, "start_revision", json_string(from)) ||
	    json_object_set(root, "create_request", create)) {
		json_decref(root);
		root = NULL;
	}
	json_decref(create);
	return root;
}

/* The revision now, so that the stream begins where the list that follows cannot end before. */
static int now(struct te_etcd *e, int64_t *revision, struct te_err *err)
{
	json_t *request = te_etcd_range(e->base.prefix, NULL, 0), *reply;
	int rc;

	if (json_object_set_new(request, "count_only", json_true())) {
		json_decref(request);
		request = NULL;
	}
	rc = te_etcd_call(e, "kv/range", request, TE_ETCD_REPEATABLE, te_store_until(&e->base),
			  &reply, err);
	if (rc)
		return rc;
	*revision = te_etcd_revision(reply);
	json_decref(reply);
	return 0;
}

int te_etcd_watch(struct te_meta *m, struct te_watch *w, struct te_err *err)
{
	struct te_etcd *e = container_of(m, struct te_etcd, base);
	struct stream s = { .w = w, .err = err };
	int64_t revision;
	int rc = now(e, &revision, err);

	if (!rc)
		rc = te_watch_resync(w, err);
	if (!rc)
		rc = te_etcd_stream(e, "watch", create_request(w->prefix, revision + 1), w->stop_fd,
				    on_data, &s, err);
	free(s.line);
	return rc;
}
