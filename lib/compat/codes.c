/* codes.c - errno as Mooncake's codes (INTEROP 7.1), in one table. */
#include <errno.h>

#include "base/util.h"
#include "compat/compat.h"

static const struct {
	int error, code;
} codes[] = {
	{ EINVAL, TE_CODE_INVALID_ARGUMENT },
	{ EBADF, TE_CODE_INVALID_ARGUMENT }, /* unknown batch or segment */
	{ ENOSPC, TE_CODE_TOO_MANY_REQUESTS },
	{ EFAULT, TE_CODE_ADDRESS_NOT_REGISTERED },
	{ EBUSY, TE_CODE_BATCH_BUSY },
	{ ENODEV, TE_CODE_DEVICE_NOT_FOUND },
	{ EEXIST, TE_CODE_ADDRESS_OVERLAPPED },
	{ ENXIO, TE_CODE_DNS },
	{ EADDRNOTAVAIL, TE_CODE_SOCKET },
	{ EADDRINUSE, TE_CODE_SOCKET },
	{ ECONNREFUSED, TE_CODE_SOCKET },
	{ ECONNRESET, TE_CODE_SOCKET },
	{ ENETUNREACH, TE_CODE_SOCKET },
	{ ENETDOWN, TE_CODE_SOCKET },
	{ EHOSTUNREACH, TE_CODE_SOCKET },
	{ EPIPE, TE_CODE_SOCKET },
	{ ENOTCONN, TE_CODE_SOCKET },
	{ EBADMSG, TE_CODE_MALFORMED_JSON },
	{ EPROTO, TE_CODE_REJECT_HANDSHAKE },
	{ EACCES, TE_CODE_REJECT_HANDSHAKE },
	{ ENOENT, TE_CODE_METADATA },
	{ ESTALE, TE_CODE_METADATA },
	{ ENODATA, TE_CODE_METADATA },
	{ ETIMEDOUT, TE_CODE_TIMEOUT },
	{ ENOMEM, TE_CODE_MEMORY },
	{ EMFILE, TE_CODE_MEMORY },
	{ ENOSYS, TE_CODE_NOT_IMPLEMENTED },
	{ ENOTSUP, TE_CODE_NOT_IMPLEMENTED },
	{ EPROTONOSUPPORT, TE_CODE_NOT_IMPLEMENTED },
};

int compat_code(int r)
{
	if (r >= 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].error == -r)
			return codes[i].code;
	return TE_CODE_ENDPOINT;
}

int compat_memory_code(int r)
{
	return r == -ENOENT ? TE_CODE_ADDRESS_NOT_REGISTERED : compat_code(r);
}

int compat_fail(int r, const char *call, const struct te_err *err)
{
	if (r < 0)
		te_warn("%s: %s", call, err->msg);
	return compat_code(r);
}
