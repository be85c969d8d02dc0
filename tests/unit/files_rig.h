/* files_rig.h - for the tests of file segments: files in a folder of their own, what must be in
 * them, and batches that many threads wait for. */
#ifndef FILES_RIG_H
#define FILES_RIG_H

#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "slices.h"
#include "tap.h"

enum { FILES = 8, MEMORY = 16 << 20 };
#define SEC ((uint64_t)TE_NSEC_PER_SEC)
#define MS  ((uint64_t)TE_NSEC_PER_MSEC)

/* A batch: found by the sink in te_slice.task. */
struct batch {
	_Atomic uint32_t pending; /* futex word */
	_Atomic uint32_t failed, expired;
	_Atomic int status; /* of the first that failed */
	struct te_err why;  /* ... and of it or of the first that expired */
};

struct rig {
	struct side s;
	struct te_peer *p;
	struct te_desc *d;
	char dir[128];
	char path[FILES][PATH_MAX];
	uint64_t start[FILES], len[FILES], size;
	size_t n;
	uint8_t *files, *mem, *expect; /* what the files, end to end, and memory must hold */
	struct te_region *r;	       /* of mem */
};

static inline struct batch *batch_of(const struct te_slice *s)
{
	return (struct batch *)s->task;
}

static inline void rig_done(struct te_sink *sink, struct te_slice *list, const struct te_err *why)
{
	(void)sink;
	for (struct te_slice *next; list; list = next) {
		struct batch *b = batch_of(list);

		next = list->next;
		if (list->status && atomic_fetch_add(&b->failed, 1) == 0) {
			atomic_store(&b->status, list->status);
			if (why && !b->why.code)
				b->why = *why;
		}
		if (atomic_fetch_sub(&b->pending, 1) == 1)
			te_futex_wake(&b->pending, INT_MAX);
	}
}

static inline void rig_expired(struct te_sink *sink, struct te_slice *s, const struct te_err *why)
{
	struct batch *b = batch_of(s);

	(void)sink;
	if (!b->why.code)
		b->why = *why;
	atomic_fetch_add(&b->expired, 1);
	te_futex_wake(&b->expired, INT_MAX);
}

/* xorshift: the same numbers in every run. */
static inline uint64_t number(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static inline void noise(uint8_t *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)number(&seed);
}

static inline void put_file(const char *path, const void *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len || fsync(fd))
		printf("Bail out! %s: %s\n", path, strerror(errno));
	close(fd);
}

/* The descriptor says what `path`, `len` and `n` say. */
static inline void rig_describe(struct rig *r)
{
	te_desc_free(r->d);
	r->d = te_desc_new();
	r->d->name = te_strdup("here");
	r->d->server_name = te_strdup("here");
	r->d->protocol = te_strdup("nvmeof");
	r->size = 0;
	for (size_t i = 0; i < r->n; i++) {
		struct te_desc_buffer *b = te_desc_add_buffer(r->d);

		b->file_path = te_strdup(r->path[i]);
		b->length = r->len[i];
		b->addr = r->start[i] = r->size;
		r->size += r->len[i];
	}
}

/* Files of these lengths, full of noise, in a new folder below `below`; not opened yet. */
static inline bool rig_files(struct rig *r, const char *below, const uint64_t *len, size_t n)
{
	memset(r, 0, sizeof(*r));
	snprintf(r->dir, sizeof(r->dir), "%s/te-files-XXXXXX", below);
	if (!mkdtemp(r->dir))
		return false;
	r->n = n;
	for (size_t i = 0; i < n; i++) {
		r->len[i] = len[i];
		snprintf(r->path[i], sizeof(r->path[i]), "%s/%zu", r->dir, i);
	}
	rig_describe(r);
	r->files = malloc(r->size);
	noise(r->files, r->size, 88172645463325252u);
	for (size_t i = 0; i < n; i++)
		put_file(r->path[i], r->files + r->start[i], len[i]);
	return true;
}

static inline int rig_open(struct rig *r, struct te_err *err)
{
	int rc = side_open(&r->s, &te_transport_nvmeof, false);

	r->s.env.name = "here";
	r->s.sink.done = rig_done;
	r->s.sink.expired = rig_expired;
	r->mem = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r->expect = malloc(MEMORY);
	noise(r->mem, MEMORY, 1234567);
	memcpy(r->expect, r->mem, MEMORY);
	r->r = side_reg(&r->s, r->mem, MEMORY, false, -1);
	return rc ? rc : side_peer(&r->s, NULL, r->d, &r->p, err);
}

static inline void rig_close(struct rig *r)
{
	if (r->p)
		r->p->ops->peer_close(r->p);
	if (te_regions_remove(r->s.env.regions, r->r, te_now()) == 0) {
		r->s.t->ops->forget(r->s.t, r->r);
		te_region_free(r->r);
	}
	side_close(&r->s);
	for (size_t i = 0; i < r->n; i++)
		unlink(r->path[i]);
	rmdir(r->dir);
	munmap(r->mem, MEMORY);
	te_desc_free(r->d);
	free(r->files);
	free(r->expect);
}

/* A slice of r's memory at `at`. */
static inline void slice(struct rig *r, struct te_slice *s, int op, uint64_t at, uint64_t remote,
			 uint64_t len)
{
	fill(s, op, r->mem + at, remote, len);
	s->region = r->r;
}

static inline void batch_submit(struct te_peer *p, struct batch *b, struct te_slice *v, uint32_t n)
{
	memset(b, 0, sizeof(*b));
	atomic_store(&b->pending, n);
	for (uint32_t i = 0; i < n; i++) {
		v[i].task = (struct te_task *)b;
		v[i].peer = p;
		v[i].lent = true;
		v[i].next = i + 1 < n ? &v[i + 1] : NULL;
	}
	p->ops->submit(p, v);
}

/* The status of the first that failed; -ETIME: some are not back yet. */
static inline int batch_await(struct te_peer *p, struct batch *b, struct te_slice *v, bool help,
			      uint64_t ns)
{
	uint64_t until = te_now() + ns;
	uint32_t left;

	if (help)
		p->ops->help(p, v, &b->pending, until);
	while ((left = atomic_load(&b->pending)) && te_now() < until)
		te_futex_wait(&b->pending, left, until);
	return left ? -ETIME : atomic_load(&b->status);
}

/* One slice. */
static inline int move(struct rig *r, struct batch *b, int op, uint64_t at, uint64_t remote,
		       uint64_t len)
{
	struct te_slice s;

	slice(r, &s, op, at, remote, len);
	batch_submit(r->p, b, &s, 1);
	return batch_await(r->p, b, &s, true, 20 * SEC);
}

/* Do files (their lengths too) and memory hold what they must? */
static inline bool rig_is_right(const struct rig *r)
{
	uint8_t *got = malloc(r->size + 1);
	bool right = !memcmp(r->mem, r->expect, MEMORY);

	for (size_t i = 0; i < r->n && right; i++) {
		int fd = open(r->path[i], O_RDONLY | O_CLOEXEC);

		right = pread(fd, got, r->len[i] + 1, 0) == (ssize_t)r->len[i] &&
			!memcmp(got, r->files + r->start[i], r->len[i]);
		close(fd);
	}
	free(got);
	return right;
}

/* ---- without io_uring ---------------------------------------------------------------------- */

static inline bool forbid_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { .len = ARRAY_SIZE(code), .filter = code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* The same in a child; what it says becomes comments here. */
static inline void without_io_uring(void (*everything)(void))
{
	char line[1024];
	FILE *from;
	int fds[2], status = -1;
	pid_t pid;

	pipe2(fds, O_CLOEXEC);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[1]);
		if (!forbid_io_uring())
			_exit(77);
		everything();
		exit(tap_end());
	}
	close(fds[1]);
	from = fdopen(fds[0], "r");
	while (fgets(line, sizeof(line), from))
		printf("# threads: %s", line);
	fclose(from);
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip("seccomp filters are not allowed here, so threads were not tried");
	else
		ok(status == 0, "all of it by threads, io_uring forbidden");
}

#endif
