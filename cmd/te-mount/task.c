/* task.c - work that may get stuck in the kernel, in a process of its own. */
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int64_t limit_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

struct limit limit_in(double seconds, int stop)
{
	return (struct limit){ .deadline_ms = limit_now_ms() + (int64_t)(seconds * 1e3),
			       .stop = stop };
}

int64_t limit_left_ms(const struct limit *l)
{
	int64_t left = l->deadline_ms - limit_now_ms();

	return left > 0 ? left : 0;
}

/* Waits for fd (-1: for nothing), ms at most (-1: as long as the limit). 1: it is readable; 0: not
 * yet. */
static int wait_for(const struct limit *l, int fd, int ms)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN },
			       { .fd = l->stop, .events = POLLIN } };
	int64_t left = limit_left_ms(l);

	if (!left)
		return -ETIMEDOUT;
	if (ms < 0 || ms > left)
		ms = (int)left;
	/* A signal that is not for the signalfd (a stopped and continued process) shortens a pause:
	 * no harm. */
	if (poll(p, 2, ms) <= 0)
		return 0;
	if (p[1].revents)
		return -EINTR;
	return p[0].revents ? 1 : 0;
}

int limit_pause(const struct limit *l, int ms)
{
	int rc = wait_for(l, -1, ms);

	return rc < 0 ? rc : 0;
}

/* ---- the child ---------------------------------------------------------------------------- */

static void on_alarm(int signal)
{
	(void)signal;
}

/* Of its own: no terminal's Ctrl-C ends it halfway, no reader of our output waits for it, no lock
 * of ours stays with it. */
static int detach(int fd)
{
	struct sigaction wake = { .sa_handler = on_alarm }; /* no SA_RESTART: it interrupts */
	sigset_t none;
	int null;

	setsid();
	if (chdir("/") != 0)
		return -1;
	sigaction(SIGALRM, &wake, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	null = open("/dev/null", O_RDWR);
	if (null < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		dup2(null, i);
	if (fd != 3 && dup2(fd, 3) < 0)
		return -1;
	close_range(4, ~0U, 0);
	return 3;
}

static bool give(int fd, const char *result, size_t size)
{
	size_t sent = 0;
	char taken;
	ssize_t n;

	while (sent < size) {
		n = send(fd, result + sent, size - sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		sent += n > 0 ? (size_t)n : 0;
	}
	/* Only the parent's word says that it has arrived. */
	do {
		n = recv(fd, &taken, 1, 0);
	} while (n < 0 && errno == EINTR);
	return n == 1;
}

static _Noreturn void child(int fd, const struct task_ops *ops, const void *arg)
{
	char *result = calloc(1, ops->size);

	fd = detach(fd);
	if (fd < 0 || !result)
		_exit(1);
	ops->run(arg, result);
	if (!give(fd, result, ops->size) && ops->undo)
		ops->undo(arg, result);
	_exit(0);
}

/* ---- the parent --------------------------------------------------------------------------- */

int task_start(struct task *t, const struct task_ops *ops, const void *arg, struct te_err *err)
{
	int pair[2];

	*t = (struct task){ .size = ops->size };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return te_fail(err, -errno, "cannot make a pair of sockets: %s", strerror(errno));
	t->pid = fork();
	if (t->pid < 0) {
		int rc = -errno;

		close(pair[0]);
		close(pair[1]);
		t->pid = 0;
		return te_fail(err, rc, "cannot start a process: %s", strerror(-rc));
	}
	if (t->pid == 0) {
		close(pair[0]);
		child(pair[1], ops, arg);
	}
	close(pair[1]);
	t->fd = pair[0];
	return 0;
}

static int receive(struct task *t, const struct limit *l, char *result)
{
	while (t->have < t->size) {
		int rc = wait_for(l, t->fd, -1);
		ssize_t n;

		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		n = recv(t->fd, result + t->have, t->size - t->have, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return -ECHILD;
		if (n > 0)
			t->have += (size_t)n;
	}
	return 0;
}

int task_wait(struct task *t, const struct limit *l, void *result)
{
	int rc = receive(t, l, result);

	if (rc == 0 && send(t->fd, "", 1, MSG_NOSIGNAL) != 1)
		rc = -ECHILD;
	if (rc == -ETIMEDOUT || rc == -EINTR)
		kill(t->pid, SIGALRM);
	close(t->fd);
	/* One that the kernel holds would hold us: init will fetch it. */
	waitpid(t->pid, NULL, rc == 0 || rc == -ECHILD ? 0 : WNOHANG);
	t->pid = 0;
	return rc;
}

int task_run(const struct task_ops *ops, const void *arg, const struct limit *l, void *result,
	     struct te_err *err)
{
	struct task t;
	int rc = task_start(&t, ops, arg, err);

	return rc ? rc : task_wait(&t, l, result);
}
