/* path.c - path: the pairs of NICs that a transfer between two places takes, best first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "te-topo.h"
#include "te_segment.h"

struct side {
	const struct source *source;
	const struct te_topo_row *row;
};

static const char *peer_gid(const struct source *s, const char *nic)
{
	for (size_t i = 0; s->desc && i < s->desc->ndevices; i++)
		if (strcmp(s->desc->devices[i].name, nic) == 0)
			return s->desc->devices[i].gid;
	return NULL;
}

static const struct te_topo_nic *find_nic(const struct source *s, const char *name)
{
	const struct te_topo_nic *nics;
	size_t n = te_topo_nics(s->topo, &nics);

	for (size_t i = 0; i < n; i++)
		if (strcmp(nics[i].name, name) == 0)
			return &nics[i];
	return NULL;
}

/* Subnets are known between this host and what is published. */
static int are_near(const struct source *here, const struct source *there, const struct pair *p)
{
	const char *gid = peer_gid(there, p->remote);
	const struct te_topo_nic *own = find_nic(here, p->local);

	return here->host && gid && own ? te_topo_near(own, gid) : -1;
}

/* What keeps a NIC from being used, as far as its side's source knows; NULL: nothing. */
static const char *trouble(const struct source *s, const char *name)
{
	const struct te_topo_nic *nic = find_nic(s, name);

	if (s->desc)
		return peer_gid(s, name) ? NULL : "is not among the published devices";
	if (!nic || (s->host && !nic->present))
		return s->host ? "is not there" : NULL;
	if (*nic->state && strcmp(nic->state, "ACTIVE") != 0)
		return nic->state;
	return s->host && !nic->usable ? "has no GID to use" : NULL;
}

static void say_trouble(struct pair *p, const char *nic, const char *where, const char *why)
{
	bool state = why && *why != 'i' && *why != 'h';
	size_t len = strlen(p->why);

	if (why)
		snprintf(p->why + len, sizeof(p->why) - len, "; %s %s%s %s", nic,
			 state ? "is " : "", why, where);
	p->usable = p->usable && !why;
}

static void explain(struct pair *p, const struct side *here, const struct side *there,
		    bool near_here, bool near_there)
{
	static const char *const subnets[] = { ", another subnet", ", same subnet" };
	const char *a = here->row->location, *b = there->row->location;
	const char *net = p->near < 0 ? "" : subnets[p->near];

	if (near_here && near_there)
		snprintf(p->why, sizeof(p->why), "both preferred%s", net);
	else if (near_here || near_there)
		snprintf(p->why, sizeof(p->why), "%s is not preferred for %s %s%s",
			 near_here ? p->remote : p->local, near_here ? b : a,
			 near_here ? "there" : "here", net);
	else
		snprintf(p->why, sizeof(p->why), "neither is preferred%s", net);
	p->usable = true;
	say_trouble(p, p->local, "here", trouble(here->source, p->local));
	say_trouble(p, p->remote, "there", trouble(there->source, p->remote));
}

/* As engines rank them: preferred at both ends, at one, at none; and each of these by subnet. */
static unsigned rank(const struct pair *p)
{
	return 8 * !p->usable + 2 * p->tier + (p->near == 0);
}

static int by_rank(const void *a, const void *b)
{
	const struct pair *p = a, *q = b;

	if (rank(p) != rank(q))
		return rank(p) < rank(q) ? -1 : 1;
	if (p->same_name != q->same_name)
		return p->same_name ? -1 : 1;
	return strcmp(p->local, q->local) != 0 ? strcmp(p->local, q->local)
					       : strcmp(p->remote, q->remote);
}

static void find_pairs(const struct cmd *c, const struct side *here, const struct side *there,
		       struct pairs *out)
{
	out->remote_location = there->row->location;
	out->v = zalloc(here->row->n * there->row->n, sizeof(*out->v));
	for (size_t i = 0; i < here->row->n; i++)
		for (size_t j = 0; j < there->row->n; j++) {
			bool a = i < here->row->npreferred, b = j < there->row->npreferred;
			struct pair *p = &out->v[out->n++];

			p->local = here->row->nics[i];
			p->remote = there->row->nics[j];
			p->tier = !a + !b;
			p->near = are_near(here->source, there->source, p);
			p->same_name = c->conf.dest_affinity && !strcmp(p->local, p->remote);
			explain(p, here, there, a, b);
		}
	qsort(out->v, out->n, sizeof(*out->v), by_rank);
	for (size_t i = 0; i < out->n; i++)
		out->v[i].first = out->v[i].usable && rank(&out->v[i]) == rank(&out->v[0]);
}

/* Without a location there: all that it has. */
static int find_all(const struct cmd *c, const struct side *here, const struct source *peer,
		    struct path *p)
{
	const struct te_topo_row *rows = c->nargs > 2 ? find_row(peer, c->args[2]) : NULL;
	size_t n = rows ? 1 : 0;

	if (c->nargs <= 2)
		n = te_topo_rows(peer->topo, &rows);
	else if (!rows)
		return CLI_FAIL;
	p->v = zalloc(n, sizeof(*p->v));
	p->n = n;
	for (size_t i = 0; i < n; i++) {
		const struct side there = { peer, &rows[i] };

		find_pairs(c, here, &there, &p->v[i]);
	}
	return CLI_OK;
}

static bool is_empty(const struct path *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].n)
			return false;
	return true;
}

int verb_path(struct cmd *c)
{
	struct source here = { 0 }, peer = { 0 };
	int status = source_open(c, &here);
	struct path p = { .local_location = c->args[0], .segment = c->args[1] };
	struct side side = { .source = &here };

	if (status == CLI_OK) {
		side.row = find_row(&here, c->args[0]);
		status = side.row ? CLI_OK : CLI_FAIL;
	}
	if (status == CLI_OK)
		status = c->peer ? source_input(c->peer, &peer)
				 : source_segment(c, c->args[1], &peer);
	if (status == CLI_OK && c->peer)
		peer.label = c->args[1];
	if (status == CLI_OK)
		status = find_all(c, &side, &peer, &p);
	if (status == CLI_OK && is_empty(&p))
		status = cli_fail(CLI_FAIL, "no pair of NICs: %s",
				  side.row->n ? "the peer has no NIC" : "there is none here");
	else if (status == CLI_OK)
		c->print->path(&p);
	for (size_t i = 0; i < p.n; i++)
		free(p.v[i].v);
	free(p.v);
	source_close(&here);
	source_close(&peer);
	return status;
}
