/* test_http.c - the HTTP server of the commands, over loopback: late answers, bodies, slow clients,
 * stop. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "http.h"
#include "tap.h"

struct server {
	struct http_server *http;
	struct http_answer *answer;
	_Atomic(struct http_request *) kept;
	_Atomic int rounds, replied, released, admitted;
};

static void release(void *arg)
{
	struct server *s = arg;

	s->released++;
}

static bool admit(void *arg, struct http_request *r)
{
	struct server *s = arg;

	s->admitted++;
	if (!http_param(r, "forbidden"))
		return true;
	http_reply(r, 401, "text/plain", "no", 2, NULL);
	return false;
}

static void *answer_late(void *arg)
{
	http_reply(arg, 200, "text/plain", "late", 4, NULL);
	return NULL;
}

static void handle(void *arg, struct http_request *r)
{
	static const char *const more[] = { "X-More", "yes", NULL };
	static const char shared[] = "shared";
	struct server *s = arg;
	const char *body, *path = http_path(r);
	pthread_t thread;
	size_t len;

	body = http_body(r, &len);
	if (!strcmp(path, "/late")) {
		pthread_create(&thread, NULL, answer_late, r);
		pthread_detach(thread);
	} else if (!strcmp(path, "/keep") || !strcmp(path, "/never")) {
		s->kept = r;
	} else if (!strcmp(path, "/shared")) {
		if (!s->answer)
			s->answer = http_answer_new(s->http, 200, "text/plain", shared, 6, release,
						    s, more);
		http_reply_with(r, s->answer);
	} else if (!strcmp(path, "/shared-last")) {
		http_reply_with(r, s->answer);
		http_answer_free(s->answer);
		s->answer = NULL;
	} else {
		http_reply(r, 200, NULL, body, len, more);
	}
}

static int on_round(void *arg)
{
	struct server *s = arg;
	struct http_request *r = s->kept;

	s->rounds++;
	/* On the server's thread, but not inside handle(). */
	if (r && !strcmp(http_path(r), "/keep")) {
		s->kept = NULL;
		http_reply(r, 200, "text/plain", "kept", 4, NULL);
	}
	return -1;
}

static void replied(void *arg, const struct http_request *r, unsigned status)
{
	struct server *s = arg;

	(void)r, (void)status;
	s->replied++;
}

static int connect_to(const struct server *s)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct timeval limit = { .tv_sec = 20 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_port = htons((uint16_t)http_port(s->http, 0));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Sends text and reads until the reply has `end` in it, or the server closes. */
static const char *talk(int fd, const char *text, const char *end)
{
	static char buf[65536];
	size_t len = 0;
	ssize_t n;

	if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		return "";
	do {
		n = recv(fd, buf + len, sizeof(buf) - 1 - len, 0);
		len += n > 0 ? (size_t)n : 0;
		buf[len] = '\0';
	} while (n > 0 && !strstr(buf, end));
	return buf;
}

static void test_replies(struct server *s)
{
	static const char *const get[] = { "GET /shared HTTP/1.1\r\nHost: x\r\n\r\n",
					   "GET /shared HTTP/1.1\r\nHost: x\r\n\r\n",
					   "GET /shared-last HTTP/1.1\r\nHost: x\r\n\r\n" };
	int fd = connect_to(s), i;
	const char *reply;

	reply = talk(fd, "GET /now HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n\r\n");
	ok(!strncmp(reply, "HTTP/1.1 200 ", 13), "a reply");
	ok(strstr(reply, "X-All: 1\r\n") && strstr(reply, "X-More: yes\r\n"), "with all headers");
	reply = talk(fd, "GET /late HTTP/1.1\r\nHost: x\r\n\r\n", "late");
	ok(strstr(reply, "200 OK") && strstr(reply, "\r\n\r\nlate"),
	   "a late one, from another thread");
	reply = talk(fd, "GET /keep HTTP/1.1\r\nHost: x\r\n\r\n", "kept");
	ok(strstr(reply, "\r\n\r\nkept"), "one from the next round");
	for (i = 0; i < 3; i++) {
		reply = talk(fd, get[i], "shared");
		ok(strstr(reply, "\r\n\r\nshared") && strstr(reply, "X-More: yes\r\n") &&
			   strstr(reply, "X-All: 1\r\n"),
		   "an answer that is made once, %d", i);
	}
	reply = talk(fd, "PUT /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345",
		     "12345");
	ok(strstr(reply, "\r\n\r\n12345"), "a body");
	ok(s->released == 1, "its body was released once");
	reply = talk(fd,
		     "PUT /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		     "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
		     "abcdefg");
	ok(strstr(reply, "\r\n\r\nabcdefg"), "a chunked body");
	reply = talk(fd, "GET /late HTTP/1.1\r\nHost: x\r\n\r\nGET /z HTTP/1.1\r\nHost: x\r\n\r\n",
		     "X-More");
	ok(strstr(reply, "late"), "pipelined requests are answered in order");
	close(fd);
}

static void test_refusals(struct server *s)
{
	int fd = connect_to(s), before = s->replied;
	const char *reply;

	reply = talk(fd, "PUT /x?forbidden HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody",
		     "\r\n\r\nno");
	ok(strstr(reply, " 401 ") && strstr(reply, "X-All: 1"), "refused by admit");
	reply = talk(fd, "PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n12345678901",
		     "large");
	ok(strstr(reply, " 413 "), "a body that is too large");
	reply = talk(fd,
		     "PUT /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		     "8\r\n12345678\r\n8\r\n12345678\r\n0\r\n\r\n",
		     "large");
	ok(strstr(reply, " 413 "), "one that turns out too large");
	reply = talk(fd, "GET /x%zz HTTP/1.1\r\nHost: x\r\n\r\n", "malformed");
	ok(strstr(reply, " 400 "), "a malformed URL");
	reply = talk(fd, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n", "X-More");
	ok(strstr(reply, " 200 "), "all that on one connection");
	ok(s->replied == before + 5, "each reply was reported");
	reply = talk(
		fd,
		"PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n",
		"large");
	ok(strstr(reply, " 413 ") && !strstr(reply, "100 Continue"),
	   "no body is asked for in vain");
	close(fd);
}

static void test_slow(struct server *s)
{
	int idle = connect_to(s), drip = connect_to(s), half = connect_to(s), waits = connect_to(s);
	static const char start[] = "PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123";
	struct pollfd p = { .events = POLLIN };
	char c, line[] = "GET /x HTTP/1.1\r\n";
	int i, rc = 0;

	if (send(half, start, strlen(start), MSG_NOSIGNAL) < 0 ||
	    send(waits, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n", 32, MSG_NOSIGNAL) < 0)
		rc = -1;
	/* A byte each 100 ms: never silent for long, but never done either. */
	p.fd = drip;
	for (i = 0; !rc && i < 100 && !poll(&p, 1, 100); i++)
		rc = send(drip, &line[i % 16], 1, MSG_NOSIGNAL) < 0;
	ok(i < 100, "one that drips is cut off");
	ok(recv(idle, &c, 1, 0) == 0, "so is an idle one");
	ok(recv(half, &c, 1, 0) <= 0, "and one that sends half a body");
	p.fd = waits;
	ok(poll(&p, 1, 0) == 0, "but not one that waits for us");
	close(idle);
	close(drip);
	close(half);
	/* It is answered by stop. */
	http_stop(s->http);
	ok(recv(waits, line, 12, 0) == 12 && !memcmp(line, "HTTP/1.1 503", 12),
	   "what is kept is refused by stop");
	close(waits);
}

static void test_listen(void)
{
	static const char *const bad[] = { "127.0.0.1", "x:99999", "127.0.0.1:", "::1:80",
					   "[::1]:a" };
	struct http_options opt = { .max_body = 10, .handle = handle };
	struct server s = { 0 };
	const char *listen[3] = { 0 };
	char taken[64];
	struct te_err err;
	size_t i;

	opt.listen = listen;
	opt.arg = &s;
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		listen[0] = bad[i];
		err.code = 0;
		ok(http_start(&opt, &s.http, &err) < 0 && err.code == -EINVAL &&
			   strstr(err.msg, "'"),
		   "'%s' is refused: %s", bad[i], err.msg);
	}
	listen[0] = "localhost:0";
	listen[1] = ":0";
	ok(!http_start(&opt, &s.http, &err), "a name and all addresses");
	ok(http_port(s.http, 0) && http_port(s.http, 1) &&
		   http_port(s.http, 0) != http_port(s.http, 1),
	   "ports are known");
	ok(!http_is_loopback(s.http) && http_address(s.http, 0) && http_address(s.http, 1),
	   "addresses too");
	snprintf(taken, sizeof(taken), "127.0.0.1:%u", http_port(s.http, 1));
	listen[0] = taken;
	listen[1] = NULL;
	ok(http_start(&opt, &(struct http_server *){ NULL }, &err) == -EADDRINUSE &&
		   strstr(err.msg, taken),
	   "a port that is taken: %s", err.msg);
	http_stop(s.http);
}

int main(void)
{
	static const char *const listen[] = { "127.0.0.1:0", NULL };
	static const char *const all[] = { "X-All", "1", NULL };
	struct server s = { 0 };
	struct http_options opt = {
		.listen = listen,
		.max_body = 10,
		.patience_ms = 600,
		.headers = all,
		.admit = admit,
		.handle = handle,
		.round = on_round,
		.replied = replied,
		.arg = &s,
	};
	struct te_err err = { 0 };

	if (http_start(&opt, &s.http, &err)) {
		ok(0, "start: %s", err.msg);
		return tap_end();
	}
	ok(http_is_loopback(s.http) && !http_address(s.http, 1), "listening on loopback");
	test_replies(&s);
	test_refusals(&s);
	test_slow(&s);
	test_listen();
	return tap_end();
}
