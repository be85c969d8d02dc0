/* test_matrix.c - the priority matrix: JSON both ways, hostile JSON, and the order that real
 * readers derive. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "segment/derive.h"
#include "segment/matrix.h"
#include "tap.h"
#include "te_err.h"

/* real_map.cpp: what libstdc++ does. */
void real_map_order(const char *const *keys, size_t n, size_t *order);

static struct te_matrix *parse(const char *text, struct te_err *err)
{
	struct te_matrix *m = NULL;

	return te_matrix_parse(text, strlen(text), &m, err) ? NULL : m;
}

/* The order of sorted keys, joined by blanks. */
static const char *derived(const char *const *keys, size_t n)
{
	static char text[256];
	size_t order[32], len = 0;

	if (te_derive_order(keys, n, order))
		return "failed";
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "",
					keys[order[i]]);
	return text;
}

static void test_vectors(void)
{
	static const char *const keys[] = { "cpu:0",  "cpu:1",	"cuda:0", "cuda:1", "cuda:2",
					    "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7" };
	static const char *const vendors[] = { "cpu:0", "cpu:1", "cuda:0", "maca:0", "musa:0" };

	ok(!strcmp(derived(keys, 2), "cpu:1 cpu:0"), "two nodes: %s", derived(keys, 2));
	ok(!strcmp(derived(keys, 3), "cuda:0 cpu:1 cpu:0"), "and a GPU: %s", derived(keys, 3));
	ok(!strcmp(derived(keys, 10),
		   "cuda:7 cuda:6 cuda:4 cuda:3 cuda:2 cuda:5 cuda:1 cuda:0 cpu:1 cpu:0"),
	   "and eight GPUs: %s", derived(keys, 10));
	ok(!strcmp(derived(vendors, 5), "musa:0 maca:0 cuda:0 cpu:1 cpu:0"), "vendors: %s",
	   derived(vendors, 5));
	ok(!te_derive_order(keys, 0, NULL), "no keys");
	ok(te_derive_order(keys, 10274, NULL) == -EOVERFLOW, "too many keys");
}

enum { KEYS_MAX = 6000, KEY_SIZE = 24 };

static int by_bytes(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Distinct, sorted; of real locations and of any bytes. */
static size_t random_keys(char keys[][KEY_SIZE], size_t n, unsigned *seed)
{
	static const char *const kinds[] = { "cpu", "cuda", "hip", "maca", "a-longer-one" };
	size_t out = 0;

	for (size_t i = 0; i < n; i++) {
		size_t len = (size_t)rand_r(seed) % (KEY_SIZE - 1) + 1;

		if (rand_r(seed) % 4) {
			snprintf(keys[i], KEY_SIZE, "%s:%d", kinds[rand_r(seed) % 5],
				 rand_r(seed) % (int)(n + 1));
			continue;
		}
		for (size_t j = 0; j < len; j++)
			keys[i][j] = (char)(rand_r(seed) % 255 + 1);
		keys[i][len] = '\0';
	}
	qsort(keys, n, KEY_SIZE, by_bytes);
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(keys[i], keys[out - 1]))
			memmove(keys[out++], keys[i], KEY_SIZE);
	return out;
}

/* Is our order of so many random keys the real one? */
static bool same_order(size_t n, unsigned *seed)
{
	static char keys[KEYS_MAX][KEY_SIZE];
	static const char *list[KEYS_MAX];
	static size_t ours[KEYS_MAX], real[KEYS_MAX];

	n = random_keys(keys, n, seed);
	for (size_t i = 0; i < n; i++)
		list[i] = keys[i];
	real_map_order(list, n, real);
	return !te_derive_order(list, n, ours) && !memcmp(ours, real, n * sizeof(*ours));
}

static void test_against_real(void)
{
	unsigned seed = 1;
	int bad = 0;

	for (int i = 0; i < 4000; i++)
		bad += !same_order((size_t)rand_r(&seed) % 40, &seed);
	ok(!bad, "4000 random sets of up to 40 keys as std::unordered_map has them, %d not", bad);
	for (int i = 0; i < 100; i++)
		bad += !same_order((size_t)rand_r(&seed) % 1200, &seed);
	ok(!bad, "100 of up to 1200 keys, %d not", bad);
	ok(same_order(KEYS_MAX, &seed), "one of 6000 keys");
}

static void test_parse(void)
{
	struct te_err err = { 0 };
	struct te_matrix *m = parse("{\"cpu:1\":[[\"mlx5_3\"],[\"mlx5_2\"]],"
				    "\"cpu:0\":[[\"mlx5_2\"],[\"mlx5_3\"]]}",
				    &err);
	const struct te_matrix_row *row;
	char *s;

	ok(m && m->nrows == 2 && m->nnames == 2, "two rows: %s", err.msg);
	ok(!strcmp(m->names[0], "mlx5_3") && !strcmp(m->names[1], "mlx5_2"),
	   "the real reader begins with cpu:1");
	row = te_matrix_row(m, "cpu:0");
	ok(row && row->n == 2 && row->npreferred == 1 && row->nics[0] == 1 && row->nics[1] == 0,
	   "row cpu:0");
	ok(!te_matrix_row(m, "cuda:0") && te_matrix_nic(m, "mlx5_2") == 1 &&
		   te_matrix_nic(m, "mlx5_4") == -1,
	   "what is not there");
	s = te_matrix_format(m);
	ok(!strcmp(s,
		   "{\"cpu:0\":[[\"mlx5_2\"],[\"mlx5_3\"]],\"cpu:1\":[[\"mlx5_3\"],[\"mlx5_2\"]]}"),
	   "sorted again: %s", s);
	free(s);
	te_matrix_free(m);

	m = parse("{\"cpu:0\":[[\"a\",\"b\",\"a\"],[\"b\",\"c\"]]}", NULL);
	s = te_matrix_format(m);
	ok(!strcmp(s, "{\"cpu:0\":[[\"a\",\"b\"],[\"c\"]]}"), "a NIC twice in a row: %s", s);
	free(s);
	te_matrix_free(m);

	m = parse("{}", NULL);
	s = m ? te_matrix_format(m) : NULL;
	ok(s && !strcmp(s, "{}") && !m->nnames && !te_matrix_row(m, "cpu:0"), "no rows");
	free(s);
	te_matrix_free(m);
}

static void test_errors(void)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "line 1" },
		{ "{\"cpu:0\":[[],[]],\n\"cpu:1\":[[,[]]}", "line 2, column 11" },
		{ "[]", "is an object" },
		{ "null", "is an object" },
		{ "{\"cpu:0\":null}", "row 'cpu:0' is not a pair" },
		{ "{\"cpu:0\":[]}", "row 'cpu:0' is not a pair" },
		{ "{\"cpu:0\":[[],[],[]]}", "row 'cpu:0' is not a pair" },
		{ "{\"cpu:0\":[[],\"x\"]}", "row 'cpu:0': the other NICs are not a list" },
		{ "{\"cpu:0\":[{\"a\":1},[]]}", "row 'cpu:0': the preferred NICs are not a list" },
		{ "{\"cpu:0\":[[\"a\",1],[]]}", "row 'cpu:0': preferred NIC 2 is not a string" },
		{ "{\"cpu:0\":[[],[\"\"]]}", "row 'cpu:0': the name of other NIC 1 is empty" },
		{ "{\"\":[[],[]]}", "empty name" },
		{ "{\"cpu:0\":[[\"0123456789012345678901234567890123456789012345678901234567890123"
		  "\"],[]]}",
		  "too long" },
		{ "{\"c\\u0000\":[[],[]]}", "line 1" },
		{ "{\"cpu:0\":[[],[]]} x", "line 1" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct te_err err = { 0 };
		struct te_matrix *m = parse(bad[i].text, &err);

		ok(!m && err.code == -EINVAL && strstr(err.msg, bad[i].says), "%s: %s", bad[i].text,
		   err.msg);
		te_matrix_free(m);
	}
}

/* Text that grows by a printf for each of n entries. */
static char *repeated(const char *first, const char *each, int n, const char *last)
{
	size_t size = strlen(first) + (strlen(each) + 8) * (size_t)n + strlen(last) + 1, len;
	char *s = malloc(size);

	len = (size_t)snprintf(s, size, "%s", first);
	for (int i = 0; i < n; i++)
		len += (size_t)snprintf(s + len, size - len, each, i ? "," : "", i);
	snprintf(s + len, size - len, "%s", last);
	return s;
}

static void test_bounds(void)
{
	static const struct {
		const char *first, *each, *last;
		int n;
		const char *says;
	} big[] = {
		{ "{\"cpu:0\":[[", "%s\"nic%d\"", "],[]]}", 4096, NULL },
		{ "{\"cpu:0\":[[", "%s\"nic%d\"", "],[]]}", 4097, "more than 4096 NICs" },
		{ "{", "%s\"cpu:%d\":[[\"a\"],[]]", "}", 4096, NULL },
		{ "{", "%s\"cpu:%d\":[[\"a\"],[]]", "}", 4097, "more than 4096 rows" },
		{ "{\"cpu:0\":[[", "%s[", "", 5000, "nested" },
		{ "{\"cpu:0\":[[", "%s\"a\"", "],[]]}", 100000, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(big); i++) {
		struct te_err err = { 0 };
		char *text = repeated(big[i].first, big[i].each, big[i].n, big[i].last);
		struct te_matrix *m = parse(text, &err);

		ok(big[i].says ? !m && strstr(err.msg, big[i].says) : m != NULL, "%d times %s: %s",
		   big[i].n, big[i].each, m ? "taken" : err.msg);
		te_matrix_free(m);
		free(text);
	}
}

static bool not_mlx5_1(void *arg, const char *nic)
{
	(void)arg;
	return strcmp(nic, "mlx5_1");
}

static void test_made(void)
{
	struct te_matrix *m = parse("{\"cpu:0\":[[\"mlx5_0\"],[\"mlx5_1\"]],"
				    "\"cpu:1\":[[\"mlx5_1\"],[\"mlx5_0\"]]}",
				    NULL);
	struct te_matrix *cut = te_matrix_filter(m, not_mlx5_1, NULL);
	char *s = te_matrix_format(cut);

	ok(!strcmp(s, "{\"cpu:0\":[[\"mlx5_0\"],[]],\"cpu:1\":[[],[\"mlx5_0\"]]}") &&
		   cut->nnames == 1,
	   "filter: %s", s);
	free(s);
	te_matrix_free(m);
	te_matrix_free(cut);
	te_matrix_free(NULL);
}

static void test_locations(void)
{
	static const struct {
		const char *name;
		uint64_t offset, length;
		const char *location;
	} cases[] = {
		{ "cpu:0", 5, 10, "cpu:0" },
		{ "*", 5, 10, "*" },
		{ "segments:4096:0,1", 0, 8192, "cpu:0" },
		{ "segments:4096:0,1", 4095, 8192, "cpu:0" },
		{ "segments:4096:0,1", 4096, 8192, "cpu:1" },
		{ "segments:4096:3,10,8", 2999, 3001, "cpu:8" },
		{ "segments:4096:3,10,8", 3000, 3001, "cpu:8" },
		{ "segments:4096:7", UINT64_MAX, 1, "cpu:7" },
		{ "segments:4096:0,1,2,3", 2, 3, "cpu:2" },
		{ "segments:4096:0,1,2,3", 9, 0, "cpu:3" },
		{ "segments:4096", 0, 1, "segments:4096" },
		{ "segments:4096:", 0, 1, "segments:4096:" },
		{ "segments:4096:0,", 1, 2, "segments:4096:0," },
		{ "segments:4096:x", 0, 1, "segments:4096:x" },
		{ "segments:4096:1 ,2", 0, 2, "segments:4096:1 ,2" },
		{ "segments:4096:99999999999999999", 0, 1, "segments:4096:99999999999999999" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char buf[32];
		const char *got = te_matrix_location(cases[i].name, cases[i].offset,
						     cases[i].length, buf, sizeof(buf));

		ok(!strcmp(got, cases[i].location), "%s at %llu of %llu: %s", cases[i].name,
		   (unsigned long long)cases[i].offset, (unsigned long long)cases[i].length, got);
	}
}

int main(void)
{
	test_vectors();
	test_against_real();
	test_parse();
	test_errors();
	test_bounds();
	test_made();
	test_locations();
	return tap_end();
}
