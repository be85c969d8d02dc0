/*
 * http.h - a small HTTP server over libmicrohttpd: one epoll thread, whole requests in, whole replies out.
 * te-http-meta and te-target --metrics use it; nothing else sees libmicrohttpd.
 */
#ifndef TE_HTTP_H
#define TE_HTTP_H

#include <stddef.h>

#include "te_err.h"

struct http_server;
struct http_request;		/* valid until it is answered */

struct http_options {
	const char *const *listen;	/* NULL-terminated: "ADDR:PORT", "[V6]:PORT", ":PORT" (all addresses) */
	const char *tls_cert, *tls_key;	/* file names, or NULL */
	size_t max_body;		/* larger: 413 */
	/* Called on the server's thread when a whole request is there. Must answer now, or keep the request and answer
	   later from any thread (the connection is suspended meanwhile). */
	void (*handle)(void *arg, struct http_request *r);
	void *arg;
};

int http_start(const struct http_options *opt, struct http_server **out, struct te_err *err);
/* Port of the i-th listener (for port 0). */
unsigned http_port(const struct http_server *s, size_t i);
/* Stops accepting, lets answered replies go out for a bounded time, joins. */
void http_stop(struct http_server *s);

const char *http_method(const struct http_request *r);
const char *http_path(const struct http_request *r);
/* Decoded query parameter or request header; NULL when absent. */
const char *http_param(struct http_request *r, const char *name);
const char *http_header(struct http_request *r, const char *name);
const char *http_body(const struct http_request *r, size_t *len);
/* header lines are name, value pairs, NULL-terminated; may be NULL. body is copied. Ends the request. */
void http_reply(struct http_request *r, unsigned status, const char *type, const void *body, size_t len,
		const char *const *headers);

#endif
