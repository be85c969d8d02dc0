/* ram.c - ram: what is known of a RAM segment before its engine starts; and whose an entry is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "desc_store.h"
#include "file_segment.h"
#include "matrix.h"
#include "owner.h"
#include "te-register.h"

void claim_clear(struct claim *claim)
{
	free(claim->rpc_key);
	*claim = (struct claim){ 0 };
}

static int judge(struct cmd *c, const char *name, const struct te_meta_value *v, struct te_err *err)
{
	struct te_rpc_meta at;
	char reason[256];
	int rc = te_rpc_meta_parse(v->data, v->len, &at, err);

	if (rc)
		return te_wrap(err, rc, "cannot tell who owns segment '%s'", name);
	switch (owner_probe(&c->conf, name, &at, reason, sizeof(reason))) {
	case OWNER_ALIVE:
		return te_fail(err, -EADDRINUSE, "segment '%s' is in use by %s:%u", name, at.host,
			       at.port);
	case OWNER_UNCLEAR:
		return te_fail(err, -EADDRINUSE,
			       "segment '%s' may be in use by %s:%u, which does not say so: %s",
			       name, at.host, at.port, reason);
	case OWNER_DEAD:
		break;
	}
	return 0;
}

int claim_ram(struct cmd *c, const char *name, const struct te_desc *d, bool force,
	      struct claim *out, struct te_err *err)
{
	struct te_meta_value v;
	int rc;

	*out = (struct claim){ .rpc_key = te_meta_key_rpc(c->meta, name) };
	rc = out->rpc_key ? te_meta_get(c->meta, out->rpc_key, &v, err)
			  : te_fail(err, -ENOMEM, "out of memory");
	if (!rc) {
		memcpy(out->rpc_tag, v.tag, sizeof(out->rpc_tag));
		rc = judge(c, name, &v, err);
		te_meta_value_clear(&v);
	} else if (rc == -ENOENT) {
		claim_clear(out);
		rc = 0;
		if (d && d->nbuffers && !force)
			rc = te_fail(err, -EADDRINUSE,
				     "segment '%s' has buffers, and nobody has published where its "
				     "owner listens: te-register remove --force takes it out",
				     name);
	}
	if (rc)
		claim_clear(out);
	return rc;
}

struct plan {
	struct cmd *c;
	const char *name;
	const char *wanted; /* JSON; its timestamp is as good as any */
	struct claim claim;
};

/* The same but for the time? */
static bool is_same(struct te_desc *d, struct te_desc *wanted)
{
	char *time = d->timestamp, *a, *b;
	bool same;

	d->timestamp = wanted->timestamp;
	a = te_desc_format(d);
	b = te_desc_format(wanted);
	d->timestamp = time;
	same = a && b && strcmp(a, b) == 0;
	free(a);
	free(b);
	return same;
}

static int change(void *arg, struct te_desc *d, struct te_err *err)
{
	struct plan *p = arg;
	struct te_desc *wanted, old = *d;
	int rc;

	claim_clear(&p->claim);
	rc = claim_ram(p->c, p->name, d, false, &p->claim, err);
	if (!rc)
		rc = te_desc_parse(p->wanted, strlen(p->wanted), &wanted, err);
	if (rc)
		return rc;
	if (d->protocol && is_same(d, wanted)) {
		te_desc_free(wanted);
		return 0;
	}
	*d = *wanted;
	*wanted = old;
	te_desc_free(wanted);
	return 1;
}

/* Behind our entry, so that nobody takes a registered segment for that of the dead. */
static int remove_dead(struct cmd *c, const struct claim *claim, struct te_err *err)
{
	int rc;

	if (!claim->rpc_key || c->dry_run)
		return 0;
	rc = desc_store_delete(c->meta, claim->rpc_key, claim->rpc_tag, err);
	/* Somebody has the name now, who puts an entry of its own. */
	return rc == -ESTALE ? 0 : rc;
}

static int write_segment(struct cmd *c, const char *name, const char *wanted)
{
	struct plan p = { .c = c, .name = name, .wanted = wanted };
	struct desc_edit edit = {
		.change = change, .arg = &p, .create = true, .mend = true, .dry_run = c->dry_run
	};
	struct entry e = { .key = te_meta_key_segment(c->meta, name) };
	struct te_err err = { 0 };
	int rc = e.key ? desc_store_edit(c->meta, e.key, &edit, &e.desc, &err)
		       : te_fail(&err, -ENOMEM, "out of memory");
	int status = rc < 0 ? cli_error(&err) : CLI_OK;

	if (rc >= 0)
		c->print->written(c->meta, &e, rc, c->dry_run);
	if (rc >= 0 && remove_dead(c, &p.claim, &err))
		status = cli_error(&err);
	claim_clear(&p.claim);
	entry_clear(&e);
	return status;
}

/*
 * An engine that opens here and now finds out what one under that name will publish: protocol, NICs
 * in the order that readers want, GIDs, matrix. It has no store, no buffers, and is gone before
 * anything is written.
 */
static int describe_host(struct cmd *c, struct te_desc **out, struct te_err *err)
{
	struct te_conf conf = c->conf;
	struct te_engine_options opt = { .metadata_server = "P2PHANDSHAKE",
					 .protocol = c->protocol,
					 .device_name = c->devices,
					 .conf = &conf };
	char *matrix = NULL, *json = NULL;
	struct te_engine *engine;
	int rc = matrix_read(c->matrix, c->protocol, &matrix, err);

	opt.nic_priority_matrix = matrix;
	conf.legacy_rpc_port = false; /* the port is that of an engine that may run here */
	if (!rc)
		rc = te_engine_open(&engine, &opt, err);
	free(matrix);
	if (rc)
		return rc;
	json = te_engine_describe(engine);
	te_engine_close(engine);
	rc = json ? te_desc_parse(json, strlen(json), out, err)
		  : te_fail(err, -ENOMEM, "out of memory");
	free(json);
	return rc;
}

/* What only the engine itself will know goes out again. */
static char *strip(struct te_desc *d, const char *name)
{
	free(d->name);
	free(d->server_name);
	d->name = strdup(name);
	d->server_name = strdup(name);
	te_desc_clear_buffers(d);
	d->tcp_data_port = 0;
	d->te.present = false;
	free(d->rdma_server_name);
	d->rdma_server_name = NULL;
	return d->name && d->server_name ? te_desc_format(d) : NULL;
}

static const char *check_name(struct cmd *c)
{
	const char *name = c->args.v[0] + strspn(c->args.v[0], "/");

	if (strncmp(name, "ram/", 4) == 0)
		name += 4;
	if (strchr(name, '/'))
		cli_usage(NULL, "the name of a RAM segment has no '/': '%s'", name);
	check_new_name(name);
	if (!te_server_name_ok(name))
		cli_usage(NULL, "'%s' is not a name, host or host:port", name);
	return name;
}

/* Whoever names NICs means them: tcp instead would be no answer. */
static int check_nics(const struct cmd *c, const struct te_desc *d, struct te_err *err)
{
	bool any = !c->protocol || strcmp(c->protocol, "auto") == 0;

	if (!any || c->conf.force_tcp || !(c->devices || c->matrix) ||
	    strcmp(d->protocol, "tcp") != 0)
		return 0;
	return te_fail(
		err, -ENODEV,
		"no RDMA here for --%s: this host would serve tcp (--protocol=tcp, without NICs, "
		"registers that)",
		c->devices ? "device-name" : "nic-priority-matrix");
}

int verb_ram(struct cmd *c)
{
	const char *name = check_name(c);
	struct te_desc *d = NULL;
	struct te_err err = { 0 };
	char *wanted;
	int status;

	if (describe_host(c, &d, &err))
		return cli_error(&err);
	if (check_nics(c, d, &err)) {
		te_desc_free(d);
		return cli_error(&err);
	}
	wanted = strip(d, name);
	te_desc_free(d);
	if (!wanted)
		return cli_fail(CLI_FAIL, "out of memory");
	status = write_segment(c, name, wanted);
	free(wanted);
	return status;
}
