/*
 * http.h - a small HTTP server over libmicrohttpd: one epoll thread, whole requests in, whole
 * replies out. te-http-meta and te-target --metrics use it; nothing else sees libmicrohttpd.
 */
#ifndef TE_HTTP_H
#define TE_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "te_err.h"

struct http_server;
struct http_request; /* valid until it is answered */

/* A zeroed struct with listen, max_body and handle is enough. Strings are borrowed for
 * http_start(), except headers. */
struct http_options {
	/* NULL-terminated: "ADDR:PORT", "[V6]:PORT", ":PORT" (all addresses) */
	const char *const *listen;
	const char *tls_cert, *tls_key; /* file names, or NULL */
	size_t max_body;		/* larger: 413 */
	/* How long a client may be idle, or drip at its request or take the reply, plus one ms for each
	   4 bytes that moved. 0: 75 s. */
	unsigned patience_ms;
	/* name, value pairs for every reply, also those that the server gives by itself;
	   NULL-terminated, may be NULL; borrowed until http_stop() */
	const char *const *headers;
	/* Optional: called when the header of a request is there and nothing of its body. false: it
	   has answered, and the body is thrown away unread. */
	bool (*admit)(void *arg, struct http_request *r);
	/* Called on the server's thread when a whole request is there. Must answer now, or keep the
	   request and answer later from any thread (the connection is suspended meanwhile). */
	void (*handle)(void *arg, struct http_request *r);
	/* Optional: called on the server's thread after each round of events. Returns the ms until
	   it must be called again at the latest, -1 for no matter when. */
	int (*round)(void *arg);
	/* Optional: called on the server's thread for each reply that goes out. */
	void (*replied)(void *arg, const struct http_request *r, unsigned status);
	void *arg;
};

/* -EINVAL when a listen text has not the form above. */
int http_check_listen(const char *text, struct te_err *err);
/* -EADDRINUSE when a port is taken; -EINVAL for a listen text or TLS file that makes no sense. *out
   is set before the first request is handled. */
int http_start(const struct http_options *opt, struct http_server **out, struct te_err *err);
/* Port of the i-th listen text (for port 0). */
unsigned http_port(const struct http_server *s, size_t i);
/* "127.0.0.1:8080": the address of the i-th listening socket, NULL beyond the last; a name in the
   listen text may stand for several. Valid until http_stop(). */
const char *http_address(const struct http_server *s, size_t i);
/* Is every listening socket bound to a loopback address? */
bool http_is_loopback(const struct http_server *s);
/* Open connections; to be asked on the server's thread. */
unsigned http_connections(const struct http_server *s);
/* Makes the server call round() soon; any thread. */
void http_wake(struct http_server *s);
/* Stops accepting, lets answered replies go out for a bounded time, joins. Requests that are still
   kept then are answered 503 and must not be touched any more. */
void http_stop(struct http_server *s);

const char *http_method(const struct http_request *r);
const char *http_path(const struct http_request *r);
/* Decoded query parameter or request header; NULL when absent. */
const char *http_param(struct http_request *r, const char *name);
const char *http_header(struct http_request *r, const char *name);
const char *http_body(const struct http_request *r, size_t *len);
/* header lines are name, value pairs, NULL-terminated; may be NULL. body is copied. Ends the
 * request. */
void http_reply(struct http_request *r, unsigned status, const char *type, const void *body,
		size_t len, const char *const *headers);

/* A reply that is made once and sent often. headers as for http_reply(). body is not copied: it stays
   as it is until release(arg) is called, on the server's thread, once the answer was freed and is no
   longer on its way to anybody. */
struct http_answer;
/* NULL when memory is out; release has been called then. */
struct http_answer *http_answer_new(struct http_server *s, unsigned status, const char *type,
				    const void *body, size_t len, void (*release)(void *arg),
				    void *arg, const char *const *headers);
void http_answer_free(struct http_answer *a);
/* Inside handle() only. */
void http_reply_with(struct http_request *r, const struct http_answer *a);

#endif
