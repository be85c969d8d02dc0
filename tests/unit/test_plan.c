/* test_plan.c - the rails of memory here to memory there, and the order in which they are taken. */
#include <string.h>

#include "rail_rig.h"
#include "tap.h"

/* "a0-b0 a1-b1, a0-b1 a1-b0": the rails of memory at `own` to memory at `theirs`, best class first,
   a comma between classes. */
static const char *plan_text(struct rig *g, const char *own, const char *theirs)
{
	static char text[600];
	const struct te_matrix *m = g->t.matrix, *pm = g->p->table->matrix;
	const struct te_matrix_row *row = te_matrix_row(m, own);
	const struct te_matrix_row *prow = pm ? te_matrix_row(pm, theirs) : NULL;
	size_t a = row ? (size_t)(row - m->rows) : m->nrows, len = 0;
	size_t b = prow ? (size_t)(prow - pm->rows) : pm ? pm->nrows : 0;
	const struct rdma_plan *plan = rdma_plan(g->p, a, b);
	const char *sep = "";

	*text = '\0';
	for (unsigned class = 0; plan && class < 256; class ++, sep = len ? ", " : "")
		for (size_t i = 0; i < plan->n; i++)
			if (plan->class[i] == class) {
				len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", sep,
							name(plan->rails[i]));
				sep = " ";
			}
	return text;
}

static const struct plan_case {
	const char *what;
	struct host here, there;
	const char *own, *theirs;
	bool same_name;
	const char *rules; /* MC_NIC_PEER_AFFINITY */
	const char *want;
} plan_cases[] = {
	{ .what = "one to one",
	  .here = { .nic = { "a0/1" } },
	  .there = { .nic = { "b0/1" } },
	  .want = "a0-b0" },
	{ .what = "2x2: one for each NIC, the others spare",
	  .here = { .nic = { "a0/1", "a1/1" } },
	  .there = { .nic = { "b0/1", "b1/1" } },
	  .want = "a0-b0 a1-b1, a0-b1 a1-b0" },
	{ .what = "2x1: both ours",
	  .here = { .nic = { "a0/1", "a1/1" } },
	  .there = { .nic = { "b0/1" } },
	  .want = "a0-b0 a1-b0" },
	{ .what = "1x2: both of theirs",
	  .here = { .nic = { "a0/1" } },
	  .there = { .nic = { "b0/1", "b1/1" } },
	  .want = "a0-b0 a0-b1" },
	{ .what = "3x2: all five, no more rails than that needs",
	  .here = { .nic = { "a0/1", "a1/1", "a2/1" } },
	  .there = { .nic = { "b0/1", "b1/1" } },
	  .want = "a0-b0 a1-b1 a2-b0, a0-b1 a1-b0 a2-b1" },
	{ .what = "4x4: four rails",
	  .here = { .nic = { "a0/1", "a1/1", "a2/1", "a3/1" } },
	  .there = { .nic = { "b0/1", "b1/1", "b2/1", "b3/1" } },
	  .want = "a0-b0 a1-b1 a2-b2 a3-b3, a0-b1 a0-b2 a0-b3 a1-b0 a1-b2 a1-b3 a2-b0 a2-b1 a2-b3 "
		  "a3-b0 a3-b1 a3-b2" },
	{ .what = "same subnet before others",
	  .here = { .nic = { "a0/1", "a1/2" } },
	  .there = { .nic = { "b0/2", "b1/1" } },
	  .want = "a0-b1 a1-b0, a0-b0 a1-b1" },
	{ .what = "no subnet shared: routed, matched as well",
	  .here = { .nic = { "a0/1", "a1/2" } },
	  .there = { .nic = { "b0/3", "b1/4" } },
	  .want = "a0-b0 a1-b1, a0-b1 a1-b0" },
	{ .what = "preferred tier first, ours",
	  .here = { { "a0/1", "a1/1" }, "{\"cpu:0\":[[\"a1\"],[\"a0\"]]}" },
	  .there = { .nic = { "b0/1" } },
	  .want = "a1-b0, a0-b0" },
	{ .what = "preferred tier first, theirs",
	  .here = { .nic = { "a0/1" } },
	  .there = { { "b0/1", "b1/1" }, "{\"cpu:0\":[[\"b1\"],[\"b0\"]]}" },
	  .want = "a0-b1, a0-b0" },
	{ .what = "a tier is worth more than a subnet",
	  .here = { { "a0/1", "a1/2" }, "{\"cpu:0\":[[\"a0\"],[\"a1\"]]}" },
	  .there = { .nic = { "b0/2" } },
	  .want = "a0-b0, a1-b0" },
	{ .what = "both preferred, then one, then none",
	  .here = { { "a0/1", "a1/1" }, "{\"cpu:0\":[[\"a0\"],[\"a1\"]]}" },
	  .there = { { "b0/1", "b1/1" }, "{\"cpu:0\":[[\"b1\"],[\"b0\"]]}" },
	  .want = "a0-b1, a0-b0 a1-b1, a1-b0" },
	{ .what = "a NIC that the row does not name is never used",
	  .here = { { "a0/1", "a1/1" }, "{\"cpu:0\":[[\"a1\"],[]],\"cpu:1\":[[\"a0\"],[]]}" },
	  .there = { { "b0/1", "b1/1" }, "{\"cpu:0\":[[\"b0\"],[]],\"cpu:1\":[[\"b1\"],[]]}" },
	  .want = "a1-b0" },
	{ .what = "another location, another plan",
	  .here = { { "a0/1", "a1/1" }, "{\"cpu:0\":[[\"a1\"],[]],\"cpu:1\":[[\"a0\"],[]]}" },
	  .there = { { "b0/1", "b1/1" }, "{\"cpu:0\":[[\"b0\"],[]],\"cpu:1\":[[\"b1\"],[]]}" },
	  .own = "cpu:1",
	  .theirs = "cpu:1",
	  .want = "a0-b1" },
	{ .what = "a location without a row takes any NIC",
	  .here = { { "a0/1", "a1/1" }, "{\"cpu:0\":[[\"a1\"],[\"a0\"]]}" },
	  .there = { { "b0/1", "b1/1" }, "{\"cpu:0\":[[\"b0\"],[]]}" },
	  .own = "*",
	  .theirs = "cpu:7",
	  .want = "a0-b0 a1-b1, a0-b1 a1-b0" },
	{ .what = "so does an empty row",
	  .here = { .nic = { "a0/1" } },
	  .there = { { "b0/1", "b1/1" }, "{\"cpu:0\":[[],[]],\"cpu:1\":[[\"b0\",\"b1\"],[]]}" },
	  .want = "a0-b0 a0-b1" },
	{ .what = "a matrix of NICs that no device is",
	  .here = { .nic = { "a0/1" } },
	  .there = { { "b0/1" }, "{\"cpu:0\":[[\"x0\"],[\"x1\"]]}" },
	  .want = "" },
	{ .what = "a matrix that cannot be read is none",
	  .here = { .nic = { "a0/1" } },
	  .there = { { "b0/1" }, "{\"cpu:0\":[\"b0\"" },
	  .want = "a0-b0" },
	{ .what = "same names do not matter",
	  .here = { .nic = { "n0/1", "n1/1" } },
	  .there = { .nic = { "n1/1", "n0/1" } },
	  .want = "n0-n1 n1-n0, n0-n0 n1-n1" },
	{ .what = "but with MC_ENABLE_DEST_DEVICE_AFFINITY they do",
	  .here = { .nic = { "n0/1", "n1/1" } },
	  .there = { .nic = { "n1/1", "n0/1" } },
	  .same_name = true,
	  .want = "n0-n0 n1-n1, n0-n1 n1-n0" },
	{ .what = "where there is one of that name",
	  .here = { .nic = { "n0/1", "n1/1", "n2/1" } },
	  .there = { .nic = { "n2/1", "m0/1", "m1/1" } },
	  .same_name = true,
	  .want = "n0-m0 n1-m1 n2-n2, n0-n2 n0-m1 n1-n2 n1-m0 n2-m0 n2-m1" },
	{ .what = "a rule for GPU memory there",
	  .here = { .nic = { "a0/1", "a1/1" } },
	  .there = { { "b0/1", "b1/1" },
		     "{\"cpu:0\":[[\"b0\",\"b1\"],[]],\"cuda:0\":[[\"b0\",\"b1\"],[]]}" },
	  .theirs = "cuda:0",
	  .rules = "a0=b1;a1=b0",
	  .want = "a0-b1 a1-b0, a0-b0 a1-b1" },
	{ .what = "is none for host memory",
	  .here = { .nic = { "a0/1", "a1/1" } },
	  .there = { { "b0/1", "b1/1" },
		     "{\"cpu:0\":[[\"b0\",\"b1\"],[]],\"cuda:0\":[[\"b0\",\"b1\"],[]]}" },
	  .rules = "a0=b1;a1=b0",
	  .want = "a0-b0 a1-b1, a0-b1 a1-b0" },
};

static void plans(void)
{
	static struct rig g;

	for (size_t i = 0; i < ARRAY_SIZE(plan_cases); i++) {
		const struct plan_case *c = &plan_cases[i];
		const char *text;

		rig_open(&g, &c->here, &c->there);
		g.conf.dest_affinity = c->same_name;
		g.conf.hca_peer_affinity = c->rules;
		te_strlcpy(g.conf.nic_peer_affinity, c->rules ? c->rules : "",
			   sizeof(g.conf.nic_peer_affinity));
		rdma_plan_rails(g.p, NULL);
		text = plan_text(&g, c->own ? c->own : "cpu:0", c->theirs ? c->theirs : "cpu:0");
		ok(!strcmp(text, c->want), "plan: %s: %s", c->what, text);
		rig_close(&g);
	}
}

/* Three hundred devices would be thousands of rails. */
static void too_many(void)
{
	enum { DEVICES = 300 };
	static char names[DEVICES][16];
	static struct te_desc_device devices[DEVICES];
	static const struct host one = { .nic = { "a0/1" } };
	static struct rig g;
	const struct te_desc desc = { .name = (char *)"wide",
				      .protocol = (char *)"rdma",
				      .devices = devices,
				      .ndevices = DEVICES };
	const struct te_peer_info info = { .name = "wide", .desc = &desc };
	const struct rdma_plan *plan;
	struct te_peer *peer;
	unsigned matched = 0;

	for (unsigned i = 0; i < DEVICES; i++) {
		snprintf(names[i], sizeof(names[i]), "b%u", i);
		devices[i].name = names[i];
		devices[i].gid = (char *)"fd:00:00:00:00:00:00:31:00:00:00:00:00:00:00:02";
	}
	rig_open(&g, &one, &one);
	rdma_peer_free(g.p);
	if (rdma_peer_open(&g.t.base, &info, &peer, NULL) < 0)
		abort();
	g.p = container_of(peer, struct rdma_peer, base);
	plan = rdma_plan(g.p, g.t.matrix->nrows, 0);
	for (size_t i = 0; plan && i < plan->n; i++)
		matched += plan->class[i] == 0;
	ok(plan && plan->n == RDMA_DEVICES && matched == RDMA_DEVICES,
	   "%d devices: the first %d are used", DEVICES, RDMA_DEVICES);
	rig_close(&g);
}

int main(void)
{
	te_log_set_level(TE_LOG_ERROR);
	plans();
	too_many();
	return tap_end();
}
