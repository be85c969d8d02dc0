/* desc_store.c - descriptors in the metadata store, read and changed by commands. */
#include "desc_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double patience_s = 10;
/* Between tries: short at first, since whoever was faster is done already. */
enum { PAUSE_MIN_MS = 2, PAUSE_MAX_MS = 64 };
/* Before a change is read back: others who read before it have written by then, as a rule. They may
 * take longer where we did. */
enum { READ_BACK_MS = 60, READ_BACK_MAX_MS = 800, READ_BACK_TIMES = 4 };

int desc_store_open(const struct cli *cli, const struct te_conf *conf, bool need,
		    struct te_meta **out)
{
	struct te_err err = { 0 };
	int rc = te_meta_open(cli->metadata, conf, out, &err);

	if (rc)
		return cli_fail(rc == -EINVAL ? CLI_USAGE : CLI_FAIL, "%s", err.msg);
	/* Not te_meta_caps(): that may ask the store, which may be slow to say nothing. */
	if (!need || strcmp(te_meta_scheme(*out), "p2p") != 0)
		return CLI_OK;
	te_meta_close(*out);
	*out = NULL;
	return cli_fail(CLI_USAGE, "there is no metadata server: with P2PHANDSHAKE nothing is "
				   "stored; name one with -m or MC_METADATA_SERVER");
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Between half of ms and ms: those who collided part. */
static void pause_ms(unsigned ms)
{
	unsigned us = ms * 500 + arc4random_uniform(ms * 500);
	struct timespec ts = { .tv_nsec = (long)us * 1000 };

	nanosleep(&ts, NULL);
}

int desc_store_load(struct te_meta *m, const char *key, struct te_desc **out,
		    char tag[TE_META_TAG_MAX], struct te_err *err)
{
	struct te_meta_value v;
	int rc = te_meta_get(m, key, &v, err);

	if (rc)
		return rc;
	if (tag)
		snprintf(tag, TE_META_TAG_MAX, "%s", v.tag);
	rc = te_desc_parse(v.data, v.len, out, err);
	te_meta_value_clear(&v);
	return rc ? te_wrap(err, rc, "'%s'", key) : 0;
}

int desc_store_delete(struct te_meta *m, const char *key, const char *tag, struct te_err *err)
{
	return te_meta_del(m, key, *tag ? tag : NULL, err);
}

/* What an edit has found. */
struct work {
	struct te_meta *m;
	const char *key;
	const struct desc_edit *edit;
	struct te_desc *desc;
	char tag[TE_META_TAG_MAX]; /* "": no such key, or a store without tags */
	bool cas, wrote;
};

static int begin_new(struct work *w, struct te_err *err)
{
	w->desc = te_desc_new();
	return w->desc ? 0 : te_fail(err, -ENOMEM, "out of memory");
}

static int load(struct work *w, struct te_err *err)
{
	struct te_meta_value v;
	int rc = te_meta_get(w->m, w->key, &v, err);

	te_desc_free(w->desc);
	w->desc = NULL;
	w->tag[0] = '\0';
	if (rc)
		return rc == -ENOENT && w->edit->create ? begin_new(w, err) : rc;
	snprintf(w->tag, sizeof(w->tag), "%s", v.tag);
	rc = te_desc_parse(v.data, v.len, &w->desc, err);
	te_meta_value_clear(&v);
	if (rc && w->edit->mend)
		return begin_new(w, err);
	return rc ? te_wrap(err, rc, "'%s'", w->key) : 0;
}

/* Mooncake ends a value with a newline in redis and etcd, and not over http. */
static char *as_value(const struct te_meta *m, const struct te_desc *d)
{
	char *json = te_desc_format(d), *text = NULL;

	if (!json || strcmp(te_meta_scheme(m), "http") == 0)
		return json;
	if (asprintf(&text, "%s\n", json) < 0)
		text = NULL;
	free(json);
	return text;
}

static int put(struct work *w, struct te_err *err)
{
	struct te_meta_put opt = { 0 };
	char *text = as_value(w->m, w->desc);
	int rc;

	if (!text)
		return te_fail(err, -ENOMEM, "out of memory");
	if (w->cas && w->tag[0])
		opt.if_match = w->tag;
	else
		opt.if_absent = w->cas;
	rc = te_meta_put(w->m, w->key, text, strlen(text), &opt, NULL, err);
	free(text);
	return rc == -EEXIST || rc == -ESTALE ? -EAGAIN : rc;
}

static void warn_of_races(struct work *w)
{
	if (!w->wrote)
		cli_warn("%s has no compare-and-swap: what two hosts change at the same moment may "
			 "be lost (te-http-meta, etcd and redis have it)",
			 te_meta_uri(w->m));
}

/* took_s: from our read to our write. */
static void wait_for_others(double took_s)
{
	double ms = READ_BACK_MS + READ_BACK_TIMES * took_s * 1e3;

	pause_ms(ms < READ_BACK_MAX_MS ? (unsigned)ms : READ_BACK_MAX_MS);
}

/* -EAGAIN: to be tried again, or looked at again. */
static int attempt(struct work *w, struct te_err *err)
{
	double began = now_s();
	int rc = load(w, err);

	if (!rc)
		rc = w->edit->change(w->edit->arg, w->desc, err);
	if (rc <= 0)
		return rc ? rc : w->wrote;
	if (w->edit->dry_run)
		return 1;
	/* Now that the store has answered, it is known what it can do. */
	w->cas = te_meta_caps(w->m) & TE_META_CAS;
	if (!w->cas)
		warn_of_races(w);
	rc = put(w, err);
	if (rc)
		return rc;
	w->wrote = true;
	if (w->cas)
		return 1;
	wait_for_others(now_s() - began);
	return -EAGAIN;
}

int desc_store_edit(struct te_meta *m, const char *key, const struct desc_edit *edit,
		    struct te_desc **out, struct te_err *err)
{
	struct work w = { .m = m, .key = key, .edit = edit };
	double until = now_s() + patience_s;
	unsigned ms = PAUSE_MIN_MS, tries = 1;
	int rc;

	while ((rc = attempt(&w, err)) == -EAGAIN) {
		if (now_s() > until) {
			rc = te_fail(err, -EBUSY,
				     "cannot change '%s' in %s: others changed it each time "
				     "(%u tries in %.0f s)",
				     key, te_meta_uri(m), tries, patience_s);
			break;
		}
		pause_ms(ms);
		ms = ms < PAUSE_MAX_MS ? 2 * ms : ms;
		tries++;
	}
	if (rc < 0 || !out)
		te_desc_free(w.desc);
	else
		*out = w.desc;
	return rc;
}
