/* test_shm.c - the shm transport between processes: bytes, refusals, and targets that go away. */
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "host/mem.h"
#include "slices.h"
#include "tap.h"

enum { LEN = 4 << 20, HOLE = 64 << 10 };

/* What a target tells about itself, through a pipe. */
struct offer {
	struct te_desc desc;
	uint64_t plain, shared, private,
		hole; /* buffers of LEN; `hole` is a PROT_NONE part of a buffer */
};

struct target {
	pid_t pid;
	int from, to; /* pipes; one byte to it: act */
	struct offer o;
};

enum act { ACT_EXIT = 'q', ACT_CLOSE = 'c', ACT_EXEC = 'e', ACT_UNREG = 'u' };

static void act_on(struct side *s, char what, struct te_region *plain, int to)
{
	switch (what) {
	case ACT_CLOSE:
		side_close(s);
		break;
	case ACT_UNREG:
		if (side_unreg(s, plain, 1000))
			_exit(3);
		break;
	case ACT_EXEC: /* echoes the next byte */
		dup2(to, STDOUT_FILENO);
		execl("/bin/cat", "cat", (char *)NULL);
		_exit(4);
	default:
		_exit(0);
	}
}

static void target_main(int from, int to)
{
	struct side s;
	struct offer o = { 0 };
	struct te_region *plain;
	char *hole, what;
	void *shared;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (side_open(&s, &te_transport_shm, true) ||
	    te_mem_shared(LEN, -1, false, "test", &shared, &fd, NULL))
		_exit(2);
	o.plain = (uintptr_t)calloc(1, LEN);
	o.private = (uintptr_t)calloc(1, LEN);
	o.shared = (uintptr_t)shared;
	hole = mmap(NULL, 3 * HOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(hole + HOLE, HOLE, PROT_NONE);
	o.hole = (uintptr_t)hole + HOLE;
	plain = side_reg(&s, (void *)(uintptr_t)o.plain, LEN, true, -1);
	side_reg(&s, (void *)(uintptr_t)o.private, LEN, false, -1);
	side_reg(&s, shared, LEN, true, fd);
	side_reg(&s, hole, 3 * HOLE, true, -1);
	o.desc = s.desc;
	if (write(to, &o, sizeof(o)) != sizeof(o))
		_exit(2);
	dup2(from, STDIN_FILENO);
	while (read(STDIN_FILENO, &what, 1) == 1) {
		act_on(&s, what, plain, to);
		if (write(to, &what, 1) != 1)
			_exit(2);
	}
	_exit(0);
}

static bool target_start(struct target *t)
{
	int up[2], down[2];

	if (pipe2(up, O_CLOEXEC) || pipe2(down, O_CLOEXEC))
		return false;
	fflush(stdout);
	t->pid = fork();
	if (!t->pid) {
		close(up[0]);
		close(down[1]);
		target_main(down[0], up[1]);
	}
	close(up[1]);
	close(down[0]);
	t->from = up[0];
	t->to = down[1];
	return read(t->from, &t->o, sizeof(t->o)) == sizeof(t->o);
}

static bool target_do(struct target *t, enum act what)
{
	char c = (char)what;

	return write(t->to, &c, 1) == 1 && read(t->from, &c, 1) == 1;
}

static void target_end(struct target *t)
{
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	close(t->from);
	close(t->to);
}

static void pattern(uint8_t *p, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)((i + seed) * 2654435761u >> 13);
}

static bool moves(struct side *s, struct te_peer *p, uint64_t remote, size_t len)
{
	uint8_t *out = malloc(len), *in = calloc(1, len);
	bool good;

	pattern(out, len, (uint32_t)len);
	good = !transfer(s, p, TE_WRITE, out, remote, len) &&
	       !transfer(s, p, TE_READ, in, remote, len) && !memcmp(in, out, len);
	free(out);
	free(in);
	return good;
}

static void bytes(struct side *s, struct te_peer *p, const struct target *t)
{
	static const size_t sizes[] = { 1, 17, 4096, 65535, 65536, 65537, LEN };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		ok(moves(s, p, t->o.plain + (LEN - sizes[i]), sizes[i]), "%zu bytes by process_vm",
		   sizes[i]);
		ok(moves(s, p, t->o.shared + (LEN - sizes[i]), sizes[i]),
		   "%zu bytes by shared memory", sizes[i]);
	}
	ok(atomic_load(&p->slices) == 28, "each is counted");
}

/* 2000 slices at random places of two buffers, both ways, some of them wrong. */
static void chain(struct side *s, struct te_peer *p, const struct target *t, bool help)
{
	enum { N = 2000, EACH = 2048 };
	struct te_slice *v = calloc(2 * N, sizeof(*v));
	uint8_t *out = malloc(N * EACH), *in = calloc(N, EACH);
	uint64_t base[2] = { t->o.plain, t->o.shared };
	int bad = 0, back = 0;

	pattern(out, N * EACH, 5);
	for (uint32_t i = 0; i < N; i++)
		fill(&v[i], TE_WRITE, out + i * EACH, base[i & 1] + i * EACH, EACH);
	submit(s, p, v, N);
	ok(await(s, p, v, help) == 0, "a long chain of WRITEs, %s help", help ? "with" : "without");
	for (uint32_t i = 0; i < N; i++) {
		fill(&v[2 * i], TE_READ, in + i * EACH, base[i & 1] + i * EACH, EACH);
		fill(&v[2 * i + 1], i & 1 ? TE_READ : TE_WRITE, out,
		     (i & 2 ? t->o.private : t->o.plain + LEN - 1), EACH);
	}
	submit(s, p, v, 2 * N);
	ok(await(s, p, v, help) == -EFAULT, "READs with a wrong one after each");
	for (uint32_t i = 0; i < N; i++) {
		bad += v[2 * i].status || memcmp(in + i * EACH, out + i * EACH, EACH);
		back += v[2 * i + 1].status == -EFAULT;
	}
	ok(!bad, "all good ones arrived");
	ok(back == N && atomic_load(&s->failed) == N, "all wrong ones were refused");
	ok(strstr(s->why.msg, "is not registered"), "and it says: %s", s->why.msg);
	free(v);
	free(out);
	free(in);
}

static void refused(struct side *s, struct te_peer *p, const struct target *t)
{
	char byte[2];

	ok(p->ops->covers(p, t->o.plain, LEN) && p->ops->covers(p, t->o.shared + 5, 9),
	   "what is registered is covered");
	ok(!p->ops->covers(p, t->o.plain, LEN + 1) && !p->ops->covers(p, t->o.private, 1) &&
		   !p->ops->covers(p, t->o.plain + 5, UINT64_MAX),
	   "what is not, local-only or wraps is not");
	ok(transfer(s, p, TE_READ, byte, t->o.private, 2) == -EFAULT,
	   "a local-only buffer is out of reach");
	ok(transfer(s, p, TE_READ, byte, 4096, 2) == -EFAULT, "so is what nobody registered");
}

/* Registered, but the kernel finds no memory in the middle: the neighbours must not suffer. */
static void holes(struct side *s, struct te_peer *p, const struct target *t)
{
	uint8_t *mine = calloc(6, HOLE);
	struct te_slice v[6];

	for (int op = TE_READ; op <= TE_WRITE; op++) {
		fill(&v[0], op, mine, t->o.plain, 100);
		fill(&v[1], op, mine + HOLE, t->o.hole, 100);
		fill(&v[2], op, mine + 2 * HOLE, t->o.plain + 100, HOLE);
		fill(&v[3], op, mine + 3 * HOLE, t->o.hole - HOLE / 2, HOLE);
		fill(&v[4], op, mine + 4 * HOLE, t->o.hole + HOLE, HOLE);
		fill(&v[5], op, mine + 5 * HOLE, t->o.hole, 1);
		submit(s, p, v, 6);
		ok(await(s, p, v, false) == -EIO && !v[0].status && !v[2].status && !v[4].status,
		   "%s beside a hole works", op == TE_READ ? "READ" : "WRITE");
		ok(v[1].status == -EIO && v[3].status == -EIO && v[5].status == -EIO,
		   "in the hole and across its edge it fails: %s", s->why.msg);
	}
	free(mine);
}

static void transfers(void)
{
	struct target t;
	struct side s;
	struct te_peer *p = NULL;
	char mine[8];

	ok(target_start(&t) && !side_open(&s, &te_transport_shm, false),
	   "a target in another process");
	ok(side_peer(&s, "127.0.0.1", &t.o.desc, &p, &s.why) == 0, "opened %s", s.why.msg);
	ok(strstr(p->remote, "shared memory and process_vm"), "the path says how: %s, %s", p->local,
	   p->remote);
	bytes(&s, p, &t);
	chain(&s, p, &t, false);
	chain(&s, p, &t, true);
	refused(&s, p, &t);
	holes(&s, p, &t);

	ok(target_do(&t, ACT_UNREG), "the target unregisters a buffer");
	ok(!p->ops->covers(p, t.o.plain, 1), "it is not covered any more");
	ok(transfer(&s, p, TE_READ, mine, t.o.plain, 8) == -EFAULT, "and not reached");
	ok(moves(&s, p, t.o.shared, 8), "others are");
	kill(t.pid, SIGSTOP);
	ok(moves(&s, p, t.o.shared, 100) && moves(&s, p, t.o.hole - HOLE, 100),
	   "a frozen target serves");
	p->ops->peer_close(p);
	target_end(&t);
	side_close(&s);
}

static void goes_away(const char *how, enum act what)
{
	struct target t;
	struct side s;
	struct te_peer *p = NULL;
	char mine[8] = "unhurt";

	target_start(&t);
	side_open(&s, &te_transport_shm, false);
	ok(side_peer(&s, "::1", &t.o.desc, &p, NULL) == 0 && moves(&s, p, t.o.shared, 8),
	   "a target that %s", how);
	if (what == ACT_EXIT)
		target_end(&t);
	else if (what == ACT_CLOSE)
		target_do(&t, what);
	else if (write(t.to, "ex", 2) != 2 || read(t.from, mine, 1) != 1)
		ok(false, "the other program echoes");
	ok(transfer(&s, p, TE_READ, mine, t.o.plain, 8) == -ECONNRESET, "READ by process_vm: %s",
	   s.why.msg);
	ok(transfer(&s, p, TE_WRITE, mine, t.o.plain, 8) == -ECONNRESET, "WRITE by process_vm");
	ok(transfer(&s, p, TE_WRITE, mine, t.o.shared, 8) == -ECONNRESET,
	   "WRITE by shared memory: %s", s.why.msg);
	ok(p->ops->covers(p, t.o.plain, 1), "covered, so that the engine hears the reason");
	p->ops->peer_close(p);
	if (what != ACT_EXIT)
		target_end(&t);
	side_close(&s);
}

static int open_as_nobody(const struct target *t)
{
	struct passwd *pw = getpwnam("nobody");
	struct te_peer *p = NULL;
	struct te_err err = { 0 };
	struct side s;
	int status, rc;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (!pw || setgid(pw->pw_gid) || setuid(pw->pw_uid))
			_exit(9);
		side_open(&s, &te_transport_shm, false);
		rc = side_peer(&s, "h", &t->o.desc, &p, &err);
		_exit(rc == -EOPNOTSUPP && strstr(err.msg, "Permission denied") ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

static void not_this_way(void)
{
	struct target t;
	struct side s;
	struct te_peer *p = NULL;
	struct te_err err;
	struct te_desc d;
	int rc;

	target_start(&t);
	side_open(&s, &te_transport_shm, false);
	ok(side_peer(&s, NULL, &t.o.desc, &p, &err) == -EOPNOTSUPP, "our own: %s", err.msg);
	d = t.o.desc;
	d.te.present = false;
	ok(side_peer(&s, "h", &d, &p, &err) == -EOPNOTSUPP, "no te: %s", err.msg);
	d = t.o.desc;
	d.te.host[0] ^= 1;
	ok(side_peer(&s, "h", &d, &p, &err) == -EOPNOTSUPP, "other host: %s", err.msg);
	d = t.o.desc;
	d.te.token[0] ^= 1;
	ok(side_peer(&s, "h", &d, &p, &err) == -EOPNOTSUPP, "other token: %s", err.msg);
	d = t.o.desc;
	d.te.token[0] = '\0';
	ok(side_peer(&s, "h", &d, &p, &err) == -EOPNOTSUPP, "no token: %s", err.msg);
	d = t.o.desc;
	d.te.ctl_fd = 1;
	ok(side_peer(&s, "h", &d, &p, &err) == -EOPNOTSUPP && err.code == -EOPNOTSUPP,
	   "not a page: %s", err.msg);
	d.te.ctl_fd = -1;
	ok(side_peer(&s, "h", &d, &p, &err) == -EOPNOTSUPP, "no page: %s", err.msg);
	d = t.o.desc;
	d.te.pid = 0x3fffffff;
	ok(side_peer(&s, "h", &d, &p, &err) == -EOPNOTSUPP, "no process: %s", err.msg);
	rc = geteuid() ? 9 : open_as_nobody(&t);
	if (rc == 9)
		skip("another user's process needs root to be one first");
	else
		ok(!rc, "another user is not let in");
	target_end(&t);
	side_close(&s);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	transfers();
	goes_away("is killed", ACT_EXIT);
	goes_away("closes its engine", ACT_CLOSE);
	goes_away("starts another program", ACT_EXEC);
	not_this_way();
	return tap_end();
}
