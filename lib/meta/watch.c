/*
 * watch.c - changes below a prefix: reconnecting, finding what was missed, and polling.
 *
 * A store's own watch may lose changes when its connection breaks or its history is cut. So each
 * (re)connection begins to receive first and lists afterwards (te_watch_resync): what changed in
 * between is found by comparing with what the callback knows.
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

int te_watch_put(struct te_watch *w, const char *key, const char *data, size_t len)
{
	struct te_meta_event ev = { .type = TE_META_PUT, .key = key, .data = data, .len = len };
	const struct te_key *old = te_keys_find(&w->known, key);
	char print[TE_META_TAG_MAX];

	te_fingerprint(data, len, print);
	if (old && strcmp(old->print, print) == 0)
		return 0;
	if (te_keys_set(&w->known, key, print))
		return -ENOMEM;
	return w->synced && w->cb(w->arg, &ev) != 0;
}

int te_watch_deleted(struct te_watch *w, const char *key)
{
	struct te_meta_event ev = { .type = TE_META_DELETED, .key = key };

	if (!te_keys_find(&w->known, key))
		return 0;
	te_keys_remove(&w->known, key);
	return w->cb(w->arg, &ev) != 0;
}

static int report_deleted(struct te_watch *w, const struct te_keys *now)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < w->known.n;) {
		char *key;

		if (te_keys_find(now, w->known.v[i].key)) {
			i++;
			continue;
		}
		key = strdup(w->known.v[i].key);
		rc = key ? te_watch_deleted(w, key) : -ENOMEM;
		free(key);
	}
	return rc;
}

/* A key that went away since the list is left to the event or the resync that follows. */
static int report_put(struct te_watch *w, const struct te_keys *now, struct te_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < now->n; i++) {
		const char *key = now->v[i].key;
		struct te_meta_value v = { 0 };

		rc = w->m->ops->get(w->m, key, &v, err);
		if (rc && rc != -ENOENT)
			return rc;
		rc = rc ? 0 : te_watch_put(w, key, v.data, v.len);
		te_meta_value_clear(&v);
	}
	return rc;
}

int te_watch_resync(struct te_watch *w, struct te_err *err)
{
	struct te_keys now = { 0 };
	int rc = w->m->ops->list(w->m, w->prefix, &now, err);

	if (!rc) {
		te_keys_sort(&now);
		rc = report_deleted(w, &now);
	}
	if (!rc)
		rc = report_put(w, &now, err);
	te_keys_clear(&now);
	if (rc < 0)
		return rc;
	w->synced = true;
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
	int backoff = 0, rc = te_watch_resync(w, err);

	if (rc < 0)
		return rc;
	te_info("watching '%s' of %s from now on", w->prefix, w->m->uri);
	for (;;) {
		uint64_t began = te_now();

		w->healthy = false;
		rc = run ? run(w->m, w, err) : te_watch_poll(w, err);
		if (rc > 0)
			return 0;
		if (hopeless(rc))
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
