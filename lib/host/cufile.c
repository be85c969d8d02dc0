/* cufile.c - the few entry points of libcufile that te needs, declared by us (its header: cufile.h
 * of CUDA, which names these values and layouts). */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "host/cufile.h"
#include "te_err.h"

struct cufile_error { /* CUfileError_t */
	int err;      /* enum CUfileOpError, 0: success */
	int cu_err;   /* CUresult */
};

struct cufile_descr { /* CUfileDescr_t */
	int type;
	union {
		int fd;
		void *handle;
	} handle;
	const void *fs_ops;
};

enum { HANDLE_TYPE_OPAQUE_FD = 1 }; /* CU_FILE_HANDLE_TYPE_OPAQUE_FD */

static struct {
	struct cufile_error (*driver_open)(void);
	struct cufile_error (*handle_register)(void **handle, struct cufile_descr *descr);
	void (*handle_deregister)(void *handle);
	ssize_t (*read)(void *handle, void *buf, size_t size, off_t file_off, off_t buf_off);
	ssize_t (*write)(void *handle, const void *buf, size_t size, off_t file_off, off_t buf_off);
	struct te_err why; /* code != 0: not usable */
} lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool find(void *so, const char *name, void *to)
{
	void *f = dlsym(so, name);

	*(void **)to = f;
	if (!f)
		te_fail(&lib.why, -ENOTSUP, "GPU memory and files: libcufile.so.0 has no %s", name);
	return f;
}

static void load(void)
{
	void *so = dlopen("libcufile.so.0", RTLD_NOW | RTLD_LOCAL);
	struct cufile_error e;

	if (!so) {
		te_fail(&lib.why, -ENOTSUP, "GPU memory and files: %s", dlerror());
		return;
	}
	if (!find(so, "cuFileDriverOpen", &lib.driver_open) ||
	    !find(so, "cuFileHandleRegister", &lib.handle_register) ||
	    !find(so, "cuFileHandleDeregister", &lib.handle_deregister) ||
	    !find(so, "cuFileRead", &lib.read) || !find(so, "cuFileWrite", &lib.write))
		return;
	e = lib.driver_open();
	if (e.err)
		te_fail(&lib.why, -ENOTSUP,
			"GPU memory and files: cuFileDriverOpen: error %d (CUDA %d): is the "
			"nvidia-fs module loaded?",
			e.err, e.cu_err);
}

int te_cufile_load(struct te_err *err)
{
	pthread_once(&once, load);
	if (lib.why.code && err)
		*err = lib.why;
	return lib.why.code;
}

int te_cufile_open(int fd, void **handle, struct te_err *err)
{
	struct cufile_descr d = { .type = HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd };
	struct cufile_error e;
	int r = te_cufile_load(err);

	if (r)
		return r;
	e = lib.handle_register(handle, &d);
	if (e.err)
		return te_fail(err, -ENOTSUP, "cuFileHandleRegister: error %d (CUDA %d)", e.err,
			       e.cu_err);
	return 0;
}

void te_cufile_close(void *handle)
{
	if (handle)
		lib.handle_deregister(handle);
}

ssize_t te_cufile_io(void *handle, bool write, void *buf, size_t len, uint64_t offset)
{
	ssize_t n;

	errno = 0;
	n = write ? lib.write(handle, buf, len, (off_t)offset, 0)
		  : lib.read(handle, buf, len, (off_t)offset, 0);
	if (n >= 0)
		return n;
	return n == -1 && errno ? -errno : -EIO; /* below -1: an error of its own */
}
