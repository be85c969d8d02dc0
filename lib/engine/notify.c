/* notify.c - notifications (handshake type 2) in and out, and probes (type 3). */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/engine.h"
#include "host/rpc.h"

#define PROBE_TIMEOUT (2 * TE_NSEC_PER_SEC)

struct letter {
	struct letter *next;
	int32_t target;
	char *name, *msg;
};

/* Sends what completed batches left behind, so that no completion waits for the network. */
struct te_courier {
	pthread_mutex_t lock; /* everything below */
	pthread_cond_t wake;
	struct letter *first, **last;
	bool stop, running;
	pthread_t thread;

	pthread_mutex_t inbox_lock; /* everything below */
	struct te_notify *inbox;
	size_t n;
	uint64_t dropped;
};

/* ---- out ---------------------------------------------------------------------------------- */

static uint64_t rpc_until(const struct te_engine *e)
{
	return te_now() + (uint64_t)(MIN(5.0, e->conf.transfer_timeout_s) * 1e9);
}

static char *segment_name(struct te_engine *e, int32_t id)
{
	struct te_seg *seg;
	char *name;

	pthread_rwlock_rdlock(&e->segs_lock);
	seg = te_seg_find(e, id);
	name = seg ? te_strdup(seg->name) : NULL;
	pthread_rwlock_unlock(&e->segs_lock);
	return name;
}

static char *notify_body(const char *name, const char *msg)
{
	json_t *j = json_pack("{s:s, s:s}", "name", name, "notify_msg", msg);
	char *text = j ? te_json_format(j) : NULL;

	json_decref(j);
	return text;
}

/* A reply with an empty notify_msg is a refusal (INTEROP 2.3). */
static int check_reply(const char *reply, size_t len, const char *segment, struct te_err *err)
{
	const char *word;
	json_t *j;
	int r = te_json_parse(reply, len, &j, err);

	if (r < 0)
		return te_wrap(err, r, "reply of segment '%s' to a notification", segment);
	r = te_json_str(j, "notify_msg", &word, err);
	if (!r && !*word)
		r = te_fail(err, -EREMOTEIO, "segment '%s' refused the notification", segment);
	json_decref(j);
	return r < 0 ? r : 0;
}

static int send_to(struct te_engine *e, const char *segment, const char *body, struct te_err *err)
{
	struct te_rpc_meta at;
	char *reply = NULL;
	size_t len;
	int r = te_find_owner(e, segment, &at, err);

	if (!r)
		r = te_rpc_call(&e->conf, at.host, at.port, TE_RPC_NOTIFY, body, rpc_until(e),
				&reply, &len, err);
	if (!r)
		r = check_reply(reply, len, segment, err);
	free(reply);
	if (!r)
		atomic_fetch_add(&e->notifications, 1);
	return r;
}

int te_notify_send(struct te_engine *e, int32_t id, const char *name, const char *msg,
		   struct te_err *err)
{
	char *segment = segment_name(e, id), *body;
	int r;

	if (!segment)
		return te_fail(err, -EBADF, "unknown segment id %d", id);
	body = notify_body(name ? name : "", msg ? msg : "");
	r = body ? send_to(e, segment, body, err)
		 : te_fail(err, -EINVAL, "notification is not valid UTF-8");
	free(body);
	free(segment);
	return r;
}

static struct letter *next_letter(struct te_courier *c)
{
	struct letter *l;

	pthread_mutex_lock(&c->lock);
	while (!c->first && !c->stop)
		pthread_cond_wait(&c->wake, &c->lock);
	l = c->stop ? NULL : c->first;
	if (l) {
		c->first = l->next;
		if (!c->first)
			c->last = &c->first;
	}
	pthread_mutex_unlock(&c->lock);
	return l;
}

static void letter_free(struct letter *l)
{
	free(l->name);
	free(l->msg);
	free(l);
}

static void *courier_main(void *arg)
{
	struct te_engine *e = arg;
	struct letter *l;

	while ((l = next_letter(e->courier))) {
		struct te_err err;

		if (te_notify_send(e, l->target, l->name, l->msg, &err) < 0)
			te_warn("notification was not delivered: %s", err.msg);
		letter_free(l);
	}
	return NULL;
}

void te_courier_post(struct te_engine *e, int32_t target, char *name, char *msg)
{
	struct te_courier *c = e->courier;
	struct letter *l = calloc(1, sizeof(*l));

	if (!l) {
		te_error("out of memory: a notification is lost");
		free(name);
		free(msg);
		return;
	}
	*l = (struct letter){ .target = target, .name = name, .msg = msg };
	pthread_mutex_lock(&c->lock);
	if (!c->running && !c->stop)
		c->running = !te_thread_start(&c->thread, "te-courier", courier_main, e);
	*c->last = l;
	c->last = &l->next;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
}

int te_courier_start(struct te_engine *e, struct te_err *err)
{
	struct te_courier *c = calloc(1, sizeof(*c));

	if (!c)
		return te_fail(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->inbox_lock, NULL);
	pthread_cond_init(&c->wake, NULL);
	c->last = &c->first;
	e->courier = c;
	return 0;
}

/* Joins the thread; the object stays until te_courier_free(), because batches may still end. */
void te_courier_stop(struct te_engine *e)
{
	struct te_courier *c = e->courier;
	bool running;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	running = c->running;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	if (running)
		pthread_join(c->thread, NULL);
	c->running = false;
}

void te_courier_free(struct te_engine *e)
{
	struct te_courier *c = e->courier;

	if (!c)
		return;
	while (c->first) {
		struct letter *next = c->first->next;

		letter_free(c->first);
		c->first = next;
	}
	te_notify_free(c->inbox, c->n);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->inbox_lock);
	pthread_mutex_destroy(&c->lock);
	free(c);
	e->courier = NULL;
}

/* ---- in ----------------------------------------------------------------------------------- */

bool te_notify_is_object(const char *body, size_t len)
{
	json_t *j;
	bool is;

	if (te_json_parse(body, len, &j, NULL) < 0)
		return false;
	is = json_is_object(j);
	json_decref(j);
	return is;
}

static bool keep(struct te_courier *c, const char *name, const char *msg)
{
	struct te_notify n = { .name = te_strdup(name), .msg = te_strdup(msg) };
	bool ok = n.name && n.msg;

	pthread_mutex_lock(&c->inbox_lock);
	if (!c->inbox)
		c->inbox = calloc(TE_NOTIFY_QUEUE, sizeof(*c->inbox));
	ok = ok && c->inbox && c->n < TE_NOTIFY_QUEUE;
	if (ok)
		c->inbox[c->n++] = n;
	else
		c->dropped++;
	pthread_mutex_unlock(&c->inbox_lock);
	if (ok)
		return true;
	free(n.name);
	free(n.msg);
	return false;
}

char *te_notify_handle(struct te_engine *e, const char *body, size_t len)
{
	const char *name, *msg;
	char *answer = NULL;
	json_t *j;

	if (te_json_parse(body, len, &j, NULL) < 0)
		return NULL;
	if (e->courier && !te_json_str(j, "name", &name, NULL) &&
	    !te_json_str(j, "notify_msg", &msg, NULL))
		answer = te_strdup(keep(e->courier, name, msg)
					   ? "{\"name\":\"\",\"notify_msg\":\"success\"}"
					   : "{\"name\":\"\",\"notify_msg\":\"\"}");
	json_decref(j);
	return answer;
}

int te_notify_recv(struct te_engine *e, struct te_notify **out, uint64_t *dropped)
{
	struct te_courier *c = e->courier;
	size_t n;

	pthread_mutex_lock(&c->inbox_lock);
	*out = c->inbox;
	n = c->n;
	c->inbox = NULL;
	c->n = 0;
	if (dropped)
		*dropped = c->dropped;
	pthread_mutex_unlock(&c->inbox_lock);
	return (int)n;
}

void te_notify_free(struct te_notify *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].name);
		free(list[i].msg);
	}
	free(list);
}

/* ---- probes ------------------------------------------------------------------------------- */

/* Exactly the real answer, unless the asker shows that it is te: then our name is added. */
char *te_probe_handle(struct te_engine *e, const char *body, size_t len)
{
	json_t *j, *reply;
	char *text;
	bool te;

	if (te_json_parse(body, len, &j, NULL) < 0)
		return NULL;
	te = json_object_get(j, "te") != NULL;
	json_decref(j);
	if (!te)
		return te_strdup("{\"status\":\"success\"}");
	reply = json_pack("{s:s, s:{s:s}}", "status", "success", "te", "name",
			  atomic_load(&e->ready) ? e->name : "");
	text = reply ? te_json_format(reply) : NULL;
	json_decref(reply);
	return text;
}

static void read_probe_name(const char *reply, size_t len, char *out)
{
	const char *name;
	json_t *j, *te;

	out[0] = '\0';
	if (te_json_parse(reply, len, &j, NULL) < 0)
		return;
	if (!te_json_object(j, "te", &te, NULL) && !te_json_str(te, "name", &name, NULL))
		te_strlcpy(out, name, 256);
	json_decref(j);
}

int te_probe_address(const struct te_conf *conf, const char *host, unsigned port, char *name_out,
		     struct te_err *err)
{
	uint64_t until = te_now() + MIN(PROBE_TIMEOUT, (uint64_t)(conf->transfer_timeout_s * 1e9));
	char *reply;
	size_t len;
	int r = te_rpc_call(conf, host, port, TE_RPC_PROBE, "{\"te\":{}}", until, &reply, &len,
			    err);

	if (r < 0)
		return r;
	if (name_out)
		read_probe_name(reply, len, name_out);
	free(reply);
	return 0;
}

int te_probe(struct te_engine *e, const char *name, struct te_err *err)
{
	struct te_rpc_meta at;
	int r = te_find_owner(e, name, &at, err);

	if (!r)
		r = te_probe_address(&e->conf, at.host, at.port, NULL, err);
	return r < 0 ? te_wrap(err, r, "segment '%s'", name) : 0;
}
