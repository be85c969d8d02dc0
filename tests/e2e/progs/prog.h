/* prog.h - what the small test programs over te.h share: engines in P2P mode, segments, waits. */
#ifndef PROG_H
#define PROG_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "te.h"
#include "../../unit/tap.h"

static inline void die(const char *what, const struct te_err *err)
{
	printf("Bail out! %s: %s\n", what, err ? err->msg : strerror(errno));
	exit(1);
}

/* A P2P engine on loopback with a port of its own; transport NULL: the best. */
static inline struct te_engine *engine_new(const char *transport, bool initiator_only)
{
	struct te_engine_options opt = {
		.metadata_server = "P2PHANDSHAKE",
		.local_server_name = "127.0.0.1",
		.protocol = "tcp",
		.transport = transport,
		.initiator_only = initiator_only,
	};
	struct te_engine *e = NULL;
	struct te_err err = { 0 };

	setenv("MC_TCP_BIND_ADDRESS", "127.0.0.1", 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (te_engine_open(&e, &opt, &err))
		die("te_engine_open", &err);
	return e;
}

static inline const char *engine_name(struct te_engine *e)
{
	struct te_engine_info info;

	te_engine_info(e, &info);
	return info.name;
}

static inline void *buffer_new(struct te_engine *e, size_t len, bool remote)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct te_err err = { 0 };

	if (p == MAP_FAILED)
		die("mmap", NULL);
	if (te_register(e, p, len, "cpu:0", remote, &err))
		die("te_register", &err);
	return p;
}

static inline int32_t segment_open(struct te_engine *e, const char *name)
{
	struct te_err err = { 0 };
	int32_t id = te_segment_open(e, name, &err);

	if (id < 0)
		die(name, &err);
	return id;
}

/* Address of the first buffer of a segment. */
static inline uint64_t segment_base(struct te_engine *e, int32_t id)
{
	struct te_desc *d = NULL;
	struct te_err err = { 0 };
	uint64_t addr;

	if (te_segment_desc(e, id, &d, &err) || !d->nbuffers)
		die("te_segment_desc", &err);
	addr = d->buffers[0].addr;
	te_desc_free(d);
	return addr;
}

/* The file behind a te-target --file, as another process sees it. */
static inline void *file_map(const char *path, size_t *len)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st))
		die(path, NULL);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die(path, NULL);
	close(fd);
	*len = (size_t)st.st_size;
	return p;
}

static inline uint64_t batch_new(struct te_engine *e, size_t capacity)
{
	struct te_err err = { 0 };
	uint64_t id;

	if (te_batch_alloc(e, capacity, &id, &err))
		die("te_batch_alloc", &err);
	return id;
}

/* One request in a batch of its own: how it ended, *why filled when badly; submit's refusal is
 * *submit_rc. */
static inline struct te_status one(struct te_engine *e, const struct te_request *r, int *submit_rc,
				   struct te_err *why)
{
	uint64_t b = batch_new(e, 1);
	struct te_status st = { .state = TE_WAITING };

	memset(why, 0, sizeof(*why));
	*submit_rc = te_batch_submit(e, b, r, 1, why);
	if (*submit_rc == 0) {
		te_batch_wait(e, b, -1, NULL);
		te_batch_status(e, b, 0, &st);
		if (st.state != TE_COMPLETED)
			te_batch_error(e, b, 0, why);
		te_batch_drain(e, b, -1);
	}
	te_batch_free(e, b);
	return st;
}

/*
 * For memory that a peer in the same process reads or writes: TSan takes sendmsg() to read its
 * buffers after it has released the socket, and so sees a race where there is none.
 */
__attribute__((no_sanitize("thread"))) static inline void fill_shared(void *p, int byte, size_t len)
{
	unsigned char *c = p;

	for (size_t i = 0; i < len; i++) {
		c[i] = (unsigned char)byte;
		/* Else the compiler makes a memset() of the loop, which TSan watches. */
		__asm__ volatile("" ::: "memory");
	}
}

__attribute__((no_sanitize("thread"))) static inline bool all_is(const void *p, int byte,
								 size_t len)
{
	const unsigned char *c = p;

	for (size_t i = 0; i < len; i++)
		if (c[i] != (unsigned char)byte)
			return false;
	return true;
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
