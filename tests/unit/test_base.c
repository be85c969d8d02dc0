/* test_base.c - the table of tunables, JSON, histogram, errors, log and helpers. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf_table.h"
#include "base/hist.h"
#include "base/json.h"
#include "base/util.h"
#include "tap.h"
#include "te_conf.h"
#include "te_err.h"

static char last_line[1100];
static int lines;

static void sink_line(void *arg, enum te_log_level level, const char *text)
{
	(void)arg;
	(void)level;
	lines++;
	snprintf(last_line, sizeof(last_line), "%s", text);
}

static const struct te_log_sink sink = { .line = sink_line };

/* ---- tunables ------------------------------------------------------------------------------ */

static struct te_conf read_with(const char *name, const char *value)
{
	struct te_conf conf;

	lines = 0;
	*last_line = '\0';
	setenv(name, value, 1);
	te_conf_read(&conf);
	unsetenv(name);
	return conf;
}

static void each_default(void *arg, const struct te_conf_entry *e)
{
	int *n = arg;

	(*n)++;
	if (strcmp(e->value, e->def) || strcmp(e->origin, "default") || !*e->range || !*e->help)
		ok(false, "%s: entry of an unset variable", e->name);
}

static void test_defaults(void)
{
	struct te_conf conf;
	int n = 0;

	lines = 0;
	te_conf_read(&conf);
	ok(!lines, "defaults give no warning");
	ok(conf.transfer_timeout_s == 30 && conf.slice_size == 65536 && conf.retry_cnt == 9,
	   "transfer defaults");
	ok(conf.min_rpc_port == 15000 && conf.max_rpc_port == 17000, "port defaults");
	ok(conf.ttl_s == 30 && conf.spin_us == 50 && conf.fragment_ratio == 4, "te's own defaults");
	ok(conf.handshake_max_length == 1 << 20 && conf.handshake_connect_timeout_s == 5,
	   "handshake defaults");
	ok(conf.log_level == TE_LOG_WARNING && !conf.force_tcp && !*conf.metadata_server,
	   "level, switch and text defaults");
	te_conf_each(each_default, &n);
	ok(n == (int)te_conf_nvars && n > 75, "all %d variables are listed", n);
	ok(conf.gid_index == -1 && conf.num_qp == 2 && conf.max_ep == 65536 && conf.mtu == 4096 &&
		   conf.max_wr == 256 && conf.ib_port == 1 && !conf.relaxed_ordering,
	   "rdma defaults");
	ok(!conf.endpoint_fifo && conf.nvidia_peermem == -1 && conf.max_mr_size == (int64_t)1 << 40,
	   "choices without and with a default");
	for (size_t i = 0; i < te_conf_nvars; i++)
		for (size_t j = 0; j < i; j++)
			if (!strcmp(te_conf_vars[i].name, te_conf_vars[j].name))
				ok(false, "%s is there twice", te_conf_vars[i].name);
}

/* Each row: its limits are taken, what lies outside is refused with a warning that says all. */
static void test_ranges(void)
{
	char in[32], out[32], range[64];
	int bad = 0;

	for (size_t i = 0; i < te_conf_nvars; i++) {
		const struct te_conf_var *v = &te_conf_vars[i];

		if (v->kind != TE_CONF_INT || strstr(v->name, "RPC_PORT") ||
		    !strcmp(v->name, "MC_FRAGMENT_RATIO"))
			continue;
		snprintf(in, sizeof(in), "%lld", (long long)v->max);
		read_with(v->name, in);
		bad += lines != 0 && strcmp(v->name, "MC_SLICE_SIZE") != 0;
		snprintf(out, sizeof(out), "%lld", (long long)v->min - 1);
		snprintf(range, sizeof(range), "%lld..%lld", (long long)v->min, (long long)v->max);
		read_with(v->name, out);
		if (lines != 1 || !strstr(last_line, v->name) || !strstr(last_line, out) ||
		    !strstr(last_line, range) || !strstr(last_line, v->def))
			ok(false, "%s: '%s'", v->name, last_line);
		read_with(v->name, "12z");
		bad += lines != 1;
	}
	ok(!bad, "integers: limits");
}

static void test_values(void)
{
	static const struct {
		const char *text;
		bool valid, on;
	} switches[] = { { "1", true, true },	{ "true", true, true },	   { "YES", true, true },
			 { "On", true, true },	{ "0", true, false },	   { "false", true, false },
			 { "no", true, false }, { "off", true, false },	   { "", true, false },
			 { "2", false, false }, { "maybe", false, false }, { "o", false, false } };
	static const struct {
		const char *text;
		bool valid;
	} timeouts[] = { { "0.05", true }, { "3", true },   { "1e3", true },   { "0", false },
			 { "-1", false },  { "", false },   { "nan", false },  { "inf", false },
			 { " 3", false },  { "3s", false }, { "1e999", false } };
	struct te_conf conf;

	for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
		conf = read_with("MC_FORCE_TCP", switches[i].text);
		ok(conf.force_tcp == switches[i].on && lines == !switches[i].valid, "switch '%s'",
		   switches[i].text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(timeouts); i++) {
		conf = read_with("MC_TRANSFER_TIMEOUT", timeouts[i].text);
		ok(lines == !timeouts[i].valid &&
			   (timeouts[i].valid
				    ? conf.transfer_timeout_s == strtod(timeouts[i].text, NULL)
				    : conf.transfer_timeout_s == 30),
		   "time-out '%s'", timeouts[i].text);
	}
	conf = read_with("MC_TRANSFER_TIMEOUT", "1e300");
	ok(!lines && conf.transfer_timeout_s > 1e8 && conf.transfer_timeout_s * 1e9 < 9e18,
	   "a time-out of for ever fits into 63 bits of ns");
	conf = read_with("MC_LOG_LEVEL", "error");
	ok(conf.log_level == TE_LOG_ERROR && !lines, "choice, any case");
	conf = read_with("MC_LOG_LEVEL", "ERR");
	ok(conf.log_level == TE_LOG_WARNING && lines == 1 && strstr(last_line, "TRACE|INFO"),
	   "no part of a choice");
	conf = read_with("MC_METADATA_SERVER", "etcd://h:1");
	ok(!strcmp(conf.metadata_server, "etcd://h:1"), "text");
	conf = read_with("MC_MAX_EP_PER_CTX", "65537");
	ok(lines == 1, "one more endpoint than there may be");
	conf = read_with("MC_GID_INDEX", "3");
	ok(!lines && conf.gid_index == 3, "GID index");
	conf = read_with("NCCL_IB_GID_INDEX", "4");
	ok(!lines && conf.gid_index == 4, "GID index by its other name");
}

static void test_choices(void)
{
	static const char *const yes[] = { "1", "true", "on", "YES", "enable" };
	static const char *const no[] = { "0", "false", "off", "no", "Disable" };
	struct te_conf conf = read_with("MC_MTU", "1024");

	ok(conf.mtu == 1024 && !lines, "MC_MTU=1024");
	conf = read_with("MC_MTU", "1500");
	ok(conf.mtu == 4096 && lines == 1 && strstr(last_line, "512|1024|2048|4096"),
	   "an MTU that verbs has not");
	conf = read_with("MC_ENDPOINT_STORE_TYPE", "FIFO");
	ok(conf.endpoint_fifo && !lines, "FIFO");
	conf = read_with("MC_ENDPOINT_STORE_TYPE", "sieve");
	ok(!conf.endpoint_fifo && !lines, "SIEVE, any case");
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		conf = read_with("WITH_NVIDIA_PEERMEM", yes[i]);
		ok(conf.nvidia_peermem == 1 && !lines, "WITH_NVIDIA_PEERMEM=%s", yes[i]);
		conf = read_with("WITH_NVIDIA_PEERMEM", no[i]);
		ok(conf.nvidia_peermem == 0 && !lines, "WITH_NVIDIA_PEERMEM=%s", no[i]);
	}
	conf = read_with("WITH_NVIDIA_PEERMEM", "2");
	ok(conf.nvidia_peermem == -1 && lines == 1, "a bad one counts as unset");
}

static void test_aliases(void)
{
	struct te_conf conf = read_with("MC_TCP_MAX_CONNECTIONS_PER_PEER", "7");

	ok(conf.tcp_lanes == 7, "old name of the lanes");
	setenv("MC_TCP_LANES_PER_PEER", "3", 1);
	conf = read_with("MC_TCP_MAX_CONNECTIONS_PER_PEER", "7");
	ok(conf.tcp_lanes == 3, "the name beats its alias");
	unsetenv("MC_TCP_LANES_PER_PEER");
	conf = read_with("MC_INTRANODE_NVLINK", "1");
	ok(conf.intranode_nvlink, "MC_INTRANODE_NVLINK");
	conf = read_with("MC_INTRA_NVLINK", "1");
	ok(conf.intranode_nvlink, "MC_INTRA_NVLINK");
	read_with("NCCL_IB_GID_INDEX", "999");
	ok(lines == 1 && strstr(last_line, "NCCL_IB_GID_INDEX"), "a warning names the alias");
	conf = read_with("MC_MIN_PRC_PORT", "16000");
	ok(conf.min_rpc_port == 16000, "misspelt port name");
}

static void test_rules(void)
{
	static const struct {
		const char *min, *max;
		bool valid;
	} ports[] = { { "20000", "20010", true },  { "20010", "20000", false },
		      { "20000", "20000", true },  { "1023", "20000", true /* of the default */ },
		      { "20000", "40000", false }, { "61000", "65535", true },
		      { "18000", "", false } };
	struct te_conf conf;

	for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
		setenv("MC_MIN_RPC_PORT", ports[i].min, 1);
		conf = read_with("MC_MAX_RPC_PORT", ports[i].max);
		ok(ports[i].valid == (conf.max_rpc_port == atol(ports[i].max)) &&
			   (ports[i].valid ||
			    (conf.min_rpc_port == 15000 && conf.max_rpc_port == 17000)),
		   "ports %s..%s", ports[i].min, ports[i].max);
	}
	unsetenv("MC_MIN_RPC_PORT");
	setenv("MC_SLICE_SIZE", "8", 1);
	conf = read_with("MC_FRAGMENT_RATIO", "8");
	ok(lines == 1 && conf.fragment_ratio == 4, "ratio not below the slice size");
	unsetenv("MC_SLICE_SIZE");
}

static void test_affinities(void)
{
	static const struct {
		const char *text;
		bool valid;
	} rules[] = { { "", true },	  { "a=b", true },	   { "a=b,c;d=e", true },
		      { "a=b;", true },	  { " a = b , c ", true }, { ";;", true },
		      { "a", false },	  { "a=", false },	   { "=b", false },
		      { "a=b;c", false }, { "a=b=c", false } };
	struct te_conf conf;

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		conf = read_with("MC_NIC_PEER_AFFINITY", rules[i].text);
		ok(lines == !rules[i].valid &&
			   !strcmp(conf.nic_peer_affinity, rules[i].valid ? rules[i].text : ""),
		   "affinity rules '%s'", rules[i].text);
	}
	conf = read_with("MC_ENABLE_DEST_DEVICE_AFFINITY", "1");
	ok(conf.dest_affinity && !lines, "one affinity");
	setenv("MC_ENABLE_HCA_PEER_AFFINITY", "1", 1);
	conf = read_with("MC_ENABLE_DEST_DEVICE_AFFINITY", "1");
	ok(!conf.dest_affinity && !conf.hca_peer_affinity && lines == 1 &&
		   strstr(last_line, "contradict"),
	   "two: neither");
	conf = read_with("MC_ENABLE_DEST_DEVICE_AFFINITY", "0");
	ok(conf.hca_peer_affinity && !lines, "the other one");
	unsetenv("MC_ENABLE_HCA_PEER_AFFINITY");
}

static void find_entry(void *arg, const struct te_conf_entry *e)
{
	struct te_conf_entry *want = arg;
	static char value[64];

	if (strcmp(e->name, want->name))
		return;
	snprintf(value, sizeof(value), "%s", e->value);
	*want = *e;
	want->value = value;
}

static void test_each(void)
{
	struct te_conf_entry e = { .name = "MC_REDIS_PASSWORD" };

	setenv("MC_REDIS_PASSWORD", "hunter2", 1);
	te_conf_each(find_entry, &e);
	ok(e.secret && !strcmp(e.value, "(set)") && !strcmp(e.origin, "environment"),
	   "a secret is not shown");
	unsetenv("MC_REDIS_PASSWORD");
	e.name = "MC_RETRY_CNT";
	setenv("MC_RETRY_CNT", "900", 1);
	te_conf_each(find_entry, &e);
	ok(!strcmp(e.value, "9") && strstr(e.origin, "invalid") && e.used, "an invalid value");
	unsetenv("MC_RETRY_CNT");
	e.name = "MC_TCP_SLICE_SIZE";
	te_conf_each(find_entry, &e);
	ok(!e.used, "not used by this build");
	e.name = "MC_MIN_RPC_PORT";
	setenv("MC_MIN_RPC_PORT", "17001", 1);
	te_conf_each(find_entry, &e);
	ok(!strcmp(e.value, "15000") && strstr(e.origin, "invalid"), "a pair that is no range");
	unsetenv("MC_MIN_RPC_PORT");
}

static void test_check(void)
{
	static const struct {
		struct te_conf conf;
		const char *protocol;
		int rc;
		const char *says[2];
	} cases[] = {
		{ { .force_tcp = false }, "rdma", 0, { "", "" } },
		{ { .force_tcp = true }, NULL, 0, { "", "" } },
		{ { .force_tcp = true }, "auto", 0, { "", "" } },
		{ { .force_tcp = true }, "tcp", 0, { "", "" } },
		{ { .force_tcp = true }, "rdma", -EINVAL, { "MC_FORCE_TCP", "rdma" } },
		{ { .force_tcp = true }, "shm", -EINVAL, { "MC_FORCE_TCP", "shm" } },
		{ { .force_tcp = true, .force_hca = true },
		  NULL,
		  -EINVAL,
		  { "MC_FORCE_TCP", "MC_FORCE_HCA" } },
		{ { .force_mnnvl = true, .intranode_nvlink = true },
		  NULL,
		  -EINVAL,
		  { "MC_FORCE_MNNVL", "MC_INTRA_NVLINK" } },
		{ { .force_hca = true }, NULL, 0, { "", "" } },
		{ { .force_hca = true }, "auto", 0, { "", "" } },
		{ { .force_hca = true }, "rdma", 0, { "", "" } },
		{ { .force_hca = true }, "tcp", -EINVAL, { "MC_FORCE_HCA", "tcp" } },
		{ { .force_mnnvl = true }, NULL, -ENOTSUP, { "MC_FORCE_MNNVL", "NVLink" } },
		{ { .intranode_nvlink = true },
		  NULL,
		  -ENOTSUP,
		  { "MC_INTRANODE_NVLINK", "MC_INTRA_NVLINK" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct te_err err = { 0 };
		int rc = te_conf_check(&cases[i].conf, cases[i].protocol, &err);

		ok(rc == cases[i].rc && strstr(err.msg, cases[i].says[0]) &&
			   strstr(err.msg, cases[i].says[1]),
		   "check %zu: %s", i, err.msg);
	}
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static int parse(const char *text, size_t len)
{
	json_t *root;
	int rc = te_json_parse(text, len, &root, NULL);

	if (!rc)
		json_decref(root);
	return rc;
}

static void test_json_parse(void)
{
	char deep[4096];

	ok(!parse("{}\n", 3) && !parse("\t{}\n", 4) && !parse("null", 4), "roots");
	ok(parse("", 0) == -EINVAL && parse("{", 1) == -EINVAL, "no JSON");
	ok(parse("{}x", 3) == -EINVAL && parse("{}\0", 3) == -EINVAL, "bytes after the end");
	ok(parse("\"a\0b\"", 5) == -EINVAL, "NUL in a string");
	ok(parse("\"\xff\"", 3) == -EINVAL, "not UTF-8");
	ok(parse("[18446744073709551616]", 22) == -EINVAL, "an integer beyond 64 bits");
	memset(deep, '[', sizeof(deep));
	ok(parse(deep, 1500) == -EINVAL, "1500 brackets");
	memset(deep + 64, ']', 64);
	ok(!parse(deep, 128), "64 levels");
	memset(deep, '[', 65);
	memset(deep + 65, ']', 65);
	ok(parse(deep, 130) == -EINVAL, "65 levels");
	memset(deep, '[', 200);
	deep[0] = '"';
	deep[100] = '\\';
	deep[101] = '"';
	deep[199] = '"';
	ok(!parse(deep, 200), "brackets in a string do not count");
}

static void test_json_format(void)
{
	static const char in[] =
		"{\"b\":[1, 2],\"a\":\"\\u00E9/\\\\u00FF\\n\\u001F\\ud83d\\ude00\"}";
	json_t *root;
	char *s;

	if (te_json_parse(in, strlen(in), &root, NULL)) {
		ok(false, "parse");
		return;
	}
	s = te_json_format(root);
	ok(!strcmp(s, "{\"a\":\"\\u00e9/\\\\u00FF\\n\\u001f\\ud83d\\ude00\",\"b\":[1,2]}"),
	   "format: %s", s);
	free(s);
	json_decref(root);
	root = te_json_text("n\xff");
	ok(root && !strcmp(json_string_value(root), "n?"), "text that is not UTF-8");
	json_decref(root);
	ok(!te_json_text(NULL), "NULL stays NULL");
}

static void test_json_get(void)
{
	static const char in[] =
		"{\"n\":7,\"s\":\"x\",\"t\":true,\"a\":[],\"o\":{},\"r\":1.0,\"m\":-1}";
	struct te_err err = { 0 };
	const char *s = NULL;
	json_t *root, *v = NULL;
	uint64_t n = 99;
	bool b = false;

	if (te_json_parse(in, strlen(in), &root, NULL)) {
		ok(false, "parse");
		return;
	}
	ok(!te_json_u64(root, "n", 7, &n, NULL) && n == 7, "integer");
	ok(te_json_u64(root, "n", 6, &n, &err) == -EINVAL && strstr(err.msg, "'n'") && n == 7,
	   "range: %s", err.msg);
	ok(te_json_u64(root, "zz", 6, &n, &err) == -ENOENT && strstr(err.msg, "'zz'"), "missing");
	ok(te_json_u64(root, "r", 6, &n, NULL) == -EINVAL, "a real is no integer");
	ok(te_json_u64(root, "m", UINT64_MAX, &n, NULL) == -EINVAL, "negative");
	ok(te_json_u64(root, "s", 6, &n, NULL) == -EINVAL, "a string is no integer");
	ok(!te_json_bool(root, "t", &b, NULL) && b, "bool");
	ok(te_json_bool(root, "n", &b, NULL) == -EINVAL, "1 is not true");
	ok(!te_json_str(root, "s", &s, NULL) && !strcmp(s, "x"), "string");
	ok(te_json_str(root, "n", &s, NULL) == -EINVAL, "no string");
	ok(!te_json_array(root, "a", &v, NULL) && te_json_array(root, "o", &v, NULL) == -EINVAL,
	   "array");
	ok(!te_json_object(root, "o", &v, NULL) && te_json_object(root, "a", &v, NULL) == -EINVAL,
	   "object");
	ok(te_json_str(v, "s", &s, NULL) == -ENOENT, "member of an empty object");
	ok(te_json_str(json_object_get(root, "a"), "s", &s, NULL) == -EINVAL, "not an object");
	json_decref(root);
}

/* ---- histogram ----------------------------------------------------------------------------- */

static struct te_hist hist, shared;

static void *add_many(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < 100000; i++)
		te_hist_add(&shared, i);
	return NULL;
}

static void test_hist(void)
{
	pthread_t t[2];
	bool close_enough = true;

	ok(!te_hist_quantile(&hist, 0.5), "empty");
	for (uint64_t v = 1; v && v < UINT64_MAX / 3; v = v * 3 + 1) {
		memset(&hist, 0, sizeof(hist));
		te_hist_add(&hist, v);
		te_hist_add(&hist, UINT64_MAX);
		close_enough &= te_hist_quantile(&hist, 0.5) >= v &&
				(double)(te_hist_quantile(&hist, 0.5) - v) <= 0.016 * (double)v;
	}
	ok(close_enough, "values keep to 1.6 %%");
	ok(te_hist_quantile(&hist, 1) == UINT64_MAX && hist.max == UINT64_MAX, "the largest value");
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, add_many, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	ok(shared.count == 200000 && shared.max == 99999 && shared.sum == 9999900000ull,
	   "two threads lose nothing");
	ok(te_hist_quantile(&shared, 0.5) >= 49999 && te_hist_quantile(&shared, 0.5) < 51000 &&
		   te_hist_quantile(&shared, 0) <= 1,
	   "quantiles");
}

/* ---- errors, log, helpers ------------------------------------------------------------------ */

static void test_err(void)
{
	struct te_err err = { 0 };
	char longest[600];

	ok(te_fail(&err, -EIO, "a %d", 1) == -EIO && err.code == -EIO && !strcmp(err.msg, "a 1"),
	   "fail");
	ok(te_wrap(&err, -EINVAL, "b '%s'", "c") == -EIO && !strcmp(err.msg, "b 'c': a 1"), "wrap");
	ok(te_fail(NULL, -EIO, "x") == -EIO && te_wrap(NULL, -EINVAL, "x") == -EINVAL, "no err");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	te_fail(&err, -EIO, "%s", longest);
	te_wrap(&err, 0, "%s", longest);
	ok(strlen(err.msg) == sizeof(err.msg) - 1, "cut, not overrun");
}

static void test_log_dir(void)
{
	char dir[] = "/tmp/te-log-XXXXXX", path[128], line[256] = "";
	FILE *f;

	if (!mkdtemp(dir)) {
		ok(false, "mkdtemp");
		return;
	}
	te_log_set_sink(NULL);
	te_log_set_dir(dir);
	te_warn("first %d", 1);
	te_info("dropped");
	snprintf(path, sizeof(path), "%s/%s.%d.log", dir, program_invocation_short_name,
		 (int)getpid());
	f = fopen(path, "r");
	ok(f && fgets(line, sizeof(line), f) && strstr(line, "warning: first 1\n") &&
		   !fgets(line, sizeof(line), f),
	   "lines go to the file of MC_LOG_DIR");
	if (f)
		fclose(f);
	unlink(path);
	rmdir(dir);
	te_log_set_dir(NULL);
	te_log_set_sink(&sink);
}

static void test_log(void)
{
	lines = 0;
	te_info("quiet");
	ok(!lines, "below the level");
	te_warn("a\nb\x1b[31m");
	ok(lines == 1 && !strcmp(last_line, "a?b?[31m"), "no control characters: %s", last_line);
	test_log_dir();
	te_log_set_level(TE_LOG_ERROR);
	read_with("MC_LOG_LEVEL", "TRACE");
	ok(!te_log_wants(TE_LOG_WARNING), "the program's level beats MC_LOG_LEVEL");
	te_log_set_level(TE_LOG_TRACE);
	te_trace("%s", "t");
	ok(!strcmp(last_line, "t"), "trace");
}

static _Atomic uint32_t word;

static void *wake(void *arg)
{
	(void)arg;
	atomic_store_explicit(&word, 1, memory_order_release);
	te_futex_wake((const void *)&word, 1);
	return NULL;
}

static void test_util(void)
{
	static const struct {
		const char *text;
		bool valid;
		int64_t value;
	} numbers[] = { { "0", true, 0 },     { "010", true, 10 },
			{ "0x10", true, 16 }, { "-5", true, -5 },
			{ "", false, 0 },     { "0x", false, 0 },
			{ " 1", false, 0 },   { "1 ", false, 0 },
			{ "+1", false, 0 },   { "--1", false, 0 },
			{ "1e3", false, 0 },  { "101", false, 0 },
			{ "-101", false, 0 }, { "99999999999999999999", false, 0 } };
	char buf[4], *s;
	pthread_t t;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		int64_t v = 0;
		bool valid = te_parse_i64(numbers[i].text, -100, 100, &v);

		ok(valid == numbers[i].valid && v == numbers[i].value, "number '%s'",
		   numbers[i].text);
	}
	te_strlcpy(buf, "abcdef", sizeof(buf));
	ok(!strcmp(buf, "abc"), "copy is cut");
	s = te_asprintf("%d-%s", 1, "x");
	ok(!strcmp(s, "1-x") && !te_strdup(NULL), "asprintf, strdup");
	free(s);
	ok(te_wraps(UINT64_MAX, 2) && !te_wraps(UINT64_MAX, 1) && !te_wraps(0, 0) &&
		   !te_wraps(1, UINT64_MAX),
	   "wrapping");
	ok(!te_ms_until(0) && te_ms_until(te_now() + 50000000000ull) == 50000 &&
		   te_ms_until(UINT64_MAX) == 0x7fffffff,
	   "milliseconds");
	ok(te_futex_wait((const void *)&word, 0, te_now() + TE_NSEC_PER_MSEC) == -ETIMEDOUT,
	   "futex: time-out");
	ok(!te_futex_wait((const void *)&word, 1, 0), "futex: changed already");
	pthread_create(&t, NULL, wake, NULL);
	ok(!te_futex_wait((const void *)&word, 0, te_now() + 10 * TE_NSEC_PER_SEC), "futex: woken");
	pthread_join(t, NULL);
}

int main(void)
{
	for (size_t i = 0; i < te_conf_nvars; i++)
		unsetenv(te_conf_vars[i].name);
	te_log_set_sink(&sink);
	test_defaults();
	test_ranges();
	test_values();
	test_choices();
	test_affinities();
	test_aliases();
	test_rules();
	test_each();
	test_check();
	test_json_parse();
	test_json_format();
	test_json_get();
	test_hist();
	test_err();
	test_log();
	test_util();
	return tap_end();
}
