/*
 * held.c - a file system that freezes under a transfer: the task is a TIMEOUT, its memory is busy
 * until the kernel lets go of it, and an engine closes all the same.
 *
 * held METADATA SEGMENT FOLDER RAM FILE OTHER: SEGMENT's first file, of 64 KiB or more, is below
 * FOLDER, which root can freeze; RAM is a segment whose te-target serves FILE; OTHER is a segment
 * of files that are elsewhere.
 */
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "prog.h"

enum { LENGTH = 16384, MANY = 2000 };

static struct te_engine *e;
static int32_t seg, ram, other;
static unsigned char *buf, *far;
static uint64_t base;
static const char *metadata, *folder;

static void open_all(const char *segment, const char *ram_name, const char *other_name)
{
	struct te_engine_options opt = { .metadata_server = metadata,
					 .local_server_name = "127.0.0.1",
					 .protocol = "tcp",
					 .initiator_only = true };
	struct te_err err = { 0 };

	if (te_engine_open(&e, &opt, &err))
		die("te_engine_open", &err);
	buf = buffer_new(e, (size_t)2 * LENGTH, false);
	seg = segment_open(e, segment);
	ram = segment_open(e, ram_name);
	other = segment_open(e, other_name);
	base = segment_base(e, ram);
}

/* Thaws when told to, when we are gone, or after 30 s. */
static pid_t freeze(void)
{
	int fd = open(folder, O_RDONLY | O_CLOEXEC), fds[2];
	pid_t guard;

	if (pipe2(fds, O_CLOEXEC))
		die("pipe", NULL);
	fflush(stdout);
	guard = fork();
	if (!guard) {
		sigset_t all;
		struct timespec most = { .tv_sec = 30 };

		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL);
		if (ioctl(fd, FIFREEZE, 0))
			_exit(1);
		close(fds[1]); /* frozen */
		sigtimedwait(&all, NULL, &most);
		_exit(ioctl(fd, FITHAW, 0) != 0);
	}
	close(fds[1]);
	if (read(fds[0], fds, 1) != 0 || kill(guard, 0))
		die("freeze", NULL);
	close(fds[0]);
	close(fd);
	return guard;
}

static void thaw(pid_t guard)
{
	int status = -1;

	kill(guard, SIGTERM);
	waitpid(guard, &status, 0);
	ok(status == 0, "frozen and thawed");
}

/* A READ from memory and a WRITE to the file. */
static uint64_t submit_both(void)
{
	struct te_request req[2] = {
		{ .op = TE_READ, .source = buf, .target = ram, .offset = base, .length = LENGTH },
		{ .op = TE_WRITE,
		  .source = buf + LENGTH,
		  .target = seg,
		  .offset = 100,
		  .length = LENGTH },
	};
	uint64_t b = batch_new(e, 2);
	struct te_err err = { 0 };

	memset(buf, 0, LENGTH);
	if (te_batch_submit(e, b, req, 2, &err))
		die("te_batch_submit", &err);
	return b;
}

static void works(const char *when)
{
	struct te_err err;
	struct te_request req = {
		.op = TE_READ, .source = buf, .target = seg, .offset = 100, .length = LENGTH
	};
	size_t failed = 9;
	uint64_t b;
	int rc;

	memset(far, 0x5a, LENGTH);
	memset(buf + LENGTH, 0x33, LENGTH);
	b = submit_both();
	ok(te_batch_wait(e, b, 20000, &failed) == 0 && failed == 0 && all_is(buf, 0x5a, LENGTH),
	   "%s: memory and file in one batch", when);
	te_batch_free(e, b);
	ok(one(e, &req, &rc, &err).state == TE_COMPLETED && all_is(buf, 0x33, LENGTH),
	   "and the file has it %s", err.msg);
}

static void held(void)
{
	pid_t guard = freeze();
	uint64_t b = submit_both(), began = now_ns();
	struct te_status st = { .state = TE_WAITING };
	struct te_err err = { 0 };
	size_t failed = 0;

	ok(te_batch_wait(e, b, -1, &failed) == 0 && failed == 1 && now_ns() - began < 4000000000u,
	   "a frozen file system: the batch ends after %u ms",
	   (unsigned)((now_ns() - began) / 1000000));
	te_batch_status(e, b, 1, &st);
	te_batch_error(e, b, 1, &err);
	ok(st.state == TE_TIMEOUT && strstr(err.msg, folder), "TIMEOUT: %s", err.msg);
	ok(te_batch_drain(e, b, 300) == -ETIMEDOUT, "drain: memory is in use");
	ok(te_batch_free(e, b) == -EBUSY, "free: busy");
	ok(te_unregister(e, buf, &err) == -EBUSY, "unregister: %s", err.msg);
	thaw(guard);
	ok(te_batch_drain(e, b, 10000) == 0, "then the kernel lets go of it");
	ok(te_batch_free(e, b) == 0, "and the batch is freed");
}

/* More than can be in flight. */
static void others(void)
{
	static struct te_request req[MANY];
	struct te_request far_away = {
		.op = TE_READ, .source = buf, .target = other, .offset = 0, .length = LENGTH
	};
	pid_t guard = freeze();
	uint64_t b = batch_new(e, MANY), began = now_ns();
	struct te_err err = { 0 };
	int rc;

	for (int i = 0; i < MANY; i++)
		req[i] = (struct te_request){ TE_WRITE, buf + LENGTH, seg, (uint64_t)i % 16 * 4096,
					      4096 };
	if (te_batch_submit(e, b, req, MANY, &err))
		die("te_batch_submit", &err);
	ok(one(e, &far_away, &rc, &err).state == TE_COMPLETED && now_ns() - began < 900000000u,
	   "a segment that hangs delays no other: %u ms %s",
	   (unsigned)((now_ns() - began) / 1000000), err.msg);
	te_batch_wait(e, b, -1, NULL);
	thaw(guard);
	ok(te_batch_drain(e, b, 10000) == 0 && te_batch_free(e, b) == 0, "all of it comes back");
}

static void closed(void)
{
	pid_t guard = freeze();
	uint64_t began;
	size_t failed = 0;

	ok(te_batch_wait(e, submit_both(), -1, &failed) == 0 && failed == 1, "frozen again");
	began = now_ns();
	ok(te_segment_close(e, seg) == -EBUSY && now_ns() - began < 9000000000u,
	   "its segment is closed after %u ms", (unsigned)((now_ns() - began) / 1000000));
	began = now_ns();
	te_engine_close(e);
	ok(now_ns() - began < 12000000000u, "the engine is closed after %u ms",
	   (unsigned)((now_ns() - began) / 1000000));
	thaw(guard);
}

int main(int argc, char **argv)
{
	size_t len;

	if (argc < 7)
		return 2;
	setenv("MC_TRANSFER_TIMEOUT", "1", 1);
	setenv("MC_TCP_BIND_ADDRESS", "127.0.0.1", 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	metadata = argv[1];
	folder = argv[3];
	far = file_map(argv[5], &len);
	open_all(argv[2], argv[4], argv[6]);
	works("at first");
	held();
	works("thawed");
	others();
	closed();
	return tap_end();
}
