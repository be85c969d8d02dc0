/* test_desc.c - segment descriptors: bytes of real engines, the seed's form, and what must be
 * refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tap.h"
#include "te_err.h"
#include "te_segment.h"

/* What real engines wrote. */
static const char empty[] =
	"{\"buffers\":[],\"name\":\"127.0.0.1:12345\",\"protocol\":\"tcp\",\"tcp_data_port\":15329,"
	"\"tcp_proto_version\":2,\"timestamp\":\"2026-11-29 23:12:23.963376\"}";
static const char one[] =
	"{\"buffers\":[{\"addr\":140366316113920,\"length\":1048576,\"name\":\"127.0.0.1:12345\"}],"
	"\"name\":\"127.0.0.1:12345\",\"protocol\":\"tcp\",\"tcp_data_port\":15329,"
	"\"tcp_proto_version\":2,\"timestamp\":\"2026-11-29 23:12:23.964523\"}";
static const char redis[] =
	"{\"buffers\":[{\"addr\":140708714176512,\"length\":1048576,\"name\":\"127.0.0.1:12345\"}],"
	"\"name\":\"127.0.0.1:12345\",\"protocol\":\"tcp\",\"tcp_data_port\":16663,"
	"\"tcp_proto_version\":2,\"timestamp\":\"2026-11-29 23:12:36.292179\"}";
static const char etcd[] =
	"{\"buffers\":[{\"addr\":139831387287552,\"length\":1048576,\"name\":\"127.0.0.1:12345\"}],"
	"\"name\":\"127.0.0.1:12345\",\"protocol\":\"tcp\",\"tcp_data_port\":15046,"
	"\"tcp_proto_version\":2,\"timestamp\":\"2026-11-29 23:47:41.442733\"}";
static const char p2p[] =
	"{\"buffers\":[{\"addr\":140527699091456,\"length\":1048576,\"name\":\"127.0.0.1:15101\"}],"
	"\"name\":\"127.0.0.1:15101\",\"protocol\":\"tcp\",\"tcp_data_port\":15100,"
	"\"tcp_proto_version\":2,\"timestamp\":\"2026-11-29 23:13:15.814006\"}";
static const char big[] =
	"{\"buffers\":[{\"addr\":139966340399104,\"length\":100663296,\"name\":\"127.0.0.1:16803\"}"
	"],"
	"\"name\":\"127.0.0.1:16803\",\"protocol\":\"tcp\",\"tcp_data_port\":16818,"
	"\"tcp_proto_version\":2,\"timestamp\":\"2026-11-29 23:15:02.293102\"}";
static const char rdma[] =
	"{\"buffers\":[{\"addr\":140089653747712,\"length\":1073741824,\"lkey\":[1591552,1593344],"
	"\"name\":\"cpu:0\",\"rkey\":[1591552,1593344]}],\"devices\":[{\"gid\":"
	"\"00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4c\",\"lid\":0,\"name\":\"mlx5_2\"},{"
	"\"gid\":"
	"\"00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:04:4c\",\"lid\":0,\"name\":\"mlx5_3\"}],"
	"\"name\":\"node-a\",\"priority_matrix\":{\"cpu:0\":[[\"mlx5_2\"],[\"mlx5_3\"]],"
	"\"cpu:1\":[[\"mlx5_3\"],[\"mlx5_2\"]]},\"protocol\":\"rdma\",\"tcp_data_port\":0,"
	"\"tcp_proto_version\":1,\"timestamp\":\"2026-11-29 23:15:02.293102\"}";

/* The seed's two examples. */
static const char seed_ram[] =
	"{\"server_name\":\"node01\",\"protocol\":\"rdma\",\"devices\":["
	"{\"name\":\"mlx5_2\",\"lid\":17,\"gid\":\"fe:00:00:00:00:00:00:00:00:00:00:00:00:00:00:"
	"01\"},"
	"{\"name\":\"mlx5_3\",\"lid\":22,\"gid\":\"fe:00:00:00:00:00:00:00:00:00:00:00:00:00:00:"
	"02\"}],"
	"\"priority_matrix\":{\"cpu:0\":[[\"mlx5_2\"],[\"mlx5_3\"]],\"cpu:1\":[[\"mlx5_3\"],"
	"[\"mlx5_2\"]],\"cuda:0\":[[\"mlx5_2\"],[\"mlx5_3\"]]},\"buffers\":[{\"name\":\"cpu:0\","
	"\"addr\":\"0x7fa16bdf5000\",\"length\":1073741824,\"rkey\":[\"0x1fe000\",\"0x1fdf00\"]}]}";
static const char seed_nvmeof[] =
	"{\"server_name\":\"node01\",\"protocol\":\"nvmeof\",\"buffers\":[{\"length\":1073741824,"
	"\"file_path\":\"/mnt/nvme0\",\"local_path_map\":{\"node01\":"
	"\"/mnt/transfer_engine/node01/nvme0\"}},{\"length\":1073741824,\"file_path\":\"/mnt/"
	"nvme1\","
	"\"local_path_map\":{\"node02\":\"/mnt/transfer_engine/node02/nvme1\",\"node03\":\"/"
	"x\"}}]}";

static struct te_desc *parse(const char *text, struct te_err *err)
{
	struct te_desc *d = NULL;

	return te_desc_parse(text, strlen(text), &d, err) ? NULL : d;
}

static void test_exact(void)
{
	static const char *const vectors[] = { empty, one, redis, etcd, p2p, big, rdma };
	char with_newline[1024];

	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		struct te_err err = { 0 };
		struct te_desc *d = parse(vectors[i], &err);
		char *s = d ? te_desc_format(d) : NULL;

		ok(s && !strcmp(s, vectors[i]), "vector %zu: %s", i, s ? s : err.msg);
		free(s);
		te_desc_free(d);
		snprintf(with_newline, sizeof(with_newline), "%s\n", vectors[i]);
		d = parse(with_newline, &err);
		ok(d != NULL, "vector %zu with a newline", i);
		te_desc_free(d);
	}
}

static void test_fields(void)
{
	struct te_desc *d = parse(one, NULL);

	ok(!strcmp(d->name, "127.0.0.1:12345") && !d->server_name && !d->seed_form &&
		   d->tcp_data_port == 15329 && d->tcp_proto_version == 2 && d->nbuffers == 1 &&
		   d->buffers[0].addr == 140366316113920 && d->buffers[0].length == 1048576 &&
		   !strcmp(d->timestamp, "2026-11-29 23:12:23.964523") && !d->te.present &&
		   d->te.ctl_fd == -1,
	   "tcp: fields");
	te_desc_free(d);
	d = parse(rdma, NULL);
	ok(d->ndevices == 2 && !strcmp(d->devices[1].name, "mlx5_3") && d->buffers[0].nkeys == 2 &&
		   d->buffers[0].lkey[1] == 1593344 && d->priority_matrix,
	   "rdma: fields");
	te_desc_free(d);
	d = parse("{\"name\":\"n\",\"protocol\":\"tcp\"}", NULL);
	ok(d && d->tcp_proto_version == 1 && !d->tcp_data_port && !d->nbuffers, "tcp: defaults");
	te_desc_free(d);
}

static void test_seed(void)
{
	struct te_err err = { 0 };
	struct te_desc *d = parse(seed_ram, &err);

	ok(d && !strcmp(d->name, "node01") && !strcmp(d->server_name, "node01") && d->seed_form &&
		   d->devices[0].lid == 17 && d->buffers[0].addr == 0x7fa16bdf5000 &&
		   d->buffers[0].rkey[0] == 0x1fe000 && d->buffers[0].nkeys == 2 &&
		   !d->buffers[0].lkey,
	   "the seed's RAM segment %s", err.msg);
	te_desc_free(d);
	d = parse(seed_nvmeof, &err);
	ok(d && d->nbuffers == 2 && !strcmp(d->buffers[1].file_path, "/mnt/nvme1") &&
		   d->buffers[1].nmap == 2 && d->buffers[0].nmap == 1 &&
		   !strcmp(d->buffers[0].map[0].host, "node01") &&
		   !strcmp(d->buffers[0].map[0].path, "/mnt/transfer_engine/node01/nvme0"),
	   "the seed's NVMe-oF segment %s", err.msg);
	ok(d && !d->buffers[0].addr && d->buffers[1].addr == 1073741824,
	   "its files lie one behind the other");
	te_desc_free(d);
}

static void here(const struct te_desc *d, size_t i, const char *server, const char *host,
		 const char *want)
{
	const char *path = te_desc_file_here(d, &d->buffers[i], server, host);

	ok(path == want || (path && want && !strcmp(path, want)), "file %zu for %s on %s: %s", i,
	   server, host, path ? path : "not here");
}

static void test_file_here(void)
{
	struct te_desc *d = parse(seed_nvmeof, NULL);

	here(d, 1, "node02", "other", "/mnt/transfer_engine/node02/nvme1");
	here(d, 1, "node02:12345", "node03", "/mnt/transfer_engine/node02/nvme1");
	here(d, 1, "node0", "node03", "/x");
	here(d, 1, "node01", "node04", "/mnt/nvme1");
	here(d, 1, "node01:1", "node04", "/mnt/nvme1");
	here(d, 1, "node04", "node01", "/mnt/nvme1");
	here(d, 0, "node02", "node03", NULL);
	here(d, 0, "[fe80::1]:5", "fe80::1", NULL);
	te_desc_free(d);
}

static void test_nvmeof_format(void)
{
	static const char want[] =
		"{\"buffers\":[{\"file_path\":\"/mnt/"
		"nvme0\",\"length\":1073741824,\"local_path_map\":"
		"{\"node01\":\"/mnt/transfer_engine/node01/nvme0\"}},{\"file_path\":\"/mnt/nvme1\","
		"\"length\":1073741824,\"local_path_map\":{\"node02\":"
		"\"/mnt/transfer_engine/node02/nvme1\",\"node03\":\"/"
		"x\"}}],\"protocol\":\"nvmeof\","
		"\"server_name\":\"node01\"}";
	struct te_desc *d = parse(seed_nvmeof, NULL);
	char *s = te_desc_format(d);

	ok(s && !strcmp(s, want), "nvmeof as register.py writes it: %s", s);
	free(s);
	te_desc_free(d);
}

/* A descriptor with one thing changed: the first `from` becomes `to`. */
static struct te_desc *parse_changed(const char *text, const char *from, const char *to,
				     struct te_err *err)
{
	const char *at = strstr(text, from);
	struct te_desc *d;
	char *s;

	if (!at)
		return NULL;
	s = te_asprintf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	d = parse(s, err);
	free(s);
	return d;
}

/* INTEROP 1.4, "decoder results", and its rules one by one. */
static void test_changed(void)
{
	static const struct {
		const char *what, *text, *from, *to;
		int rc;
		const char *says;
	} cases[] = {
		{ "good", rdma, "node-a", "node-b", 0, "" },
		{ "no matrix", rdma, "priority_matrix", "x", 0, "" },
		{ "null matrix", rdma, "\"priority_matrix\":{", "\"priority_matrix\":null,\"x\":{",
		  0, "" },
		{ "bad matrix entry", rdma, "[[\"mlx5_2\"],[\"mlx5_3\"]]", "[[\"mlx5_2\"]]", 0,
		  "" },
		{ "extra member", rdma, "\"name\":\"node-a\"", "\"name\":\"node-a\",\"x\":[{}]", 0,
		  "" },
		{ "empty rkey", rdma, "\"rkey\":[1591552,1593344]", "\"rkey\":[]", 0, "" },
		{ "no name", rdma, "\"name\":\"node-a\",", "", 0, "" },
		{ "fractional addr", rdma, "140089653747712", "140089653747712.5", -EINVAL,
		  "addr" },
		{ "no lkey", rdma, "\"lkey\":[1591552,1593344],", "", -EINVAL, "lkey" },
		{ "fewer lkey", rdma, "\"lkey\":[1591552,1593344]", "\"lkey\":[1]", -EINVAL,
		  "lkey" },
		{ "more keys than devices", rdma, "\"lkey\":[1591552,1593344]", "\"lkey\":[1,2,3]",
		  -EINVAL, "lkey" },
		{ "fewer keys than devices", rdma, "\"rkey\":[1591552,1593344]", "\"rkey\":[1]",
		  -EINVAL, "devices" },
		{ "quoted rkey", rdma, "\"rkey\":[1591552,", "\"rkey\":[\"0x184900\",", -EINVAL,
		  "buffers[0]: rkey" },
		{ "key above 32 bits", rdma, "\"rkey\":[1591552,", "\"rkey\":[4294967296,", -EINVAL,
		  "rkey" },
		{ "negative key", rdma, "\"rkey\":[1591552,", "\"rkey\":[-1,", -EINVAL, "rkey" },
		{ "matrix is a list", rdma, "\"priority_matrix\":{",
		  "\"priority_matrix\":[],\"x\":{", -EINVAL, "priority_matrix" },
		{ "matrix is a string", rdma, "\"priority_matrix\":{",
		  "\"priority_matrix\":\"\",\"x\":{", -EINVAL, "priority_matrix" },
		{ "protocol is a list", rdma, "\"rdma\"", "[\"tcp\",\"rdma\"]", -EINVAL,
		  "protocol" },
		{ "device without a name", rdma, "\"name\":\"mlx5_2\"", "\"x\":1", -EINVAL,
		  "devices[0]: member 'name'" },
		{ "device with an empty gid", rdma,
		  "\"00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4c\"", "\"\"", -EINVAL, "gid" },
		{ "lid above 16 bits", rdma, "\"lid\":0", "\"lid\":65536", -EINVAL, "lid" },
		{ "devices is an object", rdma, "\"devices\":[", "\"devices\":{},\"x\":[", -EINVAL,
		  "devices" },
		{ "a device is a number", rdma, "\"devices\":[", "\"devices\":[1,", -EINVAL,
		  "devices[0]" },
		{ "another name", one, "\"name\":\"127.0.0.1:12345\",\"protocol\"",
		  "\"name\":\"x\",\"protocol\"", 0, "" },
		{ "addr 0", one, "140366316113920", "0", -EINVAL, "addr" },
		{ "length 0", one, "1048576", "0", -EINVAL, "length" },
		{ "negative addr", one, "140366316113920", "-1", -EINVAL, "addr" },
		{ "quoted addr", one, "140366316113920", "\"140366316113920\"", -EINVAL, "addr" },
		{ "hex addr outside the seed's form", one, "140366316113920", "\"0x7fa000000000\"",
		  -EINVAL, "addr" },
		{ "addr above 64 bits", one, "140366316113920", "18446744073709551616", -EINVAL,
		  "" },
		{ "end wraps", one, "1048576", "9223372036854775807", 0, "" },
		{ "empty buffer name", one, "\"name\":\"127.0.0.1:12345\"}", "\"name\":\"\"}",
		  -EINVAL, "name" },
		{ "no buffer name", one, ",\"name\":\"127.0.0.1:12345\"}", "}", -EINVAL, "name" },
		{ "no addr", one, "\"addr\"", "\"x\"", -EINVAL, "addr" },
		{ "buffers is an object", one, "\"buffers\":[", "\"buffers\":{},\"x\":[", -EINVAL,
		  "buffers" },
		{ "no buffers", one, "\"buffers\"", "\"x\"", 0, "" },
		{ "a buffer is a list", one, "\"buffers\":[", "\"buffers\":[[],", -EINVAL,
		  "buffers[0]" },
		{ "port above 16 bits", one, "15329", "65536", -EINVAL, "tcp_data_port" },
		{ "quoted port", one, "15329", "\"15329\"", -EINVAL, "tcp_data_port" },
		{ "name is a number", one, "\"name\":\"127.0.0.1:12345\",\"protocol\"",
		  "\"name\":1,\"protocol\"", -EINVAL, "name" },
		{ "no protocol", one, "\"protocol\"", "\"x\"", -EINVAL, "protocol" },
		{ "empty protocol", one, "\"tcp\"", "\"\"", -EINVAL, "protocol" },
		{ "unknown protocol", one, "\"tcp\"", "\"foo\"", -EPROTONOSUPPORT, "foo" },
		{ "ub", one, "\"tcp\"", "\"ub\"", -EPROTONOSUPPORT, "not supported" },
		{ "nvlink_intra", one, "\"tcp\"", "\"nvlink_intra\"", -EPROTONOSUPPORT,
		  "not supported" },
		{ "cxl", one, "\"tcp\"", "\"cxl\"", -EPROTONOSUPPORT, "not supported" },
		{ "old: no tcp_data_port", one, "\"tcp_data_port\"", "\"x\"", 0, "" },
		{ "seed: 0x text that is no number", seed_ram, "0x7fa16bdf5000", "0x7fq", -EINVAL,
		  "addr" },
		{ "seed: decimal text", seed_ram, "\"0x7fa16bdf5000\"", "\"4096\"", -EINVAL,
		  "addr" },
		{ "seed: integers", seed_ram, "\"0x7fa16bdf5000\"", "140366316113920", 0, "" },
		{ "seed: lkey too", seed_ram, "\"rkey\"", "\"lkey\":[1,2],\"rkey\"", 0, "" },
		{ "nvmeof: path is a number", seed_nvmeof, "\"/x\"", "1", -EINVAL, "node03" },
		{ "nvmeof: no file_path", seed_nvmeof, "\"file_path\"", "\"x\"", -EINVAL,
		  "file_path" },
		{ "nvmeof: no map", seed_nvmeof, "\"local_path_map\"", "\"x\"", 0, "" },
		{ "nvmeof: map is a list", seed_nvmeof, "\"local_path_map\":",
		  "\"local_path_map\":[],\"x\":", -EINVAL, "local_path_map" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct te_err err = { 0 };
		struct te_desc *d = parse_changed(cases[i].text, cases[i].from, cases[i].to, &err);

		ok(!d == !!cases[i].rc && err.code == cases[i].rc && strstr(err.msg, cases[i].says),
		   "%s: %s", cases[i].what, err.msg);
		te_desc_free(d);
	}
}

static void test_wrapping(void)
{
	struct te_err err = { 0 };

	ok(!parse("{\"name\":\"n\",\"protocol\":\"tcp\",\"buffers\":[{\"name\":\"n\","
		  "\"addr\":9223372036854775807,\"length\":9223372036854775807},{\"name\":\"n\","
		  "\"addr\":2,\"length\":0}]}",
		  &err) &&
		   strstr(err.msg, "buffers[1]"),
	   "the largest numbers of JSON do not wrap");
	ok(!parse("null\n", &err) && strstr(err.msg, "no descriptor yet"), "null: %s", err.msg);
	ok(!parse("[]", &err) && !parse("\"x\"", &err) && !parse("", &err), "no object");
}

static void test_ext(void)
{
	static const char good[] =
		"{\"name\":\"n\",\"server_name\":\"n\",\"protocol\":\"tcp\",\"te\":"
		"{\"host\":\"h/1\",\"pid\":7,\"ctl_fd\":5,\"token\":\"t\"}}";
	struct te_err err = { 0 };
	struct te_desc *d = parse(good, &err), *again;
	char *s;

	ok(d && d->te.present && d->te.pid == 7 && d->te.ctl_fd == 5 &&
		   !strcmp(d->te.host, "h/1") && !strcmp(d->te.token, "t"),
	   "te member %s", err.msg);
	s = te_desc_format(d);
	again = parse(s, &err);
	ok(again && again->te.present && again->te.ctl_fd == 5 && !again->seed_form &&
		   !strcmp(again->server_name, "n"),
	   "it comes back: %s", s);
	free(s);
	te_desc_free(d);
	te_desc_free(again);
	d = parse_changed(good, "\"ctl_fd\":5,", "", &err);
	ok(d && d->te.present && d->te.ctl_fd == -1, "no control page");
	te_desc_free(d);
	d = parse_changed(good, "\"token\":\"t\"", "\"token2\":1", &err);
	ok(d && !d->te.present, "a token is needed");
	te_desc_free(d);
	ok(!parse_changed(good, "\"pid\":7", "\"pid\":\"7\"", &err) && strstr(err.msg, "te: "),
	   "wrong type: %s", err.msg);
	ok(!parse_changed(good, "\"t\"", "\"tttttttttttttttttttttttttttttttttttttttttttttt\"",
			  &err),
	   "too long: %s", err.msg);
	ok(!parse_changed(good, "\"te\":{", "\"te\":[],\"x\":{", &err), "no object: %s", err.msg);
}

static void test_format(void)
{
	struct te_desc *d = te_desc_new(), *again;
	struct te_desc_buffer *b;
	struct te_err err = { 0 };
	char *s;

	d->name = strdup("n\xff\xc3\xa9");
	d->protocol = strdup("tcp");
	b = te_desc_add_buffer(d);
	b->name = strdup("n");
	b->addr = 4096;
	b->length = 1;
	b->location = strdup("cpu:1");
	s = te_desc_format(d);
	again = parse(s, &err);
	ok(again && !strcmp(again->buffers[0].location, "cpu:1") && !strcmp(again->name, "n???") &&
		   strlen(again->timestamp) == 26 && again->timestamp[19] == '.',
	   "own descriptor: %s", s);
	free(s);
	te_desc_free(again);
	free(d->protocol);
	d->protocol = strdup("rdma");
	s = te_desc_format(d);
	ok(strstr(s, "\"buffers\":[]") && strstr(s, "\"devices\":[]"),
	   "no empty rkey list is published: %s", s);
	free(s);
	te_desc_free(d);
	te_desc_free(NULL);
}

static void add(struct te_desc *d, uint64_t addr, uint64_t len)
{
	struct te_desc_buffer *b = te_desc_add_buffer(d);

	b->addr = addr;
	b->length = len;
	b->name = strdup("n");
}

/* The same answers from a descriptor that is put together and from one that was parsed. */
static void test_covers(void)
{
	static const struct {
		uint64_t addr, len;
		bool covered;
	} cases[] = { { 1000, 100, true },	{ 1000, 101, true },
		      { 1000, 400, true },	{ 1000, 401, false },
		      { 999, 1, false },	{ 999, 2, false },
		      { 1399, 1, true },	{ 1400, 1, false },
		      { 5000, 0, true },	{ 2000, 10, true },
		      { 2009, 2, false },	{ UINT64_MAX, 2, false },
		      { 1, UINT64_MAX, false }, { 2000, UINT64_MAX - 2000, false },
		      { 1250, 100, true } };
	struct te_desc *d = te_desc_new(), *parsed;
	char *s;

	d->name = strdup("n");
	d->protocol = strdup("tcp");
	ok(!te_desc_covers(d, 1, 1), "nothing is covered by nothing");
	add(d, 2000, 10);
	add(d, 1200, 200);
	add(d, 1000, 200);
	s = te_desc_format(d);
	parsed = parse(s, NULL);
	free(s);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ok(te_desc_covers(d, cases[i].addr, cases[i].len) == cases[i].covered &&
			   te_desc_covers(parsed, cases[i].addr, cases[i].len) == cases[i].covered,
		   "covers %zu", i);
	add(parsed, 1400, 1);
	ok(te_desc_covers(parsed, 1000, 401), "a buffer that is added counts");
	te_desc_clear_buffers(parsed);
	ok(!te_desc_covers(parsed, 1000, 1) && !parsed->nbuffers, "none is left");
	te_desc_free(parsed);
	te_desc_free(d);
}

static char said[2048];

static void remember(void *arg, const char *sentence)
{
	size_t n = strlen(said);

	(void)arg;
	snprintf(said + n, sizeof(said) - n, "%s; ", sentence);
}

static void lint(const char *what, const char *text, const char *from, const char *to,
		 const char *says)
{
	struct te_desc *d = parse_changed(text, from, to, NULL);

	*said = '\0';
	te_desc_lint(d, remember, NULL);
	ok(*says ? strstr(said, says) != NULL : !*said, "lint: %s: %s", what, *said ? said : "-");
	te_desc_free(d);
}

static void test_lint(void)
{
	lint("good tcp", one, "", "", "");
	lint("good rdma", rdma, ",\"cpu:1\":[[\"mlx5_3\"],[\"mlx5_2\"]]", "", "");
	lint("order of devices", rdma, "", "", "devices[0] is 'mlx5_2', and 'mlx5_3' by the order");
	lint("nvmeof", seed_nvmeof, "", "", "");
	lint("seed", seed_ram, "", "", "server_name");
	lint("seed keys", seed_ram, "", "", "no lkey");
	lint("no name", one, "\"name\":\"127.0.0.1:12345\",\"protocol\"", "\"protocol\"", "name");
	lint("no port", one, "tcp_data_port", "x", "tcp_data_port");
	lint("no rkey", rdma, "\"rkey\":[1591552,1593344]", "\"rkey\":[]", "no rkey");
	lint("no matrix", rdma, "priority_matrix", "x", "no priority_matrix");
	lint("bad entry", rdma, "[[\"mlx5_2\"],[\"mlx5_3\"]]", "[[\"mlx5_2\"]]", "not two lists");
	lint("unknown device", rdma, "[\"mlx5_2\"]", "[\"mlx5_9\"]", "'mlx5_9'");
	lint("unnamed device", rdma, "\"name\":\"mlx5_2\"", "\"name\":\"mlx5_0\"", "devices[0]");
	lint("gid", rdma, "c0:a8:03:4c", "C0:A8:03:4C", "gid");
}

int main(void)
{
	test_exact();
	test_fields();
	test_seed();
	test_nvmeof_format();
	test_file_here();
	test_changed();
	test_wrapping();
	test_ext();
	test_format();
	test_covers();
	test_lint();
	return tap_end();
}
