/* self.c - the target of te-bench --self, in a process of its own. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	READY_MS = 30000, /* until it serves, without the filling of its memory */
	STOP_MS = 2000,	  /* after SIGTERM, before SIGKILL */
	DOCUMENT_MAX = 1 << 20,
};

static void build_argv(const struct bench_options *o, struct target_argv *t)
{
	struct bench_options of = *o;
	char seed[24];

	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)o->seed);
	of.cli.name = NULL;
	of.cli.json = true;
	of.buffer_size = options_memory(o);
	of.pattern = o->verify ? seed : NULL;
	options_target_argv(&of, t);
	if (strcmp(o->cli.metadata, "P2PHANDSHAKE") == 0)
		target_argv_add(t, "--local-server-name=127.0.0.1");
	else
		target_argv_add(t, "--local-server-name=te-bench-self.%d", (int)getpid());
	target_argv_add(t, "--mode=target");
}

/* By its name where that still leads to it: valgrind takes /proc/self/exe for its own. */
static const char *own_program(char *buf, size_t size)
{
	static const char link[] = "/proc/self/exe";
	ssize_t n = readlink(link, buf, size - 1);

	if (n < 0)
		return link;
	buf[n] = '\0';
	return access(buf, X_OK) == 0 ? buf : link;
}

/* In the child: only what is safe after fork(). */
static void become_target(const char *program, char *const *argv, int out, pid_t parent)
{
	sigset_t none;

	/* A Ctrl-C is for te-bench, which then ends us; so is the death of te-bench, however it
	 * comes. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(CLI_FAIL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(out, STDOUT_FILENO) < 0)
		_exit(CLI_FAIL);
	execv(program, argv);
	_exit(127);
}

static int spawn(struct self *self, char *const *argv, struct te_err *err)
{
	char buf[PATH_MAX];
	const char *program = own_program(buf, sizeof(buf));
	const pid_t parent = getpid();
	int fds[2], rc;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return te_fail(err, -errno, "cannot make a pipe: %s", strerror(errno));
	self->pid = fork();
	if (self->pid == 0)
		become_target(program, argv, fds[1], parent);
	rc = self->pid < 0 ? -errno : 0;
	close(fds[1]);
	if (rc) {
		self->pid = 0;
		close(fds[0]);
		return te_fail(err, rc, "cannot start the target of --self: %s", strerror(-rc));
	}
	self->out = fds[0];
	return 0;
}

static int parse_ready(struct self *self, const char *text, size_t len, struct te_err *err)
{
	json_t *doc = json_loadb(text, len, 0, NULL);
	const char *name = json_string_value(json_object_get(doc, "segment"));
	int rc = 0;

	self->segment = name ? strdup(name) : NULL;
	if (!self->segment)
		rc = te_fail(err, -EPROTO, "the target of --self did not say its segment");
	json_decref(doc);
	return rc;
}

/* Its one line of JSON on standard output says that it serves. */
static int wait_ready(struct self *self, int signals, uint64_t deadline, struct te_err *err)
{
	struct pollfd fds[] = { { .fd = self->out, .events = POLLIN },
				{ .fd = signals, .events = POLLIN } };
	char *text = malloc(DOCUMENT_MAX);
	size_t len = 0;
	ssize_t n;
	int rc = 0;

	if (!text)
		return te_fail(err, -ENOMEM, "out of memory");
	while (!rc && !(len && text[len - 1] == '\n')) {
		if (now_ns() > deadline || len == DOCUMENT_MAX) {
			rc = te_fail(err, -ETIMEDOUT, "the target of --self does not get ready");
		} else if (poll(fds, 2, 100) > 0 && fds[1].revents) {
			rc = te_fail(err, -EINTR, "interrupted");
		} else if (fds[0].revents) {
			n = read(self->out, text + len, DOCUMENT_MAX - len);
			if (n > 0)
				len += (size_t)n;
			else
				rc = te_fail(err, -ECHILD, "the target of --self has ended");
		}
	}
	if (!rc)
		rc = parse_ready(self, text, len, err);
	free(text);
	return rc;
}

int self_start(struct self *self, const struct bench_options *o, int signals, struct te_err *err)
{
	struct target_argv t = { 0 };
	uint64_t fill_ms = options_memory(o) >> 18; /* at the least 256 MiB/s */
	int rc;

	*self = (struct self){ .out = -1 };
	build_argv(o, &t);
	rc = t.failed ? te_fail(err, -ENOMEM, "out of memory") : spawn(self, t.argv, err);
	target_argv_clear(&t);
	if (!rc)
		rc = wait_ready(self, signals, now_ns() + (READY_MS + fill_ms) * 1000000, err);
	if (rc)
		self_stop(self);
	return rc;
}

/* The end of its standard output is its own end: nobody else has it. */
static bool has_ended(struct self *self, uint64_t deadline)
{
	struct pollfd out = { .fd = self->out, .events = POLLIN };
	char rest[512];
	uint64_t now;

	while ((now = now_ns()) < deadline) {
		if (poll(&out, 1, (int)((deadline - now) / 1000000) + 1) > 0 &&
		    read(self->out, rest, sizeof(rest)) <= 0)
			return true;
	}
	return false;
}

void self_stop(struct self *self)
{
	if (!self->pid)
		return;
	kill(self->pid, SIGTERM);
	/* A frozen one takes no SIGTERM. */
	if (!has_ended(self, now_ns() + STOP_MS * UINT64_C(1000000)))
		kill(self->pid, SIGKILL);
	while (waitpid(self->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(self->out);
	free(self->segment);
	*self = (struct self){ .out = -1 };
}
