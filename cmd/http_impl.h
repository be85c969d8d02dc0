/* http_impl.h - what http.c (the server) and http_request.c (the life of a request) share. */
#ifndef TE_HTTP_IMPL_H
#define TE_HTTP_IMPL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "http.h"
#include "http_listen.h"
#include "http_uri.h"

/* Owned by the server's thread, like all that is not marked otherwise. */
struct http_conn {
	struct http_conn *prev, *next;
	int fd;
	uint64_t since; /* ms: when what it is doing now began */
	uint64_t moved; /* bytes that came in or are to go out meanwhile */
	bool patient;	/* its request is kept by the program: no limit */
};

enum http_state {
	HTTP_NEW,      /* request line seen */
	HTTP_BODY,     /* header seen, body coming */
	HTTP_DISCARD,  /* answered; the rest of the body is thrown away */
	HTTP_HANDLING, /* inside handle() */
	HTTP_KEPT,     /* the program has it, the connection is suspended */
	HTTP_ANSWERED, /* resumed, or about to return from handle() */
	HTTP_SENDING,  /* reply queued */
};

struct http_request {
	struct http_request *next; /* server's list of late answers */
	struct http_request *kept_prev, *kept_next;
	struct http_server *server;
	struct MHD_Connection *mhd;
	struct http_conn *conn;
	enum http_state state;
	const char *method;
	struct http_uri uri;
	bool bad_uri;
	char *body;
	size_t len, size;
	uint64_t discarded;
	struct MHD_Response *response; /* set by whoever answers, before the hand-over */
	bool lent;		       /* response is an http_answer's */
	uint64_t response_len;
	unsigned status;
};

struct http_server {
	struct http_options opt;
	struct MHD_Daemon *mhd;
	struct http_listeners listeners;
	bool accepting;
	uint64_t accept_again; /* ms: after the file descriptors ran out */
	unsigned max_conns, conns;
	struct http_conn all;	  /* head of a ring */
	struct http_request kept; /* head of a ring by kept_* */
	unsigned sending;	  /* replies queued and not yet out */
	uint64_t next_sweep;
	bool resumed; /* connections since the last run of libmicrohttpd */

	pthread_t thread;
	int epoll, wake;
	_Atomic bool stopping; /* set by http_stop(), with a write to wake after it */

	pthread_mutex_t lock;	   /* protects: */
	struct http_request *late; /* answers from other threads */

	char start_error[256]; /* libmicrohttpd's first complaint while it starts */
	char *tls_cert, *tls_key;
	bool started;
};

static inline uint64_t http_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* libmicrohttpd's callbacks. */
void *http_on_uri(void *server, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_on_access(void *server, struct MHD_Connection *mhd, const char *url,
			       const char *method, const char *version, const char *data,
			       size_t *len, void **request);
void http_on_completed(void *server, struct MHD_Connection *mhd, void **request,
		       enum MHD_RequestTerminationCode why);

/* Hand answers of other threads to libmicrohttpd. */
void http_take_late(struct http_server *s);
/* 503 for all that the program still keeps. */
void http_refuse_kept(struct http_server *s);

#endif
