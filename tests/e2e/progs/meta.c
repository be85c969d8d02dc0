/*
 * meta.c - one handle on a store, used by many threads and over its restarts.
 *
 * meta cas STORE    threads count up one key by compare-and-swap: no step may be lost
 * meta calls STORE  each line on stdin is "put KEY VALUE", "ttl KEY VALUE" (600 s), "get KEY" or
 *                   "del KEY"; a line each with the result
 */
#include "prog.h"

#include <errno.h>
#include <pthread.h>

enum { THREADS = 6, STEPS = 25 };

static struct te_meta *meta;
static const char key[] = "mooncake/counter";

/* 0, -ESTALE, or what went wrong. */
static int step(struct te_err *err)
{
	struct te_meta_value v;
	char text[32];
	int rc = te_meta_get(meta, key, &v, err);

	if (rc)
		return rc;
	snprintf(text, sizeof(text), "%d", (int)strtol(v.data, NULL, 10) + 1);
	rc = te_meta_put(meta, key, text, strlen(text), &(struct te_meta_put){ .if_match = v.tag },
			 NULL, err);
	te_meta_value_clear(&v);
	return rc;
}

static void *count(void *arg)
{
	struct te_err err = { 0 };
	int done = 0, rc = 0;

	(void)arg;
	while (done < STEPS && (rc == 0 || rc == -ESTALE)) {
		rc = step(&err);
		done += rc == 0;
	}
	if (done < STEPS)
		fprintf(stderr, "%s\n", err.msg);
	return NULL;
}

static void cas(void)
{
	pthread_t thread[THREADS];
	struct te_meta_value v = { 0 };
	struct te_err err = { 0 };

	ok(!te_meta_put(meta, key, "0", 1, NULL, NULL, &err), "begin: %s", err.msg);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, count, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ok(!te_meta_get(meta, key, &v, &err) && strtol(v.data, NULL, 10) == THREADS * STEPS,
	   "%d threads made %d steps: %s", THREADS, THREADS * STEPS, v.data);
	te_meta_value_clear(&v);
}

static void call(const char *what, const char *name, const char *value)
{
	struct te_meta_value v = { 0 };
	struct te_err err = { 0 };

	if (strcmp(what, "put") == 0)
		te_meta_put(meta, name, value, strlen(value), NULL, NULL, &err);
	else if (strcmp(what, "ttl") == 0)
		te_meta_put(meta, name, value, strlen(value), &(struct te_meta_put){ .ttl_s = 600 },
			    NULL, &err);
	else if (strcmp(what, "get") == 0)
		te_meta_get(meta, name, &v, &err);
	else
		te_meta_del(meta, name, NULL, &err);
	printf("%s %s\n", what, err.code ? err.msg : v.data ? v.data : "done");
	te_meta_value_clear(&v);
}

static void calls(void)
{
	char line[256], what[8], name[64], value[64];

	while (fgets(line, sizeof(line), stdin)) {
		value[0] = '\0';
		if (sscanf(line, "%7s %63s %63s", what, name, value) >= 2)
			call(what, name, value);
	}
}

int main(int argc, char **argv)
{
	struct te_err err = { 0 };
	struct te_conf conf;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	te_conf_read(&conf);
	if (te_meta_open(argv[2], &conf, &meta, &err))
		die("te_meta_open", &err);
	if (strcmp(argv[1], "cas") == 0)
		cas();
	else
		calls();
	te_meta_close(meta);
	return strcmp(argv[1], "cas") == 0 ? tap_end() : 0;
}
