/* test_topo.c - topologies: the rules of the matrix, its sources, filters. Made-up machines lie in
 * tests/topo. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "host/nic.h"
#include "host/topo.h"
#include "host/topo_machine.h"
#include "tap.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_topo.h"

/* ---- rules, on machines put together here ---- */

static int object(struct te_machine *m, enum te_topo_kind kind, int parent, const char *name)
{
	struct te_topo_object o = { .kind = kind, .parent = parent };

	te_strlcpy(o.name, name, sizeof(o.name));
	return te_machine_add_object(m, &o);
}

/* Node and package as bits. */
static void place(struct te_places *list, int at, unsigned long nodes, unsigned long package)
{
	hwloc_bitmap_t n = hwloc_bitmap_alloc(), p = hwloc_bitmap_alloc();

	hwloc_bitmap_from_ulong(n, nodes);
	hwloc_bitmap_from_ulong(p, package);
	te_machine_add_place(list, at, 0, n, p);
	hwloc_bitmap_free(n);
	hwloc_bitmap_free(p);
}

static void memory(struct te_machine *m, const char *name, unsigned long node,
		   unsigned long package)
{
	place(&m->memory, object(m, TE_TOPO_MEMORY, 0, name), node, package);
}

static void nic(struct te_machine *m, const char *name, int parent, unsigned long nodes)
{
	place(&m->nics, object(m, TE_TOPO_NIC, parent, name), nodes, 0);
}

static void gpu(struct te_machine *m, const char *name, int parent, unsigned long node,
		unsigned long package)
{
	place(&m->gpus, object(m, TE_TOPO_GPU, parent, name), node, package);
}

static void check(struct te_machine *m, const char *want, const char *what)
{
	char *text = te_machine_matrix(m);

	ok(text && !strcmp(text, want), "%s: %s", what, text);
	free(text);
	te_machine_clear(m);
}

static void test_memory_rules(void)
{
	struct te_machine m = { 0 };

	object(&m, TE_TOPO_MACHINE, -1, "m");
	memory(&m, "cpu:0", 1, 3);
	memory(&m, "cpu:1", 2, 3);
	memory(&m, "cpu:2", 4, 4);
	memory(&m, "cpu:9", 1 << 9, 0);
	nic(&m, "a", 0, 1);
	nic(&m, "b", 0, 7);
	check(&m,
	      "{\"cpu:0\":[[\"a\"],[\"b\"]],\"cpu:1\":[[\"a\"],[\"b\"]],\"cpu:2\":[[],[\"a\",\"b\"]"
	      "],"
	      "\"cpu:9\":[[],[\"a\",\"b\"]]}",
	      "own node, else own package, else none");

	object(&m, TE_TOPO_MACHINE, -1, "m");
	memory(&m, "cpu:0", 1, 3);
	memory(&m, "cpu:1", 2, 3);
	nic(&m, "a", 0, 3);
	check(&m, "{\"cpu:0\":[[\"a\"],[]],\"cpu:1\":[[\"a\"],[]]}",
	      "a NIC without a node of its own is near all of the only package");

	object(&m, TE_TOPO_MACHINE, -1, "m");
	memory(&m, "cpu:0", 1, 1);
	memory(&m, "cpu:1", 2, 2);
	check(&m, "{\"cpu:0\":[[],[]],\"cpu:1\":[[],[]]}", "no NICs");
}

static void test_gpu_rules(void)
{
	struct te_machine m = { 0 };
	int root, far, switch_;

	object(&m, TE_TOPO_MACHINE, -1, "m");
	root = object(&m, TE_TOPO_BRIDGE, 0, "root");
	switch_ = object(&m, TE_TOPO_BRIDGE, root, "switch");
	far = object(&m, TE_TOPO_BRIDGE, 0, "far");
	memory(&m, "cpu:0", 1, 1);
	memory(&m, "cpu:1", 2, 2);
	nic(&m, "a", switch_, 1);
	nic(&m, "b", root, 1);
	nic(&m, "c", far, 2);
	nic(&m, "d", switch_, 1);
	gpu(&m, "cuda:0", switch_, 1, 1);
	gpu(&m, "cuda:1", root, 1, 1);
	gpu(&m, "cuda:2", switch_, 2, 2);
	gpu(&m, "cuda:3", switch_, 4, 4);
	ok(te_machine_hops(&m, switch_, far) == 3 && te_machine_hops(&m, root, root) == 0 &&
		   te_machine_hops(&m, 0, switch_) == 2,
	   "steps by way of parents");
	check(&m,
	      "{\"cpu:0\":[[\"a\",\"b\",\"d\"],[\"c\"]],\"cpu:1\":[[\"c\"],[\"a\",\"b\",\"d\"]],"
	      "\"cuda:0\":[[\"a\",\"d\"],[\"b\",\"c\"]],\"cuda:1\":[[\"b\"],[\"a\",\"c\",\"d\"]],"
	      "\"cuda:2\":[[\"c\"],[\"a\",\"b\",\"d\"]],\"cuda:3\":[[\"a\",\"d\"],[\"b\",\"c\"]]}",
	      "fewest steps within the node, else among all");
}

/* ---- sources ---- */

static char dir[] = "/tmp/te-topo-XXXXXX";

static const char *file(const char *name, const char *text)
{
	static char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		exit(1);
	return path;
}

static void test_input(const char *input, const char *want)
{
	struct te_topo *t = NULL;
	struct te_err err = { 0 };
	int rc = te_topo_open_input(input, &t, &err);
	const char *got = rc ? err.msg : te_topo_json(t);

	ok(want[0] == '{' ? !rc && !strcmp(got, want) : rc && strstr(got, want), "%s: %s", input,
	   got);
	te_topo_close(t);
}

#define GPUS_MATRIX                                                                                \
	"{\"cpu:0\":[[\"mlx5_0\",\"mlx5_1\"],[]],\"cpu:8\":[[],[\"mlx5_0\",\"mlx5_1\"]],"          \
	"\"cuda:0\":[[\"mlx5_1\"],[\"mlx5_0\"]],\"cuda:1\":[[\"mlx5_0\"],[\"mlx5_1\"]]}"

static void test_inputs(void)
{
	test_input("tests/topo/node-a.xml",
		   "{\"cpu:0\":[[\"mlx5_1\"],[\"mlx5_2\"]],\"cpu:1\":[[\"mlx5_2\"],[\"mlx5_1\"]]}");
	test_input("tests/topo/gpus.xml", GPUS_MATRIX);
	test_input("pack:2 [numa] core:2 pu:1", "{\"cpu:0\":[[],[]],\"cpu:1\":[[],[]]}");
	test_input(file("m.json", " \n{\"cpu:0\":[[\"x\"],[]]}\n"), "{\"cpu:0\":[[\"x\"],[]]}");
	test_input(file("bad.json", "{\"cpu:0\":\n[[\"x\"],[]}"), "line 2, column");
	test_input(file("row.json", "{\"cpu:0\":[[\"x\"]]}"), "row 'cpu:0' is not a pair");
	test_input(file("empty", ""), "neither hwloc XML nor a priority matrix");
	test_input(file("bad.xml", "<topology>"), "hwloc");
	test_input("/tmp", "cannot read '/tmp'");
	test_input("/no/such", "neither a file nor");
}

/* Without the numbers of the CUDA runtime the PCI addresses count. */
static void test_pci_gpus(void)
{
	struct te_topo *t = NULL;
	size_t len, n = 0;
	char *text, *p;

	if (te_topo_read_file("tests/topo/gpus.xml", &text, &len, NULL))
		exit(1);
	for (p = text; (p = strstr(p, "\"cuda")); n++)
		memcpy(p, "\"none", 5);
	ok(n == 2 && !te_topo_open_input(file("pci.xml", text), &t, NULL) &&
		   te_topo_row(t, "cuda:0")->npreferred == 1 &&
		   !strcmp(te_topo_row(t, "cuda:0")->nics[0], "mlx5_0") &&
		   !strcmp(te_topo_row(t, "cuda:1")->nics[0], "mlx5_1"),
	   "GPUs in the order of their addresses: %s", t ? te_topo_json(t) : "?");
	te_topo_close(t);
	free(text);
}

static void test_objects(void)
{
	static const char *const kinds[] = { "machine", "package", "group", "memory",
					     "bridge",	"gpu",	   "nic" };
	const struct te_topo_object *o;
	const struct te_topo_nic *nics;
	const struct te_topo_row *row;
	struct te_topo *t;
	size_t n, count[ARRAY_SIZE(kinds)] = { 0 };
	bool sorted = true;

	if (te_topo_open_input("tests/topo/gpus.xml", &t, NULL))
		exit(1);
	n = te_topo_objects(t, &o);
	for (size_t i = 0; i < n; i++) {
		count[o[i].kind]++;
		sorted = sorted && o[i].parent < (int)i && (o[i].parent >= 0) == (i > 0);
	}
	ok(sorted && count[TE_TOPO_MACHINE] == 1 && count[TE_TOPO_PACKAGE] == 2 &&
		   count[TE_TOPO_MEMORY] == 2 && count[TE_TOPO_GPU] == 2 &&
		   count[TE_TOPO_NIC] == 2 && count[TE_TOPO_BRIDGE] == 9,
	   "parents first; nothing for disks");
	ok(!strcmp(o[0].name, "node-g") && !strcmp(o[1].name, "package 0") && o[1].cpus == 2 &&
		   !strcmp(o[2].name, "cpu:0") && o[2].bytes == 64ull << 30,
	   "host, package, memory");
	n = te_topo_nics(t, &nics);
	ok(n == 2 && nics[0].present && !strcmp(nics[0].state, "ACTIVE") &&
		   !strcmp(nics[1].state, "DOWN") && nics[0].numa_node == 0 &&
		   !strcmp(nics[0].pci, "0000:19:00.0") && nics[0].gid_index == 0 &&
		   !strncmp(nics[0].gid, "fe:80:", 6),
	   "NICs");
	row = te_topo_row(t, "*");
	ok(row && row->n == 2 && row->npreferred == 2 && !te_topo_row(t, "cpu:1"), "rows");
	ok(te_topo_rows(t, &row) == 4 && !strcmp(row[3].location, "cuda:1"), "in order");
	te_topo_close(t);
	te_topo_close(NULL);
}

/* ---- what an engine publishes ---- */

static void publishes(struct te_conf *conf, struct te_topo_wish *wish, const char *want)
{
	struct te_err err = { 0 };
	char *text = NULL;
	int rc = te_topo_matrix(conf, wish, &text, &err);
	const char *got = rc ? err.msg : text;

	ok(want[0] == '{' ? !rc && !strcmp(got, want) : rc && strstr(got, want), "%s", got);
	free(text);
	memset(conf, 0, sizeof(*conf));
	memset(wish, 0, sizeof(*wish));
}

static void test_published(void)
{
	static const char given[] = "{\"cpu:0\":[[\"a\"],[\"b\"]]}";
	struct te_topo_wish wish = { 0 };
	struct te_conf conf = { 0 };

	wish.nic_priority_matrix = given;
	te_strlcpy(conf.custom_topo_json, "/no/such", sizeof(conf.custom_topo_json));
	publishes(&conf, &wish, given);
	wish.nic_priority_matrix = "{\"cpu:0\":0}";
	publishes(&conf, &wish, "priority matrix: row 'cpu:0'");
	te_strlcpy(conf.custom_topo_json, file("c.json", given), sizeof(conf.custom_topo_json));
	publishes(&conf, &wish, given);
	te_strlcpy(conf.custom_topo_json, "/no/such", sizeof(conf.custom_topo_json));
	publishes(&conf, &wish, "MC_CUSTOM_TOPO_JSON: cannot read '/no/such': No such file");
	te_strlcpy(conf.custom_topo_json, file("d.json", "{\n\n!"), sizeof(conf.custom_topo_json));
	publishes(&conf, &wish, "d.json': invalid JSON at line 3, column 1");

	wish.nic_priority_matrix = given;
	wish.device_name = " b ,";
	publishes(&conf, &wish, "{\"cpu:0\":[[],[\"b\"]]}");
	wish.nic_priority_matrix = given;
	wish.device_name = "a,c";
	publishes(&conf, &wish, "no NIC 'c' in the priority matrix; there: a, b");
	wish.nic_priority_matrix = given;
	wish.device_name = " , ";
	publishes(&conf, &wish, given);
	wish.nic_priority_matrix = given;
	te_strlcpy(conf.te_filters, "a,unknown", sizeof(conf.te_filters));
	publishes(&conf, &wish, "{\"cpu:0\":[[\"a\"],[]]}");
	wish.device_name = "mlx5_no";
	publishes(&conf, &wish, "no NIC 'mlx5_no' on this host; there: ");
}

/* Whatever this host is: its matrix has a row for its memory, and both ways to it agree. */
static void test_host(void)
{
	struct te_conf conf = { .ib_port = 1, .gid_index = -1 };
	struct te_topo_wish wish = { 0 };
	char name[1][TE_NIC_NAME];
	struct te_topo *t = NULL;
	char *text = NULL;

	ok(!te_topo_matrix(&conf, &wish, &text, NULL) && strstr(text, "\"cpu:"), "%s", text);
	ok(!te_topo_open_host(&conf, &t, NULL) && te_topo_row(t, "cpu:0"), "%s", te_topo_json(t));
	if (te_nic_list(name, 1, NULL) == 1)
		ok(!strcmp(text, te_topo_json(t)), "and they agree");
	else
		ok(!te_topo_row(t, "cpu:0")->n, "no NIC here, lists are empty");
	te_topo_close(t);
	free(text);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	test_memory_rules();
	test_gpu_rules();
	test_inputs();
	test_pci_gpus();
	test_objects();
	test_published();
	test_host();
	for (const char *const *f =
		     (const char *const[]){ "m.json", "bad.json", "row.json", "empty", "bad.xml",
					    "pci.xml", "c.json", "d.json", NULL };
	     *f; f++)
		unlink(file(*f, ""));
	rmdir(dir);
	return tap_end();
}
