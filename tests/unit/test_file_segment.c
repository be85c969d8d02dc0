/* test_file_segment.c - names of segments of files, and the map of who mounted what. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file_segment.h"
#include "tap.h"

static struct te_meta *open_store(const char *cluster)
{
	struct te_meta *m = NULL;
	struct te_conf conf;

	te_conf_read(&conf);
	snprintf(conf.cluster_id, sizeof(conf.cluster_id), "%s", cluster);
	/* Nothing is asked of it. */
	if (te_meta_open("http://127.0.0.1:1", &conf, &m, NULL))
		abort();
	return m;
}

static void key_is(struct te_meta *m, const char *given, const char *want)
{
	struct te_err err = { 0 };
	char *key = NULL;
	int rc = file_segment_key(m, given, &key, &err);

	if (want)
		ok(rc == 0 && strcmp(key, want) == 0, "'%s' is '%s'", given, want);
	else
		ok(rc == -EINVAL && err.msg[0], "'%s' is refused: %s", given, err.msg);
	free(key);
}

static void keys(void)
{
	struct te_meta *m = open_store("");
	char *key;

	key_is(m, "disk0", "mooncake/nvmeof/disk0");
	key_is(m, "nvmeof/disk0", "mooncake/nvmeof/disk0");
	key_is(m, "//nvmeof/disk0", "mooncake/nvmeof/disk0");
	key_is(m, "mooncake/nvmeof/disk0", "mooncake/nvmeof/disk0");
	key_is(m, "pool/disk0", "mooncake/nvmeof/pool/disk0");
	key_is(m, "nvmeof", "mooncake/nvmeof/nvmeof");
	key_is(m, "", NULL);
	key_is(m, "/", NULL);
	key_is(m, "nvmeof/", NULL);
	key_is(m, "mooncake/nvmeof/", NULL);
	key_is(m, "mooncake/ram/n", NULL);
	key_is(m, "a\377", NULL);
	ok(!file_segment_key(m, "x/y", &key, NULL) && strcmp(file_segment_name(m, key), "x/y") == 0,
	   "the name comes back");
	free(key);
	te_meta_close(m);
	m = open_store("blue");
	key_is(m, "disk0", "mooncake/blue/nvmeof/disk0");
	key_is(m, "mooncake/blue/nvmeof/disk0", "mooncake/blue/nvmeof/disk0");
	key_is(m, "mooncake/blue/ram/disk0", NULL);
	te_meta_close(m);
}

static void path_is(const struct te_desc_buffer *b, const char *host, const char *want)
{
	const char *path = file_segment_mapped(b, host);

	ok(path && strcmp(path, want) == 0, "%s has it at %s", host, want);
}

static void maps(void)
{
	struct te_desc *d = te_desc_new();
	struct te_desc_buffer *b = te_desc_add_buffer(d);

	b->file_path = strdup("/a");
	ok(file_segment_file(d, "/a") == b && !file_segment_file(d, "/b"), "a file is found");
	ok(!file_segment_mapped(b, "h1") && file_segment_unmap(b, "h1") == 0, "nobody is there");
	ok(file_segment_map(b, "h1", "/x", NULL) == 1, "a host comes");
	ok(file_segment_map(b, "h1", "/x", NULL) == 0, "once");
	ok(file_segment_map(b, "h2", "/y", NULL) == 1, "another comes");
	ok(file_segment_map(b, "h3", "/z", NULL) == 1 && b->nmap == 3, "and one more");
	ok(file_segment_map(b, "h2", "/w", NULL) == 1 && b->nmap == 3, "one moves");
	path_is(b, "h2", "/w");
	ok(file_segment_unmap(b, "h1") == 1 && b->nmap == 2, "one goes");
	path_is(b, "h3", "/z");
	path_is(b, "h2", "/w");
	ok(file_segment_unmap(b, "h1") == 0, "who is gone is gone");
	te_desc_free(d);
}

int main(void)
{
	keys();
	maps();
	return tap_end();
}
