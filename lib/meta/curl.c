/* curl.c - libcurl wrapped: a pool of handles that keep their connections, bounded requests. */
#include <curl/curl.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/util.h"
#include "meta/curl.h"
#include "te_conf.h"
#include "te_err.h"
#include "te_log.h"

enum { IDLE_MAX = 16 };
static const size_t body_max = 256u << 20;

struct handle {
	CURL *easy;
	CURLM *multi; /* owns the connections */
	char error[CURL_ERROR_SIZE];
	struct handle *next;
};

struct te_curl_pool {
	bool use_proxy;
	pthread_mutex_t lock; /* owns what follows */
	struct handle *idle;
	size_t nidle;
};

struct transfer { /* one te_curl_run() */
	struct handle *h;
	const struct te_http_request *q;
	struct te_http_reply *r;
	size_t cap;
	int aborted; /* what on_data returned, or -EMSGSIZE, -ENOMEM */
};

static void global_init(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void handle_free(struct handle *h)
{
	if (h->easy)
		curl_easy_cleanup(h->easy);
	if (h->multi)
		curl_multi_cleanup(h->multi);
	free(h);
}

/* libcurl 7.88 leaves its sockets open across exec. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	(void)arg;
	(void)purpose;
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static struct handle *handle_new(void)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->easy = curl_easy_init();
	h->multi = curl_multi_init();
	if (!h->easy || !h->multi) {
		handle_free(h);
		return NULL;
	}
	curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, 4L);
	return h;
}

int te_curl_pool_new(const struct te_conf *conf, struct te_curl_pool **out, struct te_err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct te_curl_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return te_fail(err, -ENOMEM, "out of memory");
	pthread_once(&once, global_init);
	pthread_mutex_init(&p->lock, NULL);
	p->use_proxy = conf->use_proxy;
	te_info("metadata: proxies named by the environment are %s",
		p->use_proxy ? "used" : "ignored (MC_TE_USE_PROXY=1 uses them)");
	*out = p;
	return 0;
}

void te_curl_pool_free(struct te_curl_pool *p)
{
	struct handle *h, *next;

	if (!p)
		return;
	for (h = p->idle; h; h = next) {
		next = h->next;
		handle_free(h);
	}
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static struct handle *take(struct te_curl_pool *p)
{
	struct handle *h;

	pthread_mutex_lock(&p->lock);
	h = p->idle;
	if (h) {
		p->idle = h->next;
		p->nidle--;
	}
	pthread_mutex_unlock(&p->lock);
	return h ? h : handle_new();
}

static void give_back(struct te_curl_pool *p, struct handle *h)
{
	pthread_mutex_lock(&p->lock);
	if (p->nidle < IDLE_MAX) {
		h->next = p->idle;
		p->idle = h;
		p->nidle++;
		h = NULL;
	}
	pthread_mutex_unlock(&p->lock);
	if (h)
		handle_free(h);
}

static int append(struct transfer *t, const char *data, size_t len)
{
	struct te_http_reply *r = t->r;

	if (len > body_max - r->len)
		return -EMSGSIZE;
	if (r->len + len + 1 > t->cap) {
		size_t cap = MAX(2 * t->cap, r->len + len + 1);
		char *body = realloc(r->body, cap);

		if (!body)
			return -ENOMEM;
		r->body = body;
		t->cap = cap;
	}
	memcpy(r->body + r->len, data, len);
	r->len += len;
	r->body[r->len] = '\0';
	return 0;
}

static size_t on_body(char *data, size_t one, size_t len, void *arg)
{
	struct transfer *t = arg;
	long status = 0;

	(void)one;
	curl_easy_getinfo(t->h->easy, CURLINFO_RESPONSE_CODE, &status);
	if (t->q->on_data && status == 200)
		t->aborted = t->q->on_data(t->q->arg, data, len);
	else
		t->aborted = append(t, data, len);
	return t->aborted ? 0 : len;
}

/* The value of header `name` in a line, trimmed; NULL when the line is another header's. */
static const char *header_value(const char *line, size_t len, const char *name, size_t *value_len)
{
	size_t n = strlen(name);

	if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
		return NULL;
	for (line += n + 1, len -= n + 1; len && isspace((unsigned char)*line); len--)
		line++;
	while (len && isspace((unsigned char)line[len - 1]))
		len--;
	*value_len = len;
	return line;
}

static size_t on_header(char *line, size_t one, size_t len, void *arg)
{
	struct te_http_reply *r = ((struct transfer *)arg)->r;
	const char *v;
	size_t n;

	(void)one;
	v = header_value(line, len, "TE-Meta", &n);
	if (v && n == 1 && *v == '1')
		r->te_meta = true;
	v = header_value(line, len, "ETag", &n);
	if (v && n >= 2 && *v == '"' && v[n - 1] == '"' && n - 2 < sizeof(r->etag)) {
		memcpy(r->etag, v + 1, n - 2);
		r->etag[n - 2] = '\0';
	}
	return len;
}

static long ms_left(uint64_t until)
{
	return MAX(1, te_ms_until(until));
}

static void set_up(struct transfer *t, bool use_proxy, struct curl_slist *headers)
{
	const struct te_http_request *q = t->q;
	CURL *c = t->h->easy;

	curl_easy_reset(c);
	t->h->error[0] = '\0';
	curl_easy_setopt(c, CURLOPT_URL, q->url);
	curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, q->method);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "te/" TE_VERSION);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->h->error);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(c, CURLOPT_TCP_KEEPIDLE, 10L);
	curl_easy_setopt(c, CURLOPT_TCP_KEEPINTVL, 3L);
	if (!use_proxy)
		curl_easy_setopt(c, CURLOPT_PROXY, "");
	if (q->until)
		curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, ms_left(q->until));
	if (q->connect_until || q->until)
		curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS,
				 ms_left(q->connect_until ? q->connect_until : q->until));
	if (q->body) {
		curl_easy_setopt(c, CURLOPT_POST, 1L);
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, q->body);
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_len);
	}
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
}

/* Runs until done; 0 with *result, 1 when stop_fd became readable. */
static int drive(struct handle *h, int stop_fd, CURLcode *result)
{
	struct curl_waitfd stop = { .fd = stop_fd, .events = CURL_WAIT_POLLIN };
	int running, left;
	CURLMsg *msg;

	for (;;) {
		if (curl_multi_perform(h->multi, &running) != CURLM_OK)
			break;
		while ((msg = curl_multi_info_read(h->multi, &left)) != NULL) {
			if (msg->msg == CURLMSG_DONE) {
				*result = msg->data.result;
				return 0;
			}
		}
		if (!running ||
		    curl_multi_poll(h->multi, &stop, stop_fd >= 0, 1000, NULL) != CURLM_OK)
			break;
		if (stop.revents)
			return 1;
	}
	*result = CURLE_FAILED_INIT;
	return 0;
}

/*
 * OpenSSL writes without MSG_NOSIGNAL, and libcurl's own remedy changes the whole process's
 * handler. So the signal is held back in this thread, and swallowed if it came from here.
 */
static int drive_quietly(struct handle *h, int stop_fd, CURLcode *result)
{
	const struct timespec now = { 0 };
	sigset_t pipe_set, old, pending;
	int rc;

	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
	rc = drive(h, stop_fd, result);
	if (!sigismember(&pending, SIGPIPE))
		sigtimedwait(&pipe_set, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

static int failed(struct transfer *t, CURLcode result, struct te_err *err)
{
	const char *text = *t->h->error ? t->h->error : curl_easy_strerror(result);
	curl_off_t sent_at = 0;

	if (t->aborted == -EMSGSIZE)
		return te_fail(err, -EMSGSIZE, "the reply is longer than %zu MiB", body_max >> 20);
	if (t->aborted == -ENOMEM)
		return te_fail(err, -ENOMEM, "out of memory");
	if (t->aborted)
		return t->aborted;
	curl_easy_getinfo(t->h->easy, CURLINFO_PRETRANSFER_TIME_T, &sent_at);
	t->r->sent = sent_at > 0;
	switch (result) {
	case CURLE_OPERATION_TIMEDOUT:
		return te_fail(err, -ETIMEDOUT, "%s", text);
	case CURLE_COULDNT_CONNECT:
		return te_fail(err, -ECONNREFUSED, "%s", text);
	case CURLE_COULDNT_RESOLVE_HOST:
		return te_fail(err, -EHOSTUNREACH, "%s", text);
	case CURLE_OUT_OF_MEMORY:
		return te_fail(err, -ENOMEM, "out of memory");
	case CURLE_URL_MALFORMAT:
		return te_fail(err, -EINVAL, "%s", text);
	default:
		return te_fail(err, -EIO, "%s", text);
	}
}

static int header_list(const struct te_http_request *q, struct curl_slist **out)
{
	/* Expect: costs a second with servers that do not know it; a Content-Type of forms is
	   libcurl's idea for a POST. */
	static const char *const with_body[] = { "Expect:", "Content-Type: application/json",
						 NULL };
	const char *const *sets[] = { q->body ? with_body : NULL, q->headers };
	struct curl_slist *list = NULL, *more;

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		for (const char *const *p = sets[i]; p && *p; p++) {
			more = curl_slist_append(list, *p);
			if (!more) {
				curl_slist_free_all(list);
				return -ENOMEM;
			}
			list = more;
		}
	}
	*out = list;
	return 0;
}

int te_curl_run(struct te_curl_pool *p, const struct te_http_request *q, struct te_http_reply *r,
		struct te_err *err)
{
	struct transfer t = { .h = take(p), .q = q, .r = r };
	struct curl_slist *headers = NULL;
	CURLcode result = CURLE_FAILED_INIT;
	int rc;

	*r = (struct te_http_reply){ 0 };
	if (!t.h || header_list(q, &headers)) {
		if (t.h)
			give_back(p, t.h);
		return te_fail(err, -ENOMEM, "out of memory");
	}
	set_up(&t, p->use_proxy, headers);
	curl_multi_add_handle(t.h->multi, t.h->easy);
	rc = drive_quietly(t.h, q->stop_fd, &result);
	curl_easy_getinfo(t.h->easy, CURLINFO_RESPONSE_CODE, &r->status);
	if (!rc && result != CURLE_OK)
		rc = failed(&t, result, err);
	curl_multi_remove_handle(t.h->multi, t.h->easy);
	curl_slist_free_all(headers);
	give_back(p, t.h);
	return rc;
}

void te_http_reply_clear(struct te_http_reply *r)
{
	free(r->body);
	r->body = NULL;
	r->len = 0;
}

const char *te_http_reply_text(const struct te_http_reply *r, char *buf, size_t size)
{
	size_t n = 0;

	while (n < r->len && n + 1 < size && r->body[n] != '\n' && r->body[n] != '\r') {
		buf[n] = isprint((unsigned char)r->body[n]) ? r->body[n] : '?';
		n++;
	}
	buf[n] = '\0';
	return buf;
}
