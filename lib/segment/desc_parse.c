/* desc_parse.c - segment descriptors from JSON that anybody may have written (INTEROP 1.4). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "segment/ranges.h"
#include "te_err.h"
#include "te_segment.h"

enum { PROTO_VERSION_MAX = 1000000 };

struct parse {
	struct te_desc *d;
	bool rdma, nvmeof;
	struct te_err *err;
};

/* A member that may be absent or null. */
static bool absent(const json_t *obj, const char *member)
{
	const json_t *v = json_object_get(obj, member);

	return !v || json_is_null(v);
}

static int keep(char **to, const char *from, struct te_err *err)
{
	*to = strdup(from);
	return *to ? 0 : te_fail(err, -ENOMEM, "out of memory");
}

static int get_text(const json_t *obj, const char *member, char **out, struct te_err *err)
{
	const char *s;
	int rc = te_json_str(obj, member, &s, err);

	return rc ? rc : keep(out, s, err);
}

static int get_optional_text(const json_t *obj, const char *member, char **out, struct te_err *err)
{
	return absent(obj, member) ? 0 : get_text(obj, member, out, err);
}

static int get_full_text(const json_t *obj, const char *member, char **out, struct te_err *err)
{
	int rc = get_text(obj, member, out, err);

	if (!rc && !**out)
		return te_fail(err, -EINVAL, "member '%s' is empty", member);
	return rc;
}

static int get_optional_uint(const json_t *obj, const char *member, unsigned max, unsigned *out,
			     struct te_err *err)
{
	uint64_t v = *out;
	int rc = absent(obj, member) ? 0 : te_json_u64(obj, member, max, &v, err);

	*out = (unsigned)v;
	return rc;
}

/* An integer, or in the seed's form text that begins with 0x. */
static int number(const struct parse *p, const json_t *v, const char *what, uint64_t max,
		  uint64_t *out)
{
	const char *s = json_string_value(v);
	int64_t n;

	if (json_is_integer(v)) {
		n = json_integer_value(v);
		if (n < 0 || (uint64_t)n > max)
			return te_fail(p->err, -EINVAL, "%s is %lld, not in [0..%llu]", what,
				       (long long)n, (unsigned long long)max);
	} else if (p->d->seed_form && s && !strncmp(s, "0x", 2)) {
		if (!te_parse_i64(s, 0, (int64_t)MIN(max, (uint64_t)INT64_MAX), &n))
			return te_fail(p->err, -EINVAL, "%s is no hexadecimal number", what);
	} else {
		return te_fail(p->err, -EINVAL, "%s is not an integer", what);
	}
	*out = (uint64_t)n;
	return 0;
}

static int get_number(const struct parse *p, const json_t *obj, const char *member, uint64_t max,
		      uint64_t *out)
{
	const json_t *v = json_object_get(obj, member);
	char what[64];

	if (!v)
		return te_fail(p->err, -EINVAL, "member '%s' is missing", member);
	snprintf(what, sizeof(what), "member '%s'", member);
	return number(p, v, what, max, out);
}

static int get_keys(const struct parse *p, const json_t *obj, const char *member, uint32_t **out,
		    size_t *n)
{
	json_t *list;
	uint64_t key = 0;
	int rc = te_json_array(obj, member, &list, p->err);

	if (rc)
		return rc;
	*n = json_array_size(list);
	if (!*n)
		return 0;
	*out = calloc(*n, sizeof(**out));
	if (!*out)
		return te_fail(p->err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < *n; i++) {
		rc = number(p, json_array_get(list, i), member, UINT32_MAX, &key);
		if (rc)
			return rc;
		(*out)[i] = (uint32_t)key;
	}
	return 0;
}

/* One key of each kind for each device. No rkey: a buffer that peers cannot reach. The seed's form
   has no lkey. */
static int get_rdma_keys(const struct parse *p, const json_t *obj, struct te_desc_buffer *b)
{
	size_t nlkey = 0;
	int rc = absent(obj, "rkey") ? 0 : get_keys(p, obj, "rkey", &b->rkey, &b->nkeys);

	if (rc || !b->nkeys)
		return rc;
	if (b->nkeys != p->d->ndevices)
		return te_fail(p->err, -EINVAL, "%zu rkey for %zu devices", b->nkeys,
			       p->d->ndevices);
	if (p->d->seed_form && absent(obj, "lkey"))
		return 0;
	rc = get_keys(p, obj, "lkey", &b->lkey, &nlkey);
	if (!rc && nlkey != b->nkeys)
		return te_fail(p->err, -EINVAL, "%zu rkey but %zu lkey", b->nkeys, nlkey);
	return rc;
}

static int get_ram_buffer(const struct parse *p, const json_t *obj, struct te_desc_buffer *b)
{
	int rc = get_full_text(obj, "name", &b->name, p->err);

	if (!rc)
		rc = get_number(p, obj, "addr", UINT64_MAX, &b->addr);
	if (!rc)
		rc = get_number(p, obj, "length", UINT64_MAX, &b->length);
	if (!rc && (!b->addr || !b->length))
		rc = te_fail(p->err, -EINVAL, "member '%s' is 0", b->addr ? "length" : "addr");
	if (!rc && te_wraps(b->addr, b->length))
		rc = te_fail(p->err, -EINVAL, "addr + length wraps");
	if (!rc)
		rc = get_optional_text(obj, "location", &b->location, p->err);
	if (!rc && p->rdma)
		rc = get_rdma_keys(p, obj, b);
	return rc;
}

static int get_path_map(const struct parse *p, json_t *map, struct te_desc_buffer *b)
{
	const char *host;
	json_t *path;

	b->map = calloc(json_object_size(map) + 1, sizeof(*b->map));
	if (!b->map)
		return te_fail(p->err, -ENOMEM, "out of memory");
	json_object_foreach(map, host, path)
	{
		struct te_desc_map *m = &b->map[b->nmap++];

		if (!json_is_string(path))
			return te_fail(p->err, -EINVAL, "local_path_map of '%s' is not a string",
				       host);
		if (keep(&m->host, host, p->err) || keep(&m->path, json_string_value(path), p->err))
			return -ENOMEM;
	}
	return 0;
}

static int get_file_buffer(const struct parse *p, const json_t *obj, struct te_desc_buffer *b)
{
	json_t *map;
	int rc = get_text(obj, "file_path", &b->file_path, p->err);

	if (!rc)
		rc = get_number(p, obj, "length", INT64_MAX, &b->length);
	if (rc || absent(obj, "local_path_map"))
		return rc;
	rc = te_json_object(obj, "local_path_map", &map, p->err);
	return rc ? rc : get_path_map(p, map, b);
}

/* The files of a segment lie one behind the other. */
static int place_files(struct te_desc *d, struct te_err *err)
{
	uint64_t at = 0;

	for (size_t i = 0; i < d->nbuffers; i++) {
		if (d->buffers[i].length > INT64_MAX - at)
			return te_fail(err, -EINVAL, "buffers[%zu]: the lengths wrap", i);
		d->buffers[i].addr = at;
		at += d->buffers[i].length;
	}
	return 0;
}

static int get_buffers(const struct parse *p, const json_t *root)
{
	json_t *list, *obj;
	size_t i;
	int rc;

	if (absent(root, "buffers"))
		return 0;
	rc = te_json_array(root, "buffers", &list, p->err);
	if (rc)
		return rc;
	json_array_foreach(list, i, obj)
	{
		struct te_desc_buffer *b = te_desc_add_buffer(p->d);

		if (!b)
			return te_fail(p->err, -ENOMEM, "out of memory");
		rc = p->nvmeof ? get_file_buffer(p, obj, b) : get_ram_buffer(p, obj, b);
		if (rc)
			return te_wrap(p->err, rc, "buffers[%zu]", i);
	}
	return p->nvmeof ? place_files(p->d, p->err) : 0;
}

static int get_device(const json_t *obj, struct te_desc_device *dev, struct te_err *err)
{
	int rc = get_full_text(obj, "name", &dev->name, err);

	if (!rc)
		rc = get_full_text(obj, "gid", &dev->gid, err);
	if (!rc)
		rc = get_optional_uint(obj, "lid", UINT16_MAX, &dev->lid, err);
	return rc;
}

static int get_devices(const struct parse *p, const json_t *root)
{
	json_t *list, *obj;
	size_t i;
	int rc;

	if (absent(root, "devices"))
		return 0;
	rc = te_json_array(root, "devices", &list, p->err);
	if (rc)
		return rc;
	p->d->devices = calloc(json_array_size(list) + 1, sizeof(*p->d->devices));
	if (!p->d->devices)
		return te_fail(p->err, -ENOMEM, "out of memory");
	json_array_foreach(list, i, obj)
	{
		rc = get_device(obj, &p->d->devices[p->d->ndevices++], p->err);
		if (rc)
			return te_wrap(p->err, rc, "devices[%zu]", i);
	}
	return 0;
}

/* Kept as text. An entry that is not two lists is kept too: real readers only warn about it. */
static int get_matrix(const struct parse *p, const json_t *root)
{
	json_t *matrix;
	int rc;

	if (absent(root, "priority_matrix"))
		return 0;
	rc = te_json_object(root, "priority_matrix", &matrix, p->err);
	if (rc)
		return rc;
	p->d->priority_matrix = te_json_format(matrix);
	return p->d->priority_matrix ? 0 : te_fail(p->err, -ENOMEM, "out of memory");
}

/* te's own member. What another version of te left out only means that it is not offered. */
static int get_ext(const json_t *root, struct te_desc_ext *ext, struct te_err *err)
{
	const char *host = "", *token = "";
	json_t *te;
	unsigned pid = 0, fd = INT32_MAX;
	int rc;

	if (absent(root, "te"))
		return 0;
	rc = te_json_object(root, "te", &te, err);
	if (!rc && !absent(te, "host"))
		rc = te_json_str(te, "host", &host, err);
	if (!rc && !absent(te, "token"))
		rc = te_json_str(te, "token", &token, err);
	if (!rc)
		rc = get_optional_uint(te, "pid", INT32_MAX, &pid, err);
	if (!rc)
		rc = get_optional_uint(te, "ctl_fd", INT32_MAX, &fd, err);
	if (!rc && !absent(te, "degraded"))
		rc = te_json_bool(te, "degraded", &ext->degraded, err);
	if (rc)
		return te_wrap(err, rc, "te");
	if (strlen(host) >= sizeof(ext->host) || strlen(token) >= sizeof(ext->token))
		return te_fail(err, -EINVAL, "te: member '%s' is too long",
			       strlen(token) >= sizeof(ext->token) ? "token" : "host");
	te_strlcpy(ext->host, host, sizeof(ext->host));
	te_strlcpy(ext->token, token, sizeof(ext->token));
	ext->pid = (int)pid;
	ext->ctl_fd = fd == INT32_MAX ? -1 : (int)fd;
	ext->present = *host && *token && pid;
	return 0;
}

static int get_protocol(struct parse *p, const json_t *root)
{
	/* Those of other builds of the real engine. */
	static const char *const foreign[] = { "efa",	 "cxi",	    "barex",	    "ub",  "nccl",
					       "ascend", "nvlink",  "nvlink_intra", "hip", "maca",
					       "musa",	 "ubshmem", "sunrise_link", "cxl" };
	const char *name;
	int rc = get_full_text(root, "protocol", &p->d->protocol, p->err);

	if (rc)
		return rc;
	name = p->d->protocol;
	p->rdma = !strcmp(name, "rdma");
	p->nvmeof = !strcmp(name, "nvmeof");
	if (p->rdma || p->nvmeof || !strcmp(name, "tcp"))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		if (!strcmp(name, foreign[i]))
			return te_fail(p->err, -EPROTONOSUPPORT, "protocol '%s' is not supported",
				       name);
	return te_fail(p->err, -EPROTONOSUPPORT, "unknown protocol '%s'", name);
}

static int get_names(const struct parse *p, const json_t *root)
{
	struct te_desc *d = p->d;
	int rc = get_optional_text(root, "name", &d->name, p->err);

	if (!rc)
		rc = get_optional_text(root, "server_name", &d->server_name, p->err);
	if (rc)
		return rc;
	d->seed_form = !d->name && d->server_name;
	if (!d->name)
		rc = keep(&d->name, d->server_name ? d->server_name : "", p->err);
	return rc;
}

static int get_all(struct parse *p, const json_t *root)
{
	struct te_desc *d = p->d;
	int rc = get_names(p, root);

	if (!rc)
		rc = get_protocol(p, root);
	if (!rc)
		rc = get_optional_uint(root, "tcp_data_port", UINT16_MAX, &d->tcp_data_port,
				       p->err);
	if (!rc)
		rc = get_optional_uint(root, "tcp_proto_version", PROTO_VERSION_MAX,
				       &d->tcp_proto_version, p->err);
	if (!rc)
		rc = get_optional_text(root, "timestamp", &d->timestamp, p->err);
	if (!rc)
		rc = get_optional_text(root, "rdma_server_name", &d->rdma_server_name, p->err);
	if (!rc && p->rdma)
		rc = get_devices(p, root);
	if (!rc && p->rdma)
		rc = get_matrix(p, root);
	if (!rc)
		rc = get_ext(root, &d->te, p->err);
	if (!rc)
		rc = get_buffers(p, root);
	if (!rc && te_desc_build_ranges(d))
		rc = te_fail(p->err, -ENOMEM, "out of memory");
	return rc;
}

int te_desc_parse(const char *text, size_t len, struct te_desc **out, struct te_err *err)
{
	struct parse p = { .err = err };
	json_t *root;
	int rc = te_json_parse(text, len, &root, err);

	if (rc)
		return rc;
	if (json_is_null(root)) {
		rc = te_fail(err, -EINVAL, "the segment has no descriptor yet (null)");
	} else if (!json_is_object(root)) {
		rc = te_fail(err, -EINVAL, "a descriptor is an object");
	} else {
		p.d = te_desc_new();
		rc = p.d ? get_all(&p, root) : te_fail(err, -ENOMEM, "out of memory");
	}
	json_decref(root);
	if (rc == -ENOENT) {
		/* A missing member: to callers ENOENT would be a missing descriptor. */
		rc = -EINVAL;
		if (err)
			err->code = rc;
	}
	if (rc) {
		te_desc_free(p.d);
		return rc;
	}
	*out = p.d;
	return 0;
}
