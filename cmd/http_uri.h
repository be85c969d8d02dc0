/* http_uri.h - the target of a request line: path and query, decoded strictly. Used by http.c only.
 */
#ifndef TE_HTTP_URI_H
#define TE_HTTP_URI_H

#include <stdbool.h>

enum { HTTP_URI_PARAMS = 16 };

struct http_uri {
	char *text; /* holds all strings below */
	const char *path;
	struct {
		const char *name, *value; /* value "" where there is no '=' */
	} param[HTTP_URI_PARAMS];
	unsigned params;
};

/*
 * "/path?name=value&...", or the absolute form that proxies get. '+' in the query is a space.
 * false: memory is out, a
 * '%' without two hex digits, a NUL (%00), or too many parameters; then path is "" and there are no
 * parameters.
 */
bool http_uri_parse(struct http_uri *u, const char *raw);
void http_uri_clear(struct http_uri *u);
/* The first of that name; NULL when absent. */
const char *http_uri_param(const struct http_uri *u, const char *name);

#endif
