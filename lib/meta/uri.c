/* uri.c - connection strings: scheme, credentials, endpoints. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "host/addr.h"
#include "meta/ops.h"

enum { ENDPOINTS_MAX = 64 };

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* A '%' that begins no escape stands for itself: passwords are typed by people. */
static char *unescape(const char *text, size_t len)
{
	char *out = malloc(len + 1), *to = out;

	if (!out)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '%' && i + 2 < len && hex(text[i + 1]) >= 0 &&
		    hex(text[i + 2]) >= 0) {
			*to++ = (char)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
			i += 2;
		} else {
			*to++ = text[i];
		}
	}
	*to = '\0';
	return out;
}

char *te_uri_escape(const char *text)
{
	static const char digits[] = "0123456789ABCDEF";
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~";
	char *out = malloc(3 * strlen(text) + 1), *to = out;

	if (!out)
		return NULL;
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (strchr(plain, c)) {
			*to++ = (char)c;
			continue;
		}
		*to++ = '%';
		*to++ = digits[c >> 4];
		*to++ = digits[c & 15];
	}
	*to = '\0';
	return out;
}

static int split_userinfo(struct te_uri *u, const char *info, size_t len)
{
	const char *colon = memchr(info, ':', len);
	size_t user_len = colon ? (size_t)(colon - info) : len;

	u->user = unescape(info, user_len);
	if (!u->user)
		return -ENOMEM;
	if (colon) {
		u->password = unescape(colon + 1, len - user_len - 1);
		if (!u->password)
			return -ENOMEM;
	}
	return 0;
}

/* The last '@' ends the user part: passwords with a bare '@' are common. */
static const char *userinfo_end(const char *rest, const char *end)
{
	while (end > rest)
		if (*--end == '@')
			return end;
	return NULL;
}

int te_uri_parse(const char *text, struct te_uri *out, struct te_err *err)
{
	const char *sep = strstr(text, "://");
	const char *rest = sep ? sep + 3 : text;
	const char *slash = rest + strcspn(rest, "/?");
	const char *at = userinfo_end(rest, slash);
	struct te_uri u = { 0 };
	int rc = 0;

	if (at)
		rc = split_userinfo(&u, rest, (size_t)(at - rest));
	rest = at ? at + 1 : rest;
	u.scheme = sep ? strndup(text, (size_t)(sep - text)) : strdup("etcd");
	u.authority = strndup(rest, (size_t)(slash - rest));
	u.path = strdup(slash);
	u.shown = sep ? te_asprintf("%.*s://%s", (int)(sep - text), text, rest) : strdup(rest);
	if (rc || !u.scheme || !u.authority || !u.path || !u.shown)
		rc = te_fail(err, -ENOMEM, "out of memory");
	else if (!*u.authority)
		rc = te_fail(err, -EINVAL, "no host in the metadata server's address '%s'",
			     u.shown);
	if (rc) {
		te_uri_clear(&u);
		return rc;
	}
	*out = u;
	return 0;
}

void te_uri_clear(struct te_uri *u)
{
	if (u->password)
		explicit_bzero(u->password, strlen(u->password));
	free(u->scheme);
	free(u->user);
	free(u->password);
	free(u->authority);
	free(u->path);
	free(u->shown);
	*u = (struct te_uri){ 0 };
}

static int one_endpoint(const char *text, size_t len, unsigned default_port,
			struct te_endpoint *out, struct te_err *err)
{
	char buf[300];
	bool has_port;

	if (len >= sizeof(buf))
		return te_fail(err, -EINVAL, "address '%.40s...' is too long", text);
	memcpy(buf, text, len);
	buf[len] = '\0';
	out->port = default_port;
	if (!te_addr_split(buf, out->host, sizeof(out->host), &out->port, &has_port))
		return te_fail(err, -EINVAL, "'%s' is not HOST:PORT", buf);
	return 0;
}

int te_uri_endpoints(const struct te_uri *u, unsigned default_port, struct te_endpoint **out,
		     struct te_err *err)
{
	static const char blank[] = " \t";
	struct te_endpoint *list = calloc(ENDPOINTS_MAX, sizeof(*list));
	const char *p = u->authority;
	int n = 0, rc = 0;

	if (!list)
		return te_fail(err, -ENOMEM, "out of memory");
	while (*p && !rc) {
		size_t len, all = strcspn(p, ",;"), lead = strspn(p, blank);

		len = all - MIN(lead, all);
		while (len && strchr(blank, p[lead + len - 1]))
			len--;
		if (len && n == ENDPOINTS_MAX)
			rc = te_fail(err, -EINVAL, "more than %d endpoints", ENDPOINTS_MAX);
		else if (len)
			rc = one_endpoint(p + lead, len, default_port, &list[n++], err);
		p += all + (p[all] != '\0');
	}
	if (!rc && !n)
		rc = te_fail(err, -EINVAL, "no host in '%s'", u->shown);
	if (rc) {
		free(list);
		return rc;
	}
	*out = list;
	return n;
}
