/* publish.c - our entries in the store: claiming the name, putting, the keeper that repeats and
 * heals, removal. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/engine.h"
#include "host/mem.h"

enum {
	CLAIM_TRIES = 5,
	BEAT_MAX_S = 4, /* so that an emptied store is filled again well within 10 s */
};

/* ---- what we say about ourselves ---------------------------------------------------------- */

struct collect {
	struct te_desc *d;
	const char *name;
	struct te_transport *own; /* that has a form of its own for buffers; NULL */
	bool failed;
};

static void add_region(void *arg, const struct te_region *r)
{
	struct collect *c = arg;
	struct te_desc_buffer *b;

	if (!r->remote || c->failed)
		return;
	if (c->own) {
		c->failed = c->own->ops->describe_region(c->own, r, c->d) < 0;
		return;
	}
	b = te_desc_add_buffer(c->d);
	if (b) {
		b->name = te_strdup(c->name);
		b->location = te_strdup(r->location);
		b->addr = r->addr;
		b->length = r->len;
	}
	c->failed = !b || !b->name || !b->location;
}

struct te_desc *te_publish_desc(struct te_engine *e)
{
	struct te_desc *d = te_desc_new();
	struct collect c = { .d = d, .name = e->name };

	if (!d)
		return NULL;
	d->name = te_strdup(e->name);
	d->server_name = te_strdup(e->name);
	d->protocol = te_strdup(e->published);
	for (size_t i = 0; i < TE_MAX_TRANSPORTS; i++)
		if (e->transports[i] && e->transports[i]->ops->describe) {
			e->transports[i]->ops->describe(e->transports[i], d);
			if (e->transports[i]->ops->describe_region)
				c.own = e->transports[i];
		}
	te_regions_each(e->regions, add_region, &c);
	if (!c.failed && d->name && d->server_name && d->protocol)
		return d;
	te_desc_free(d);
	return NULL;
}

/* Real engines end values with a newline in redis and etcd, and not over http (INTEROP 1.4). */
static char *as_value(const struct te_engine *e, char *json)
{
	char *text;

	if (!json || !strncmp(te_meta_scheme(e->meta), "http", 4))
		return json;
	text = te_asprintf("%s\n", json);
	free(json);
	return text;
}

static char *rpc_text(const struct te_engine *e)
{
	struct te_rpc_meta r = { .port = e->rpc_port };

	te_strlcpy(r.host, e->host, sizeof(r.host));
	return as_value(e, te_rpc_meta_format(&r));
}

/* ---- the name ----------------------------------------------------------------------------- */

/* Somebody else's living engine at the address of an rpc_meta value? */
static bool owner_lives(struct te_engine *e, const struct te_meta_value *v,
			struct te_rpc_meta *owner)
{
	char name[256];

	if (te_rpc_meta_parse(v->data, v->len, owner, NULL) < 0)
		return false;
	if (owner->port == e->rpc_port && !strcmp(owner->host, e->host))
		return false; /* our own address: the entry is ours, or its owner is dead */
	if (te_probe_address(&e->conf, owner->host, owner->port, name, NULL) < 0)
		return false;
	return !name[0] || !strcmp(name, e->name); /* another te took a dead owner's port? */
}

/* 1: an entry of a dead owner, tag is set; 0: none; -EADDRINUSE. */
static int look_at_name(struct te_engine *e, char tag[TE_META_TAG_MAX], struct te_err *err)
{
	struct te_rpc_meta owner;
	struct te_meta_value v;
	bool lives;
	int r = te_meta_get(e->meta, e->key_rpc, &v, err);

	tag[0] = '\0';
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	lives = owner_lives(e, &v, &owner);
	te_strlcpy(tag, v.tag, TE_META_TAG_MAX);
	te_meta_value_clear(&v);
	if (lives)
		return te_fail(err, -EADDRINUSE, "name in use by %s:%u: '%s'", owner.host,
			       owner.port, e->name);
	return 1;
}

static int make_keys(struct te_engine *e, struct te_err *err)
{
	free(e->key_rpc);
	free(e->key_ram);
	e->key_rpc = te_meta_key_rpc(e->meta, e->name);
	e->key_ram = te_meta_key_segment(e->meta, e->name);
	return e->key_rpc && e->key_ram ? 0
					: te_fail(err, -EINVAL, "bad segment name '%s'", e->name);
}

int te_publish_check_name(struct te_engine *e, struct te_err *err)
{
	char tag[TE_META_TAG_MAX];
	int r;

	if (e->p2p)
		return 0;
	r = make_keys(e, err);
	if (!r)
		r = look_at_name(e, tag, err);
	return r < 0 ? r : 0;
}

static int put_text(struct te_engine *e, const char *key, const char *text,
		    const struct te_meta_put *opt, struct te_err *err)
{
	struct te_meta_put o = opt ? *opt : (struct te_meta_put){ 0 };

	o.ttl_s = (unsigned)e->conf.ttl_s;
	atomic_fetch_add(&e->publications, 1);
	return te_meta_put(e->meta, key, text, strlen(text), &o, NULL, err);
}

/* Against others who want the name at this very moment. */
static int claim(struct te_engine *e, const char *text, struct te_err *err)
{
	bool cas = te_meta_caps(e->meta) & TE_META_CAS;
	char tag[TE_META_TAG_MAX];
	int r = 0;

	for (int i = 0; i < CLAIM_TRIES; i++) {
		struct te_meta_put opt = { 0 };

		r = look_at_name(e, tag, err);
		if (r < 0)
			return r;
		if (cas && !r)
			opt.if_absent = true;
		else if (cas && tag[0])
			opt.if_match = tag;
		r = put_text(e, e->key_rpc, text, &opt, err);
		if (r != -EEXIST && r != -ESTALE)
			return r;
	}
	return te_wrap(err, r, "cannot claim the name '%s'", e->name);
}

int te_publish_first(struct te_engine *e, struct te_err *err)
{
	char *text;
	int r;

	if (e->p2p)
		return make_keys(e, err);
	text = rpc_text(e);
	if (!text)
		return te_fail(err, -ENOMEM, "out of memory");
	r = claim(e, text, err);
	if (r < 0) {
		free(text);
		return r;
	}
	pthread_mutex_lock(&e->publish_lock);
	e->published_rpc = text;
	pthread_mutex_unlock(&e->publish_lock);
	return te_publish_ram(e, err);
}

int te_publish_ram(struct te_engine *e, struct te_err *err)
{
	char *text;
	int r;

	if (e->p2p || e->initiator_only)
		return 0;
	/* The text is made under the lock, so that a later one is never overwritten by an earlier
	 * one. */
	pthread_mutex_lock(&e->publish_lock);
	text = as_value(e, te_engine_describe(e));
	r = text ? put_text(e, e->key_ram, text, NULL, err)
		 : te_fail(err, -ENOMEM, "out of memory");
	if (!r) {
		free(e->published_ram);
		e->published_ram = text;
	} else {
		free(text);
	}
	pthread_mutex_unlock(&e->publish_lock);
	return r;
}

static void wake_keeper(struct te_engine *e)
{
	uint64_t one = 1;

	if (e->keeper_fd >= 0 && write(e->keeper_fd, &one, sizeof(one)) < 0)
		te_trace("the keeper is awake already");
}

void te_publish_soon(struct te_engine *e)
{
	atomic_store(&e->stale, true);
	wake_keeper(e);
}

/* More than fit are forgotten: they are asked for again. */
void te_publish_fetch_soon(struct te_engine *e, const char *segment)
{
	bool known = false;
	size_t i;

	pthread_mutex_lock(&e->news_lock);
	for (i = 0; i < ARRAY_SIZE(e->news); i++)
		known |= e->news[i] && !strcmp(e->news[i], segment);
	for (i = 0; i < ARRAY_SIZE(e->news) && !known; i++)
		if (!e->news[i]) {
			e->news[i] = te_strdup(segment);
			known = true;
		}
	pthread_mutex_unlock(&e->news_lock);
	wake_keeper(e);
}

/* ---- the keeper --------------------------------------------------------------------------- */

enum seen { OURS, ABSENT, FOREIGN, UNKNOWN };

static enum seen look_at(struct te_engine *e, const char *key, const char *text)
{
	struct te_meta_value v;
	struct te_err err;
	enum seen seen;
	int r = te_meta_get(e->meta, key, &v, &err);

	if (r == -ENOENT)
		return ABSENT;
	if (r < 0) {
		te_warn("cannot look after '%s': %s", key, err.msg);
		return UNKNOWN;
	}
	seen = v.len == strlen(text) && !memcmp(v.data, text, v.len) ? OURS : FOREIGN;
	te_meta_value_clear(&v);
	return seen;
}

/* One entry: repeat it (that renews its TTL) while it is ours, put it again when it is gone. */
static void tend(struct te_engine *e, const char *key, const char *text, bool ttl)
{
	enum seen seen = look_at(e, key, text);
	struct te_err err;

	if (seen == FOREIGN && !e->told_foreign)
		te_warn("'%s' was changed by somebody else; leaving it alone", key);
	if (seen == FOREIGN)
		e->told_foreign = true;
	if (seen != ABSENT && !(seen == OURS && ttl))
		return;
	if (seen == ABSENT)
		te_warn("'%s' is gone from %s, putting it again", key, te_meta_uri(e->meta));
	if (put_text(e, key, text, NULL, &err) < 0)
		te_warn("cannot publish '%s': %s", key, err.msg);
}

static void beat(struct te_engine *e)
{
	bool ttl = e->conf.ttl_s && (te_meta_caps(e->meta) & TE_META_TTL);

	pthread_mutex_lock(&e->publish_lock);
	if (e->published_rpc)
		tend(e, e->key_rpc, e->published_rpc, ttl);
	if (e->published_ram && !atomic_load(&e->closing))
		tend(e, e->key_ram, e->published_ram, ttl);
	pthread_mutex_unlock(&e->publish_lock);
}

static void refresh_segments(struct te_engine *e)
{
	size_t n;

	pthread_rwlock_rdlock(&e->segs_lock);
	n = e->nsegs;
	pthread_rwlock_unlock(&e->segs_lock);
	for (size_t i = 1; i < n && !atomic_load(&e->closing); i++) {
		struct te_err err;
		int32_t id = -1;

		pthread_rwlock_rdlock(&e->segs_lock);
		if (e->segs[i])
			id = e->segs[i]->id;
		pthread_rwlock_unlock(&e->segs_lock);
		if (id > 0 && te_segment_refresh(e, id, &err) < 0)
			te_warn("cannot refresh: %s", err.msg);
	}
}

/* Things that happen every so often; ns, 0 = never. */
struct clockwork {
	uint64_t every;
	uint64_t due;
	void (*run)(struct te_engine *e);
};

static uint64_t run_due(struct te_engine *e, struct clockwork *c, size_t n)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < n; i++) {
		if (!c[i].every)
			continue;
		if (!c[i].due) {
			c[i].due = te_now() + c[i].every;
		} else if (te_now() >= c[i].due) {
			c[i].run(e);
			c[i].due = te_now() + c[i].every;
		}
		next = MIN(next, c[i].due);
	}
	return next;
}

/* A third of the TTL: two beats may fail before an entry goes. */
static uint64_t beat_interval(const struct te_engine *e)
{
	const uint64_t max = BEAT_MAX_S * TE_NSEC_PER_SEC;
	uint64_t ttl = (uint64_t)e->conf.ttl_s * TE_NSEC_PER_SEC;

	if (e->p2p || e->initiator_only)
		return 0;
	return ttl ? MIN(ttl / 3, max) : max;
}

static uint64_t metric_interval(const struct te_engine *e)
{
	return e->conf.metric ? (uint64_t)e->conf.metric_interval_s * TE_NSEC_PER_SEC : 0;
}

static int32_t segment_id(struct te_engine *e, const char *name)
{
	int32_t id = -1;

	pthread_rwlock_rdlock(&e->segs_lock);
	for (size_t i = 1; i < e->nsegs && id < 0; i++)
		if (e->segs[i] && !strcmp(e->segs[i]->name, name))
			id = e->segs[i]->id;
	pthread_rwlock_unlock(&e->segs_lock);
	return id;
}

static void fetch_news(struct te_engine *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(e->news) && !atomic_load(&e->closing); i++) {
		struct te_err err;
		int32_t id;
		char *name;

		pthread_mutex_lock(&e->news_lock);
		name = e->news[i];
		e->news[i] = NULL;
		pthread_mutex_unlock(&e->news_lock);
		id = name ? segment_id(e, name) : -1;
		if (id > 0 && te_segment_refresh(e, id, &err) < 0)
			te_info("cannot fetch the descriptor of segment '%s': %s", name, err.msg);
		free(name);
	}
}

/* NICs have come or gone. A store that does not answer is asked again with the next beat. */
static void publish_again(struct te_engine *e)
{
	struct te_err err;

	if (te_publish_ram(e, &err) < 0) {
		te_warn("cannot publish our NICs: %s", err.msg);
		atomic_store(&e->stale, true);
	}
}

static void *keeper_main(void *arg)
{
	struct te_engine *e = arg;
	eventfd_t count;
	struct clockwork c[] = {
		{ .every = beat_interval(e), .run = beat },
		{ .every = metric_interval(e), .run = te_stats_log },
		{ .every = (uint64_t)e->conf.metadata_refresh_s * TE_NSEC_PER_SEC,
		  .run = refresh_segments },
	};

	while (!atomic_load(&e->closing)) {
		uint64_t next = run_due(e, c, ARRAY_SIZE(c));
		struct pollfd p = { .fd = e->keeper_fd, .events = POLLIN };

		if (atomic_exchange(&e->stale, false))
			publish_again(e);
		fetch_news(e);
		if (poll(&p, 1, next == UINT64_MAX ? -1 : te_ms_until(next)) > 0 &&
		    !atomic_load(&e->closing))
			eventfd_read(e->keeper_fd, &count);
	}
	return NULL;
}

int te_publish_start_keeper(struct te_engine *e, struct te_err *err)
{
	int r;

	r = te_thread_start(&e->keeper, "te-keeper", keeper_main, e);
	if (r)
		return te_fail(err, r, "cannot start a thread: %s", strerror(-r));
	e->has_keeper = true;
	return 0;
}

/* Only what is still ours is deleted; false: the store does not answer, spare it the rest. */
static bool take_out(struct te_engine *e, const char *key, char *text)
{
	struct te_err err;
	enum seen seen;

	if (!text)
		return true;
	seen = look_at(e, key, text);
	if (seen == OURS && te_meta_del(e->meta, key, NULL, &err) < 0)
		te_warn("cannot remove '%s': %s", key, err.msg);
	return seen != UNKNOWN;
}

void te_publish_stop(struct te_engine *e)
{
	uint64_t one = 1;

	if (e->has_keeper) {
		if (write(e->keeper_fd, &one, sizeof(one)) < 0)
			te_error("cannot wake the keeper: %s", strerror(errno));
		pthread_join(e->keeper, NULL);
		e->has_keeper = false;
	}
	pthread_mutex_lock(&e->publish_lock);
	if (take_out(e, e->key_rpc, e->published_rpc))
		take_out(e, e->key_ram, e->published_ram);
	free(e->published_rpc);
	free(e->published_ram);
	e->published_rpc = e->published_ram = NULL;
	pthread_mutex_unlock(&e->publish_lock);
}
