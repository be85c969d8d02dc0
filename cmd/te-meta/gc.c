/*
 * gc.c - gc: entries whose owner is dead.
 *
 * Each rpc_meta entry names the handshake port of a segment's owner. Tags are read before the owner
 * is asked, and deleting compares them: an owner that comes back meanwhile keeps its entries.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "te-meta.h"

enum { THREADS = 16 };
static const char kind[] = "rpc_meta/";

struct work { /* shared by the threads that ask */
	const struct te_conf *conf;
	struct owner *list;
	size_t n;
	_Atomic size_t next; /* relaxed: hands out numbers only; joining publishes the results */
};

/* Reads the tag of key into the owner's place i. -ENOENT is left to the caller. */
static int note_key(struct cmd *c, struct owner *o, int i, char *key, struct te_meta_value *v,
		    struct te_err *err)
{
	int rc = key ? te_meta_get(c->meta, key, v, err) : te_fail(err, -1, "out of memory");

	if (rc) {
		free(key);
		return rc;
	}
	o->key[i] = key;
	snprintf(o->tag[i], sizeof(o->tag[i]), "%s", v->tag);
	return 0;
}

/* false: somebody deleted it meanwhile, or it is of no use (said on stderr). */
static bool collect(struct cmd *c, const char *key, const char *name, struct owner *o)
{
	struct te_meta_value v = { 0 };
	struct te_err err = { 0 };

	*o = (struct owner){ .name = strdup(name) };
	if (!o->name || note_key(c, o, 0, strdup(key), &v, &err) ||
	    te_rpc_meta_parse(v.data, v.len, &o->at, &err)) {
		cli_fail(CLI_FAIL, "'%s' is left alone: %s", key, err.msg);
		te_meta_value_clear(&v);
		return false;
	}
	te_meta_value_clear(&v);
	/* Without a descriptor there is one key less to delete. */
	if (note_key(c, o, 1, te_meta_key_segment(c->meta, name), &v, NULL) == 0)
		te_meta_value_clear(&v);
	return true;
}

static void owner_clear(struct owner *o)
{
	free(o->name);
	free(o->key[0]);
	free(o->key[1]);
}

static void *ask(void *arg)
{
	struct work *w = arg;
	size_t i;

	while ((i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed)) < w->n) {
		struct owner *o = &w->list[i];

		o->state = owner_probe(w->conf, o->name, &o->at, o->reason, sizeof(o->reason));
	}
	return NULL;
}

static void ask_all(const struct te_conf *conf, struct owner *list, size_t n)
{
	struct work w = { .conf = conf, .list = list, .n = n };
	pthread_t thread[THREADS];
	size_t started = 0;

	while (started < THREADS && started + 1 < n &&
	       pthread_create(&thread[started], NULL, ask, &w) == 0)
		started++;
	ask(&w);
	while (started)
		pthread_join(thread[--started], NULL);
}

/* The descriptor first: should the second deletion fail, the next gc finds the rest. */
static int delete_entries(struct cmd *c, struct owner *o)
{
	struct te_err err = { 0 };

	for (int i = 1; i >= 0; i--) {
		if (o->key[i] && te_meta_del(c->meta, o->key[i], o->tag[i], &err)) {
			snprintf(o->failure, sizeof(o->failure), "%s", err.msg);
			return cli_error(&err);
		}
	}
	o->deleted = true;
	return CLI_OK;
}

static int judge(struct cmd *c, struct owner *list, size_t n)
{
	int status = CLI_OK;

	ask_all(&c->conf, list, n);
	for (size_t i = 0; i < n && c->delete; i++)
		if (list[i].state == OWNER_DEAD && delete_entries(c, &list[i]) != CLI_OK)
			status = CLI_FAIL;
	c->print->owners(list, n, c->delete);
	return status;
}

int verb_gc(struct cmd *c)
{
	const char *prefix = prefix_of(c);
	struct strings keys = { 0 };
	struct owner *list;
	size_t n = 0;
	int status;

	status = list_keys(c, prefix, &keys);
	list = calloc(keys.n + 1, sizeof(*list));
	if (!list)
		status = cli_fail(CLI_FAIL, "out of memory");
	for (size_t i = 0; status == CLI_OK && i < keys.n; i++) {
		const char *cluster = te_meta_prefix(c->meta), *key = keys.v[i];
		size_t skip = strlen(cluster) + strlen(kind);

		if (strncmp(key, cluster, strlen(cluster)) != 0 ||
		    strncmp(key + strlen(cluster), kind, strlen(kind)) != 0)
			continue;
		if (collect(c, key, key + skip, &list[n]))
			n++;
		else
			owner_clear(&list[n]);
	}
	if (status == CLI_OK)
		status = judge(c, list, n);
	for (size_t i = 0; i < n; i++)
		owner_clear(&list[i]);
	free(list);
	strings_clear(&keys);
	return status;
}
