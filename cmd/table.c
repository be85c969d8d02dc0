/* table.c - text in aligned columns. */
#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "out.h"

void table_cell(struct table *t, const char *fmt, ...)
{
	char **cells = reallocarray(t->cells, (size_t)t->n + 1, sizeof(*cells));
	va_list ap;

	va_start(ap, fmt);
	if (!cells || vasprintf(&cells[t->n], fmt, ap) < 0)
		exit(cli_fail(CLI_FAIL, "out of memory"));
	va_end(ap);
	t->cells = cells;
	t->n++;
}

static int width(const struct table *t, int column)
{
	int most = 0;

	for (int i = column; i < t->n; i += t->columns) {
		int n = (int)strlen(t->cells[i]);

		most = n > most ? n : most;
	}
	return most;
}

void table_print(struct table *t)
{
	int *widths = calloc((size_t)t->columns, sizeof(*widths));

	for (int i = 0; i < t->columns && widths; i++)
		widths[i] = width(t, i);
	for (int i = 0; i < t->n; i += t->columns) {
		char *line = NULL;
		size_t size = 0;
		FILE *f = open_memstream(&line, &size);

		for (int j = 0; f && widths && j < t->columns && i + j < t->n; j++)
			fprintf(f, "%s%-*s", j ? "  " : "", widths[j], t->cells[i + j]);
		if (f)
			fclose(f);
		while (size && line[size - 1] == ' ')
			line[--size] = '\0';
		out_line(stdout, "%s", line ? line : "");
		free(line);
	}
	for (int i = 0; i < t->n; i++)
		free(t->cells[i]);
	free(t->cells);
	free(widths);
	t->cells = NULL;
	t->n = 0;
}
