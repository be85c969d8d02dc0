/* show.c - show, nics and pick: one topology. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "te-topo.h"
#include "te_segment.h"

int verb_show(struct cmd *c)
{
	struct source s = { 0 };
	int status = source_open(c, &s);

	if (status == CLI_OK)
		c->print->show(&s);
	source_close(&s);
	return status;
}

/* "00:...:4c" as people write it; "" when it is not of that form. */
static void gid_as_address(const char *gid, char *buf, size_t size)
{
	unsigned char raw[16];

	*buf = '\0';
	if (strlen(gid) != 3 * sizeof(raw) - 1)
		return;
	for (size_t i = 0; i < sizeof(raw); i++)
		if (sscanf(gid + 3 * i, "%2hhx", &raw[i]) != 1)
			return;
	inet_ntop(AF_INET6, raw, buf, (socklen_t)size);
}

/* What a segment says of its NICs besides their names. */
static void add_published(const struct te_desc *d, struct te_topo_nic *nic)
{
	for (size_t i = 0; i < d->ndevices; i++) {
		if (strcmp(d->devices[i].name, nic->name) != 0)
			continue;
		nic->present = true;
		snprintf(nic->gid, sizeof(nic->gid), "%s", d->devices[i].gid);
		gid_as_address(nic->gid, nic->gid_text, sizeof(nic->gid_text));
		snprintf(nic->why, sizeof(nic->why), "published");
		return;
	}
	snprintf(nic->why, sizeof(nic->why), "in the matrix, not in devices");
}

int verb_nics(struct cmd *c)
{
	struct source s = { 0 };
	int status = source_open(c, &s);
	const struct te_topo_nic *nics;
	struct te_topo_nic *list;
	size_t n;

	if (status != CLI_OK)
		goto out;
	n = te_topo_nics(s.topo, &nics);
	list = zalloc(n, sizeof(*list));
	memcpy(list, nics, n * sizeof(*list));
	for (size_t i = 0; i < n && s.desc; i++)
		add_published(s.desc, &list[i]);
	c->print->nics(list, n);
	free(list);
out:
	source_close(&s);
	return status;
}

const struct te_topo_row *find_row(const struct source *s, const char *location)
{
	const struct te_topo_row *row = te_topo_row(s->topo, location), *all;
	size_t n = te_topo_rows(s->topo, &all);
	char known[256] = "none";
	size_t len = 0;

	if (row)
		return row;
	for (size_t i = 0; i < n && len < sizeof(known); i++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", i ? ", " : "",
					all[i].location);
	if (len >= sizeof(known))
		memcpy(known + sizeof(known) - 4, "...", 4);
	cli_fail(CLI_FAIL, "no location '%s' in the matrix of %s; there: %s", location, s->label,
		 known);
	return NULL;
}

int verb_pick(struct cmd *c)
{
	struct source s = { 0 };
	int status = source_open(c, &s);
	const struct te_topo_row *row = status == CLI_OK ? find_row(&s, c->args[0]) : NULL;

	if (row && !row->n)
		status = cli_fail(CLI_FAIL, "%s has no NIC for %s", s.label, c->args[0]);
	else if (row)
		c->print->pick(row);
	else
		status = CLI_FAIL;
	source_close(&s);
	return status;
}
