/* desc_format.c - segment descriptors as JSON, in the form that real engines write (INTEROP 1.4).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "te_segment.h"

/* The _new setters fail on a NULL value, so that a failure anywhere ends in false here. */
static bool set(json_t *obj, const char *member, json_t *value)
{
	return !json_object_set_new(obj, member, value);
}

static bool set_text(json_t *obj, const char *member, const char *text)
{
	return set(obj, member, te_json_text(text));
}

static bool set_optional_text(json_t *obj, const char *member, const char *text)
{
	return !text || set_text(obj, member, text);
}

static bool set_number(json_t *obj, const char *member, uint64_t n)
{
	return set(obj, member, json_integer((json_int_t)n));
}

static json_t *keys(const uint32_t *key, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, json_integer(key[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *ram_buffer(const struct te_desc_buffer *b, bool rdma)
{
	json_t *obj = json_object();
	bool good = set_text(obj, "name", b->name) && set_number(obj, "addr", b->addr) &&
		    set_number(obj, "length", b->length) &&
		    set_optional_text(obj, "location", b->location);

	/* Readers want both lists. Ours never use a peer's lkey: without one the rkey stand in. */
	if (good && rdma)
		good = set(obj, "rkey", keys(b->rkey, b->nkeys)) &&
		       set(obj, "lkey", keys(b->lkey ? b->lkey : b->rkey, b->nkeys));
	if (good)
		return obj;
	json_decref(obj);
	return NULL;
}

static json_t *file_buffer(const struct te_desc_buffer *b)
{
	json_t *obj = json_object(), *map = json_object();
	bool good = true;

	for (size_t i = 0; i < b->nmap; i++)
		good = good && set_text(map, b->map[i].host, b->map[i].path);
	if (!set(obj, "local_path_map", map) || !good ||
	    !set_text(obj, "file_path", b->file_path) || !set_number(obj, "length", b->length)) {
		json_decref(obj);
		return NULL;
	}
	return obj;
}

static json_t *buffers(const struct te_desc *d, bool rdma, bool nvmeof)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->nbuffers; i++) {
		const struct te_desc_buffer *b = &d->buffers[i];

		if (rdma && !b->nkeys)
			continue;
		if (json_array_append_new(list, nvmeof ? file_buffer(b) : ram_buffer(b, rdma))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *devices(const struct te_desc *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->ndevices; i++) {
		json_t *obj = json_object();
		bool good = set_text(obj, "name", d->devices[i].name) &&
			    set_text(obj, "gid", d->devices[i].gid) &&
			    set_number(obj, "lid", d->devices[i].lid);

		if (json_array_append_new(list, obj) || !good) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *ext(const struct te_desc_ext *e)
{
	json_t *obj = json_object();
	bool good = set_text(obj, "host", e->host) && set_text(obj, "token", e->token) &&
		    set_number(obj, "pid", (uint64_t)e->pid);

	if (good && e->ctl_fd >= 0)
		good = set_number(obj, "ctl_fd", (uint64_t)e->ctl_fd);
	if (good && e->degraded)
		good = set(obj, "degraded", json_true());
	if (good)
		return obj;
	json_decref(obj);
	return NULL;
}

static bool set_matrix(json_t *obj, const char *text)
{
	json_t *matrix;

	if (!text)
		return true;
	return !te_json_parse(text, strlen(text), &matrix, NULL) &&
	       set(obj, "priority_matrix", matrix);
}

/* Local time, as the real engine writes it; nobody compares it. */
static const char *time_now(char *buf, size_t size)
{
	struct timespec ts;
	struct tm tm;
	char second[32];

	clock_gettime(CLOCK_REALTIME, &ts);
	localtime_r(&ts.tv_sec, &tm);
	strftime(second, sizeof(second), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(buf, size, "%s.%06ld", second, ts.tv_nsec / 1000);
	return buf;
}

static bool set_ram(json_t *root, const struct te_desc *d, bool rdma)
{
	char now[64];

	if (rdma && !(set(root, "devices", devices(d)) && set_matrix(root, d->priority_matrix)))
		return false;
	return set_text(root, "name", d->name ? d->name : "") &&
	       set_optional_text(root, "server_name", d->server_name) &&
	       set_optional_text(root, "rdma_server_name", d->rdma_server_name) &&
	       set_number(root, "tcp_data_port", d->tcp_data_port) &&
	       set_number(root, "tcp_proto_version", d->tcp_proto_version) &&
	       (!d->te.present || set(root, "te", ext(&d->te))) &&
	       set_text(root, "timestamp",
			d->timestamp ? d->timestamp : time_now(now, sizeof(now)));
}

/* What register.py writes has neither name nor timestamp. */
static bool set_file(json_t *root, const struct te_desc *d)
{
	return set_optional_text(root, "server_name", d->server_name ? d->server_name : d->name) &&
	       set_optional_text(root, "timestamp", d->timestamp);
}

char *te_desc_format(const struct te_desc *d)
{
	const char *protocol = d->protocol ? d->protocol : "";
	bool rdma = !strcmp(protocol, "rdma"), nvmeof = !strcmp(protocol, "nvmeof"), good;
	json_t *root = json_object();
	char *text = NULL;

	good = set_text(root, "protocol", protocol) &&
	       set(root, "buffers", buffers(d, rdma, nvmeof)) &&
	       (nvmeof ? set_file(root, d) : set_ram(root, d, rdma));
	if (good)
		text = te_json_format(root);
	json_decref(root);
	return text;
}
