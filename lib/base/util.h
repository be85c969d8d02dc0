/* util.h - macros and small helpers that every folder uses. No I/O. */
#ifndef TE_BASE_UTIL_H
#define TE_BASE_UTIL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ARRAY_SIZE(a)		      (sizeof(a) / sizeof((a)[0]))
#define container_of(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))
#define MIN(a, b)		      ((a) < (b) ? (a) : (b))
#define MAX(a, b)		      ((a) > (b) ? (a) : (b))

enum { TE_NSEC_PER_MSEC = 1000000 };
#define TE_NSEC_PER_SEC 1000000000ull

/* CLOCK_MONOTONIC in ns. */
static inline uint64_t te_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TE_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* ms from now until the moment `until` (te_now() scale), rounded up, 0 when past; for poll(). */
int te_ms_until(uint64_t until);

/* Does [addr, addr+len) wrap round the end of the address space? */
static inline bool te_wraps(uint64_t addr, uint64_t len)
{
	return len && addr + (len - 1) < addr;
}

/* malloc'ed printf; NULL when memory is out. */
char *te_asprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* strdup where NULL stays NULL. */
char *te_strdup(const char *s);
/* Copy with a NUL, cut to size. */
void te_strlcpy(char *to, const char *from, size_t size);
/* Whole decimal or 0x number in [min, max]? */
bool te_parse_i64(const char *s, int64_t min, int64_t max, int64_t *out);
/* Cryptographically random bytes (getrandom). */
void te_random(void *to, size_t len);
/* Wait until *word is no longer `seen`, or the moment `until`; 0 or -ETIMEDOUT. Private futex. */
int te_futex_wait(const void *word, uint32_t seen, uint64_t until);
void te_futex_wake(const void *word, int count);
/* A thread with a name (at most 15 bytes) that takes no signal of the program: 0 or negative errno. */
int te_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg);

#endif
