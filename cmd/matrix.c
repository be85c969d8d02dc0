/* matrix.c - reads what --nic-priority-matrix names. */
#include "matrix.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "te_err.h"

enum { MATRIX_MAX = 1 << 20 };

static bool uses_nics(const char *protocol)
{
	return !protocol || strcmp(protocol, "auto") == 0 || strcmp(protocol, "rdma") == 0;
}

/* NULL: errno says why. */
static char *read_file(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = f ? calloc(1, MATRIX_MAX + 1) : NULL;
	size_t n = text ? fread(text, 1, MATRIX_MAX, f) : 0;
	bool good = text && !ferror(f);

	if (good && n == MATRIX_MAX) {
		errno = EFBIG;
		good = false;
	}
	if (!good) {
		free(text);
		text = NULL;
	}
	if (f)
		fclose(f);
	return text;
}

int matrix_read(const char *arg, const char *protocol, char **out, struct te_err *err)
{
	*out = NULL;
	if (!arg || !*arg || !uses_nics(protocol))
		return 0;
	*out = arg[strspn(arg, " \t\n")] == '{' ? strdup(arg) : read_file(arg);
	return *out ? 0
		    : te_fail(err, errno ? -errno : -EIO,
			      "cannot read the priority matrix '%s': %s", arg,
			      strerror(errno ? errno : EIO));
}
