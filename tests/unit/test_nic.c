/* test_nic.c - RDMA devices: GIDs ranked, chosen and written, sysfs, errors. Needs no device. */
#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "host/gid.h"
#include "host/nic.h"
#include "host/nic_sysfs.h"
#include "tap.h"
#include "te_conf.h"
#include "te_err.h"

static struct te_nic_gid gid(unsigned index, const char *address, uint32_t type, const char *netdev)
{
	struct te_nic_gid g = { .index = index, .type = type };

	inet_pton(AF_INET6, address, g.gid.raw);
	te_strlcpy(g.netdev, netdev, sizeof(g.netdev));
	g.rank = te_gid_rank(&g);
	return g;
}

/* ---- ranks ---- */

static void test_ranks(void)
{
	enum { IB = IBV_GID_TYPE_IB, V1 = IBV_GID_TYPE_ROCE_V1, V2 = IBV_GID_TYPE_ROCE_V2 };
	static const struct {
		const char *address;
		uint32_t type;
		const char *netdev;
		int rank;
	} cases[] = {
		{ "::ffff:8.8.8.8", V2, "eth0", 1 },
		{ "::ffff:192.168.3.76", V2, "eth0", 1 },
		{ "2001:db8::1", V2, "eth0", 1 },
		{ "fd00::1", V2, "eth0", 1 },
		{ "fec0::1", V2, "eth0", 1 },
		{ "::ffff:8.8.8.8", V2, "", 2 },
		{ "2001:db8::1", V2, "", 2 },
		{ "::ffff:10.0.0.1", V2, "eth0", 3 },
		{ "::ffff:172.16.0.1", V2, "eth0", 3 },
		{ "::ffff:172.31.255.1", V2, "eth0", 3 },
		{ "::ffff:172.32.0.1", V2, "eth0", 1 },
		{ "::ffff:172.15.0.1", V2, "eth0", 1 },
		{ "::ffff:100.64.0.1", V2, "eth0", 3 },
		{ "::ffff:100.127.0.1", V2, "eth0", 3 },
		{ "::ffff:100.128.0.1", V2, "eth0", 1 },
		{ "fe80::1", V2, "eth0", 4 },
		{ "febf::1", V2, "eth0", 4 },
		{ "::ffff:8.8.8.8", V2, "docker0", 4 },
		{ "::ffff:172.17.0.1", V2, "docker0", 4 },
		{ "2001:db8::1", V2, "flannel.1", 4 },
		{ "2001:db8::1", V2, "cni0", 4 },
		{ "2001:db8::1", V2, "calico1", 4 },
		{ "2001:db8::1", V2, "vxlan.calico", 4 },
		{ "2001:db8::1", V2, "tunl0", 4 },
		{ "2001:db8::1", V2, "tunl01", 1 },
		{ "::ffff:10.0.0.1", V2, "", 5 },
		{ "fe80::1", V2, "", 6 },
		{ "fe80::1", IB, "", 6 },
		{ "fec0::1", IB, "", 2 },
		{ "2001:db8::1", V1, "eth0", 7 },
		{ "fe80::1", V1, "", 7 },
		{ "2001:db8::1", 9, "eth0", 7 },
		{ "::", V2, "eth0", 0 },
		{ "::", V1, "eth0", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct te_nic_gid g = gid(0, cases[i].address, cases[i].type, cases[i].netdev);

		ok(g.rank == cases[i].rank, "%s %s '%s' has rank %d", cases[i].address,
		   te_gid_type_text(cases[i].type), cases[i].netdev, g.rank);
	}
}

/* ---- choice ---- */

static struct te_nic_port *port(void)
{
	static struct te_nic_port p;

	memset(&p, 0, sizeof(p));
	te_strlcpy(p.name, "mlx5_0", sizeof(p.name));
	p.port = 1;
	p.state = IBV_PORT_ACTIVE;
	p.state_text = "ACTIVE";
	p.gids[0] = gid(0, "fe80::1", IBV_GID_TYPE_ROCE_V1, "eth0");
	p.gids[1] = gid(1, "fe80::1", IBV_GID_TYPE_ROCE_V2, "eth0");
	p.gids[2] = gid(2, "::ffff:192.168.3.76", IBV_GID_TYPE_ROCE_V1, "eth0");
	p.gids[3] = gid(3, "::ffff:192.168.3.76", IBV_GID_TYPE_ROCE_V2, "eth0");
	p.gids[4] = gid(5, "2001:db8::1", IBV_GID_TYPE_ROCE_V2, "eth0");
	p.ngids = 5;
	return &p;
}

static void test_choice(void)
{
	struct te_nic_port *p = port();
	uint64_t tried[TE_NIC_GIDS / 64] = { 0 };
	struct te_err err = { 0 };

	ok(!te_gid_choose(p, -1, NULL, &err) && p->chosen == 3 &&
		   !strcmp(p->why, "RoCE v2, routable, netdev eth0 (rank 1, best of 5)"),
	   "the lowest index of the best rank: %s", p->why);
	tried[0] = 1 << 3;
	ok(!te_gid_choose(p, -1, tried, &err) && p->chosen == 4, "the next after that: %s", p->why);
	tried[0] = 1 << 3 | 1 << 4 | 1 << 1;
	ok(!te_gid_choose(p, -1, tried, &err) && p->chosen == 0 &&
		   !strcmp(p->why, "RoCE v1, link-local, netdev eth0 (rank 7, best of 2)"),
	   "RoCE v1 at last: %s", p->why);
	tried[0] = 31;
	ok(!te_gid_choose(p, -1, tried, &err) && p->chosen == -1 &&
		   !strcmp(p->why, "all GIDs were tried"),
	   "none left: %s", p->why);
	ok(te_nic_usable(p, &err) == -EADDRNOTAVAIL && strstr(err.msg, "all GIDs were tried") &&
		   strstr(err.msg, "GID table: 0 fe80::1 RoCE v1 (eth0); 1"),
	   "and then it is unusable: %s", err.msg);

	ok(!te_gid_choose(p, 5, NULL, &err) && p->chosen == 4 &&
		   !strcmp(p->why, "RoCE v2, routable, netdev eth0 (rank 1, index set by "
				   "MC_GID_INDEX)"),
	   "a fixed index: %s", p->why);
	ok(te_gid_choose(p, 4, NULL, &err) == -EINVAL && p->chosen == -1 &&
		   !strcmp(err.msg,
			   "device 'mlx5_0' port 1 has no GID 4 (MC_GID_INDEX); GID table: "
			   "0 fe80::1 RoCE v1 (eth0); 1 fe80::1 RoCE v2 (eth0); "
			   "2 ::ffff:192.168.3.76 RoCE v1 (eth0); "
			   "3 ::ffff:192.168.3.76 RoCE v2 (eth0); "
			   "5 2001:db8::1 RoCE v2 (eth0)"),
	   "a wrong one: %s", err.msg);

	p->ngids = 0;
	ok(!te_gid_choose(p, -1, NULL, &err) && p->chosen == -1 &&
		   te_nic_usable(p, &err) == -EADDRNOTAVAIL &&
		   strstr(err.msg, "the GID table is empty; GID table: empty"),
	   "no GID at all: %s", err.msg);
}

static void test_usable(void)
{
	struct te_nic_port *p = port();
	struct te_err err = { 0 };

	te_gid_choose(p, -1, NULL, NULL);
	ok(!te_nic_usable(p, &err), "active, with a GID");
	p->state = IBV_PORT_DOWN;
	p->state_text = "DOWN";
	ok(te_nic_usable(p, &err) == -ENETDOWN &&
		   strstr(err.msg, "device 'mlx5_0' port 1 is DOWN") &&
		   strstr(err.msg, "GID table"),
	   "down: %s", err.msg);
}

/* Long tables are cut at a row, whatever the room. */
static void test_long_table(void)
{
	struct te_nic_port *p = port();
	struct te_err err = { 0 };
	char buf[400];
	bool good = true;

	for (unsigned i = 0; i < TE_NIC_GIDS; i++)
		p->gids[i] = gid(i, "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff", IBV_GID_TYPE_ROCE_V2,
				 "enp194s0f1np1");
	p->ngids = TE_NIC_GIDS;
	ok(te_gid_choose(p, 255, NULL, &err) == 0 && p->chosen == 255, "the last of 256");
	p->ngids = TE_NIC_GIDS - 1;
	ok(te_gid_choose(p, 255, NULL, &err) == -EINVAL &&
		   !strcmp(err.msg + strlen(err.msg) - 5, " more") && strlen(err.msg) < 503,
	   "whole: %s", err.msg);
	for (size_t size = 32; size < sizeof(buf); size++) {
		memset(buf, 'x', sizeof(buf));
		te_gid_table(p, buf, size);
		good = good && strlen(buf) < size && !strcmp(buf + strlen(buf) - 5, " more");
	}
	ok(good, "a table in 32 to 399 bytes");
}

/* ---- text ---- */

static void test_text(void)
{
	static const char good[] = "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4c";
	static const char *const bad[] = {
		"",
		"00",
		"00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03",
		"00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4c:",
		"00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4c:00",
		"00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4g",
		"00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03 4c",
		" 0:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4c",
		"0x:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4c",
		"0:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:03:4cc",
	};
	char text[TE_GID_TEXT], addr[INET6_ADDRSTRLEN];
	union ibv_gid g;

	ok(te_nic_gid_parse(good, &g) && !strcmp(te_nic_gid_text(&g, text), good), "%s", text);
	inet_ntop(AF_INET6, g.raw, addr, sizeof(addr));
	ok(!strcmp(addr, "::ffff:192.168.3.76"), "is %s", addr);
	ok(te_nic_gid_parse("FE:80:00:00:00:00:00:00:00:00:00:00:00:00:00:0A", &g) &&
		   g.raw[0] == 0xfe && g.raw[15] == 10,
	   "upper case is read too");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ok(!te_nic_gid_parse(bad[i], &g), "not '%s'", bad[i]);
}

static void test_subnets(void)
{
	static const struct {
		const char *own, *netdev, *peer;
		bool same;
	} cases[] = {
		{ "fe80::1", "eth0", "fe80::2", true },
		{ "2001:db8:0:1::1", "eth0", "2001:db8:0:1:ffff::2", true },
		{ "2001:db8:0:1::1", "eth0", "2001:db8:0:2::1", false },
		{ "::ffff:127.0.0.1", "lo", "::ffff:127.8.9.10", true },
		{ "::ffff:127.0.0.1", "lo", "::ffff:126.0.0.1", false },
		{ "::ffff:127.0.0.1", "no-such", "::ffff:127.0.0.1", false },
		{ "::ffff:127.0.0.9", "lo", "::ffff:127.0.0.1", false },
		{ "::ffff:127.0.0.1", "lo", "2001:db8::1", false },
		{ "2001:db8::1", "lo", "::ffff:127.0.0.1", false },
	};
	union ibv_gid a = { .raw = { 0xff, 0xf0 } }, b = { .raw = { 0xff, 0xf8 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct te_nic_gid own = gid(0, cases[i].own, IBV_GID_TYPE_ROCE_V2, cases[i].netdev);
		struct te_nic_gid peer = gid(0, cases[i].peer, IBV_GID_TYPE_ROCE_V2, "");

		te_gid_find_prefixes(&own, 1);
		ok(te_nic_same_subnet(&own, &peer.gid) == cases[i].same, "%s on %s and %s",
		   cases[i].own, cases[i].netdev, cases[i].peer);
	}
	ok(te_gid_same_prefix(&a, &b, 12) && !te_gid_same_prefix(&a, &b, 13) &&
		   te_gid_same_prefix(&a, &a, 128) && te_gid_same_prefix(&a, &b, 0),
	   "prefixes that end within a byte");
}

/* ---- sysfs, in a folder of ours ---- */

static char root[] = "/tmp/te-nic-XXXXXX";

static void make(const char *path, const char *text)
{
	char full[PATH_MAX], *slash;
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (slash = strchr(full + sizeof(root), '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	f = text ? fopen(full, "w") : NULL;
	if (!f)
		return;
	fputs(text, f);
	fclose(f);
}

static int unmake(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void test_sysfs(void)
{
	char text[16], link[PATH_MAX];

	if (!mkdtemp(root))
		exit(1);
	make("devices/pci0000:3a/0000:3b:00.0/numa_node", "1\n");
	make("mlx5_0/ports/2/gid_attrs/ndevs/3", "eth1\n");
	make("mlx5_0/ports/2/gid_attrs/ndevs/4", "a-name-that-is-longer-than-16\n");
	make("devices/virtual/net/numa_node", "-1\n");
	make("rxe0/x", "");
	snprintf(link, sizeof(link), "%s/mlx5_0/device", root);
	if (symlink("../devices/pci0000:3a/0000:3b:00.0", link))
		exit(1);
	snprintf(link, sizeof(link), "%s/rxe0/device", root);
	if (symlink("../devices/virtual/net", link))
		exit(1);

	te_nic_sysfs_pci(root, "mlx5_0", text, sizeof(text));
	ok(!strcmp(text, "0000:3b:00.0"), "PCI address %s", text);
	ok(te_nic_sysfs_numa(root, "mlx5_0") == 1, "NUMA node 1");
	te_nic_sysfs_netdev(root, "mlx5_0", 2, 3, text, sizeof(text));
	ok(!strcmp(text, "eth1"), "netdev %s", text);
	te_nic_sysfs_netdev(root, "mlx5_0", 2, 4, text, sizeof(text));
	ok(strlen(text) == 15, "a long one is cut: %s", text);
	te_nic_sysfs_netdev(root, "mlx5_0", 1, 3, text, sizeof(text));
	ok(!*text, "no netdev");
	te_nic_sysfs_pci(root, "rxe0", text, sizeof(text));
	ok(!*text && te_nic_sysfs_numa(root, "rxe0") == -1, "a software device sits nowhere");
	te_nic_sysfs_pci(root, "none", text, sizeof(text));
	ok(!*text && te_nic_sysfs_numa(root, "none") == -1, "nor does one that is not there");
	nftw(root, unmake, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- this host ---- */

static void test_host(void)
{
	static char names[64][TE_NIC_NAME];
	static struct te_nic_port p;
	struct te_conf conf = { .ib_port = 1, .gid_index = -1 };
	struct ibv_context *ctx;
	struct te_err err = { 0 };
	int n = te_nic_list(names, ARRAY_SIZE(names), &err);

	ok(te_nic_query(&conf, "no-such", &p, &err) == -ENODEV &&
		   strstr(err.msg, "no RDMA device 'no-such' on this host; there "),
	   "%s", err.msg);
	ok(te_nic_open("no-such", &ctx, &err) == -ENODEV, "nor can it be opened");
	if (n > 0) {
		conf.ib_port = 99;
		ok(te_nic_query(&conf, names[0], &p, &err) == -EINVAL &&
			   strstr(err.msg, "has no port 99"),
		   "%s", err.msg);
		return;
	}
	n = te_nic_list(names, ARRAY_SIZE(names), &err);
	ok(n == -ENOENT && strstr(err.msg, "/sys/class/infiniband"), "%s", err.msg);
	skip("no RDMA device here to ask about port 99");
}

int main(void)
{
	test_ranks();
	test_choice();
	test_usable();
	test_long_table();
	test_text();
	test_subnets();
	test_sysfs();
	test_host();
	return tap_end();
}
