/*
 * localonly.c - what is not registered for others cannot be reached by any transport: ranges that
 * are unregistered, local-only, wrapping, too long, or that cross the end of a buffer.
 */
#include "prog.h"

enum { LENGTH = 64 << 10 };

static struct te_engine *e;
static int32_t seg;
static unsigned char *src;

/* What the owner tells us, and the memory itself, which both processes share. */
struct owner {
	pid_t pid;
	char name[128];
	unsigned char *open, *closed, *unknown;
	int stop;
};

static unsigned char *shared(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap", NULL);
	return p;
}

/* The owner's process: publishes `open`, keeps `closed` to itself, knows nothing of `unknown`. */
static void own(struct owner *o, int tell, int stop)
{
	struct te_engine *t = engine_new(NULL, false);
	struct te_err err = { 0 };
	char name[128] = "", *desc, c;
	bool published;

	if (te_register(t, o->open, LENGTH, "cpu:0", true, &err) ||
	    te_register(t, o->closed, LENGTH, "cpu:0", false, &err))
		die("te_register", &err);
	desc = te_engine_describe(t);
	snprintf(name, sizeof(name), "%lu", (unsigned long)(uintptr_t)o->closed);
	published = strstr(desc, name) != NULL;
	free(desc);
	snprintf(name, sizeof(name), "%c%s", published ? '!' : '=', engine_name(t));
	if (write(tell, name, sizeof(name)) != sizeof(name) || read(stop, &c, 1) < 0)
		_exit(1);
	te_engine_close(t);
	_exit(0);
}

static void owner_start(struct owner *o)
{
	int tell[2], stop[2];
	char name[128];

	o->open = shared(LENGTH);
	o->closed = shared(LENGTH);
	o->unknown = shared(LENGTH);
	if (pipe(tell) || pipe(stop))
		die("pipe", NULL);
	if ((o->pid = fork()) == 0) {
		close(stop[1]);
		own(o, tell[1], stop[0]);
	}
	close(tell[1]);
	if (read(tell[0], name, sizeof(name)) != sizeof(name))
		die("the owner", NULL);
	ok(name[0] == '=', "a local-only buffer is not published");
	memcpy(o->name, name + 1, sizeof(name) - 1);
	o->stop = stop[1];
}

/* READ and WRITE of the range end INVALID, "not registered", and change nothing on either side. */
static void unreachable(const char *what, const struct owner *o, uint64_t at, void *from,
			uint64_t len)
{
	for (int op = TE_READ; op <= TE_WRITE; op++) {
		struct te_request r = { .op = (enum te_op)op,
					.source = from,
					.target = seg,
					.offset = at,
					.length = len };
		struct te_err why;
		struct te_status st;
		int rc;

		memset(o->open, 1, LENGTH);
		memset(o->closed, 2, LENGTH);
		memset(o->unknown, 3, LENGTH);
		memset(src, 9, LENGTH);
		st = one(e, &r, &rc, &why);
		ok(rc == 0 && st.state == TE_INVALID && strstr(why.msg, "not registered"),
		   "%s %s: %s", op == TE_READ ? "READ" : "WRITE", what, why.msg);
		ok(all_is(o->open, 1, LENGTH) && all_is(o->closed, 2, LENGTH) &&
			   all_is(o->unknown, 3, LENGTH) && all_is(src, 9, LENGTH),
		   "nothing was moved");
	}
}

static void wrapping(const struct owner *o)
{
	struct te_request r = { .op = TE_WRITE,
				.source = src,
				.target = seg,
				.offset = UINT64_MAX - 15,
				.length = LENGTH };
	struct te_err why;
	int rc;

	one(e, &r, &rc, &why);
	ok(rc == -EINVAL && why.msg[0], "a range that wraps is refused at submit: %s", why.msg);
	ok(all_is(o->open, 1, LENGTH), "nothing was moved");
}

static void huge(const struct owner *o)
{
	size_t tib = (size_t)1 << 40;
	void *big = mmap(NULL, tib, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct te_err err = { 0 };

	if (big == MAP_FAILED) {
		skip("this kernel gives no 1 TiB of address space");
		return;
	}
	if (te_register(e, big, tib, "cpu:0", false, &err))
		die("te_register of 1 TiB", &err);
	unreachable("of 1 TiB", o, (uintptr_t)o->open, big, tib);
	te_unregister(e, big, NULL);
	munmap(big, tib);
}

static void by(const char *transport, const struct owner *o)
{
	struct te_request r = { .op = TE_READ, .offset = (uintptr_t)o->open, .length = LENGTH };
	struct te_err why;
	int rc;

	e = engine_new(transport, true);
	src = buffer_new(e, LENGTH, false);
	seg = segment_open(e, o->name);
	printf("# over %s\n", te_segment_transport(e, seg));
	unreachable("of a local-only buffer", o, (uintptr_t)o->closed, src, LENGTH);
	unreachable("of 16 bytes in it", o, (uintptr_t)o->closed + 4096, src, 16);
	unreachable("of memory nobody registered", o, (uintptr_t)o->unknown, src, LENGTH);
	unreachable("one byte beyond the end", o, (uintptr_t)o->open + 1, src, LENGTH);
	unreachable("one byte before the start", o, (uintptr_t)o->open - 1, src, 16);
	unreachable("of page 0", o, 0, src, 16);
	wrapping(o);
	huge(o);
	r.source = src;
	r.target = seg;
	memset(o->open, 7, LENGTH);
	ok(one(e, &r, &rc, &why).state == TE_COMPLETED && all_is(src, 7, LENGTH),
	   "the target lives and serves: %s", why.msg);
	te_engine_close(e);
	munmap(src, LENGTH);
}

int main(void)
{
	struct owner o = { 0 };
	int status;

	owner_start(&o);
	by("tcp", &o);
	by("shm", &o);
	close(o.stop);
	waitpid(o.pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the owner ends well");
	return tap_end();
}
