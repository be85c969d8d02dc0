/*
 * cufile.h - GPUDirect Storage: files straight into GPU memory and back, by libcufile where there is one.
 *
 * Loaded at run time (libcufile.so.0), so that every build has it. Calls block; any thread.
 */
#ifndef TE_HOST_CUFILE_H
#define TE_HOST_CUFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct te_err;

/* Is it here? Loads it and opens its driver at the first call. -ENOTSUP with the reason: no. */
int te_cufile_load(struct te_err *err);
/* fd: opened with O_DIRECT; it must stay open until te_cufile_close(). */
int te_cufile_open(int fd, void **handle, struct te_err *err);
void te_cufile_close(void *handle);
/* Bytes moved between GPU memory at buf and the file, or a negative errno. */
ssize_t te_cufile_io(void *handle, bool write, void *buf, size_t len, uint64_t offset);

#endif
