/* test_shake.c - handshake documents: as real engines write them, and as nobody should. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tap.h"
#include "te_err.h"
#include "transport/rdma/shake.h"

/* What a real tcp engine answers (seen on the wire), and the answer to a ready-ack. */
#define EMPTY                                                                                      \
	"{\"local_gid\":\"\",\"local_lid\":0,\"local_nic_path\":\"\",\"payload\":\"\","            \
	"\"peer_nic_path\":\"\",\"qp_num\":[],\"reply_msg\":\"\"}"
#define GID "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4c"
/* What an RDMA engine sends, less the closing bracket. */
#define REQUEST                                                                                    \
	"{\"local_gid\":\"" GID "\",\"local_lid\":7,\"local_nic_path\":\"node-a@mlx5_2\","         \
	"\"payload\":\"\",\"peer_nic_path\":\"10.0.0.2:12001@mlx5_3\",\"qp_num\":[281,16777215]"

static const struct te_shake request = { .local_path = "node-a@mlx5_2",
					 .peer_path = "10.0.0.2:12001@mlx5_3",
					 .lid = 7,
					 .gid = GID,
					 .qp = { 281, 0xffffff },
					 .nqp = 2 };

static bool same(const struct te_shake *a, const struct te_shake *b)
{
	return !strcmp(a->local_path, b->local_path) && !strcmp(a->peer_path, b->peer_path) &&
	       a->lid == b->lid && !strcmp(a->gid, b->gid) && a->nqp == b->nqp &&
	       !memcmp(a->qp, b->qp, a->nqp * sizeof(a->qp[0])) &&
	       a->has_ready_ack == b->has_ready_ack && a->ready_ack == b->ready_ack &&
	       a->te == b->te && a->mtu == b->mtu && !strcmp(a->reply, b->reply);
}

static void writes(const struct te_shake *s, const char *want, const char *what)
{
	char *text = te_shake_format(s);
	struct te_shake back;

	ok(text && !strcmp(text, want), "%s: %s", what, text);
	ok(!te_shake_parse(text, strlen(text), &back, NULL) && same(&back, s), "%s, and back",
	   what);
	free(text);
}

static void test_write(void)
{
	static const struct te_shake none;
	struct te_shake s = request;

	writes(&none, EMPTY, "an empty one");
	writes(&s, REQUEST ",\"reply_msg\":\"\"}", "from an engine without ready-ack");
	s.has_ready_ack = true;
	writes(&s, REQUEST ",\"ready_ack\":false,\"reply_msg\":\"\"}", "ready-ack offered");
	s.ready_ack = s.te = true;
	writes(&s, REQUEST ",\"ready_ack\":true,\"reply_msg\":\"\",\"te\":{}}",
	       "a ready-ack of te");
	s.mtu = 4096;
	writes(&s, REQUEST ",\"ready_ack\":true,\"reply_msg\":\"\",\"te\":{\"mtu\":4096}}",
	       "te and its MTU");
	te_shake_refuse(&s, "no NIC '%s' here", "mlx5_9");
	writes(&s,
	       "{\"local_gid\":\"\",\"local_lid\":0,\"local_nic_path\":\"\",\"payload\":\"\","
	       "\"peer_nic_path\":\"\",\"qp_num\":[],\"reply_msg\":\"no NIC 'mlx5_9' here\"}",
	       "a refusal");
	te_shake_refuse(&s, "%300s", "x");
	ok(strlen(s.reply) == sizeof(s.reply) - 1, "a long refusal is cut");
}

static void test_read(void)
{
	static const char minimal[] = "{\"qp_num\":[5],\"local_nic_path\":\"a@b\"}\n";
	static const char others[] = REQUEST
		",\"ready_ack\":false,\"reply_msg\":null,\"local_gid\":null,\"barex_port\":1,"
		"\"efa_addr\":[{}],\"te\":{\"later\":1}}\n";
	static const char refusal[] = "{\"reply_msg\":\"no\\nsuch\\u0007 device\"}";
	struct te_shake s, want = request;

	ok(!te_shake_parse(minimal, strlen(minimal), &s, NULL) && s.nqp == 1 && s.qp[0] == 5 &&
		   !s.has_ready_ack && !s.te && !*s.peer_path && !*s.gid && !*s.reply,
	   "what is absent is empty");
	want.has_ready_ack = want.te = true;
	want.gid[0] = '\0';
	ok(!te_shake_parse(others, strlen(others), &s, NULL) && same(&s, &want),
	   "null is empty, unknown members are ignored");
	ok(!te_shake_parse(refusal, strlen(refusal), &s, NULL) &&
		   !strcmp(s.reply, "no such  device"),
	   "a refusal is one line: %s", s.reply);
}

/* member: its text, in a document that is good without it. */
static void refused(const char *member, const char *says)
{
	struct te_err err = { 0 };
	struct te_shake s;
	char *text = te_asprintf("{\"reply_msg\":\"\",%s}", member);

	ok(te_shake_parse(text, strlen(text), &s, &err) == -EINVAL && strstr(err.msg, says),
	   "%.40s: %s", member, err.msg);
	free(text);
}

static void test_types(void)
{
	static const struct {
		const char *member, *says;
	} cases[] = {
		{ "\"qp_num\":[\"x\"]", "entry 0 of 'qp_num'" },
		{ "\"qp_num\":[1,-1]", "entry 1 of 'qp_num'" },
		{ "\"qp_num\":[16777216]", "24 bits" },
		{ "\"qp_num\":[1.0]", "entry 0 of 'qp_num'" },
		{ "\"qp_num\":[null]", "entry 0 of 'qp_num'" },
		{ "\"qp_num\":7", "'qp_num' is not an array" },
		{ "\"qp_num\":{}", "'qp_num' is not an array" },
		{ "\"local_lid\":65536", "'local_lid' is 65536" },
		{ "\"local_lid\":-1", "'local_lid' is -1" },
		{ "\"local_lid\":\"7\"", "'local_lid' is not an integer" },
		{ "\"local_lid\":7.0", "'local_lid' is not an integer" },
		{ "\"local_gid\":[]", "'local_gid' is not a string" },
		{ "\"local_gid\":\"" GID ":00\"", "'local_gid' is longer than 47" },
		{ "\"local_nic_path\":1", "'local_nic_path' is not a string" },
		{ "\"local_nic_path\":\"a\\u001b[2J@b\"", "control character" },
		{ "\"peer_nic_path\":\"a\\n@b\"", "control character" },
		{ "\"peer_nic_path\":{}", "'peer_nic_path' is not a string" },
		{ "\"ready_ack\":1", "'ready_ack' is not true or false" },
		{ "\"ready_ack\":\"true\"", "'ready_ack' is not true or false" },
		{ "\"reply_msg\":[1]", "'reply_msg' is not a string" },
		{ "\"te\":1", "'te' is not an object" },
		{ "\"te\":{\"mtu\":-1}", "'mtu' is -1" },
		{ "\"te\":{\"mtu\":\"x\"}", "'mtu' is not an integer" },
		{ "\"x\"", "invalid JSON" },
		{ "\"local_nic_path\":\"a\\u0000b\"", "invalid JSON" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		refused(cases[i].member, cases[i].says);
}

/* {"MEMBER":BEFORE xxx... AFTER} with n times `unit`. */
static char *repeated(const char *before, const char *unit, size_t n, const char *after)
{
	char *text = malloc(strlen(before) + n * strlen(unit) + strlen(after) + 1), *p = text;

	p = stpcpy(p, before);
	while (n--)
		p = stpcpy(p, unit);
	stpcpy(p, after);
	return text;
}

static int parse(const char *text, struct te_shake *s)
{
	int r = te_shake_parse(text, strlen(text), s, NULL);

	free((char *)text);
	return r;
}

static void test_sizes(void)
{
	static const char *const roots[] = { "[]", "null", "1", "\"x\"", "", "{", "{}}" };
	struct te_shake s;
	int bad = 0;

	ok(!parse(repeated("{\"qp_num\":[1", ",1", 255, "]}"), &s) && s.nqp == 256,
	   "256 queue pairs");
	ok(parse(repeated("{\"qp_num\":[1", ",1", 256, "]}"), &s) == -EINVAL, "257 are refused");
	ok(!parse(repeated("{\"local_nic_path\":\"", "x", 255, "\"}"), &s) &&
		   strlen(s.local_path) == 255,
	   "a path of 255 bytes");
	ok(parse(repeated("{\"local_nic_path\":\"", "x", 256, "\"}"), &s) == -EINVAL &&
		   parse(repeated("{\"peer_nic_path\":\"", "x", 100000, "\"}"), &s) == -EINVAL,
	   "longer ones are refused");
	ok(!parse(repeated("{\"reply_msg\":\"", "x", 100000, "\"}"), &s) && strlen(s.reply) == 255,
	   "a long refusal is cut");
	ok(parse(repeated("{\"te\":{\"a\":", "[", 1500, ""), &s) == -EINVAL, "1500 brackets");
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
		bad += te_shake_parse(roots[i], strlen(roots[i]), &s, NULL) != -EINVAL;
	ok(!bad, "roots that are no object");
}

static void test_retire(void)
{
	static const char want[] = "{\"local_nic_path\":\"node-a@mlx5_2\",\"peer_nic_path\":"
				   "\"10.0.0.2:12001@mlx5_3\",\"qp_num\":[281,16777215]}";
	static const char *const bad[] = {
		"{}",
		"[]",
		"{\"local_nic_path\":\"a@b\",\"peer_nic_path\":\"c@d\"}",
		"{\"local_nic_path\":\"a@b\",\"peer_nic_path\":\"c@d\",\"qp_num\":[]}",
		"{\"local_nic_path\":\"a@b\",\"peer_nic_path\":\"c@d\",\"qp_num\":[true]}",
		"{\"local_nic_path\":\"\",\"peer_nic_path\":\"c@d\",\"qp_num\":[1]}",
		"{\"local_nic_path\":\"a@b\",\"qp_num\":[1]}",
	};
	struct te_shake s, two = { .local_path = "node-a@mlx5_2",
				   .peer_path = "10.0.0.2:12001@mlx5_3",
				   .qp = { 281, 0xffffff },
				   .nqp = 2 };
	char *text = te_shake_format_retire(&request);
	int taken = 0;

	ok(text && !strcmp(text, want), "a retirement: %s", text);
	ok(!te_shake_parse_retire(text, strlen(text), &s, NULL) && same(&s, &two), "and back");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		taken += te_shake_parse_retire(bad[i], strlen(bad[i]), &s, NULL) != -EINVAL;
	ok(!taken, "one that does not say which is refused");
	free(text);
}

int main(void)
{
	test_write();
	test_read();
	test_types();
	test_sizes();
	test_retire();
	return tap_end();
}
