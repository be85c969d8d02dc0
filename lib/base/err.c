/* err.c - fill one error, once, where the reason is known. */
#include <stdarg.h>
#include <stdio.h>

#include "te_err.h"

int te_fail(struct te_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return code;
}

int te_wrap(struct te_err *err, int code, const char *fmt, ...)
{
	struct te_err inner;
	va_list ap;
	int n;

	if (!err)
		return code;
	inner = *err;
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->msg))
		snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", inner.msg);
	return err->code;
}
