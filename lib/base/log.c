/* log.c - one log: the program's function, else a file in a directory, else standard error. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"

enum { LINE_MAX_BYTES = 1024 };

static const char *const level_names[] = {
	[TE_LOG_TRACE] = "trace",
	[TE_LOG_INFO] = "info",
	[TE_LOG_WARNING] = "warning",
	[TE_LOG_ERROR] = "error",
};

/* The log is the process's. `level` and `level_set` are read on every call, hence atomic (relaxed:
   they order nothing); the rest is under `lock`. */
static struct {
	_Atomic int level;
	atomic_bool level_set; /* by the program: the environment no longer counts */
	pthread_mutex_t lock;
	struct te_log_sink sink;
	char dir[256];
	bool dir_set;
	int fd;	     /* of the file in dir; -1: not open */
	bool failed; /* it cannot be opened; said once */
} lg = { .level = TE_LOG_WARNING, .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

void te_log_set_sink(const struct te_log_sink *sink)
{
	pthread_mutex_lock(&lg.lock);
	lg.sink = sink ? *sink : (struct te_log_sink){ 0 };
	pthread_mutex_unlock(&lg.lock);
}

void te_log_set_level(enum te_log_level level)
{
	atomic_store_explicit(&lg.level_set, true, memory_order_relaxed);
	atomic_store_explicit(&lg.level, (int)level, memory_order_relaxed);
}

bool te_log_wants(enum te_log_level level)
{
	return (int)level >= atomic_load_explicit(&lg.level, memory_order_relaxed);
}

static void set_dir_locked(const char *dir)
{
	if (!strncmp(lg.dir, dir, sizeof(lg.dir)))
		return;
	te_strlcpy(lg.dir, dir, sizeof(lg.dir));
	if (lg.fd >= 0)
		close(lg.fd);
	lg.fd = -1;
	lg.failed = false;
}

void te_log_set_dir(const char *dir)
{
	pthread_mutex_lock(&lg.lock);
	lg.dir_set = true;
	set_dir_locked(dir ? dir : "");
	pthread_mutex_unlock(&lg.lock);
}

void te_log_from_env(enum te_log_level level, const char *dir)
{
	if (!atomic_load_explicit(&lg.level_set, memory_order_relaxed))
		atomic_store_explicit(&lg.level, (int)level, memory_order_relaxed);
	pthread_mutex_lock(&lg.lock);
	if (!lg.dir_set)
		set_dir_locked(dir);
	pthread_mutex_unlock(&lg.lock);
}

/* One write(2) a line, so that lines of several processes do not mix. */
static void write_line(int fd, const char *line, size_t len)
{
	ssize_t n;

	do {
		n = write(fd, line, len);
	} while (n < 0 && errno == EINTR);
}

static void to_stderr(enum te_log_level level, const char *text)
{
	char line[LINE_MAX_BYTES + 64];
	int n = snprintf(line, sizeof(line), "%s: %s: %s\n", program_invocation_short_name,
			 level_names[level], text);

	write_line(STDERR_FILENO, line, MIN((size_t)MAX(n, 0), sizeof(line) - 1));
}

static void to_file(int fd, enum te_log_level level, const char *text)
{
	char line[LINE_MAX_BYTES + 64], when[32];
	struct timespec ts;
	struct tm tm;
	int n;

	clock_gettime(CLOCK_REALTIME, &ts);
	localtime_r(&ts.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	n = snprintf(line, sizeof(line), "%s.%06ld %s: %s\n", when, ts.tv_nsec / 1000,
		     level_names[level], text);
	write_line(fd, line, MIN((size_t)MAX(n, 0), sizeof(line) - 1));
}

/* Opened at the first line, so that a silent program leaves no file. */
static void open_file_locked(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s.%d.log", lg.dir, program_invocation_short_name,
		 (int)getpid());
	lg.fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (lg.fd < 0) {
		lg.failed = true;
		snprintf(path, sizeof(path), "cannot write a log to MC_LOG_DIR='%s': %s", lg.dir,
			 strerror(errno));
		to_stderr(TE_LOG_WARNING, path);
	}
}

void te_log(enum te_log_level level, const char *fmt, ...)
{
	char text[LINE_MAX_BYTES];
	struct te_log_sink sink;
	va_list ap;

	if (!te_log_wants(level))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* Texts quote what peers and stores said: no terminal escapes, no forged lines. */
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';

	pthread_mutex_lock(&lg.lock);
	sink = lg.sink;
	if (!sink.line) {
		if (*lg.dir && lg.fd < 0 && !lg.failed)
			open_file_locked();
		if (lg.fd >= 0)
			to_file(lg.fd, level, text);
		else
			to_stderr(level, text);
	}
	pthread_mutex_unlock(&lg.lock);
	if (sink.line)
		sink.line(sink.arg, level, text);
}
