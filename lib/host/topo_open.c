/* topo_open.c - te_topo.h: a topology opened from one of its sources. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "host/gid.h"
#include "host/nic.h"
#include "host/topo.h"
#include "host/topo_machine.h"
#include "segment/matrix.h"
#include "te_err.h"
#include "te_topo.h"

struct te_topo {
	struct te_machine machine;
	struct te_matrix *matrix;
	char *json;
	struct te_topo_row *rows; /* as matrix->rows */
	struct te_topo_row any;	  /* "*" */
	const char **names;	  /* what the rows point into */
	struct te_topo_nic *nics; /* sorted by name */
	size_t nnics;
};

/* ---- rows ---- */

static size_t count_names(const struct te_matrix *m)
{
	size_t n = m->nnames;

	for (size_t i = 0; i < m->nrows; i++)
		n += m->rows[i].n;
	return n;
}

static int fill_rows(struct te_topo *t, struct te_err *err)
{
	const struct te_matrix *m = t->matrix;
	const char **to;

	t->json = te_matrix_format(m);
	t->rows = calloc(m->nrows + 1, sizeof(*t->rows));
	t->names = calloc(count_names(m) + 1, sizeof(*t->names));
	if (!t->json || !t->rows || !t->names)
		return te_fail(err, -ENOMEM, "out of memory");
	to = t->names;
	for (size_t i = 0; i < m->nrows; i++) {
		const struct te_matrix_row *r = &m->rows[i];

		t->rows[i] = (struct te_topo_row){ r->location, to, r->npreferred, r->n };
		for (size_t j = 0; j < r->n; j++)
			*to++ = m->names[r->nics[j]];
	}
	t->any = (struct te_topo_row){ "*", to, m->nnames, m->nnames };
	for (size_t i = 0; i < m->nnames; i++)
		*to++ = m->names[i];
	return 0;
}

/* ---- NICs ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct te_topo_nic *)a)->name, ((const struct te_topo_nic *)b)->name);
}

static bool is_known(const struct te_topo *t, const char *name)
{
	for (size_t i = 0; i < t->nnics; i++)
		if (!strcmp(t->nics[i].name, name))
			return true;
	return false;
}

/* Those seen, and those that only the matrix names. */
static int fill_nics(struct te_topo *t, const char *why_absent, struct te_err *err)
{
	t->nics = calloc(t->machine.nfacts + t->matrix->nnames + 1, sizeof(*t->nics));
	if (!t->nics)
		return te_fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < t->machine.nfacts; i++)
		t->nics[t->nnics++] = t->machine.facts[i];
	for (size_t i = 0; i < t->matrix->nnames; i++) {
		struct te_topo_nic *nic = &t->nics[t->nnics];

		if (is_known(t, t->matrix->names[i]))
			continue;
		te_strlcpy(nic->name, t->matrix->names[i], sizeof(nic->name));
		nic->numa_node = nic->gid_index = -1;
		te_strlcpy(nic->why, why_absent, sizeof(nic->why));
		t->nnics++;
	}
	qsort(t->nics, t->nnics, sizeof(*t->nics), by_name);
	return 0;
}

/* ---- hardware that a matrix lets suppose ---- */

static bool has_object(const struct te_machine *m, const char *name)
{
	for (size_t i = 0; i < m->nobjects; i++)
		if (!strcmp(m->objects[i].name, name))
			return true;
	return false;
}

/* Below the machine, unless it was seen somewhere. Its place, or negative. */
static int suppose(struct te_machine *m, enum te_topo_kind kind, const char *name)
{
	struct te_topo_object o = { .kind = kind, .parent = m->nobjects ? 0 : -1 };

	te_strlcpy(o.name, name, sizeof(o.name));
	return m->nobjects && has_object(m, name) ? 0 : te_machine_add_object(m, &o);
}

/* What the matrix names and nobody saw: all of it when there is only the matrix. */
static int suppose_rest(struct te_topo *t, struct te_err *err)
{
	struct te_machine *m = &t->machine;
	int rc = m->nobjects ? 0 : suppose(m, TE_TOPO_MACHINE, "machine");

	for (size_t i = 0; i < t->matrix->nrows && rc >= 0; i++) {
		const char *location = t->rows[i].location;

		rc = suppose(m, strncmp(location, "cpu:", 4) ? TE_TOPO_GPU : TE_TOPO_MEMORY,
			     location);
	}
	for (size_t i = 0; i < t->nnics && rc >= 0; i++)
		rc = suppose(m, TE_TOPO_NIC, t->nics[i].name);
	return rc < 0 ? te_fail(err, -ENOMEM, "out of memory") : 0;
}

/* ---- open ---- */

static int finish(struct te_topo *t, const char *why_absent, struct te_err *err)
{
	int rc = fill_rows(t, err);

	if (!rc)
		rc = fill_nics(t, why_absent, err);
	return rc ? rc : suppose_rest(t, err);
}

static struct te_topo *begin(struct te_err *err)
{
	struct te_topo *t = calloc(1, sizeof(*t));

	if (!t)
		te_fail(err, -ENOMEM, "out of memory");
	return t;
}

static int end(struct te_topo *t, int rc, struct te_topo **out)
{
	if (rc)
		te_topo_close(t);
	else
		*out = t;
	return rc;
}

int te_topo_open_host(const struct te_conf *conf, struct te_topo **out, struct te_err *err)
{
	const struct te_topo_wish none = { 0 };
	struct te_topo *t = begin(err);
	int rc;

	if (!t)
		return -ENOMEM;
	rc = te_machine_load_host(&t->machine, conf, err);
	if (!rc)
		rc = te_topo_matrix_of(conf, &none, &t->machine, &t->matrix, err);
	if (!rc)
		rc = finish(t, "named by MC_CUSTOM_TOPO_JSON, not on this host", err);
	return end(t, rc, out);
}

int te_topo_open_matrix(const char *json, size_t len, struct te_topo **out, struct te_err *err)
{
	struct te_topo *t = begin(err);
	int rc;

	if (!t)
		return -ENOMEM;
	rc = te_matrix_parse(json, len, &t->matrix, err);
	if (!rc)
		rc = finish(t, "only its name is known", err);
	return end(t, rc, out);
}

static int open_machine(const char *input, const char *text, size_t len, struct te_topo **out,
			struct te_err *err)
{
	struct te_topo *t = begin(err);
	char *json;
	int rc;

	if (!t)
		return -ENOMEM;
	rc = text ? te_machine_load_xml(&t->machine, input, text, len, err)
		  : te_machine_load_synthetic(&t->machine, input, err);
	json = rc ? NULL : te_machine_matrix(&t->machine);
	if (!rc)
		rc = json ? te_matrix_parse(json, strlen(json), &t->matrix, err)
			  : te_fail(err, -ENOMEM, "out of memory");
	free(json);
	if (!rc)
		rc = finish(t, "", err);
	return end(t, rc, out);
}

static int open_file(const char *path, struct te_topo **out, struct te_err *err)
{
	size_t len;
	char *text;
	int rc = te_topo_read_file(path, &text, &len, err);

	if (rc)
		return rc;
	switch (text[strspn(text, " \t\r\n")]) {
	case '{':
	case '[':
		rc = te_topo_open_matrix(text, len, out, err);
		rc = rc ? te_wrap(err, rc, "'%s'", path) : 0;
		break;
	case '<':
		rc = open_machine(path, text, len, out, err);
		break;
	default:
		rc = te_fail(err, -EINVAL, "'%s' is neither hwloc XML nor a priority matrix", path);
	}
	free(text);
	return rc;
}

int te_topo_open_input(const char *input, struct te_topo **out, struct te_err *err)
{
	int rc;

	if (!access(input, F_OK))
		return open_file(input, out, err);
	rc = open_machine(input, NULL, 0, out, err);
	if (rc == -EINVAL)
		rc = te_fail(err, -ENOENT,
			     "'%s' is neither a file nor an hwloc synthetic description", input);
	return rc;
}

void te_topo_close(struct te_topo *t)
{
	if (!t)
		return;
	te_machine_clear(&t->machine);
	te_matrix_free(t->matrix);
	free(t->json);
	free(t->rows);
	free(t->names);
	free(t->nics);
	free(t);
}

/* ---- what is in it ---- */

const char *te_topo_json(const struct te_topo *t)
{
	return t->json;
}

size_t te_topo_rows(const struct te_topo *t, const struct te_topo_row **out)
{
	*out = t->rows;
	return t->matrix->nrows;
}

const struct te_topo_row *te_topo_row(const struct te_topo *t, const char *location)
{
	const struct te_matrix_row *r;

	if (!strcmp(location, "*"))
		return &t->any;
	r = te_matrix_row(t->matrix, location);
	return r ? &t->rows[r - t->matrix->rows] : NULL;
}

size_t te_topo_nics(const struct te_topo *t, const struct te_topo_nic **out)
{
	*out = t->nics;
	return t->nnics;
}

size_t te_topo_objects(const struct te_topo *t, const struct te_topo_object **out)
{
	*out = t->machine.objects;
	return t->machine.nobjects;
}

int te_topo_near(const struct te_topo_nic *own, const char *peer_gid)
{
	struct te_nic_gid gid = { .index = 0 };
	union ibv_gid peer;

	if (!te_nic_gid_parse(own->gid, &gid.gid) || !te_nic_gid_parse(peer_gid, &peer))
		return -1;
	te_strlcpy(gid.netdev, own->netdev, sizeof(gid.netdev));
	te_gid_find_prefixes(&gid, 1);
	return te_nic_same_subnet(&gid, &peer);
}
