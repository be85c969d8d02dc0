/*
 * watch.c - changes below a prefix: reconnecting, finding what was missed, and polling.
 *
 * A store's own watch may lose changes when its connection breaks or its history is cut. So each
 * (re)connection begins to receive first and lists afterwards (te_watch_resync): what changed in
 * between is found by comparing tags with what was reported before.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "meta/ops.h"

enum { POLL_MS = 1000, BACKOFF_MIN_MS = 50, BACKOFF_MAX_MS = 1000, LOST_MAX_S = 15 };

int te_watch_wait(const struct te_watch *w, int ms)
{
	struct pollfd p = { .fd = w->stop_fd, .events = POLLIN };

	return poll(&p, 1, ms) > 0;
}

int te_watch_put(struct te_watch *w, const char *key, const char *tag, const char *data, size_t len)
{
	struct te_meta_event ev = { .type = TE_META_PUT, .key = key, .data = data, .len = len };
	char word[TE_META_TAG_MAX];

	if (!tag) {
		te_fingerprint(data, len, word);
		tag = word;
	}
	if (te_keys_set(&w->known, key, tag))
		return -ENOMEM;
	return w->cb(w->arg, &ev) != 0;
}

int te_watch_deleted(struct te_watch *w, const char *key)
{
	struct te_meta_event ev = { .type = TE_META_DELETED, .key = key };

	te_keys_remove(&w->known, key);
	return w->cb(w->arg, &ev) != 0;
}

/* 0, 1 or negative as te_watch_put(). Keys that vanish in between are left to the next event or
 * resync. */
static int report_changed(struct te_watch *w, const struct te_key *k, struct te_err *err)
{
	struct te_meta_value v = { 0 };
	int rc = w->m->ops->get(w->m, k->key, &v, err);

	if (rc)
		return rc == -ENOENT ? 0 : rc;
	rc = te_watch_put(w, k->key, k->tag, v.data, v.len);
	te_meta_value_clear(&v);
	return rc;
}

static int report_differences(struct te_watch *w, const struct te_keys *now, struct te_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < w->known.n;) {
		if (te_keys_find(now, w->known.v[i].key)) {
			i++;
			continue;
		}
		char *key = strdup(w->known.v[i].key);

		rc = key ? te_watch_deleted(w, key) : -ENOMEM;
		free(key);
	}
	for (size_t i = 0; !rc && i < now->n; i++) {
		const struct te_key *old = te_keys_find(&w->known, now->v[i].key);

		if (!old || !old->tag || !now->v[i].tag || strcmp(old->tag, now->v[i].tag) != 0)
			rc = report_changed(w, &now->v[i], err);
	}
	return rc;
}

/* For stores that list keys without tags. A key that is gone by now keeps none and differs from
 * anything. */
static int fetch_tags(struct te_meta *m, struct te_keys *keys, struct te_err *err)
{
	for (size_t i = 0; i < keys->n; i++) {
		struct te_meta_value v = { 0 };
		int rc;

		if (keys->v[i].tag)
			continue;
		rc = m->ops->get(m, keys->v[i].key, &v, err);
		if (rc && rc != -ENOENT)
			return rc;
		if (!rc) {
			te_fingerprint(v.data, v.len, v.tag);
			keys->v[i].tag = strdup(v.tag);
		}
		te_meta_value_clear(&v);
	}
	return 0;
}

int te_watch_resync(struct te_watch *w, struct te_err *err)
{
	struct te_keys now = { 0 };
	int rc = w->m->ops->list(w->m, w->prefix, &now, err);

	if (!rc) {
		te_keys_sort(&now);
		rc = fetch_tags(w->m, &now, err);
	}
	if (!rc && w->synced) {
		rc = report_differences(w, &now, err);
	} else if (!rc) {
		w->known = now;
		now = (struct te_keys){ 0 };
		w->synced = true;
		te_info("watching '%s' of %s from now on", w->prefix, w->m->uri);
	}
	te_keys_clear(&now);
	if (rc >= 0)
		w->healthy = true;
	return rc;
}

int te_watch_poll(struct te_watch *w, struct te_err *err)
{
	int rc;

	do {
		rc = te_watch_resync(w, err);
		if (!rc)
			rc = te_watch_wait(w, POLL_MS);
	} while (!rc);
	return rc;
}

static bool hopeless(int rc)
{
	return rc == -EOPNOTSUPP || rc == -EACCES || rc == -ENOMEM || rc == -EINVAL;
}

static int follow(struct te_watch *w, struct te_err *err)
{
	int (*run)(struct te_meta *, struct te_watch *, struct te_err *) = w->m->ops->watch;
	uint64_t give_up = 0;
	int backoff = 0;

	for (;;) {
		uint64_t began = te_now();
		int rc;

		w->healthy = false;
		rc = run ? run(w->m, w, err) : te_watch_poll(w, err);
		if (rc > 0)
			return 0;
		if (hopeless(rc) || !w->synced)
			return rc;
		if (w->healthy)
			give_up = 0;
		if (te_now() - began > TE_NSEC_PER_SEC)
			backoff = 0;
		if (!give_up)
			give_up = te_now() + LOST_MAX_S * TE_NSEC_PER_SEC;
		else if (te_now() > give_up)
			return rc;
		te_info("watching '%s' of %s: trying again after: %s", w->prefix, w->m->uri,
			err->msg);
		if (te_watch_wait(w, backoff))
			return 0;
		backoff = backoff ? MIN(2 * backoff, BACKOFF_MAX_MS) : BACKOFF_MIN_MS;
	}
}

int te_meta_watch(struct te_meta *m, const char *prefix,
		  int (*cb)(void *arg, const struct te_meta_event *ev), void *arg, int stop_fd,
		  struct te_err *err)
{
	struct te_watch w = { .m = m, .prefix = prefix, .cb = cb, .arg = arg, .stop_fd = stop_fd };
	struct te_err why = { 0 };
	int rc = follow(&w, &why);

	te_keys_clear(&w.known);
	return rc ? te_fail(err, rc, "cannot watch '%s' of %s: %s", prefix, m->uri,
			    *why.msg ? why.msg : strerror(-rc))
		  : 0;
}
