/* gid.c - GIDs of a port: ranked as INTEROP 4.1 says, chosen, and written out. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "host/gid.h"
#include "te_err.h"

enum { GID_BYTES = 16, V4_AT = 12, RANK_OTHER_TYPE = 7 };

/* What a GID's address is worth. */
enum reach { ROUTABLE, PRIVATE_V4, DEGRADED };

static bool is_v4(const union ibv_gid *gid)
{
	static const uint8_t mapped[V4_AT] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static bool is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* 192.168/16 counts as routable: it is what small RDMA fabrics use. */
static bool is_private_v4(const union ibv_gid *gid)
{
	const uint8_t *v4 = gid->raw + V4_AT;

	return is_v4(gid) && (v4[0] == 10 || (v4[0] == 172 && (v4[1] & 0xf0) == 16) ||
			      (v4[0] == 100 && (v4[1] & 0xc0) == 64));
}

static bool is_overlay(const char *netdev)
{
	static const char *const prefixes[] = { "flannel", "cni", "calico", "vxlan", "docker" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (!strncmp(netdev, prefixes[i], strlen(prefixes[i])))
			return true;
	return !strcmp(netdev, "tunl0");
}

static enum reach reach(const struct te_nic_gid *g)
{
	if (is_link_local(&g->gid) || is_overlay(g->netdev))
		return DEGRADED;
	return is_private_v4(&g->gid) ? PRIVATE_V4 : ROUTABLE;
}

static bool is_null(const union ibv_gid *gid)
{
	static const uint8_t zero[GID_BYTES];

	return !memcmp(gid->raw, zero, sizeof(zero));
}

int te_gid_rank(const struct te_nic_gid *g)
{
	static const int ranks[2][3] = {
		[true] = { [ROUTABLE] = 1, [PRIVATE_V4] = 3, [DEGRADED] = 4 },
		[false] = { [ROUTABLE] = 2, [PRIVATE_V4] = 5, [DEGRADED] = 6 },
	};

	if (is_null(&g->gid))
		return 0;
	if (g->type != IBV_GID_TYPE_IB && g->type != IBV_GID_TYPE_ROCE_V2)
		return RANK_OTHER_TYPE;
	return ranks[*g->netdev != '\0'][reach(g)];
}

const char *te_gid_type_text(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_IB:
		return "IB";
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	default:
		return "unknown type";
	}
}

static const char *reach_text(const struct te_nic_gid *g)
{
	if (is_link_local(&g->gid))
		return "link-local";
	if (is_overlay(g->netdev))
		return "of an overlay network";
	return is_private_v4(&g->gid) ? "private IPv4" : "routable";
}

/* "RoCE v2, routable, netdev eth1 (rank 1, best of 4)" */
static void explain(struct te_nic_port *p, const char *how)
{
	const struct te_nic_gid *g = &p->gids[p->chosen];

	snprintf(p->why, sizeof(p->why), "%s, %s, %s%s (rank %d, %s)", te_gid_type_text(g->type),
		 reach_text(g), *g->netdev ? "netdev " : "no netdev", g->netdev, g->rank, how);
}

static int choose_fixed(struct te_nic_port *p, int64_t fixed, struct te_err *err)
{
	char table[360];

	for (size_t i = 0; i < p->ngids; i++)
		if (p->gids[i].index == fixed)
			p->chosen = (int)i;
	if (p->chosen >= 0) {
		explain(p, "index set by MC_GID_INDEX");
		return 0;
	}
	snprintf(p->why, sizeof(p->why), "no GID has index %d, which MC_GID_INDEX asks for",
		 (int)fixed);
	return te_fail(err, -EINVAL, "device '%s' port %u has no GID %d (MC_GID_INDEX); %s",
		       p->name, p->port, (int)fixed, te_gid_table(p, table, sizeof(table)));
}

static bool is_tried(const uint64_t *tried, size_t i)
{
	return tried && tried[i / 64] >> i % 64 & 1;
}

int te_gid_choose(struct te_nic_port *p, int64_t fixed, const uint64_t *tried, struct te_err *err)
{
	size_t candidates = 0;
	char how[32];

	p->chosen = -1;
	if (fixed >= 0)
		return choose_fixed(p, fixed, err);
	for (size_t i = 0; i < p->ngids; i++) {
		if (!p->gids[i].rank || is_tried(tried, i))
			continue;
		candidates++;
		if (p->chosen < 0 || p->gids[i].rank < p->gids[p->chosen].rank)
			p->chosen = (int)i;
	}
	snprintf(how, sizeof(how), candidates == 1 ? "the only one" : "best of %zu", candidates);
	if (p->chosen >= 0)
		explain(p, how);
	else
		te_strlcpy(p->why, p->ngids ? "all GIDs were tried" : "the GID table is empty",
			   sizeof(p->why));
	return 0;
}

const char *te_gid_table(const struct te_nic_port *p, char *buf, size_t size)
{
	enum { MORE_LEN = sizeof("; and 256 more") };
	size_t len = (size_t)snprintf(buf, size, "GID table:%s", p->ngids ? "" : " empty");

	for (size_t i = 0; i < p->ngids; i++) {
		const struct te_nic_gid *g = &p->gids[i];
		char row[128], addr[INET6_ADDRSTRLEN];
		int n;

		inet_ntop(AF_INET6, g->gid.raw, addr, sizeof(addr));
		n = snprintf(row, sizeof(row), "%s %u %s %s%s%s%s", i ? ";" : "", g->index, addr,
			     te_gid_type_text(g->type), *g->netdev ? " (" : "", g->netdev,
			     *g->netdev ? ")" : "");
		if (len + (size_t)n + MORE_LEN > size) {
			snprintf(buf + len, size - len, "; and %zu more", p->ngids - i);
			break;
		}
		memcpy(buf + len, row, (size_t)n + 1);
		len += (size_t)n;
	}
	return buf;
}

const char *te_nic_gid_text(const union ibv_gid *gid, char buf[TE_GID_TEXT])
{
	for (int i = 0; i < GID_BYTES; i++)
		snprintf(buf + i * 3, (size_t)(TE_GID_TEXT - i * 3),
			 i < GID_BYTES - 1 ? "%02x:" : "%02x", gid->raw[i]);
	return buf;
}

static int hex(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

bool te_nic_gid_parse(const char *text, union ibv_gid *gid)
{
	if (strnlen(text, TE_GID_TEXT) != TE_GID_TEXT - 1)
		return false;
	for (int i = 0; i < TE_GID_TEXT - 1; i++)
		if (i % 3 == 2 ? text[i] != ':' : !isxdigit((unsigned char)text[i]))
			return false;
	for (int i = 0; i < GID_BYTES; i++)
		gid->raw[i] = (uint8_t)(hex(text[i * 3]) << 4 | hex(text[i * 3 + 1]));
	return true;
}

bool te_gid_same_prefix(const union ibv_gid *a, const union ibv_gid *b, unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;

	if (memcmp(a->raw, b->raw, bytes) != 0)
		return false;
	return !rest || (a->raw[bytes] ^ b->raw[bytes]) >> (8 - rest) == 0;
}

/* Bits of the netmask, where this is the address of a GID of that interface; else -1. */
static int v4_prefix(const struct ifaddrs *i, const struct te_nic_gid *g)
{
	const struct sockaddr_in *addr = (const void *)i->ifa_addr;
	const struct sockaddr_in *mask = (const void *)i->ifa_netmask;

	if (!addr || !mask || addr->sin_family != AF_INET || strcmp(i->ifa_name, g->netdev) != 0 ||
	    memcmp(&addr->sin_addr, g->gid.raw + V4_AT, 4) != 0)
		return -1;
	return __builtin_popcount(mask->sin_addr.s_addr);
}

void te_gid_find_prefixes(struct te_nic_gid *gids, size_t n)
{
	struct ifaddrs *list = NULL;

	if (getifaddrs(&list))
		list = NULL;
	for (size_t k = 0; k < n; k++) {
		gids[k].v4_prefix = -1;
		for (const struct ifaddrs *i = list;
		     i && is_v4(&gids[k].gid) && gids[k].v4_prefix < 0; i = i->ifa_next)
			gids[k].v4_prefix = v4_prefix(i, &gids[k]);
	}
	if (list)
		freeifaddrs(list);
}

bool te_nic_same_subnet(const struct te_nic_gid *own, const union ibv_gid *peer)
{
	enum { V6_PREFIX = 64, V4_PREFIX = 96 };

	if (is_v4(&own->gid) != is_v4(peer))
		return false;
	if (!is_v4(peer))
		return te_gid_same_prefix(&own->gid, peer, V6_PREFIX);
	return own->v4_prefix >= 0 &&
	       te_gid_same_prefix(&own->gid, peer, V4_PREFIX + (unsigned)own->v4_prefix);
}
