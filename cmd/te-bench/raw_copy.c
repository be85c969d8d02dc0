/* raw_copy.c - the limits of shm and local: process_vm_readv and process_vm_writev, and memcpy. */
#include "raw.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { VECTOR = 512 };

static int copy_batch(struct raw_lane *l, bool write)
{
	uint8_t *near = l->source, *far;
	size_t i;

	for (i = 0; i < l->depth; i++, near += l->piece) {
		far = raw_next(l);
		if (write)
			memcpy(far, near, l->piece);
		else
			memcpy(near, far, l->piece);
	}
	return 0;
}

const struct raw_ops raw_copy_ops = {
	.batch = copy_batch,
};

/* The server only has to be there, with the target memory in its own tables of pages. */
static int vm_open(struct raw_lane *l, struct te_err *err)
{
	volatile uint8_t *at;
	uint64_t i;

	l->server = raw_fork();
	if (l->server < 0) {
		const int rc = (int)l->server;

		l->server = 0;
		return te_fail(err, rc, "cannot fork: %s", strerror(-rc));
	}
	if (l->server > 0)
		return 0;
	for (at = l->target, i = 0; i < l->places * l->piece; i += 4096)
		at[i] = at[i];
	for (;;)
		pause();
}

static int move(struct raw_lane *l, bool write, struct iovec *near, struct iovec *far, size_t n)
{
	size_t at = 0;
	ssize_t got;

	while (at < n) {
		got = write ? process_vm_writev(l->server, near + at, n - at, far + at, n - at, 0)
			    : process_vm_readv(l->server, near + at, n - at, far + at, n - at, 0);
		if (got < 0)
			return -errno;
		for (; at < n && (size_t)got >= near[at].iov_len; at++)
			got -= (ssize_t)near[at].iov_len;
		if (at == n)
			break;
		near[at].iov_base = (char *)near[at].iov_base + got;
		near[at].iov_len -= (size_t)got;
		far[at].iov_base = (char *)far[at].iov_base + got;
		far[at].iov_len -= (size_t)got;
	}
	return 0;
}

static int vm_batch(struct raw_lane *l, bool write)
{
	struct iovec near[VECTOR], far[VECTOR];
	size_t done, i, n;
	int rc = 0;

	for (done = 0; !rc && done < l->depth; done += n) {
		n = l->depth - done < VECTOR ? l->depth - done : VECTOR;
		for (i = 0; i < n; i++) {
			near[i] = (struct iovec){ l->source + (done + i) * l->piece, l->piece };
			far[i] = (struct iovec){ raw_next(l), l->piece };
		}
		rc = move(l, write, near, far, n);
	}
	return rc;
}

static void vm_close(struct raw_lane *l)
{
	raw_reap(&l->server);
}

const struct raw_ops raw_vm_ops = {
	.open = vm_open,
	.batch = vm_batch,
	.close = vm_close,
};
