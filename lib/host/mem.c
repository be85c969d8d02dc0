/* mem.c - where pages lie, and shared memory that other processes can map. */
#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "host/mem.h"
#include "te_err.h"
#include "te_log.h"

enum { NODE_MASK_WORDS = 16, NODES_MAX = NODE_MASK_WORDS * 64 };

/* The node that [addr] is bound to (get_mempolicy), or -1. */
static int policy_node(const void *addr)
{
	unsigned long mask[NODE_MASK_WORDS] = { 0 };
	int mode, node = -1;

	if (get_mempolicy(&mode, mask, NODES_MAX, (void *)addr, MPOL_F_ADDR))
		return -1;
	if (mode != MPOL_BIND && mode != MPOL_PREFERRED)
		return -1;
	for (int i = 0; i < NODES_MAX; i++) {
		if (!(mask[i / 64] >> (i % 64) & 1))
			continue;
		if (node >= 0)
			return -1;
		node = i;
	}
	return node;
}

static bool is_mapped(const void *addr)
{
	unsigned char in_core;
	long page = sysconf(_SC_PAGESIZE);

	return !mincore((void *)((uintptr_t)addr & ~((uintptr_t)page - 1)), 1, &in_core);
}

void te_mem_location(const void *addr, size_t len, char *buf, size_t size)
{
	long page_size = sysconf(_SC_PAGESIZE);
	void *page = (void *)((uintptr_t)addr & ~((uintptr_t)page_size - 1));
	int node = -1;

	/* A query, nothing is moved. It may be forbidden (containers), and tells nothing about
	   pages that nobody has written to yet. */
	if (move_pages(0, 1, &page, NULL, &node, 0) || node < 0)
		node = policy_node(page);
	if (node < 0 && te_mem_nodes() == 1 && is_mapped(addr))
		node = 0;
	if (node < 0) {
		te_warn("cannot find out where the memory %p+%zu lies: its location is '*'", addr,
			len);
		te_strlcpy(buf, "*", size);
		return;
	}
	snprintf(buf, size, "cpu:%d", node);
}

int te_mem_check_location(const char *location, struct te_err *err)
{
	int64_t n;

	if (!strcmp(location, "*"))
		return 0;
	if (!strncmp(location, "cpu:", 4) && te_parse_i64(location + 4, 0, NODES_MAX - 1, &n))
		return 0;
	if (!strncmp(location, "cuda:", 5) && te_parse_i64(location + 5, 0, 1023, &n))
		return te_fail(err, -ENOTSUP, "this build cannot move GPU memory ('%s')", location);
	return te_fail(err, -EINVAL, "location '%s' is not cpu:N, cuda:N or *", location);
}

int te_mem_nodes(void)
{
	return numa_available() < 0 ? 1 : numa_max_node() + 1;
}

/* A number of /proc/meminfo, in its own unit; 0 when it is not there. */
static uint64_t meminfo(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long found = 0;
	size_t len = strlen(name);
	char line[128];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, len) && line[len] == ':') {
			sscanf(line + len + 1, "%llu", &found);
			break;
		}
	fclose(f);
	return found;
}

void te_mem_run_near(int node)
{
	if (node < 0 || numa_available() < 0 || numa_max_node() < 1 || node > numa_max_node())
		return;
	if (numa_run_on_node(node) < 0)
		te_info("cannot bind a thread to node %d: %s", node, strerror(errno));
}

size_t te_mem_round(size_t len, bool hugepages)
{
	size_t page = hugepages ? meminfo("Hugepagesize") * 1024 : (size_t)sysconf(_SC_PAGESIZE);

	return page ? (len + page - 1) / page * page : len;
}

static int no_huge_pages(size_t len, int code, struct te_err *err)
{
	uint64_t kib = meminfo("Hugepagesize");
	uint64_t free_pages = meminfo("HugePages_Free"), reserved = meminfo("HugePages_Rsvd");

	if (!kib)
		return te_fail(err, code, "this kernel has no huge pages");
	return te_fail(err, code,
		       "%zu huge pages of %llu KiB are needed, %llu are free (vm.nr_hugepages): %s",
		       len / (kib * 1024), (unsigned long long)kib,
		       (unsigned long long)(free_pages > reserved ? free_pages - reserved : 0),
		       strerror(-code));
}

/* Before the first touch: each page goes there when it is written. */
static void prefer_node(void *addr, size_t len, int node)
{
	unsigned long mask[NODE_MASK_WORDS] = { 0 };

	if (node < 0 || node >= NODES_MAX)
		return;
	mask[node / 64] = 1ul << (node % 64);
	if (mbind(addr, len, MPOL_PREFERRED, mask, NODES_MAX, 0))
		te_warn("cannot bind memory to NUMA node %d, it will lie where it is first used: "
			"%s",
			node, strerror(errno));
}

/* Pages of a memfd are promised by nobody: ask before the fill gets a SIGBUS or the OOM killer
 * comes. */
static int enough_memory(size_t len, struct te_err *err)
{
	uint64_t kib = meminfo("MemAvailable") + meminfo("SwapFree");

	if (!kib || len / 1024 <= kib)
		return 0;
	return te_fail(err, -ENOMEM, "%zu MiB of memory are needed, %llu MiB are available",
		       len >> 20, (unsigned long long)kib >> 10);
}

int te_mem_shared(size_t len, int node, bool hugepages, const char *name, void **addr, int *fd,
		  struct te_err *err)
{
	size_t size = te_mem_round(len, hugepages);
	int rc = hugepages ? 0 : enough_memory(size, err), f;

	if (rc)
		return rc;
	if (!len || size < len)
		return te_fail(err, -EINVAL, "cannot allocate %zu bytes", len);
	f = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | (hugepages ? MFD_HUGETLB : 0));
	if (f < 0)
		return hugepages ? no_huge_pages(size, -errno, err)
				 : te_fail(err, -errno, "cannot create shared memory: %s",
					   strerror(errno));
	if (ftruncate(f, (off_t)size) || fcntl(f, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL))
		goto fail;
	*addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	if (*addr == MAP_FAILED)
		goto fail;
	prefer_node(*addr, size, node);
	*fd = f;
	return 0;

fail:
	rc = -errno;
	close(f);
	return hugepages ? no_huge_pages(size, rc, err)
			 : te_fail(err, rc, "cannot allocate %zu bytes of shared memory: %s", size,
				   strerror(-rc));
}

/* A memfd by its /proc link. Looked at through O_PATH first: an open of anything else (a FIFO, a
   device) could block or have effects. */
static int open_memfd(const char *link, struct te_err *err)
{
	char self[64], target[64] = "";
	struct stat st;
	int rc, path, fd;

	path = open(link, O_PATH | O_CLOEXEC);
	if (path < 0)
		return te_fail(err, -errno, "cannot open '%s': %s", link, strerror(errno));
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path);
	rc = -EINVAL;
	if (readlink(self, target, sizeof(target) - 1) < 0 || fstat(path, &st) ||
	    !S_ISREG(st.st_mode) || strncmp(target, "/memfd:", 7))
		goto fail;
	fd = open(self, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		rc = -errno;
		goto fail;
	}
	close(path);
	return fd;

fail:
	close(path);
	return te_fail(err, rc, "'%s' is not shared memory that can be opened: %s", link,
		       strerror(-rc));
}

int te_mem_map_peer(int pid, int fd, size_t min_len, void **addr, size_t *len, struct te_err *err)
{
	char link[64];
	struct stat st;
	int f, seals, rc = 0;

	snprintf(link, sizeof(link), "/proc/%d/fd/%d", pid, fd);
	f = open_memfd(link, err);
	if (f < 0)
		return f;
	seals = fcntl(f, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK)) {
		rc = te_fail(err, -EINVAL, "'%s' is not sealed against shrinking", link);
	} else if (fstat(f, &st) || !st.st_size || (uint64_t)st.st_size < min_len) {
		rc = te_fail(err, -EINVAL, "'%s' has less than %zu bytes", link, min_len);
	} else {
		*addr = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
		if (*addr == MAP_FAILED)
			rc = te_fail(err, -errno, "cannot map '%s': %s", link, strerror(errno));
		else
			*len = (size_t)st.st_size;
	}
	close(f);
	return rc;
}

void te_host_id(char *buf, size_t size)
{
	char boot[64] = "", ns[64] = "";
	unsigned long long inode = 0;
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (f) {
		if (!fgets(boot, sizeof(boot), f))
			*boot = '\0';
		fclose(f);
	}
	boot[strcspn(boot, "\n")] = '\0';
	if (readlink("/proc/self/ns/pid", ns, sizeof(ns) - 1) > 0)
		sscanf(ns, "pid:[%llu]", &inode);
	if (!*boot || !inode) {
		uint64_t dice;

		/* Unknown must never equal unknown. */
		te_random(&dice, sizeof(dice));
		snprintf(boot, sizeof(boot), "unknown-%016llx", (unsigned long long)dice);
	}
	snprintf(buf, size, "%s/%llu", boot, inode);
}
