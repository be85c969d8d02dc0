/* fuzz_matrix.c - any bytes as a priority matrix, and as the name of a buffer: refused, or kept
 * through writing and reading. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "segment/matrix.h"
#include "te_err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_row(const struct te_matrix *m, const struct te_matrix_row *row)
{
	if (te_matrix_row(m, row->location) != row || row->npreferred > row->n)
		abort();
	for (size_t i = 0; i < row->n; i++)
		if (row->nics[i] >= m->nnames)
			abort();
}

static char *rewrite(const char *text, size_t len, bool must)
{
	struct te_matrix *m = NULL;
	struct te_err err = { 0 };
	char *out;

	if (te_matrix_parse(text, len, &m, &err)) {
		if (must || !err.code || !*err.msg)
			abort();
		return NULL;
	}
	for (size_t i = 0; i < m->nrows; i++)
		check_row(m, &m->rows[i]);
	out = te_matrix_format(m);
	te_matrix_free(m);
	if (!out)
		abort();
	return out;
}

static void locate(const uint8_t *data, size_t size)
{
	char *name = strndup((const char *)data, size), buf[32];
	const char *at = te_matrix_location(name, size * 7, size * 11, buf, sizeof(buf));

	if (at != name && strncmp(at, "cpu:", 4) != 0)
		abort();
	free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *first = rewrite((const char *)data, size, false), *second;

	locate(data, size);
	if (!first)
		return 0;
	second = rewrite(first, strlen(first), true);
	if (strcmp(first, second) != 0)
		abort();
	free(first);
	free(second);
	return 0;
}
