/*
 * matrix.h - the priority matrix of a segment: which NICs are near which memory (INTEROP 1.6, 5.2).
 *
 *	{"cpu:0": [["mlx5_0"], ["mlx5_1"]], "cuda:0": [...]}: for a location the preferred NICs, then the others.
 *
 * Constant once made; any thread may read it.
 */
#ifndef TE_SEGMENT_MATRIX_H
#define TE_SEGMENT_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct te_err;

struct te_matrix_row {
	char *location;			/* "cpu:0" */
	uint16_t *nics;			/* indices into te_matrix.names: first the preferred, then the others */
	size_t npreferred, n;
};

struct te_matrix {
	char **names;			/* the NICs, in the order that real readers derive: index = place in `devices`, rkey, lkey */
	size_t nnames;
	struct te_matrix_row *rows;	/* sorted by location, bytewise */
	size_t nrows;
};

/* -EINVAL says which row, or line and column of what is no JSON. Bytes are hostile. */
int te_matrix_parse(const char *text, size_t len, struct te_matrix **out, struct te_err *err);
/* The same JSON object, compact, rows sorted; malloc'ed; NULL when memory is out. */
char *te_matrix_format(const struct te_matrix *m);
void te_matrix_free(struct te_matrix *m);
/* A copy with only the NICs for which keep() is true, names in derived order again. Rows stay, lists may get empty. */
struct te_matrix *te_matrix_filter(const struct te_matrix *m, bool (*keep)(void *arg, const char *nic), void *arg);
/* The row of a location; NULL when there is none (then any NIC will do, in order). */
const struct te_matrix_row *te_matrix_row(const struct te_matrix *m, const char *location);
/* Index into names, -1. */
int te_matrix_nic(const struct te_matrix *m, const char *nic);
/* The location of byte `offset` in a buffer of `length` bytes whose published name is `name`: name itself, or
   resolved from "segments:PAGE:N0,N1,..." (INTEROP 5.3) into buf. */
const char *te_matrix_location(const char *name, uint64_t offset, uint64_t length, char *buf, size_t size);

#endif
