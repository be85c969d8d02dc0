/* http_listen.h - the listening sockets of an HTTP server. Used by http.c only. */
#ifndef TE_HTTP_LISTEN_H
#define TE_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

struct te_err;

enum { HTTP_SOCKETS = 64 };

struct http_listeners {
	struct http_socket {
		int fd;
		unsigned port;
		size_t spec; /* which listen text it comes from */
		bool loopback;
		char address[64]; /* "127.0.0.1:8080", "[::]:8080" */
	} at[HTTP_SOCKETS];
	size_t count;
};

/* All of a NULL-terminated list of "ADDR:PORT", "[V6]:PORT", ":PORT". On failure nothing stays
 * open. */
int http_listen(struct http_listeners *l, const char *const *specs, struct te_err *err);
void http_unlisten(struct http_listeners *l);

#endif
