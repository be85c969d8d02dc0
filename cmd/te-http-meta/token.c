/* token.c - the bearer token that clients must show. */
#include <errno.h>
#include <stdio.h>
#include <strings.h>

#include "api.h"

enum { TOKEN_MAX = 4096 };

int token_read(const char *path, char **out, struct te_err *err)
{
	char buf[TOKEN_MAX + 1];
	FILE *f = fopen(path, "re");
	size_t len, i;
	int rc = 0;

	if (!f)
		return te_fail(err, -errno, "cannot open '%s': %s", path, strerror(errno));
	len = fread(buf, 1, sizeof(buf), f);
	if (ferror(f))
		rc = te_fail(err, -EIO, "cannot read '%s'", path);
	fclose(f);
	if (rc)
		return rc;
	if (len > TOKEN_MAX)
		return te_fail(err, -EINVAL, "'%s' is too long for a token", path);
	while (len && strchr(" \t\r\n", buf[len - 1]))
		len--;
	if (!len)
		return te_fail(err, -EINVAL, "'%s' is empty: no token", path);
	for (i = 0; i < len; i++) {
		if (buf[i] <= ' ' || buf[i] == 0x7f)
			return te_fail(err, -EINVAL,
				       "'%s': a token is one word of printable characters", path);
	}
	*out = strndup(buf, len);
	explicit_bzero(buf, sizeof(buf));
	return *out ? 0 : te_fail(err, -ENOMEM, "out of memory");
}

/* Takes as long for a wrong first byte as for a wrong last one. */
bool token_matches(const char *token, const char *authorization)
{
	size_t len = strlen(token), given, i;
	unsigned char diff;

	if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
		return false;
	authorization += 7 + strspn(authorization + 7, " ");
	given = strlen(authorization);
	diff = given != len;
	for (i = 0; i < len; i++)
		diff |= (unsigned char)(token[i] ^ authorization[given ? i % given : 0]);
	return !diff;
}
