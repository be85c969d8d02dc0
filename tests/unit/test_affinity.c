/* test_affinity.c - MC_NIC_PEER_AFFINITY: which NICs a rule leaves out. */
#include "base/util.h"
#include "tap.h"
#include "transport/rdma/affinity.h"

int main(void)
{
	static const struct {
		const char *rules, *location, *local, *remote;
		bool excluded;
	} cases[] = {
		{ "a=x,y;b=z", "cuda:0", "a", "x", false },
		{ "a=x,y;b=z", "cuda:0", "a", "y", false },
		{ "a=x,y;b=z", "cuda:0", "a", "z", true },
		{ "a=x,y;b=z", "cuda:0", "b", "z", false },
		{ "a=x,y;b=z", "cuda:0", "b", "x", true },
		{ "a=x,y;b=z", "musa:7", "b", "x", true },
		{ "a=x,y;b=z", "cuda:0", "c", "x", false },
		{ "a=x,y;b=z", "cpu:0", "a", "z", false },
		{ "a=x,y;b=z", "*", "a", "z", false },
		{ "a=x,y;b=z", "segments:4096:0,1", "a", "z", false },
		{ " a = x , y ; b = z ;", "cuda:0", "a", "y", false },
		{ " a = x , y ; b = z ;", "cuda:0", "b", "y", true },
		{ "a=x;a=z", "cuda:0", "a", "z", false },
		{ "aa=x", "cuda:0", "a", "z", false },
		{ "a=xx", "cuda:0", "a", "x", true },
		{ "", "cuda:0", "a", "x", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ok(te_affinity_excludes(cases[i].rules, cases[i].location, cases[i].local,
					cases[i].remote) == cases[i].excluded,
		   "'%s': %s to %s for %s", cases[i].rules, cases[i].local, cases[i].remote,
		   cases[i].location);
	return tap_end();
}
