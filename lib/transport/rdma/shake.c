/* shake.c - the JSON of handshake types 0 and 0x10, read with suspicion and written as real engines
 * do. */
#include "transport/rdma/shake.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "te_err.h"

/* ---- reading ------------------------------------------------------------------------------ */

static bool is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

/* A member that may be absent or null. */
static bool absent(const json_t *obj, const char *member)
{
	const json_t *v = json_object_get(obj, member);

	return !v || json_is_null(v);
}

static int get_text(const json_t *obj, const char *member, const char **out, struct te_err *err)
{
	*out = "";
	return absent(obj, member) ? 0 : te_json_str(obj, member, out, err);
}

/* A name: goes into tables and logs as it is. */
static int get_name(const json_t *obj, const char *member, char *out, size_t size,
		    struct te_err *err)
{
	const char *s;
	int r = get_text(obj, member, &s, err);

	if (r)
		return r;
	if (strlen(s) >= size)
		return te_fail(err, -EINVAL, "member '%s' is longer than %zu bytes", member,
			       size - 1);
	for (const char *c = s; *c; c++)
		if (is_control(*c))
			return te_fail(err, -EINVAL, "member '%s' has a control character", member);
	te_strlcpy(out, s, size);
	return 0;
}

/* A sentence for people: whatever it is, it must not get in the way. */
static int get_reply(const json_t *obj, char *out, size_t size, struct te_err *err)
{
	const char *s;
	int r = get_text(obj, "reply_msg", &s, err);

	if (r)
		return r;
	te_strlcpy(out, s, size);
	for (char *c = out; *c; c++)
		if (is_control(*c))
			*c = ' ';
	return 0;
}

static int get_qps(const json_t *obj, struct te_shake *s, struct te_err *err)
{
	json_t *list;
	int r;

	if (absent(obj, "qp_num"))
		return 0;
	r = te_json_array(obj, "qp_num", &list, err);
	if (r)
		return r;
	if (json_array_size(list) > TE_SHAKE_QPS)
		return te_fail(err, -EINVAL, "member 'qp_num' has %zu entries, more than %d",
			       json_array_size(list), TE_SHAKE_QPS);
	for (; s->nqp < json_array_size(list); s->nqp++) {
		const json_t *v = json_array_get(list, s->nqp);

		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		    json_integer_value(v) > 0xffffff)
			return te_fail(err, -EINVAL,
				       "entry %zu of 'qp_num' is no queue pair number (24 bits)",
				       s->nqp);
		s->qp[s->nqp] = (uint32_t)json_integer_value(v);
	}
	return 0;
}

static int get_lid(const json_t *obj, struct te_shake *s, struct te_err *err)
{
	uint64_t lid = 0;
	int r = absent(obj, "local_lid") ? 0 : te_json_u64(obj, "local_lid", UINT16_MAX, &lid, err);

	s->lid = (unsigned)lid;
	return r;
}

/* That these are there says something in itself. */
static int get_extras(const json_t *obj, struct te_shake *s, struct te_err *err)
{
	json_t *te;
	uint64_t mtu = 0;
	int r = te_json_bool(obj, "ready_ack", &s->ready_ack, err);

	s->has_ready_ack = !r;
	if (r && r != -ENOENT)
		return r;
	r = te_json_object(obj, "te", &te, err);
	s->te = !r;
	if (s->te && !absent(te, "mtu"))
		r = te_json_u64(te, "mtu", UINT16_MAX, &mtu, err);
	s->mtu = (unsigned)mtu;
	return r == -ENOENT ? 0 : r;
}

static int get_paths(const json_t *obj, struct te_shake *s, struct te_err *err)
{
	int r = get_name(obj, "local_nic_path", s->local_path, sizeof(s->local_path), err);

	if (!r)
		r = get_name(obj, "peer_nic_path", s->peer_path, sizeof(s->peer_path), err);
	return r;
}

static int parse_root(const char *text, size_t len, json_t **root, struct te_err *err)
{
	int r = te_json_parse(text, len, root, err);

	if (r || json_is_object(*root))
		return r;
	json_decref(*root);
	return te_fail(err, -EINVAL, "not a JSON object");
}

int te_shake_parse(const char *text, size_t len, struct te_shake *out, struct te_err *err)
{
	json_t *root;
	int r = parse_root(text, len, &root, err);

	if (r)
		return r;
	memset(out, 0, sizeof(*out));
	r = get_paths(root, out, err);
	if (!r)
		r = get_lid(root, out, err);
	if (!r)
		r = get_name(root, "local_gid", out->gid, sizeof(out->gid), err);
	if (!r)
		r = get_qps(root, out, err);
	if (!r)
		r = get_extras(root, out, err);
	if (!r)
		r = get_reply(root, out->reply, sizeof(out->reply), err);
	json_decref(root);
	return r;
}

int te_shake_parse_retire(const char *text, size_t len, struct te_shake *out, struct te_err *err)
{
	json_t *root;
	int r = parse_root(text, len, &root, err);

	if (r)
		return r;
	memset(out, 0, sizeof(*out));
	r = get_paths(root, out, err);
	if (!r)
		r = get_qps(root, out, err);
	json_decref(root);
	if (!r && (!*out->local_path || !*out->peer_path || !out->nqp))
		r = te_fail(err, -EINVAL,
			    "a retirement needs local_nic_path, peer_nic_path and qp_num");
	return r;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The _new setters fail on a NULL value, so that a failure anywhere ends in false here. */
static bool set(json_t *obj, const char *member, json_t *value)
{
	return !json_object_set_new(obj, member, value);
}

static json_t *qp_list(const struct te_shake *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->nqp; i++)
		if (json_array_append_new(list, json_integer(s->qp[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static bool set_common(json_t *obj, const struct te_shake *s)
{
	return set(obj, "local_nic_path", te_json_text(s->local_path)) &&
	       set(obj, "peer_nic_path", te_json_text(s->peer_path)) &&
	       set(obj, "qp_num", qp_list(s));
}

static char *finish(json_t *obj, bool good)
{
	char *text = good ? te_json_format(obj) : NULL;

	json_decref(obj);
	return text;
}

char *te_shake_format(const struct te_shake *s)
{
	json_t *obj = json_object();
	bool good = set_common(obj, s) && set(obj, "payload", json_string("")) &&
		    set(obj, "local_lid", json_integer(s->lid)) &&
		    set(obj, "local_gid", te_json_text(s->gid)) &&
		    set(obj, "reply_msg", te_json_text(s->reply));

	if (good && s->has_ready_ack)
		good = set(obj, "ready_ack", json_boolean(s->ready_ack));
	if (good && s->te)
		good = set(obj, "te",
			   s->mtu ? json_pack("{s:i}", "mtu", (int)s->mtu) : json_object());
	return finish(obj, good);
}

char *te_shake_format_retire(const struct te_shake *s)
{
	json_t *obj = json_object();

	return finish(obj, set_common(obj, s));
}

void te_shake_refuse(struct te_shake *s, const char *fmt, ...)
{
	va_list ap;

	memset(s, 0, sizeof(*s));
	va_start(ap, fmt);
	vsnprintf(s->reply, sizeof(s->reply), fmt, ap);
	va_end(ap);
}
