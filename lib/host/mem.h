/* mem.h - memory of this host: where pages lie, and shared memory that other processes can map. */
#ifndef TE_HOST_MEM_H
#define TE_HOST_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct te_err;

/* Location of the first page of [addr, addr+len): "cpu:N", or "*" with a warning in the log when it
   cannot be found out (untouched or foreign page, no NUMA). */
void te_mem_location(const void *addr, size_t len, char *buf, size_t size);
/* "cpu:N", "cuda:N" or "*"? -EINVAL otherwise, -ENOTSUP for cuda. */
int te_mem_check_location(const char *location, struct te_err *err);
/* Highest configured node + 1; 1 without NUMA. Cheap: no hwloc. */
int te_mem_nodes(void);

/* Let the calling thread run on the processors of a node only; -1, or a node that there is not: on all. */
void te_mem_run_near(int node);

/* len rounded up to whole (huge) pages: what te_mem_shared() maps and its munmap() needs. */
size_t te_mem_round(size_t len, bool hugepages);
/* A memfd of te_mem_round(len) bytes, sealed against shrinking, mapped read-write, its pages preferably on node
   (-1: any). Nothing is touched yet. *fd stays open: others map it by /proc/PID/fd/FD. */
int te_mem_shared(size_t len, int node, bool hugepages, const char *name, void **addr, int *fd,
		  struct te_err *err);

/*
 * Memory of another process by its fd number there: /proc/PID/fd/FD, accepted only if it is a memfd that
 * is sealed against shrinking (so that no peer can make us fault) and has at least min_len bytes.
 * *len receives its size. Unmap with munmap().
 */
int te_mem_map_peer(int pid, int fd, size_t min_len, void **addr, size_t *len, struct te_err *err);

/* "BOOT_ID/PIDNS-INODE": equal for two processes that can name each other by pid. */
void te_host_id(char *buf, size_t size);

#endif
