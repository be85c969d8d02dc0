/* matrix.h - the value of --nic-priority-matrix. */
#ifndef TE_CMD_MATRIX_H
#define TE_CMD_MATRIX_H

struct te_err;

/*
 * A file, as in Mooncake's programs, or the JSON text itself (it begins with '{'). *out is malloc'ed; NULL when arg is NULL or
 * empty. What the text says is for libte to judge. protocol: the command's --protocol, NULL for auto; where it leaves no use
 * for NICs the value is ignored, whatever it is.
 */
int matrix_read(const char *arg, const char *protocol, char **out, struct te_err *err);

#endif
