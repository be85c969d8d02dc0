/* topo.c - the priority matrix that an engine on this host publishes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "host/nic.h"
#include "host/topo.h"
#include "host/topo_machine.h"
#include "segment/matrix.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"

enum { FILE_MAX = 64 << 20 };

int te_topo_read_file(const char *path, char **out, size_t *len, struct te_err *err)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t n = 0, room = 0;
	int rc = 0;

	if (!f)
		return te_fail(err, -errno, "cannot read '%s': %s", path, strerror(errno));
	do {
		char *more = n < FILE_MAX ? realloc(text, (room = 2 * room + 4096) + 1) : NULL;

		if (!more) {
			rc = te_fail(err, n < FILE_MAX ? -ENOMEM : -EFBIG, "cannot read '%s': %s",
				     path, n < FILE_MAX ? "out of memory" : "it is too long");
			break;
		}
		text = more;
		n += fread(text + n, 1, room - n, f);
	} while (!feof(f) && !ferror(f));
	if (!rc && ferror(f))
		rc = te_fail(err, -errno, "cannot read '%s': %s", path, strerror(errno));
	fclose(f);
	if (rc) {
		free(text);
		return rc;
	}
	text[n] = '\0';
	*out = text;
	*len = n;
	return 0;
}

/* ---- comma lists of NICs ---- */

struct list {
	const char *text;
};

/* The next entry, without blanks around it: its length in *len; NULL at the end. Empty ones are
 * passed over. */
static const char *next_entry(const char **at, size_t *len)
{
	const char *p = *at + strspn(*at, ", \t");

	if (!*p)
		return NULL;
	*len = strcspn(p, ",");
	*at = p + *len;
	while (*len && strchr(" \t", p[*len - 1]))
		(*len)--;
	return p;
}

static bool in_list(void *arg, const char *nic)
{
	const char *at = ((const struct list *)arg)->text, *entry;
	size_t len;

	while ((entry = next_entry(&at, &len)))
		if (strlen(nic) == len && !strncmp(entry, nic, len))
			return true;
	return false;
}

static bool is_empty(const char *list)
{
	return !list || !list[strspn(list, ", \t")];
}

/* "mlx5_0, mlx5_1" for messages, cut to the room there is. */
static void names_text(const struct te_matrix *m, char *buf, size_t size)
{
	size_t len = 0;

	te_strlcpy(buf, "none", size);
	for (size_t i = 0; i < m->nnames && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%s", i ? ", " : "", m->names[i]);
	if (len >= size)
		te_strlcpy(buf + size - 4, "...", 4);
}

static int check_known(const struct te_matrix *m, const char *list, const char *where,
		       struct te_err *err)
{
	const char *at = list, *entry;
	char nic[TE_NIC_NAME], known[256];
	size_t len;

	while ((entry = next_entry(&at, &len))) {
		snprintf(nic, sizeof(nic), "%.*s", (int)MIN(len, sizeof(nic) - 1), entry);
		if (te_matrix_nic(m, nic) >= 0)
			continue;
		names_text(m, known, sizeof(known));
		return te_fail(err, -ENODEV, "no NIC '%s' %s; there: %s", nic, where, known);
	}
	return 0;
}

/* Takes *m, gives another. */
static int cut(struct te_matrix **m, const char *list, struct te_err *err)
{
	struct list l = { list };
	struct te_matrix *less = te_matrix_filter(*m, in_list, &l);

	if (!less)
		return te_fail(err, -ENOMEM, "out of memory");
	te_matrix_free(*m);
	*m = less;
	return 0;
}

static int filter(const struct te_conf *conf, struct te_matrix **m, struct te_err *err)
{
	char known[256];
	size_t before = (*m)->nnames;
	int rc;

	if (is_empty(conf->te_filters))
		return 0;
	names_text(*m, known, sizeof(known));
	rc = cut(m, conf->te_filters, err);
	if (!rc && before && !(*m)->nnames)
		te_warn("MC_TE_FILTERS '%s' leaves no NIC of %s", conf->te_filters, known);
	return rc;
}

/* ---- where the matrix comes from ---- */

static int from_file(const char *path, struct te_matrix **out, struct te_err *err)
{
	size_t len = 0;
	char *text;
	int rc = te_topo_read_file(path, &text, &len, err);

	if (rc)
		return te_wrap(err, rc, "MC_CUSTOM_TOPO_JSON");
	rc = te_matrix_parse(text, len, out, err);
	free(text);
	return rc ? te_wrap(err, rc, "MC_CUSTOM_TOPO_JSON: '%s'", path) : 0;
}

static int from_machine(const struct te_machine *m, struct te_matrix **out, struct te_err *err)
{
	char *text = te_machine_matrix(m);
	int rc = text ? te_matrix_parse(text, strlen(text), out, err)
		      : te_fail(err, -ENOMEM, "out of memory");

	free(text);
	return rc;
}

static bool has_nics(void)
{
	char name[1][TE_NIC_NAME];

	return te_nic_list(name, 1, NULL) > 0;
}

static int discover(struct te_matrix **out, struct te_err *err)
{
	struct te_machine m = { 0 };
	int rc = has_nics() ? te_machine_load_host(&m, NULL, err) : te_machine_load_nodes(&m, err);

	if (!rc)
		rc = from_machine(&m, out, err);
	te_machine_clear(&m);
	return rc;
}

int te_topo_matrix_of(const struct te_conf *conf, const struct te_topo_wish *wish,
		      const struct te_machine *machine, struct te_matrix **out, struct te_err *err)
{
	const char *given = wish->nic_priority_matrix, *where = "on this host";
	struct te_matrix *m = NULL;
	int rc;

	if (given && *given) {
		where = "in the priority matrix";
		rc = te_matrix_parse(given, strlen(given), &m, err);
		rc = rc ? te_wrap(err, rc, "priority matrix") : 0;
	} else if (*conf->custom_topo_json) {
		where = "in the matrix of MC_CUSTOM_TOPO_JSON";
		rc = from_file(conf->custom_topo_json, &m, err);
	} else {
		rc = machine ? from_machine(machine, &m, err) : discover(&m, err);
	}
	if (!rc && !is_empty(wish->device_name)) {
		rc = check_known(m, wish->device_name, where, err);
		rc = rc ? rc : cut(&m, wish->device_name, err);
	}
	if (!rc)
		rc = filter(conf, &m, err);
	if (rc)
		te_matrix_free(m);
	else
		*out = m;
	return rc;
}

int te_topo_matrix(const struct te_conf *conf, const struct te_topo_wish *wish, char **out,
		   struct te_err *err)
{
	struct te_matrix *m = NULL;
	int rc = te_topo_matrix_of(conf, wish, NULL, &m, err);

	if (rc)
		return rc;
	*out = te_matrix_format(m);
	te_matrix_free(m);
	return *out ? 0 : te_fail(err, -ENOMEM, "out of memory");
}

int te_topo_check(const struct te_conf *conf, const struct te_topo_wish *wish, struct te_err *err)
{
	bool given = !is_empty(wish->nic_priority_matrix) || *conf->custom_topo_json;
	struct te_conf unfiltered = *conf; /* what the filters leave was said already */
	struct te_matrix *m = NULL;
	int rc;

	if (!given && (is_empty(wish->device_name) || !has_nics()))
		return 0;
	unfiltered.te_filters[0] = '\0';
	rc = te_topo_matrix_of(&unfiltered, wish, NULL, &m, err);
	if (!rc)
		te_matrix_free(m);
	return rc;
}
