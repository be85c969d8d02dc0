/* util.c - small helpers that every folder uses. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"

int te_ms_until(uint64_t until)
{
	uint64_t now = te_now(), ms;

	if (until <= now)
		return 0;
	ms = (until - now + TE_NSEC_PER_MSEC - 1) / TE_NSEC_PER_MSEC;
	return (int)MIN(ms, (uint64_t)INT_MAX);
}

char *te_asprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : s;
}

char *te_strdup(const char *s)
{
	return s ? strdup(s) : NULL;
}

void te_strlcpy(char *to, const char *from, size_t size)
{
	size_t n = strnlen(from, size - 1);

	memcpy(to, from, n);
	to[n] = '\0';
}

bool te_parse_i64(const char *s, int64_t min, int64_t max, int64_t *out)
{
	bool neg = *s == '-';
	const char *digits = s + neg;
	bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
	long long v;
	char *end;

	/* strtoll would take blanks, a second sign and octal. */
	digits += hex ? 2 : 0;
	if (!*digits ||
	    strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789") != strlen(digits))
		return false;
	errno = 0;
	v = strtoll(s, &end, hex ? 16 : 10);
	if (errno || *end || v < min || v > max)
		return false;
	*out = v;
	return true;
}

void te_random(void *to, size_t len)
{
	char *p = to;

	while (len) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0) /* EINTR only: the kernel has this call since 3.17 */
			continue;
		p += n;
		len -= (size_t)n;
	}
}

int te_futex_wait(const void *word, uint32_t seen, uint64_t until)
{
	struct timespec ts = { .tv_sec = (time_t)(until / TE_NSEC_PER_SEC),
			       .tv_nsec = (long)(until % TE_NSEC_PER_SEC) };

	/* FUTEX_WAIT_BITSET because its time is absolute and monotonic. */
	while (__atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE) == seen) {
		if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen, &ts,
			    NULL, FUTEX_BITSET_MATCH_ANY) < 0 &&
		    errno == ETIMEDOUT)
			return -ETIMEDOUT;
	}
	return 0;
}

void te_futex_wake(const void *word, int count)
{
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

int te_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!rc)
		pthread_setname_np(*thread, name);
	return -rc;
}
