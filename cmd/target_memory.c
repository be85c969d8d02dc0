/* target_memory.c - the buffers of te-target: memory by NUMA node, a mapped file, the pattern in
 * them. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pattern.h"
#include "te.h"

enum { DEFAULT_NODE_SIZE = 1 << 30, PAGE = 4096, HUGE_PAGE = 2 << 20, ANY_NODE = -1 };

/* ---- which buffers ------------------------------------------------------------------------ */

struct target_spec *target_add_spec(struct target *t, const char *location, size_t len,
				    uint64_t size)
{
	struct target_spec *s = realloc(t->specs, (t->nspecs + 1) * sizeof(*s));

	if (!s)
		return NULL;
	t->specs = s;
	s = &t->specs[t->nspecs++];
	*s = (struct target_spec){ .size = size };
	memcpy(s->location, location, len);
	return s;
}

/* One buffer on each NUMA node that has memory, unless other buffers were asked for. */
static int add_nodes(struct target *t, struct te_err *err)
{
	uint64_t size = t->node_size ? t->node_size : DEFAULT_NODE_SIZE;
	char location[32];
	int node, len, nodes = numa_available() < 0 ? 0 : numa_max_node();

	if (!t->node_size && (t->nspecs || t->file))
		return 0;
	for (node = 0; node <= nodes; node++) {
		if (nodes && !numa_bitmask_isbitset(numa_all_nodes_ptr, (unsigned)node))
			continue;
		len = snprintf(location, sizeof(location), "cpu:%d", node);
		if (!target_add_spec(t, location, (size_t)len, size))
			return te_fail(err, -ENOMEM, "out of memory");
	}
	return 0;
}

/* ---- where they lie ----------------------------------------------------------------------- */

/* Of a location that names a node; what else there may be is libte's to judge. */
static int node_of(const char *location)
{
	uint64_t node;

	if (strncmp(location, "cpu:", 4) == 0 && cli_u64(location + 4, 0, 1 << 16, &node))
		return (int)node;
	return ANY_NODE;
}

/* Room that a buffer takes in its arena: one page stays free behind it, so that no request can run
   from one buffer into the next unnoticed. Huge pages would be too dear for that. */
static uint64_t room(const struct target *t, uint64_t size)
{
	uint64_t page = t->hugepages ? HUGE_PAGE : PAGE;

	return (size + page - 1) / page * page + (t->hugepages ? 0 : PAGE);
}

/*
 * Thousands of buffers must not cost a file descriptor each: those of one location are cut from one
 * allocation. Takes all of specs[first..] with the location of specs[first].
 */
static int fill_arena(struct target *t, size_t first, struct te_err *err)
{
	const char *location = t->specs[first].location;
	int node = node_of(location), nodes = numa_available() < 0 ? 1 : numa_max_node() + 1;
	uint64_t total = 0;
	char *at;
	void *p;
	size_t i;
	int rc;

	for (i = first; i < t->nspecs; i++) {
		if (strcmp(t->specs[i].location, location) != 0)
			continue;
		if (__builtin_add_overflow(total, room(t, t->specs[i].size), &total) ||
		    total > SIZE_MAX / 2)
			return te_fail(err, -ENOMEM, "buffers at '%s' are too large", location);
	}
	/* libte would make do with any node. */
	if (node >= nodes)
		return te_fail(err, -EINVAL, "no NUMA node '%s': this host has %d", location,
			       nodes);
	rc = te_alloc(t->engine, total, node, t->hugepages ? TE_ALLOC_HUGEPAGES : 0, &p, err);
	if (rc)
		return te_wrap(err, rc, "memory at '%s'", location);
	for (at = p, i = first; i < t->nspecs; i++) {
		if (strcmp(t->specs[i].location, location) != 0)
			continue;
		t->buffers[t->nbuffers++] = (struct te_buffer){
			.addr = at, .len = t->specs[i].size, .location = location, .remote = true
		};
		/* The location of '*' is found out from the page, which must be there. */
		if (strcmp(location, "*") == 0)
			*at = 0;
		at += room(t, t->specs[i].size);
	}
	return 0;
}

static bool seen_before(const struct target *t, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++) {
		if (strcmp(t->specs[k].location, t->specs[i].location) == 0)
			return true;
	}
	return false;
}

/* The kernel hands out addresses downwards: with the last location first, cpu:0 gets the lowest one
   and is the first buffer that peers see. */
static int fill_arenas(struct target *t, struct te_err *err)
{
	size_t i;
	int rc;

	for (i = t->nspecs; i-- > 0;) {
		if (seen_before(t, i))
			continue;
		rc = fill_arena(t, i, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int map_file(struct target *t, struct te_err *err)
{
	struct stat st;
	int fd, rc = 0;

	fd = open(t->file, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return te_fail(err, -errno, "cannot open '%s': %s", t->file, strerror(errno));
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
		rc = te_fail(err, -EINVAL, "cannot serve '%s': not a regular file with bytes in it",
			     t->file);
		goto out;
	}
	t->map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (t->map == MAP_FAILED) {
		t->map = NULL;
		rc = te_fail(err, -errno, "cannot map '%s': %s", t->file, strerror(errno));
		goto out;
	}
	t->map_len = (size_t)st.st_size;
	/* As above: its location is asked for. */
	madvise(t->map, PAGE, MADV_POPULATE_READ);
	t->buffers[t->nbuffers++] = (struct te_buffer){
		.addr = t->map, .len = t->map_len, .location = "*", .remote = true
	};
out:
	close(fd);
	return rc;
}

static int by_address(const void *a, const void *b)
{
	const struct te_buffer *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Before anybody can reach them. */
static void fill_pattern(const struct target *t)
{
	size_t i;

	for (i = 0; i < t->nbuffers; i++) {
		struct pattern p = { .seed = t->seed, .buffer = (uint32_t)i };

		pattern_fill(&p, 0, t->buffers[i].addr, t->buffers[i].len);
	}
}

int target_memory(struct target *t, struct te_err *err)
{
	int rc = add_nodes(t, err);

	if (rc)
		return rc;
	t->buffers = calloc(t->nspecs + 1, sizeof(*t->buffers));
	if (!t->buffers)
		return te_fail(err, -ENOMEM, "out of memory");
	rc = fill_arenas(t, err);
	if (!rc && t->file)
		rc = map_file(t, err);
	if (rc)
		return rc;
	qsort(t->buffers, t->nbuffers, sizeof(*t->buffers), by_address);
	if (t->pattern)
		fill_pattern(t);
	return te_register_batch(t->engine, t->buffers, t->nbuffers, err);
}

void target_memory_clear(struct target *t)
{
	if (t->map)
		munmap(t->map, t->map_len);
	free(t->buffers);
	free(t->specs);
	free(t->matrix_text);
}
