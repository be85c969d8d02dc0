/* shutdown.c - enableGracefulShutdown(): engines leave the store when the process is told to end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "compat/compat.h"

static int told[2] = { -1, -1 }; /* a pipe: numbers of signals */
static pid_t owner;		 /* a child after fork() has our handlers, but no engine */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t closing = PTHREAD_MUTEX_INITIALIZER;

/* Nobody gets past it before it is done: exit() and a signal may come together. */
static void close_all(void)
{
	transfer_engine_t h;

	if (getpid() != owner)
		return;
	pthread_mutex_lock(&closing);
	for (unsigned at = 0; (h = compat_next(&at));) {
		struct compat_engine *e = compat_get(h);
		bool graceful = e && e->graceful;

		if (e)
			compat_put(h);
		if (graceful)
			destroyTransferEngine(h);
	}
	pthread_mutex_unlock(&closing);
}

/* Nothing that an engine needs may be done in a handler: the number goes to the thread. */
static void on_signal(int sig)
{
	unsigned char number = (unsigned char)sig;
	int saved = errno;

	if (getpid() != owner) { /* the pipe is its parent's: it dies as if we were not there */
		signal(sig, SIG_DFL);
		raise(sig);
		return;
	}
	if (write(told[1], &number, 1) < 0)
		_exit(128 + sig);
	errno = saved;
}

static void *wait_for_signal(void *arg)
{
	unsigned char number;

	while (read(told[0], &number, 1) != 1)
		;
	close_all();
	_exit(128 + number);
	return arg;
}

static void start(void)
{
	/* ONSTACK: the stacks of goroutines are too small for handlers. */
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK };
	pthread_t thread;

	owner = getpid();
	if (atexit(close_all) || pipe2(told, O_CLOEXEC) ||
	    te_thread_start(&thread, "te-shutdown", wait_for_signal, NULL)) {
		te_log(TE_LOG_ERROR, "enableGracefulShutdown: cannot start a thread");
		return;
	}
	pthread_detach(thread);
	sigemptyset(&sa.sa_mask);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

void enableGracefulShutdown(transfer_engine_t h)
{
	struct compat_engine *e = compat_get_alone(h);

	if (!e)
		return;
	e->graceful = true;
	compat_put_alone(h);
	pthread_once(&once, start);
}
