/* copy.c - copies between addresses that a program gave us: wrong ones give an error, no signal. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/util.h"
#include "binding.h"

enum { PIPE_CHUNK = 65536 }; /* what a pipe holds */

/* The kernel copies, and looks where. */
static int copy_once(uint64_t to, uint64_t from, uint64_t len)
{
	struct iovec local = { (void *)(uintptr_t)to, len };
	struct iovec remote = { (void *)(uintptr_t)from, len };
	ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

	if (n < 0)
		return -errno;
	return (uint64_t)n == len ? 0 : -EFAULT;
}

/* Where process_vm_readv() is forbidden (seccomp), read() and write() look too. */
static int copy_by_pipe(const int fd[2], uint64_t to, uint64_t from, uint64_t len)
{
	while (len) {
		size_t n = MIN(len, (uint64_t)PIPE_CHUNK);
		ssize_t put = write(fd[1], (void *)(uintptr_t)from, n);

		if (put <= 0)
			return put ? -errno : -EFAULT;
		if (read(fd[0], (void *)(uintptr_t)to, (size_t)put) != put)
			return -EFAULT;
		to += (uint64_t)put;
		from += (uint64_t)put;
		len -= (uint64_t)put;
	}
	return 0;
}

static int copy_slowly(uint64_t to, uint64_t from, uint64_t len)
{
	int fd[2], r;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	r = copy_by_pipe(fd, to, from, len);
	close(fd[0]);
	close(fd[1]);
	return r;
}

int copy_checked(uint64_t to, uint64_t from, uint64_t len)
{
	enum { AT_ONCE = 1 << 30 };

	if (te_wraps(to, len) || te_wraps(from, len))
		return -EFAULT;
	while (len) {
		uint64_t n = MIN(len, (uint64_t)AT_ONCE);
		int r = copy_once(to, from, n);

		if (r == -EPERM || r == -ENOSYS)
			r = copy_slowly(to, from, n);
		if (r < 0)
			return r;
		to += n;
		from += n;
		len -= n;
	}
	return 0;
}

bool is_mapped(uint64_t addr, uint64_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = addr & ~(page - 1);

	if (!len || te_wraps(addr, len))
		return false;
	/* Starts no writing, but says ENOMEM of a hole. */
	return msync((void *)(uintptr_t)start, len + (addr - start), MS_ASYNC) == 0;
}
