/* test_cufile.c - files and GPU memory by libcufile: a FAKE one, with host memory as the GPU's. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "host/cufile.h"
#include "slices.h"
#include "tap.h"

enum { LEN = (1 << 20) + 4096, FILE_LEN = 2 * LEN + 513 };

static char path[] = "/var/tmp/test_cufile.XXXXXX";
static int *handles, *calls, *fail;

/* Once it is loaded, libte finds it by its name. */
static bool find_fake(const char *self)
{
	const char *slash = strrchr(self, '/');
	char *so_path = te_asprintf("%.*s/fake/libcufile.so.0", slash ? (int)(slash - self) : 1,
				    slash ? self : ".");
	void *so = so_path ? dlopen(so_path, RTLD_NOW) : NULL;

	handles = so ? dlsym(so, "fake_cufile_handles") : NULL;
	calls = so ? dlsym(so, "fake_cufile_calls") : NULL;
	fail = so ? dlsym(so, "fake_cufile_fail") : NULL;
	free(so_path);
	return handles && calls && fail;
}

static bool make_file(char *bytes)
{
	int fd = mkstemp(path);
	bool good;

	for (int i = 0; i < FILE_LEN; i++)
		bytes[i] = (char)(i * 7 + i / 251);
	good = fd >= 0 && write(fd, bytes, FILE_LEN) == FILE_LEN && !fsync(fd);
	if (fd >= 0)
		close(fd);
	return good;
}

static struct te_region *reg_gpu(struct side *s, void *addr)
{
	struct te_region plan = { .addr = (uintptr_t)addr,
				  .len = LEN,
				  .location = "cuda:0",
				  .memfd = -1,
				  .page_slot = -1 };
	struct te_region *r = NULL;

	if (te_regions_add(s->env.regions, &plan, &r, NULL) || s->t->ops->reg(s->t, r, NULL))
		return NULL;
	return r;
}

static int move(struct side *s, struct te_peer *p, struct te_region *r, int op, uint64_t at,
		uint64_t len)
{
	struct te_slice one;

	fill(&one, op, (void *)(uintptr_t)r->addr, at, len);
	one.region = r;
	one.cancelled = &(const _Atomic bool){ false };
	submit(s, p, &one, 1);
	return await(s, p, &one, true);
}

static bool file_has(const char *bytes, uint64_t at, uint64_t len)
{
	char *got = malloc(len);
	int fd = open(path, O_RDONLY);
	bool same =
		got && pread(fd, got, len, (off_t)at) == (ssize_t)len && !memcmp(got, bytes, len);

	close(fd);
	free(got);
	return same;
}

static void test_moves(struct side *s, struct te_peer *p, struct te_region *r, char *bytes)
{
	static const uint64_t at[] = { 0, 4096, 1, 511, LEN, FILE_LEN - 4097 },
			      len[] = { 4096, 1 << 20, 513, 4097, LEN, 4097 };
	char *gpu = (char *)(uintptr_t)r->addr;
	struct te_path seen = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		memset(gpu, 0, LEN);
		ok(!move(s, p, r, TE_READ, at[i], len[i]) && !memcmp(gpu, bytes + at[i], len[i]),
		   "READ of %d bytes at %d", (int)len[i], (int)at[i]);
		memset(gpu, (int)i + 1, len[i]);
		memset(bytes + at[i], (int)i + 1, len[i]);
		ok(!move(s, p, r, TE_WRITE, at[i], len[i]) && file_has(bytes, 0, FILE_LEN),
		   "WRITE of them");
	}
	ok(*calls >= 12, "the fake was asked: %d", *calls);
	ok(s->t->ops->path(p, 0, &seen) && strstr(seen.local, "cuFile"), "the path says so: %s",
	   seen.local);
}

static void test_failures(struct side *s, struct te_peer *p, struct te_region *r)
{
	*fail = -1;
	ok(move(s, p, r, TE_READ, 0, 4096) == -EIO && strstr(s->why.msg, path), "an errno: %s",
	   s->why.msg);
	*fail = -5008;
	ok(move(s, p, r, TE_READ, 0, 4096) == -EIO, "an error of its own");
	ok(!move(s, p, r, TE_READ, 0, 4096), "and it goes on");
}

int main(int argc, char **argv)
{
	static char bytes[FILE_LEN], gpu[LEN];
	struct te_desc_buffer b = { .file_path = path, .length = FILE_LEN };
	struct te_desc d = { .name = (char *)"node",
			     .server_name = (char *)"node",
			     .protocol = (char *)"nvmeof",
			     .buffers = &b,
			     .nbuffers = 1 };
	struct te_region *r;
	struct te_err err = { 0 };
	struct te_peer *p;
	struct side s;

	if (argc < 1 || !find_fake(argv[0]) || !make_file(bytes)) {
		ok(false, "the fake libcufile and a file are there");
		return tap_end();
	}
	ok(!te_cufile_load(&err), "libcufile is there: %s", err.msg);
	side_open(&s, &te_transport_nvmeof, false);
	s.env.name = "node";
	r = reg_gpu(&s, gpu);
	if (!side_peer(&s, "", &d, &p, &err)) {
		test_moves(&s, p, r, bytes);
		test_failures(&s, p, r);
		p->ops->peer_close(p);
	} else {
		ok(false, "segment: %s", err.msg);
	}
	ok(!*handles, "no handle is left");
	side_unreg(&s, r, 1000);
	side_close(&s);
	unlink(path);
	return tap_end();
}
