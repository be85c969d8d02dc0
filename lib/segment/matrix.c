/* matrix.c - the priority matrix: read, written, and its NICs in the order that real readers
 * derive. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "segment/derive.h"
#include "segment/matrix.h"
#include "te_err.h"

enum { ROWS_MAX = 4096, NICS_MAX = 4096, NIC_NAME_MAX = 63, LOCATION_MAX = 127 };

/* One list of a row: "preferred" or "others" in messages. */
static int check_list(const char *location, const char *which, const json_t *list,
		      struct te_err *err)
{
	const json_t *v;
	size_t i;

	if (!json_is_array(list))
		return te_fail(err, -EINVAL, "row '%s': the %s NICs are not a list", location,
			       which);
	json_array_foreach(list, i, v)
	{
		const char *nic = json_string_value(v);

		if (!nic)
			return te_fail(err, -EINVAL, "row '%s': %s NIC %zu is not a string",
				       location, which, i + 1);
		if (!*nic || strlen(nic) > NIC_NAME_MAX)
			return te_fail(err, -EINVAL, "row '%s': the name of %s NIC %zu is %s",
				       location, which, i + 1, *nic ? "too long" : "empty");
	}
	return 0;
}

static int check_row(const char *location, const json_t *row, struct te_err *err)
{
	int rc;

	if (!*location)
		return te_fail(err, -EINVAL, "a row has an empty name");
	if (strlen(location) > LOCATION_MAX)
		return te_fail(err, -EINVAL, "row '%.40s...': the name is longer than %d bytes",
			       location, LOCATION_MAX);
	if (!json_is_array(row) || json_array_size(row) != 2)
		return te_fail(err, -EINVAL,
			       "row '%s' is not a pair of lists, [[preferred...],[others...]]",
			       location);
	rc = check_list(location, "preferred", json_array_get(row, 0), err);
	return rc ? rc : check_list(location, "other", json_array_get(row, 1), err);
}

static int by_location(const void *a, const void *b)
{
	return strcmp(((const struct te_matrix_row *)a)->location,
		      ((const struct te_matrix_row *)b)->location);
}

/* Locations only, sorted. */
static int add_rows(struct te_matrix *m, json_t *root, struct te_err *err)
{
	const char *location;
	json_t *row;

	if (json_object_size(root) > ROWS_MAX)
		return te_fail(err, -EINVAL, "more than %d rows", ROWS_MAX);
	m->rows = calloc(json_object_size(root) + 1, sizeof(*m->rows));
	if (!m->rows)
		return te_fail(err, -ENOMEM, "out of memory");
	json_object_foreach(root, location, row)
	{
		int rc = check_row(location, row, err);

		if (rc)
			return rc;
		m->rows[m->nrows].location = strdup(location);
		if (!m->rows[m->nrows++].location)
			return te_fail(err, -ENOMEM, "out of memory");
	}
	qsort(m->rows, m->nrows, sizeof(*m->rows), by_location);
	return 0;
}

/* The index of a name, given out at its first mention. */
static int number_nic(struct te_matrix *m, json_t *numbers, const char *nic, struct te_err *err)
{
	json_t *known = json_object_get(numbers, nic);

	if (known)
		return (int)json_integer_value(known);
	if (m->nnames == NICS_MAX)
		return te_fail(err, -EINVAL, "more than %d NICs", NICS_MAX);
	/* Room doubles at each power of two. */
	if (!(m->nnames & (m->nnames - 1))) {
		char **names =
			reallocarray(m->names, m->nnames ? 2 * m->nnames : 1, sizeof(*m->names));

		if (!names)
			return te_fail(err, -ENOMEM, "out of memory");
		m->names = names;
	}
	m->names[m->nnames] = strdup(nic);
	if (!m->names[m->nnames])
		return te_fail(err, -ENOMEM, "out of memory");
	if (json_object_set_new(numbers, nic, json_integer((json_int_t)m->nnames++)))
		return te_fail(err, -ENOMEM, "out of memory");
	return (int)m->nnames - 1;
}

/* A NIC that a row names twice counts where it is named first. `seen` has the last row that named
 * it, from 1. */
struct fill {
	struct te_matrix *m;
	json_t *numbers;
	uint16_t seen[NICS_MAX];
};

static int fill_row(struct fill *f, size_t index, const json_t *pair, struct te_err *err)
{
	struct te_matrix_row *row = &f->m->rows[index];
	size_t npreferred = json_array_size(json_array_get(pair, 0));
	size_t n = npreferred + json_array_size(json_array_get(pair, 1));

	row->nics = calloc(n + 1, sizeof(*row->nics));
	if (!row->nics)
		return te_fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const json_t *v = i < npreferred
					  ? json_array_get(json_array_get(pair, 0), i)
					  : json_array_get(json_array_get(pair, 1), i - npreferred);
		int nic = number_nic(f->m, f->numbers, json_string_value(v), err);

		if (nic < 0)
			return nic;
		if (f->seen[nic] == index + 1)
			continue;
		f->seen[nic] = (uint16_t)(index + 1);
		row->nics[row->n++] = (uint16_t)nic;
		row->npreferred += i < npreferred;
	}
	return 0;
}

/* Rows in the order of a real reader's map, so that names are numbered as it numbers them. */
static int fill_rows(struct te_matrix *m, const json_t *root, struct te_err *err)
{
	struct fill *f = calloc(1, sizeof(*f));
	const char **keys = calloc(m->nrows + 1, sizeof(*keys));
	size_t *order = calloc(m->nrows + 1, sizeof(*order));
	int rc = f && keys && order ? 0 : te_fail(err, -ENOMEM, "out of memory");

	if (rc)
		goto out;
	f->m = m;
	f->numbers = json_object();
	for (size_t i = 0; i < m->nrows; i++)
		keys[i] = m->rows[i].location;
	rc = f->numbers ? te_derive_order(keys, m->nrows, order) : -ENOMEM;
	if (rc)
		te_fail(err, rc, "out of memory");
	for (size_t i = 0; i < m->nrows && !rc; i++)
		rc = fill_row(f, order[i], json_object_get(root, keys[order[i]]), err);
out:
	if (f)
		json_decref(f->numbers);
	free(f);
	free(keys);
	free(order);
	return rc;
}

static int from_json(json_t *root, struct te_matrix **out, struct te_err *err)
{
	struct te_matrix *m = calloc(1, sizeof(*m));
	int rc = m ? 0 : te_fail(err, -ENOMEM, "out of memory");

	if (!rc && !json_is_object(root))
		rc = te_fail(err, -EINVAL, "a priority matrix is an object");
	if (!rc)
		rc = add_rows(m, root, err);
	if (!rc)
		rc = fill_rows(m, root, err);
	if (rc)
		te_matrix_free(m);
	else
		*out = m;
	return rc;
}

int te_matrix_parse(const char *text, size_t len, struct te_matrix **out, struct te_err *err)
{
	json_t *root;
	int rc = te_json_parse(text, len, &root, err);

	if (rc)
		return rc;
	rc = from_json(root, out, err);
	json_decref(root);
	return rc;
}

/* The pair of lists of a row, without the NICs that keep() (may be NULL) does not want. */
static json_t *row_to_json(const struct te_matrix *m, const struct te_matrix_row *row,
			   bool (*keep)(void *arg, const char *nic), void *arg)
{
	json_t *preferred = json_array(), *others = json_array(), *pair;
	bool bad = !preferred || !others;

	for (size_t i = 0; i < row->n && !bad; i++) {
		const char *nic = m->names[row->nics[i]];

		if (!keep || keep(arg, nic))
			bad = json_array_append_new(i < row->npreferred ? preferred : others,
						    te_json_text(nic));
	}
	pair = bad ? NULL : json_pack("[OO]", preferred, others);
	json_decref(preferred);
	json_decref(others);
	return pair;
}

static json_t *to_json(const struct te_matrix *m, bool (*keep)(void *arg, const char *nic),
		       void *arg)
{
	json_t *root = json_object();

	for (size_t i = 0; i < m->nrows && root; i++) {
		json_t *pair = row_to_json(m, &m->rows[i], keep, arg);

		if (json_object_set_new(root, m->rows[i].location, pair)) {
			json_decref(root);
			root = NULL;
		}
	}
	return root;
}

char *te_matrix_format(const struct te_matrix *m)
{
	json_t *root = to_json(m, NULL, NULL);
	char *s = root ? te_json_format(root) : NULL;

	json_decref(root);
	return s;
}

/* What was checked before: only memory can be wrong. */
static struct te_matrix *from_own_json(json_t *root)
{
	struct te_matrix *m = NULL;

	if (root && from_json(root, &m, NULL))
		m = NULL;
	json_decref(root);
	return m;
}

struct te_matrix *te_matrix_filter(const struct te_matrix *m,
				   bool (*keep)(void *arg, const char *nic), void *arg)
{
	return from_own_json(to_json(m, keep, arg));
}

void te_matrix_free(struct te_matrix *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->nrows; i++) {
		free(m->rows[i].location);
		free(m->rows[i].nics);
	}
	for (size_t i = 0; i < m->nnames; i++)
		free(m->names[i]);
	free(m->rows);
	free(m->names);
	free(m);
}

static int location_is(const void *location, const void *row)
{
	return strcmp(location, ((const struct te_matrix_row *)row)->location);
}

const struct te_matrix_row *te_matrix_row(const struct te_matrix *m, const char *location)
{
	return m->nrows ? bsearch(location, m->rows, m->nrows, sizeof(*m->rows), location_is)
			: NULL;
}

int te_matrix_nic(const struct te_matrix *m, const char *nic)
{
	for (size_t i = 0; i < m->nnames; i++)
		if (!strcmp(m->names[i], nic))
			return (int)i;
	return -1;
}

/* The node of entry `index` in "N0,N1,...": digits, their number in *len; NULL when there are
 * others. */
static const char *nth_node(const char *list, size_t index, size_t *len)
{
	for (; index; index--)
		list += strcspn(list, ",") + 1;
	*len = strspn(list, "0123456789");
	return *len && *len < 10 && (list[*len] == ',' || !list[*len]) ? list : NULL;
}

const char *te_matrix_location(const char *name, uint64_t offset, uint64_t length, char *buf,
			       size_t size)
{
	static const char prefix[] = "segments:";
	const char *list, *node;
	uint64_t parts = 1, part;
	size_t len;

	if (strncmp(name, prefix, sizeof(prefix) - 1))
		return name;
	list = strchr(name + sizeof(prefix) - 1, ':');
	if (!list)
		return name;
	list++;
	for (const char *p = list; *p; p++)
		parts += *p == ',';
	part = MAX(length / parts, 1ull);
	node = nth_node(list, (size_t)MIN(offset / part, parts - 1), &len);
	if (!node)
		return name;
	snprintf(buf, size, "cpu:%.*s", (int)len, node);
	return buf;
}
