/* fake_cufile.c - a FAKE libcufile: the entry points that te uses, over host memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct error {
	int err, cu_err;
};

struct descr {
	int type;
	union {
		int fd;
		void *handle;
	} handle;
	const void *fs_ops;
};

struct error cuFileDriverOpen(void);
struct error cuFileHandleRegister(void **handle, struct descr *d);
void cuFileHandleDeregister(void *handle);
ssize_t cuFileRead(void *handle, void *buf, size_t size, off_t file_off, off_t buf_off);
ssize_t cuFileWrite(void *handle, const void *buf, size_t size, off_t file_off, off_t buf_off);

extern int fake_cufile_handles, fake_cufile_calls, fake_cufile_fail;
int fake_cufile_handles; /* registered now */
int fake_cufile_calls;
int fake_cufile_fail; /* what one call returns instead */

struct error cuFileDriverOpen(void)
{
	return (struct error){ 0, 0 };
}

/* Like the real one it takes any alignment although the file was opened with O_DIRECT. */
struct error cuFileHandleRegister(void **handle, struct descr *d)
{
	char self[32];
	int *fd = malloc(sizeof(*fd));

	if (!fd || d->type != 1 || !(fcntl(d->handle.fd, F_GETFL) & O_DIRECT)) {
		free(fd);
		return (struct error){ 5022, 0 };
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", d->handle.fd);
	*fd = open(self, O_RDWR | O_CLOEXEC);
	*handle = fd;
	__atomic_fetch_add(&fake_cufile_handles, 1, __ATOMIC_RELAXED);
	return (struct error){ 0, 0 };
}

void cuFileHandleDeregister(void *handle)
{
	close(*(int *)handle);
	free(handle);
	__atomic_fetch_sub(&fake_cufile_handles, 1, __ATOMIC_RELAXED);
}

static int next_failure(void)
{
	int fail = __atomic_exchange_n(&fake_cufile_fail, 0, __ATOMIC_RELAXED);

	__atomic_fetch_add(&fake_cufile_calls, 1, __ATOMIC_RELAXED);
	if (fail == -1)
		errno = EIO;
	return fail;
}

ssize_t cuFileRead(void *handle, void *buf, size_t size, off_t file_off, off_t buf_off)
{
	int fail = next_failure();

	return fail ? fail : pread(*(int *)handle, (char *)buf + buf_off, size, file_off);
}

ssize_t cuFileWrite(void *handle, const void *buf, size_t size, off_t file_off, off_t buf_off)
{
	int fail = next_failure();

	return fail ? fail : pwrite(*(int *)handle, (const char *)buf + buf_off, size, file_off);
}
