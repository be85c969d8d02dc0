/* test_meta.c - metadata stores: addresses, keys, rpc_meta, sets of keys, base64, P2P; no network
 * but loopback. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "host/rpc.h"
#include "host/sock.h"
#include "meta/ops.h"
#include "tap.h"

static struct te_conf defaults(void)
{
	struct te_conf conf = { .handshake_port = 12001,
				.handshake_connect_timeout_s = 5,
				.handshake_max_length = 1 << 20,
				.transfer_timeout_s = 2 };

	return conf;
}

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

/* ---- addresses ---------------------------------------------------------------------------- */

static const struct {
	const char *uri, *scheme, *shown; /* scheme NULL: refused, and shown is in the message */
} addresses[] = {
	{ "P2PHANDSHAKE", "p2p", "P2PHANDSHAKE" },
	{ "", "p2p", "P2PHANDSHAKE" },
	{ "http://10.0.0.1:8080/metadata", "http", "http://10.0.0.1:8080/metadata" },
	{ "http://h:1", "http", "http://h:1" },
	{ "https://h/x?a=b", "http", "https://h/x?a=b" },
	{ "http://me:secret@h:1/m", "http", "http://h:1/m" },
	{ "redis://10.0.0.1:6379", "redis", "redis://10.0.0.1:6379" },
	{ "redis://:p@ss@h/3", "redis", "redis://h/3" },
	{ "redis://h", "redis", "redis://h" },
	{ "etcd://a:1,b:2;[::1]:3", "etcd", "etcd://a:1,b:2;[::1]:3" },
	{ "etcd://u:p%40w@a:1", "etcd", "etcd://a:1" },
	{ "10.0.0.1:2379", "etcd", "10.0.0.1:2379" },
	{ "10.0.0.1", "etcd", "10.0.0.1" },
	{ "p2phandshake", "etcd", "p2phandshake" },
	{ "zookeeper://h:1", NULL, "unknown metadata scheme 'zookeeper'" },
	{ "rediss://h:1", NULL, "TLS" },
	{ "redis://a:1,b:2", NULL, "one server" },
	{ "redis://h:1/x", NULL, "database" },
	{ "redis://h:70000", NULL, "HOST:PORT" },
	{ "etcd://", NULL, "no host" },
	{ "etcd://,;", NULL, "no host" },
	{ "etcd://a:b", NULL, "HOST:PORT" },
	{ "http:///metadata", NULL, "no host" },
};

static void test_addresses(void)
{
	struct te_conf conf = defaults();

	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		struct te_meta *m = NULL;
		struct te_err err = { 0 };
		int rc = te_meta_open(addresses[i].uri, &conf, &m, &err);

		if (addresses[i].scheme)
			ok(rc == 0 && same(te_meta_scheme(m), addresses[i].scheme) &&
				   same(te_meta_uri(m), addresses[i].shown),
			   "'%s' is %s", addresses[i].uri, addresses[i].scheme);
		else
			ok(rc == -EINVAL && strstr(err.msg, addresses[i].shown),
			   "'%s' is refused: %s", addresses[i].uri, err.msg);
		ok(!strstr(err.msg, "secret") && !strstr(err.msg, "ss@h"), "no password in '%s'",
		   err.msg);
		if (!rc)
			te_meta_close(m);
	}
}

static void test_unknown_scheme_lists_those_there_are(void)
{
	static const char *const all[] = { "etcd://", "http://", "https://", "redis://",
					   "P2PHANDSHAKE" };
	struct te_conf conf = defaults();
	struct te_meta *m;
	struct te_err err = { 0 };

	te_meta_open("nats://x", &conf, &m, &err);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		ok(strstr(err.msg, all[i]) != NULL, "the message names %s", all[i]);
}

static void test_parts(void)
{
	struct te_endpoint *list;
	struct te_uri u;
	int n;

	ok(te_uri_parse("etcd://us%3Aer:p%40%zz@h:1, b ;[::1]:3/x", &u, NULL) == 0, "parsed");
	ok(same(u.scheme, "etcd") && same(u.user, "us:er") && same(u.password, "p@%zz"),
	   "credentials are percent-decoded, a bare %% stays");
	ok(same(u.authority, "h:1, b ;[::1]:3") && same(u.path, "/x"), "authority and path");
	n = te_uri_endpoints(&u, 2379, &list, NULL);
	ok(n == 3 && same(list[0].host, "h") && list[0].port == 1, "first endpoint");
	ok(n == 3 && same(list[1].host, "b") && list[1].port == 2379,
	   "blanks are cut, the port is the default");
	ok(n == 3 && same(list[2].host, "::1") && list[2].port == 3, "IPv6 in brackets");
	if (n > 0)
		free(list);
	te_uri_clear(&u);
}

static void test_escape(void)
{
	char *s = te_uri_escape("mooncake/rpc_meta/127.0.0.1:12345 -._~\xc3\xa9");

	ok(same(s, "mooncake%2Frpc_meta%2F127.0.0.1%3A12345%20-._~%C3%A9"), "%s", s);
	free(s);
}

/* ---- keys and values ---------------------------------------------------------------------- */

static void check_key(const char *cluster, const char *name, const char *rpc, const char *segment)
{
	struct te_conf conf = defaults();
	struct te_meta *m;
	char *a, *b;

	te_strlcpy(conf.cluster_id, cluster, sizeof(conf.cluster_id));
	te_meta_open("P2PHANDSHAKE", &conf, &m, NULL);
	a = te_meta_key_rpc(m, name);
	b = te_meta_key_segment(m, name);
	ok((!rpc && !a) || same(a, rpc), "rpc_meta of '%s' in cluster '%s'", name, cluster);
	ok((!segment && !b) || same(b, segment), "segment '%s' in cluster '%s'", name, cluster);
	free(a);
	free(b);
	te_meta_close(m);
}

/* Those of examples.md, and INTEROP 1.2. */
static void test_keys(void)
{
	check_key("", "127.0.0.1:12345", "mooncake/rpc_meta/127.0.0.1:12345",
		  "mooncake/ram/127.0.0.1:12345");
	check_key("prod", "a/b", "mooncake/prod/rpc_meta/a/b", "mooncake/prod/a/b");
	check_key("prod/", "n", "mooncake/prod/rpc_meta/n", "mooncake/prod/ram/n");
	check_key("", "//n", "mooncake/rpc_meta/n", "mooncake/ram/n");
	check_key("", "//", NULL, NULL);
	check_key("", "", NULL, NULL);
}

static void test_rpc_meta(void)
{
	static const char text[] = "{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":16888}";
	static const char *const bad[] = {
		"",
		"null",
		"[]",
		"{",
		"{\"ip_or_host_name\":\"h\"}",
		"{\"rpc_port\":1}",
		"{\"ip_or_host_name\":1,\"rpc_port\":1}",
		"{\"ip_or_host_name\":\"h\",\"rpc_port\":\"1\"}",
		"{\"ip_or_host_name\":\"h\",\"rpc_port\":-1}",
		"{\"ip_or_host_name\":\"h\",\"rpc_port\":0}",
		"{\"ip_or_host_name\":\"h\",\"rpc_port\":65536}",
		"{\"ip_or_host_name\":\"h\",\"rpc_port\":1.0}",
		"{\"ip_or_host_name\":\"\",\"rpc_port\":1}",
	};
	struct te_rpc_meta r = { 0 };
	struct te_err err;
	char *s, longer[400];

	ok(te_rpc_meta_parse(text, strlen(text), &r, NULL) == 0 && r.port == 16888 &&
		   same(r.host, "127.0.0.1"),
	   "the bytes of a real engine");
	s = te_rpc_meta_format(&r);
	ok(same(s, text) && strlen(s) == 48, "written with the same 48 bytes");
	free(s);
	snprintf(longer, sizeof(longer), "%s\n", text);
	ok(te_rpc_meta_parse(longer, strlen(longer), &r, NULL) == 0, "as redis and etcd have it");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		err = (struct te_err){ 0 };
		ok(te_rpc_meta_parse(bad[i], strlen(bad[i]), &r, &err) == -EINVAL && *err.msg,
		   "refused: %s (%s)", bad[i], err.msg);
	}
	snprintf(longer, sizeof(longer), "{\"ip_or_host_name\":\"%0300d\",\"rpc_port\":1}", 0);
	ok(te_rpc_meta_parse(longer, strlen(longer), &r, NULL) == -EINVAL, "a host of 300 bytes");
}

static void test_base64(void)
{
	static const char *const bad[] = { "A", "AA=A", "A===", "====", "AAA\n", "AA\0=", "A-A=" };
	char all[256], *text, *back;
	size_t len;

	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	for (size_t n = 0; n <= sizeof(all); n++) {
		text = te_base64_encode(all, n);
		if (te_base64_decode(text, strlen(text), &back, &len) || len != n ||
		    memcmp(back, all, n) != 0)
			break;
		free(back);
		free(text);
		if (n == sizeof(all))
			ok(true, "all lengths come back");
	}
	text = te_base64_encode("foob", 4);
	ok(same(text, "Zm9vYg=="), "RFC 4648's vector");
	free(text);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ok(te_base64_decode(bad[i], i == 0 ? 1 : 4, &back, &len) == -EINVAL,
		   "not base64: %s", bad[i]);
}

static void test_key_sets(void)
{
	struct te_keys k = { 0 };
	static const char *const names[] = { "b", "a", "\xc3\xa9", "b", "ab", "a" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		te_keys_add(&k, names[i], strlen(names[i]));
	te_keys_add(&k, "x\0y", 3);
	te_keys_sort(&k);
	ok(k.n == 4 && same(k.v[0].key, "a") && same(k.v[1].key, "ab") && same(k.v[2].key, "b") &&
		   same(k.v[3].key, "\xc3\xa9"),
	   "sorted bytewise, each once, none with a NUL");
	te_keys_set(&k, "aa", "1");
	te_keys_set(&k, "ab", "2");
	te_keys_remove(&k, "b");
	te_keys_remove(&k, "nothing");
	ok(k.n == 4 && same(k.v[1].key, "aa") && same(te_keys_find(&k, "ab")->print, "2") &&
		   !te_keys_find(&k, "b"),
	   "set and removed");
	te_keys_clear(&k);
}

static void test_fingerprint(void)
{
	char a[TE_META_TAG_MAX], b[TE_META_TAG_MAX];

	te_fingerprint("value", 5, a);
	te_fingerprint("value", 5, b);
	ok(same(a, b), "equal values: %s", a);
	te_fingerprint("valuf", 5, b);
	ok(!same(a, b), "another value");
	te_fingerprint("", 0, b);
	ok(*b, "an empty value has one");
}

/* ---- a store of our own, for watch -------------------------------------------------------- */

struct fake {
	struct te_meta base;
	const char *const *script[4]; /* keys and values at each list */
	int turn;
	int failures; /* so many lists fail after the first */
};

static struct fake *fake_of(struct te_meta *m)
{
	return container_of(m, struct fake, base);
}

static int fake_list(struct te_meta *m, const char *prefix, struct te_keys *keys,
		     struct te_err *err)
{
	struct fake *f = fake_of(m);

	(void)prefix;
	if (f->turn == 1 && f->failures-- > 0)
		return te_fail(err, -ECONNRESET, "the connection is gone");
	for (const char *const *p = f->script[f->turn]; *p; p += 2)
		te_keys_add(keys, *p, strlen(*p));
	f->turn++;
	return 0;
}

static int fake_get(struct te_meta *m, const char *key, struct te_meta_value *out,
		    struct te_err *err)
{
	struct fake *f = fake_of(m);

	for (const char *const *p = f->script[f->turn - 1]; *p; p += 2)
		if (strcmp(*p, key) == 0 && strcmp(p[1], "gone") != 0)
			return te_store_value(out, p[1], strlen(p[1]), err);
	return te_fail(err, -ENOENT, "no such key");
}

/* Each connection lists once and breaks. */
static int fake_watch(struct te_meta *m, struct te_watch *w, struct te_err *err)
{
	int rc = te_watch_resync(w, err);

	(void)m;
	return rc ? rc : te_fail(err, -ECONNRESET, "broken");
}

struct seen {
	char text[256];
	int stop_after;
};

static int on_change(void *arg, const struct te_meta_event *ev)
{
	struct seen *s = arg;
	size_t at = strlen(s->text);

	if (ev->type == TE_META_PUT)
		snprintf(s->text + at, sizeof(s->text) - at, "+%s=%.*s ", ev->key, (int)ev->len,
			 ev->data);
	else
		snprintf(s->text + at, sizeof(s->text) - at, "-%s ", ev->key);
	return --s->stop_after == 0;
}

static void test_watch(void)
{
	static const struct te_meta_ops ops = {
		.scheme = "fake", .list = fake_list, .get = fake_get, .watch = fake_watch
	};
	static const char *const first[] = { "a", "1", "b", "1", "c", "1", NULL };
	static const char *const second[] = { "a", "1", "b", "2", "d", "1", NULL };
	static const char *const third[] = { "a", "1", "b", "gone", "d", "1", "e", "1", NULL };
	struct fake f = { .base = { .ops = &ops, .uri = strdup("fake") },
			  .script = { first, second, third, third },
			  .failures = 3 };
	struct seen s = { .stop_after = 4 };
	struct te_err err = { 0 };
	int rc = te_meta_watch(&f.base, "", on_change, &s, -1, &err);

	ok(rc == 0 && same(s.text, "-c +b=2 +d=1 +e=1 "),
	   "what broken connections missed is found, through failures: %d '%s' %s", rc, s.text,
	   err.msg);
	free(f.base.uri);
}

static void test_watch_stops(void)
{
	struct te_conf conf = defaults();
	static const struct te_meta_ops ops = { .scheme = "fake",
						.list = fake_list,
						.get = fake_get };
	static const char *const none[] = { NULL };
	struct fake f = { .base = { .ops = &ops, .uri = strdup("fake") },
			  .script = { none, none, none, none } };
	struct seen s = { 0 };
	struct te_meta *p2p;
	struct te_err err = { 0 };
	int fds[2];

	ok(pipe(fds) == 0 && write(fds[1], "x", 1) == 1, "a readable stop_fd");
	ok(te_meta_watch(&f.base, "", on_change, &s, fds[0], &err) == 0, "ends a polling watch");
	te_meta_open("P2PHANDSHAKE", &conf, &p2p, NULL);
	ok(te_meta_watch(p2p, "", on_change, &s, fds[0], &err) == -EOPNOTSUPP, "P2P: %s", err.msg);
	te_meta_close(p2p);
	close(fds[0]);
	close(fds[1]);
	free(f.base.uri);
}

/* ---- P2P ---------------------------------------------------------------------------------- */

struct peer { /* answers one handshake */
	int listener;
	const char *reply;
	char request[64];
};

static void *serve(void *arg)
{
	struct peer *p = arg;
	uint64_t until = te_now() + 5 * TE_NSEC_PER_SEC;
	struct te_addr from;
	size_t len;
	char *frame;
	int fd;

	do {
		fd = te_sock_accept(p->listener, &from);
	} while (fd == -EAGAIN && te_now() < until);
	if (fd < 0)
		return NULL;
	/* u64 4, type 1, "{}\n" */
	te_sock_recv(fd, p->request, 12, until);
	frame = te_rpc_frame(TE_RPC_METADATA, p->reply, &len);
	te_sock_send(fd, frame, len, until);
	free(frame);
	close(fd);
	return NULL;
}

static int ask_peer(struct te_meta *m, struct peer *p, struct te_meta_value *v, struct te_err *err)
{
	char *key = te_asprintf("mooncake/ram/127.0.0.1:%u", te_sock_port(p->listener));
	pthread_t thread;
	int rc;

	pthread_create(&thread, NULL, serve, p);
	rc = te_meta_get(m, key, v, err);
	pthread_join(thread, NULL);
	free(key);
	return rc;
}

static void test_p2p(void)
{
	struct te_conf conf = defaults();
	struct peer p = { .listener = te_sock_listen("127.0.0.1", 0, 4, NULL),
			  .reply = "{\"name\":\"x\"}" };
	struct te_meta_value v = { 0 };
	struct te_err err = { 0 };
	struct te_meta *m;

	te_meta_open(NULL, &conf, &m, NULL);
	ok(te_meta_caps(m) == TE_META_P2P && te_meta_ping(m, NULL) == 0, "P2P has no store");
	ok(ask_peer(m, &p, &v, &err) == 0 && same(v.data, "{\"name\":\"x\"}\n") && v.len == 13,
	   "the descriptor comes from the peer: %s", err.msg);
	ok(memcmp(p.request, "\4\0\0\0\0\0\0\0\1{}\n", 12) == 0, "asked by handshake type 1");
	te_meta_value_clear(&v);
	p.reply = "null";
	ok(ask_peer(m, &p, &v, &err) == -ENOENT, "null is no segment: %s", err.msg);
	ok(te_meta_get(m, "mooncake/rpc_meta/h:77", &v, &err) == 0 &&
		   same(v.data, "{\"ip_or_host_name\":\"h\",\"rpc_port\":77}"),
	   "rpc_meta comes from the name");
	te_meta_value_clear(&v);
	ok(te_meta_get(m, "mooncake/rpc_meta/h", &v, &err) == 0 && strstr(v.data, ":12001}"),
	   "without a port, MC_HANDSHAKE_PORT");
	te_meta_value_clear(&v);
	ok(te_meta_get(m, "mooncake/ram/h:x", &v, &err) == -EINVAL, "no address: %s", err.msg);
	ok(te_meta_get(m, "other", &v, &err) == -ENOENT, "no other key: %s", err.msg);
	ok(te_meta_put(m, "mooncake/ram/a", "x", 1, NULL, NULL, &err) == 0 &&
		   te_meta_del(m, "mooncake/ram/a", NULL, &err) == 0,
	   "put and del are taken and do nothing");
	ok(te_meta_list(m, "", NULL, NULL, &err) == -EOPNOTSUPP, "list: %s", err.msg);
	te_meta_close(m);
	close(p.listener);
}

static void test_tables(void)
{
	static const struct te_meta_ops *const all[] = { &te_store_http, &te_store_redis,
							 &te_store_etcd, &te_store_p2p };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		ok(all[i]->scheme && all[i]->open && all[i]->close && all[i]->caps && all[i]->get &&
			   all[i]->put && all[i]->del && all[i]->list && all[i]->ping,
		   "%s has all that is required", all[i]->scheme);
}

int main(void)
{
	te_log_set_level(TE_LOG_ERROR);
	test_addresses();
	test_unknown_scheme_lists_those_there_are();
	test_parts();
	test_escape();
	test_keys();
	test_rpc_meta();
	test_base64();
	test_key_sets();
	test_fingerprint();
	test_watch();
	test_watch_stops();
	test_p2p();
	test_tables();
	return tap_end();
}
