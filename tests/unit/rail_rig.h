/* rail_rig.h - for the tests of rails: an engine and a peer whose NICs are made up, without verbs.
 */
#ifndef RAIL_RIG_H
#define RAIL_RIG_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma/rdma.h"

#define MS ((uint64_t)TE_NSEC_PER_MSEC)

enum { NICS = 4, RAILS = NICS * NICS, SLICE = 65536, ADDR = 0x10000, ROOM = 256 };

/* NICs as "name/subnet", up to the first NULL. */
struct host {
	const char *nic[NICS];
	const char *matrix; /* NULL: here all are preferred, there it is not published */
};

/* An engine with a peer, as if its NICs were real. */
struct rig {
	struct te_conf conf;
	struct te_transport_env env;
	struct rdma t;
	struct rdma_ctx ctx[NICS], *list[NICS];
	struct rdma_ep *eps[RAILS];
	size_t neps;
	struct te_region here;
	struct rdma_peer *p;
};

/* fd00:0:0:SUBNET::HOST */
static void gid_of(const char *nic, unsigned host, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[0] = 0xfd;
	gid->raw[7] = (uint8_t)nic[strcspn(nic, "/") + 1];
	gid->raw[15] = (uint8_t)host;
}

static void name_of(const char *nic, char *name, size_t size)
{
	snprintf(name, size, "%.*s", (int)strcspn(nic, "/"), nic);
}

static void make_ctx(struct rig *g, unsigned i, const char *nic)
{
	struct rdma_ctx *c = &g->ctx[i];

	c->t = &g->t;
	c->index = i;
	c->max_wr = ROOM;
	name_of(nic, c->name, sizeof(c->name));
	snprintf(c->path, sizeof(c->path), "here@%s", c->name);
	atomic_store(&c->active, true);
	pthread_mutex_init(&c->lock, NULL);
	c->port.gids[0].type = IBV_GID_TYPE_ROCE_V2;
	gid_of(nic, 1, &c->port.gids[0].gid);
	c->port.ngids = 1;
	g->list[i] = c;
	g->t.nctx = i + 1;
}

/* text NULL: all of them are near cpu:0. */
static struct te_matrix *own_matrix(const struct rig *g, const char *text)
{
	struct te_matrix *m = NULL;
	char all[1024] = "{\"cpu:0\":[[";
	size_t len = strlen(all);

	for (size_t i = 0; i < g->t.nctx; i++)
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s\"%s\"", i ? "," : "",
					g->ctx[i].name);
	snprintf(all + len, sizeof(all) - len, "],[]]}");
	text = text ? text : all;
	te_matrix_parse(text, strlen(text), &m, NULL);
	return m;
}

/* Buffers at ADDR on cpu:0, and at 2 * ADDR on cuda:0. */
static int make_peer(struct rig *g, const struct host *there)
{
	char names[NICS][TE_NIC_NAME], gids[NICS][TE_GID_TEXT];
	struct te_desc_device devices[NICS];
	uint32_t keys[NICS] = { 11, 12, 13, 14 };
	struct te_desc_buffer buffers[] = {
		{ .name = (char *)"cpu:0", .addr = ADDR, .length = ADDR, .rkey = keys },
		{ .name = (char *)"cuda:0", .addr = 2 * ADDR, .length = ADDR, .rkey = keys },
	};
	struct te_desc desc = { .name = (char *)"there",
				.protocol = (char *)"rdma",
				.devices = devices,
				.buffers = buffers,
				.nbuffers = ARRAY_SIZE(buffers),
				.priority_matrix = (char *)there->matrix };
	const struct te_peer_info info = { .name = "there", .desc = &desc };
	struct te_peer *peer;
	int r;

	for (unsigned i = 0; i < NICS && there->nic[i]; i++) {
		union ibv_gid gid;

		gid_of(there->nic[i], 2, &gid);
		name_of(there->nic[i], names[i], sizeof(names[i]));
		devices[i] =
			(struct te_desc_device){ .name = names[i],
						 .gid = (char *)te_nic_gid_text(&gid, gids[i]) };
		desc.ndevices = i + 1;
	}
	buffers[0].nkeys = buffers[1].nkeys = desc.ndevices;
	r = rdma_peer_open(&g->t.base, &info, &peer, NULL);
	if (!r)
		g->p = container_of(peer, struct rdma_peer, base);
	return r;
}

/* No connector ever runs: what wants to connect stays so. */
static void rig_open(struct rig *g, const struct host *here, const struct host *there)
{
	memset(g, 0, sizeof(*g));
	g->conf.rail_pause_s = 10;
	g->env.conf = &g->conf;
	g->t.base.env = &g->env;
	g->t.ctx = g->list;
	g->t.slice = SLICE;
	pthread_mutex_init(&g->t.peers_lock, NULL);
	for (unsigned i = 0; i < NICS && here->nic[i]; i++)
		make_ctx(g, i, here->nic[i]);
	g->t.matrix = own_matrix(g, here->matrix);
	g->here.addr = ADDR;
	te_strlcpy(g->here.location, "cpu:0", sizeof(g->here.location));
	if (!g->t.matrix || make_peer(g, there) < 0) {
		printf("Bail out! no peer\n");
		exit(1);
	}
	for (struct rdma_rail *r = g->p->rails; r; r = r->next)
		r->at_work = true;
	g->p->now = te_now();
	g->p->queued = SLICE;
}

static void rig_close(struct rig *g)
{
	rdma_peer_free(g->p);
	for (size_t i = 0; i < g->neps; i++)
		free(g->eps[i]);
	te_matrix_free(g->t.matrix);
}

/* As if it had been connected; rate in bytes a second, 0: it was never measured. */
static void ready(struct rig *g, struct rdma_rail *r, uint64_t rate)
{
	struct rdma_ep *ep = calloc(1, sizeof(*ep) + sizeof(ep->qps[0]));

	if (!ep)
		abort();
	ep->ctx = r->ctx;
	ep->nqp = 1;
	ep->qps[0].ep = ep;
	atomic_store(&ep->refs, 2);
	atomic_store(&ep->state, EP_READY);
	g->eps[g->neps++] = ep;
	r->ep = ep;
	r->state = RAIL_READY;
	atomic_store(&r->rate, rate);
	atomic_store(&r->peak, rate);
}

static inline void all_ready(struct rig *g)
{
	for (struct rdma_rail *r = g->p->rails; r; r = r->next)
		ready(g, r, 100000000);
}

static inline struct rdma_rail *rail(struct rig *g, const char *here, const char *there)
{
	struct rdma_rail *r = g->p->rails;

	while (r && (strcmp(r->ctx->name, here) != 0 || strcmp(r->remote, there) != 0))
		r = r->next;
	return r;
}

static inline const char *name(const struct rdma_rail *r)
{
	static char text[4][2 * TE_NIC_NAME + 1];
	static int turn;

	turn = (turn + 1) % 4;
	snprintf(text[turn], sizeof(text[turn]), "%s-%s", r ? r->ctx->name : "none",
		 r ? r->remote : "");
	return text[turn];
}

static inline struct rdma_rail *choose_at(struct rig *g, uint64_t addr, uint64_t len, bool *wait)
{
	struct te_slice s = { .remote = addr, .len = len, .region = &g->here };

	g->p->last_region = NULL;
	return rdma_choose(g->p, &s, wait);
}

static inline struct rdma_rail *choose(struct rig *g)
{
	bool wait;

	return choose_at(g, ADDR, SLICE, &wait);
}

#endif
