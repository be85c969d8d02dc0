/* table.h - text in aligned columns. */
#ifndef TE_CMD_TABLE_H
#define TE_CMD_TABLE_H

#include <stdbool.h>

/* Cells arrive row by row, first the titles. Zeroed before; table_print() frees. */
struct table {
	int columns;
	char **cells;
	int n;
};

void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Columns as wide as their longest cell, two blanks between; on stdout. */
void table_print(struct table *t);

#endif
