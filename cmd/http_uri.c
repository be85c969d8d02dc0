/* http_uri.c - the target of a request line: path and query, decoded strictly. */
#include "http_uri.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static bool decode(char *s, bool query)
{
	int high, low;
	char *to = s;

	for (; *s; s++) {
		if (*s == '+' && query) {
			*to++ = ' ';
		} else if (*s == '%') {
			high = hex(s[1]);
			low = high < 0 ? -1 : hex(s[2]);
			/* A C string cannot hold NUL, and a key that is cut there would be another
			 * key. */
			if (low < 0 || high + low == 0)
				return false;
			*to++ = (char)(high << 4 | low);
			s += 2;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
	return true;
}

static bool parse_query(struct http_uri *u, char *query)
{
	char *name, *value;

	while ((name = strsep(&query, "&"))) {
		if (!*name)
			continue;
		if (u->params == HTTP_URI_PARAMS)
			return false;
		value = strchr(name, '=');
		if (value)
			*value++ = '\0';
		if (!decode(name, true) || (value && !decode(value, true)))
			return false;
		u->param[u->params].name = name;
		u->param[u->params++].value = value ? value : "";
	}
	return true;
}

/* "http://host:port/path" is "/path". */
static char *skip_authority(char *text)
{
	char *at;

	if (!strncasecmp(text, "http://", 7))
		at = text + 7;
	else if (!strncasecmp(text, "https://", 8))
		at = text + 8;
	else
		return text;
	return at + strcspn(at, "/?");
}

bool http_uri_parse(struct http_uri *u, const char *raw)
{
	char *path, *query;

	*u = (struct http_uri){ .text = strdup(raw), .path = "" };
	if (!u->text)
		return false;
	path = skip_authority(u->text);
	query = strchr(path, '?');
	if (query)
		*query++ = '\0';
	if (!decode(path, false) || (query && !parse_query(u, query))) {
		u->params = 0;
		return false;
	}
	u->path = path;
	return true;
}

void http_uri_clear(struct http_uri *u)
{
	free(u->text);
	u->text = NULL;
}

const char *http_uri_param(const struct http_uri *u, const char *name)
{
	unsigned i;

	for (i = 0; i < u->params; i++) {
		if (!strcmp(u->param[i].name, name))
			return u->param[i].value;
	}
	return NULL;
}
