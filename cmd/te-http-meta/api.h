/* api.h - the metadata service: what the parts of te-http-meta share. */
#ifndef TE_HTTP_META_API_H
#define TE_HTTP_META_API_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "disk.h"
#include "http.h"
#include "store.h"

enum { API_KEY_MAX = 4096, API_STATUS_MAX = 600 };
enum api_method { API_GET, API_PUT, API_DELETE, API_HEAD, API_OTHER, API_METHODS };

#define API_JSON "application/json; charset=utf-8"
#define API_TEXT "text/plain; charset=utf-8"

struct watcher;

/* Owned by the server's thread once http_start() has been called. */
struct api {
	struct http_server *http;
	struct store store;
	struct disk *disk;		     /* NULL: memory only */
	struct store_op *queue, **queue_end; /* for the next batch */
	unsigned memos; /* entries of the store with a reply that is kept */
	size_t queued, crowd;	     /* length of queue; clients that wrote in the last round */
	uint64_t batch_began, gather_until;
	bool disk_failing;	     /* the last batch did not reach the disk */
	const char *token;		     /* NULL: open to all */

	struct watcher *watchers;
	size_t watcher_count;
	bool watcher_hit;    /* some watcher has something to tell */
	uint64_t watch_next; /* moment of the first time-out, UINT64_MAX */

	uint64_t replies[API_METHODS][API_STATUS_MAX];
	_Atomic bool stopping; /* set by api_stop() */
};

/* Moments of the store: monotonic ms. */
static inline uint64_t api_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* api.c: opt->arg must be the struct api; fills the rest of opt's functions and headers. */
void api_init(struct api *a);
void api_options(struct api *a, struct http_options *opt);
/* Wakes all that wait, stops the server; writes of requests that wait are finished or refused. */
void api_stop(struct api *a);
void api_text(struct http_request *r, unsigned status, const char *text);

/* watch.c: long polls. */
void watch_request(struct api *a, struct http_request *r);
void watch_changed(struct api *a, const char *key);
/* Answers those that are due; the moment when the next one is, UINT64_MAX. */
uint64_t watch_round(struct api *a, uint64_t now);
void watch_clear(struct api *a);

/* metrics.c */
enum api_method metrics_method(const char *name);
void metrics_request(struct api *a, struct http_request *r);

/* token.c: the bearer token of --token-file, malloc'ed. */
int token_read(const char *path, char **out, struct te_err *err);
bool token_matches(const char *token, const char *authorization);

#endif
