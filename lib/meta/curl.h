/*
 * curl.h - one HTTP request with a bounded wait; libcurl's handles in a pool.
 *
 * http.c and etcd.c are the users; nothing else in libte sees libcurl.
 */
#ifndef TE_META_CURL_H
#define TE_META_CURL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "te_meta.h"

struct te_conf;
struct te_err;
struct te_curl_pool;

struct te_http_request {
	const char *method;
	const char *url;
	const char *const *headers; /* "Name: value" lines, NULL-terminated; NULL: none */
	const char *body;	    /* NULL: none */
	size_t body_len;
	uint64_t until;		/* te_now() scale, for all of it; 0: no end (a stream) */
	uint64_t connect_until; /* 0: as until */
	int stop_fd;		/* readable: give up and return 1. -1: none */
	/* Gets the body of a 200 as it comes instead of reply->body. Non-zero ends the request, and
	   te_curl_run() returns it. */
	int (*on_data)(void *arg, const char *data, size_t len);
	void *arg;
};

struct te_http_reply {
	long status;
	char *body; /* malloc'ed, NUL after it; NULL when there is none */
	size_t len;
	char etag[TE_META_TAG_MAX]; /* without the quotes */
	bool te_meta;		    /* "TE-Meta: 1" was there */
	bool sent;		    /* of a failure: the server may have acted on the request */
};

int te_curl_pool_new(const struct te_conf *conf, struct te_curl_pool **out, struct te_err *err);
void te_curl_pool_free(struct te_curl_pool *p);
/* 0: the server answered, whatever the status. 1: stop_fd. Negative: no whole answer.
   te_http_reply_clear() in each case. */
int te_curl_run(struct te_curl_pool *p, const struct te_http_request *q, struct te_http_reply *r,
		struct te_err *err);
void te_http_reply_clear(struct te_http_reply *r);
/* The first line of the body, made printable, for messages; "" when there is none. */
const char *te_http_reply_text(const struct te_http_reply *r, char *buf, size_t size);

#endif
