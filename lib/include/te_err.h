/* te_err.h - one error: a negative errno for the program, a sentence for the person. */
#ifndef TE_ERR_H
#define TE_ERR_H

#ifdef __cplusplus
extern "C" {
#endif

struct te_err {
	int code;		/* negative errno, 0 when unset */
	char msg[504];		/* whole sentence without prefix, full stop or newline */
};

/* Fill err (may be NULL) and return code, so that callers can `return te_fail(...)`. */
int te_fail(struct te_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Put "context: " before the message that a callee left; returns err->code. err may be NULL:
   then `code` comes back. */
int te_wrap(struct te_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif
