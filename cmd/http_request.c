/* http_request.c - the life of one HTTP request: header, body, hand-over to the program, reply. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "http_impl.h"
#include "te_log.h"

enum { DISCARD_MAX = 64 << 20, FIRST_BODY = 4096 };

/* ---- replies ------------------------------------------------------------------------------ */

static void add_headers(struct MHD_Response *response, const char *const *headers)
{
	for (; headers && headers[0]; headers += 2)
		MHD_add_response_header(response, headers[0], headers[1]);
}

static void resume(struct http_request *r)
{
	r->kept_prev->kept_next = r->kept_next;
	r->kept_next->kept_prev = r->kept_prev;
	r->state = HTTP_ANSWERED;
	r->conn->patient = false;
	r->server->resumed = true;
	MHD_resume_connection(r->mhd);
}

static void dress(const struct http_server *s, struct MHD_Response *response, const char *type,
		  const char *const *headers)
{
	if (type)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	add_headers(response, s->opt.headers);
	add_headers(response, headers);
}

/* Takes response (NULL: memory was out, the connection will be closed). */
static void answer(struct http_request *r, unsigned status, size_t len,
		   struct MHD_Response *response)
{
	struct http_server *s = r->server;

	assert(!r->response);
	r->response = response;
	r->response_len = len;
	r->status = status;
	if (!pthread_equal(pthread_self(), s->thread)) {
		pthread_mutex_lock(&s->lock);
		r->next = s->late;
		s->late = r;
		pthread_mutex_unlock(&s->lock);
		http_wake(s);
	} else if (r->state == HTTP_KEPT) {
		resume(r);
	} else {
		r->state = r->state == HTTP_HANDLING ? HTTP_ANSWERED : HTTP_DISCARD;
	}
}

void http_reply(struct http_request *r, unsigned status, const char *type, const void *body,
		size_t len, const char *const *headers)
{
	/* libmicrohttpd copies under MUST_COPY, its prototype only lacks the const. */
	struct MHD_Response *response = MHD_create_response_from_buffer(
		len, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);

	if (response)
		dress(r->server, response, type, headers);
	answer(r, status, len, response);
}

struct http_answer {
	struct MHD_Response *response; /* has a count of references of its own */
	unsigned status;
	size_t len;
};

struct http_answer *http_answer_new(struct http_server *s, unsigned status, const char *type,
				    const void *body, size_t len, void (*release)(void *arg),
				    void *arg, const char *const *headers)
{
	struct http_answer *a = malloc(sizeof(*a));
	struct MHD_Response *response = a ? MHD_create_response_from_buffer_with_free_callback_cls(
						    len, (void *)(uintptr_t)body, release, arg)
					  : NULL;

	if (!response) {
		free(a);
		release(arg);
		return NULL;
	}
	dress(s, response, type, headers);
	*a = (struct http_answer){ response, status, len };
	return a;
}

void http_answer_free(struct http_answer *a)
{
	MHD_destroy_response(a->response);
	free(a);
}

static void reply_text(struct http_request *r, unsigned status, const char *text)
{
	http_reply(r, status, "text/plain; charset=utf-8", text, strlen(text), NULL);
}

void http_take_late(struct http_server *s)
{
	struct http_request *r, *next;

	pthread_mutex_lock(&s->lock);
	r = s->late;
	s->late = NULL;
	pthread_mutex_unlock(&s->lock);
	for (; r; r = next) {
		next = r->next;
		resume(r);
	}
}

void http_refuse_kept(struct http_server *s)
{
	while (s->kept.kept_next != &s->kept)
		reply_text(s->kept.kept_next, 503, "the server is shutting down");
}

/* ---- libmicrohttpd's callbacks ------------------------------------------------------------ */

void *http_on_uri(void *server, const char *uri, struct MHD_Connection *mhd)
{
	struct http_conn *conn =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	struct http_request *r = conn ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	r->server = server;
	r->mhd = mhd;
	r->conn = conn;
	r->bad_uri = !http_uri_parse(&r->uri, uri);
	return r;
}

/* The length that the header claims; 0 when it claims none. */
static uint64_t claimed_length(struct http_request *r)
{
	const char *text = http_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);

	/* libmicrohttpd has refused what is no number. */
	return text ? strtoull(text, NULL, 10) : 0;
}

/* The header is there. */
static enum MHD_Result begin(struct http_request *r, const char *method)
{
	const struct http_options *opt = &r->server->opt;
	const char *expect;

	r->method = method;
	r->state = HTTP_BODY;
	r->conn->since = http_now();
	if (r->server->stopping)
		reply_text(r, 503, "the server is shutting down");
	else if (r->bad_uri)
		reply_text(r, 400, "malformed URL");
	else if (opt->admit && !opt->admit(opt->arg, r))
		assert(r->state == HTTP_DISCARD);
	else if (claimed_length(r) > opt->max_body)
		reply_text(r, 413, "body is too large");
	if (r->state != HTTP_DISCARD)
		return MHD_YES;
	/*
	 * A reply before the body is there makes libmicrohttpd close the connection. That is right
	 * only for a client that asks before it sends; others would see a reset instead of the
	 * reply.
	 */
	expect = http_header(r, MHD_HTTP_HEADER_EXPECT);
	if (!expect || strcasecmp(expect, "100-continue") || !r->response)
		return MHD_YES;
	r->state = HTTP_ANSWERED;
	return MHD_YES;
}

static bool grow(struct http_request *r, size_t need)
{
	size_t size = r->size ? r->size * 2 : FIRST_BODY;
	char *body;

	/* Never more than twice what has arrived, whatever Content-Length says. */
	while (size < need)
		size *= 2;
	body = realloc(r->body, size);
	if (!body)
		return false;
	r->body = body;
	r->size = size;
	return true;
}

static enum MHD_Result take_body(struct http_request *r, const char *data, size_t len)
{
	r->conn->moved += len;
	if (r->state == HTTP_DISCARD) {
		r->discarded += len;
		return r->discarded > DISCARD_MAX ? MHD_NO : MHD_YES;
	}
	if (len > r->server->opt.max_body - r->len) {
		free(r->body);
		r->body = NULL;
		r->len = r->size = 0;
		reply_text(r, 413, "body is too large");
		return MHD_YES;
	}
	if (r->len + len > r->size && !grow(r, r->len + len))
		return MHD_NO;
	memcpy(r->body + r->len, data, len);
	r->len += len;
	return MHD_YES;
}

static enum MHD_Result send_reply(struct http_request *r)
{
	struct http_server *s = r->server;
	enum MHD_Result rc;

	if (!r->response)
		return MHD_NO;
	r->state = HTTP_SENDING;
	r->conn->since = http_now();
	r->conn->moved = r->response_len;
	s->sending++;
	if (s->opt.replied)
		s->opt.replied(s->opt.arg, r, r->status);
	te_trace("%s %s: %u", r->method, r->uri.path, r->status);
	rc = MHD_queue_response(r->mhd, r->status, r->response);
	if (!r->lent)
		MHD_destroy_response(r->response);
	r->response = NULL;
	return rc;
}

void http_reply_with(struct http_request *r, const struct http_answer *a)
{
	assert(r->state == HTTP_HANDLING);
	r->response = a->response;
	r->response_len = a->len;
	r->status = a->status;
	r->lent = true;
	send_reply(r);
}

static void keep(struct http_request *r)
{
	struct http_request *head = &r->server->kept;

	r->state = HTTP_KEPT;
	r->conn->patient = true;
	r->kept_next = head;
	r->kept_prev = head->kept_prev;
	head->kept_prev->kept_next = r;
	head->kept_prev = r;
	MHD_suspend_connection(r->mhd);
}

enum MHD_Result http_on_access(void *server, struct MHD_Connection *mhd, const char *url,
			       const char *method, const char *version, const char *data,
			       size_t *len, void **request)
{
	struct http_server *s = server;
	struct http_request *r = *request;
	enum MHD_Result rc;

	(void)mhd, (void)url, (void)version;
	if (!r)
		return MHD_NO;
	if (r->state == HTTP_NEW) {
		rc = begin(r, method);
		return r->state == HTTP_ANSWERED ? send_reply(r) : rc;
	}
	if (*len) {
		rc = take_body(r, data, *len);
		*len = 0;
		return rc;
	}
	if (r->state == HTTP_BODY) {
		r->state = HTTP_HANDLING;
		s->opt.handle(s->opt.arg, r);
		if (r->state == HTTP_HANDLING)
			keep(r);
		if (r->state != HTTP_ANSWERED)
			return MHD_YES;
	}
	return send_reply(r);
}

void http_on_completed(void *server, struct MHD_Connection *mhd, void **request,
		       enum MHD_RequestTerminationCode why)
{
	struct http_server *s = server;
	struct http_request *r = *request;

	(void)mhd, (void)why;
	if (!r)
		return;
	if (r->state == HTTP_SENDING)
		s->sending--;
	if (r->response)
		MHD_destroy_response(r->response);
	r->conn->since = http_now();
	r->conn->moved = 0;
	http_uri_clear(&r->uri);
	free(r->body);
	free(r);
	*request = NULL;
}

/* ---- what the program may ask ------------------------------------------------------------- */

const char *http_method(const struct http_request *r)
{
	return r->method;
}

const char *http_path(const struct http_request *r)
{
	return r->uri.path;
}

const char *http_param(struct http_request *r, const char *name)
{
	return http_uri_param(&r->uri, name);
}

const char *http_header(struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
}

const char *http_body(const struct http_request *r, size_t *len)
{
	*len = r->len;
	return r->body ? r->body : "";
}
