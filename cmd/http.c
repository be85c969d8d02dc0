/* http.c - a small HTTP server over libmicrohttpd: listening, the event loop, slow clients,
 * shutdown. */
#include "http.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_impl.h"
#include "te_log.h"

enum {
	PATIENCE_MS = 75000,
	BYTES_PER_MS = 4, /* 4 KB/s are enough */
	SWEEP_MS = 1000,
	ACCEPT_PAUSE_MS = 100,
	ACCEPT_BURST = 64,
	STOP_MS = 1000,
	SPARE_FDS = 32,
	CONNECTIONS_MAX = 65536,
	/* For the header of a request: 4096 bytes, percent-encoded, and then some. libmicrohttpd
	   clears all of it after each request. */
	HEADER_MEMORY = 20 << 10,
};

/* ---- connections -------------------------------------------------------------------------- */

static void on_connection(void *arg, struct MHD_Connection *mhd, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct http_server *s = arg;
	struct http_conn *c = *context;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		c = calloc(1, sizeof(*c));
		*context = c;
		if (!c)
			return;
		c->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		c->since = http_now();
		c->prev = s->all.prev;
		c->next = &s->all;
		c->prev->next = c;
		c->next->prev = c;
		s->conns++;
	} else if (c) {
		c->prev->next = c->next;
		c->next->prev = c->prev;
		s->conns--;
		free(c);
	}
}

/* Hang up on those that are idle or slow for too long; libmicrohttpd then sees the end and cleans
 * up. */
static void sweep(struct http_server *s, uint64_t now)
{
	struct http_conn *c;

	if (now < s->next_sweep)
		return;
	s->next_sweep = now + SWEEP_MS;
	for (c = s->all.next; c != &s->all; c = c->next) {
		if (!c->patient && now - c->since > s->opt.patience_ms + c->moved / BYTES_PER_MS)
			shutdown(c->fd, SHUT_RDWR);
	}
}

static void set_accepting(struct http_server *s, bool on)
{
	struct epoll_event ev = { .events = on ? EPOLLIN : 0 };
	size_t i;

	if (s->accepting == on)
		return;
	for (i = 0; i < s->listeners.count; i++) {
		ev.data.fd = s->listeners.at[i].fd;
		epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->listeners.at[i].fd, &ev);
	}
	s->accepting = on;
}

/* No more for now: what waits in the backlog must not make the loop spin. */
static void pause_accepting(struct http_server *s)
{
	set_accepting(s, false);
	s->accept_again = http_now() + ACCEPT_PAUSE_MS;
}

static void accept_some(struct http_server *s, int listener)
{
	struct sockaddr_storage ss;
	socklen_t len;
	int i, fd;

	for (i = 0; i < ACCEPT_BURST; i++) {
		if (s->conns >= s->max_conns) {
			pause_accepting(s);
			return;
		}
		len = sizeof(ss);
		fd = accept4(listener, (struct sockaddr *)&ss, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				pause_accepting(s);
			return;
		}
		/* It owns fd, also when it fails. */
		MHD_add_connection(s->mhd, fd, (struct sockaddr *)&ss, len);
	}
}

/* ---- the loop ----------------------------------------------------------------------------- */

static int sooner(int a, int b)
{
	return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

static int next_timeout(struct http_server *s, int round_ms)
{
	MHD_UNSIGNED_LONG_LONG mhd_ms;
	int ms = round_ms;

	/* Without a listening socket of its own, libmicrohttpd does not wake its epoll for these.
	 */
	if (s->resumed)
		return 0;
	if (MHD_get_timeout(s->mhd, &mhd_ms) == MHD_YES)
		ms = sooner(ms, mhd_ms > SWEEP_MS ? SWEEP_MS : (int)mhd_ms);
	if (s->conns)
		ms = sooner(ms, SWEEP_MS);
	if (!s->accepting && s->listeners.count)
		ms = sooner(ms, ACCEPT_PAUSE_MS);
	return ms;
}

/* Wait for events and do all that they ask for; returns the ms to wait the next time. */
static int one_round(struct http_server *s, int timeout)
{
	struct epoll_event ev[16];
	uint64_t count, now;
	int i, n;

	n = epoll_wait(s->epoll, ev, 16, timeout);
	for (i = 0; i < n; i++) {
		if (ev[i].data.fd == s->wake) {
			if (read(s->wake, &count, sizeof(count)) > 0)
				http_take_late(s);
		} else if (ev[i].data.fd >= 0) {
			accept_some(s, ev[i].data.fd);
		}
	}
	s->resumed = false;
	MHD_run(s->mhd);
	timeout = s->opt.round ? s->opt.round(s->opt.arg) : -1;
	now = http_now();
	sweep(s, now);
	if (!s->accepting && now >= s->accept_again && s->conns < s->max_conns)
		set_accepting(s, true);
	return next_timeout(s, timeout);
}

/* Answers that are due may still go out; then nobody is waited for. */
static void drain(struct http_server *s)
{
	uint64_t end = http_now() + STOP_MS, now;
	int timeout = 0;

	http_unlisten(&s->listeners);
	for (now = http_now(); now < end; now = http_now()) {
		if (s->kept.kept_next == &s->kept && !s->sending)
			break;
		timeout = one_round(s, sooner(timeout, (int)(end - now)));
	}
	/* libmicrohttpd may not be stopped with suspended connections. */
	http_take_late(s);
	http_refuse_kept(s);
	MHD_run(s->mhd);
	MHD_run(s->mhd);
}

static void *serve(void *arg)
{
	struct http_server *s = arg;
	int timeout = -1;

	/* s->thread is set once start_loop() lets go of the lock. */
	pthread_mutex_lock(&s->lock);
	pthread_mutex_unlock(&s->lock);
	while (!s->stopping)
		timeout = one_round(s, timeout);
	drain(s);
	return NULL;
}

void http_wake(struct http_server *s)
{
	uint64_t one = 1;

	/* It fails only when the counter is full, and then the loop wakes up anyway. */
	if (write(s->wake, &one, sizeof(one)) < 0)
		return;
}

/* ---- start and stop ----------------------------------------------------------------------- */

static void mhd_log(void *arg, const char *fmt, va_list ap)
{
	struct http_server *s = arg;
	char line[256];

	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\r\n")] = '\0';
	if (s->started)
		te_trace("http: %s", line);
	else if (!*s->start_error)
		snprintf(s->start_error, sizeof(s->start_error), "%s", line);
}

static int read_file(const char *path, char **out, struct te_err *err)
{
	enum { MAX = 1 << 20 };
	FILE *f = fopen(path, "re");
	size_t len = 0;
	char *text;

	if (!f)
		return te_fail(err, -errno, "cannot open '%s': %s", path, strerror(errno));
	text = calloc(1, MAX);
	if (text)
		len = fread(text, 1, MAX - 1, f);
	fclose(f);
	if (!len) {
		free(text);
		return te_fail(err, -EINVAL, "cannot read '%s', or it is empty", path);
	}
	*out = text;
	return 0;
}

static unsigned connection_limit(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return 1024 - SPARE_FDS;
	if (rl.rlim_cur > CONNECTIONS_MAX + SPARE_FDS)
		return CONNECTIONS_MAX;
	return rl.rlim_cur > 2 * SPARE_FDS ? (unsigned)rl.rlim_cur - SPARE_FDS : SPARE_FDS;
}

static int start_mhd(struct http_server *s, struct te_err *err)
{
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, s->tls_cert },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, s->tls_key },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (char[]){ "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1" } },
		{ MHD_OPTION_END, 0, NULL },
	};
	struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };
	unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
			 MHD_USE_ERROR_LOG | (s->tls_cert ? MHD_USE_TLS : 0);

	s->mhd = MHD_start_daemon(
		flags, 0, NULL, NULL, http_on_access, s, MHD_OPTION_EXTERNAL_LOGGER, mhd_log, s,
		MHD_OPTION_URI_LOG_CALLBACK, http_on_uri, s, MHD_OPTION_NOTIFY_COMPLETED,
		http_on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
		MHD_OPTION_CONNECTION_LIMIT, s->max_conns, MHD_OPTION_CONNECTION_TIMEOUT, 0u,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_MEMORY,
		MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY, s->tls_cert ? tls : none,
		MHD_OPTION_END);
	if (!s->mhd)
		return te_fail(err, -EINVAL, "cannot start the HTTP server: %s",
			       *s->start_error ? s->start_error : "no reason given");
	s->started = true;
	return 0;
}

/* as: what the loop is told. */
static int watch_fd(struct http_server *s, int fd, int as)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = as };

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int start_loop(struct http_server *s, struct te_err *err)
{
	sigset_t all, old;
	size_t i;
	int rc;

	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->epoll < 0 || s->wake < 0)
		return te_fail(err, -errno, "cannot create epoll: %s", strerror(errno));
	rc = watch_fd(s, s->wake, s->wake);
	if (!rc)
		rc = watch_fd(s, MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
			      -1);
	for (i = 0; !rc && i < s->listeners.count; i++)
		rc = watch_fd(s, s->listeners.at[i].fd, s->listeners.at[i].fd);
	if (rc)
		return te_fail(err, rc, "cannot use epoll: %s", strerror(-rc));
	s->accepting = true;
	/* SIGPIPE and all others: not this thread's business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_mutex_lock(&s->lock);
	rc = -pthread_create(&s->thread, NULL, serve, s);
	pthread_mutex_unlock(&s->lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc ? te_fail(err, rc, "cannot start a thread: %s", strerror(-rc)) : 0;
}

static void server_free(struct http_server *s)
{
	if (s->mhd)
		MHD_stop_daemon(s->mhd);
	http_unlisten(&s->listeners);
	if (s->epoll >= 0)
		close(s->epoll);
	if (s->wake >= 0)
		close(s->wake);
	pthread_mutex_destroy(&s->lock);
	if (s->tls_key)
		explicit_bzero(s->tls_key, strlen(s->tls_key));
	free(s->tls_key);
	free(s->tls_cert);
	free(s);
}

int http_start(const struct http_options *opt, struct http_server **out, struct te_err *err)
{
	struct http_server *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return te_fail(err, -ENOMEM, "out of memory");
	s->opt = *opt;
	if (!s->opt.patience_ms)
		s->opt.patience_ms = PATIENCE_MS;
	s->epoll = s->wake = -1;
	s->all.next = s->all.prev = &s->all;
	s->kept.kept_next = s->kept.kept_prev = &s->kept;
	s->max_conns = connection_limit();
	pthread_mutex_init(&s->lock, NULL);
	if (opt->tls_cert) {
		rc = read_file(opt->tls_cert, &s->tls_cert, err);
		if (!rc)
			rc = read_file(opt->tls_key, &s->tls_key, err);
	}
	if (!rc)
		rc = http_listen(&s->listeners, opt->listen, err);
	if (!rc)
		rc = start_mhd(s, err);
	s->opt.listen = NULL;
	s->opt.tls_cert = s->opt.tls_key = NULL;
	*out = s;
	if (!rc)
		rc = start_loop(s, err);
	if (rc) {
		server_free(s);
		*out = NULL;
	}
	return rc;
}

void http_stop(struct http_server *s)
{
	s->stopping = true;
	http_wake(s);
	pthread_join(s->thread, NULL);
	server_free(s);
}

unsigned http_port(const struct http_server *s, size_t i)
{
	size_t k;

	for (k = 0; k < s->listeners.count; k++) {
		if (s->listeners.at[k].spec == i)
			return s->listeners.at[k].port;
	}
	return 0;
}

const char *http_address(const struct http_server *s, size_t i)
{
	return i < s->listeners.count ? s->listeners.at[i].address : NULL;
}

bool http_is_loopback(const struct http_server *s)
{
	size_t i;

	for (i = 0; i < s->listeners.count; i++) {
		if (!s->listeners.at[i].loopback)
			return false;
	}
	return true;
}

unsigned http_connections(const struct http_server *s)
{
	return s->conns;
}
