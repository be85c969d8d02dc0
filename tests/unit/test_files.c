/* test_files.c - transfers from and to files: bytes, order, limits; with io_uring and without. */
#include <pthread.h>

#include "files_rig.h"

static const char *disk, *below; /* folder on a disk; the one in use now */

/* ---- against a model ---------------------------------------------------------------------- */

enum { MOST = 24 };

struct span {
	uint64_t at, len;
	int op;
};

static bool is_free(const struct span *v, size_t n, const struct span *s)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].at < s->at + s->len && s->at < v[i].at + v[i].len &&
		    (v[i].op == TE_WRITE || s->op == TE_WRITE))
			return false;
	return true;
}

/* Slices that neither share bytes of a file that one of them writes, nor memory. */
static uint32_t draw(struct rig *r, struct te_slice *v, uint64_t *dice)
{
	static const uint64_t lengths[] = { 1,	  511,	512,   513,   1000,    4095,
					    4096, 4097, 65536, 65537, 1 << 20, (1 << 20) + 1 };
	struct span spans[MOST];
	uint64_t at = 0;
	uint32_t n = 0;

	for (int tries = 0; tries < MOST; tries++) {
		struct span s = { .op = number(dice) % 2 ? TE_READ : TE_WRITE,
				  .len = lengths[number(dice) % ARRAY_SIZE(lengths)] };

		s.at = number(dice) % (r->size - s.len + 1);
		if (number(dice) % 4 == 0) /* at the border of two files */
			s.at = r->start[1 + number(dice) % (r->n - 1)] - number(dice) % 2;
		if (number(dice) % 4 == 0)
			s.at = s.at / 512 * 512;
		/* Sometimes aligned in memory as in the file. */
		at += number(dice) % 3 ? number(dice) % 8192 : 4096 - at % 4096 + s.at % 4096;
		if (s.at + s.len > r->size || at + s.len > MEMORY || !is_free(spans, n, &s))
			continue;
		spans[n] = s;
		slice(r, &v[n++], s.op, at, s.at, s.len);
		at += s.len;
	}
	return n;
}

static void foresee(struct rig *r, const struct te_slice *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)((uint8_t *)v[i].local - r->mem);

		if (v[i].op == TE_WRITE)
			memcpy(r->files + v[i].remote, r->mem + at, v[i].len);
		else
			memcpy(r->expect + at, r->files + v[i].remote, v[i].len);
	}
}

static void model(void)
{
	static const uint64_t len[] = { 1, 4097, (1 << 20) + 513, (2 << 20) + 4096, 700, 3 << 20 };
	uint64_t dice = 0x9e3779b97f4a7c15u;
	struct te_slice v[MOST];
	struct te_err err = { 0 };
	struct batch b;
	struct rig r;
	int round, rc = 0;
	bool right = true;

	rig_files(&r, below, len, ARRAY_SIZE(len));
	ok(rig_open(&r, &err) == 0, "%s: opened %s", below, err.msg);
	for (round = 0; round < 60 && right && !rc; round++) {
		uint32_t n = draw(&r, v, &dice);

		foresee(&r, v, n);
		batch_submit(r.p, &b, v, n);
		rc = batch_await(r.p, &b, v, round % 2, 20 * SEC);
		right = rig_is_right(&r);
		noise(r.mem, 1 << 20, (uint64_t)round + 1);
		memcpy(r.expect, r.mem, 1 << 20);
	}
	ok(!rc && right, "%s: %d batches: bytes and lengths are those of the model %s", below,
	   round, b.why.msg);
	rig_close(&r);
}

/* ---- blocks that are changed in part ------------------------------------------------------ */

enum { PATCHED = 32 << 10, PIECES = 1024, CHUNK = 16 };

static void shuffle(struct te_slice *v, uint32_t n, uint64_t *dice)
{
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)(number(dice) % i);
		struct te_slice s;

		memcpy(&s, &v[i - 1], sizeof(s));
		memcpy(&v[i - 1], &v[k], sizeof(s));
		memcpy(&v[k], &s, sizeof(s));
	}
}

/* All bytes of the file, each written once, in pieces of odd lengths and some whole pages. */
static uint32_t pieces(struct rig *r, struct te_slice *v, uint64_t *dice)
{
	uint32_t n = 0;

	for (uint64_t at = 0, len; at < PATCHED; at += len) {
		len = 1 + number(dice) % 300;
		if (at % 4096 == 0 && number(dice) % 2)
			len = 4096;
		len = MIN(len, PATCHED - at);
		slice(r, &v[n++], TE_WRITE, at, at, len);
	}
	shuffle(v, n, dice);
	return n;
}

/* In chunks, so that pieces of one block come by several ways at a time. */
static int write_chunks(struct rig *r, struct te_peer *other, struct te_slice *v, uint32_t n,
			bool with_update)
{
	struct batch b[PIECES / CHUNK];
	uint32_t chunks = 0;
	int bad = 0;

	for (uint32_t i = 0; i < n; i += CHUNK, chunks++) {
		batch_submit(chunks % 2 ? other : r->p, &b[chunks], v + i, MIN(n - i, CHUNK));
		if (with_update && chunks % 4 == 0) { /* by another path it is another file */
			snprintf(r->path[0], sizeof(r->path[0]), "%s/%s0", r->dir,
				 chunks % 8 ? "./" : "");
			rig_describe(r);
			r->p->ops->update(r->p, r->d);
		}
	}
	for (uint32_t i = 0; i < chunks; i++)
		bad += batch_await(r->p, &b[i], v + (size_t)i * CHUNK, i % 3, 20 * SEC) != 0;
	return bad;
}

static void patches(bool with_update)
{
	static const uint64_t len[] = { PATCHED };
	struct te_slice *v = calloc(PIECES, sizeof(*v));
	struct te_peer *other = NULL;
	uint64_t dice = 4711;
	struct rig r;
	int bad = 0;

	rig_files(&r, below, len, 1);
	rig_open(&r, NULL);
	side_peer(&r.s, NULL, r.d, &other, NULL);
	for (int round = 0; round < 12 && !bad; round++) {
		uint32_t n = pieces(&r, v, &dice);

		foresee(&r, v, n);
		bad = write_chunks(&r, round % 2 ? other : r.p, v, n, with_update);
		bad += !rig_is_right(&r);
		noise(r.mem, PATCHED, (uint64_t)round + 99);
		memcpy(r.expect, r.mem, PATCHED);
	}
	ok(!bad, "%s: WRITEs that share blocks lose nothing%s", below,
	   with_update ? ", the file opened anew meanwhile" : ", through one or two peers");
	other->ops->peer_close(other);
	rig_close(&r);
	free(v);
}

/* ---- many, from many threads -------------------------------------------------------------- */

enum { MANY = 3000 };

struct crew {
	struct rig *r;
	size_t me;
	int bad;
};

static void *hammer(void *arg)
{
	struct crew *c = arg;
	struct te_slice *v = calloc(MANY, sizeof(*v));
	uint64_t base = c->me * (MEMORY / 4), dice = c->me + 1;
	struct batch b;

	for (int round = 0; round < 4; round++) {
		uint64_t each = round % 2 ? 1000 : 1024;

		for (uint32_t i = 0; i < MANY; i++)
			slice(c->r, &v[i], TE_READ, base + i * each,
			      number(&dice) % (c->r->size - each), each);
		batch_submit(c->r->p, &b, v, MANY);
		c->bad += batch_await(c->r->p, &b, v, round < 2, 30 * SEC) != 0;
		for (uint32_t i = 0; i < MANY; i++)
			c->bad += memcmp(v[i].local, c->r->files + v[i].remote, each) != 0;
	}
	free(v);
	return NULL;
}

static void threads(void)
{
	static const uint64_t len[] = { 1 << 20, 12345 };
	struct crew crew[4];
	pthread_t th[4];
	struct rig r;
	int bad = 0;

	rig_files(&r, below, len, 2);
	rig_open(&r, NULL);
	for (size_t i = 0; i < 4; i++) {
		crew[i] = (struct crew){ .r = &r, .me = i };
		pthread_create(&th[i], NULL, hammer, &crew[i]);
	}
	for (size_t i = 0; i < 4; i++) {
		pthread_join(th[i], NULL);
		bad += crew[i].bad;
	}
	ok(!bad, "%s: four threads, each with more than can be in flight", below);
	rig_close(&r);
}

/* How long others wait when whoever drove has left. */
static void *lone(void *arg)
{
	struct crew *c = arg;
	struct te_slice s;
	struct batch b;

	for (int i = 0; i < 2000; i++) {
		uint64_t began = te_now();

		slice(c->r, &s, TE_READ, c->me * 4096, 0, 4096);
		batch_submit(c->r->p, &b, &s, 1);
		c->bad += batch_await(c->r->p, &b, &s, c->me % 2, 5 * SEC) != 0;
		c->bad += te_now() - began > 90 * MS;
	}
	return NULL;
}

static void handover(void)
{
	static const uint64_t len[] = { 8192 };
	struct crew crew[3];
	pthread_t th[3];
	struct rig r;
	int bad = 0;

	rig_files(&r, below, len, 1);
	rig_open(&r, NULL);
	for (size_t i = 0; i < 3; i++) {
		crew[i] = (struct crew){ .r = &r, .me = i };
		pthread_create(&th[i], NULL, lone, &crew[i]);
	}
	for (size_t i = 0; i < 3; i++) {
		pthread_join(th[i], NULL);
		bad += crew[i].bad;
	}
	/* All of them, where nobody is told; some on a busy machine. */
	ok(bad < 1000, "%s: no completion is left lying by who helped (%d slow)", below, bad);
	rig_close(&r);
}

/* ---- what is not begun -------------------------------------------------------------------- */

static void not_begun(void)
{
	static const uint64_t len[] = { 1 << 20 };
	struct te_slice *v = calloc(MANY, sizeof(*v));
	_Atomic bool yes = true, no = false;
	struct te_err why;
	struct batch b;
	struct rig r;
	int bad = 0, counts[3] = { 0 };

	rig_files(&r, below, len, 1);
	rig_open(&r, NULL);
	for (uint32_t i = 0; i < MANY; i++) {
		slice(&r, &v[i], TE_READ, i * 1024ull, i * 64ull, 1024);
		v[i].cancelled = i % 3 ? &no : &yes;
		v[i].deadline = i % 5 ? v[i].deadline : te_now();
	}
	batch_submit(r.p, &b, v, MANY);
	batch_await(r.p, &b, v, true, 20 * SEC);
	for (uint32_t i = 0; i < MANY; i++) {
		int want = !(i % 3) ? -ECANCELED : !(i % 5) ? -ETIMEDOUT : 0;
		const uint8_t *right = want ? r.expect + i * 1024ull : r.files + i * 64ull;

		bad += v[i].status != want || memcmp(v[i].local, right, 1024) != 0;
	}
	ok(!bad && !atomic_load(&b.expired), "%s: cancelled and late ones are not begun (%d wrong)",
	   below, bad);
	for (uint32_t i = 0; i < MANY; i++)
		slice(&r, &v[i], TE_READ, i * 1024ull, i * 64ull, 1024);
	batch_submit(r.p, &b, v, MANY);
	te_fail(&why, -ECONNRESET, "moved");
	r.p->ops->abort(r.p, -ECONNRESET, &why);
	batch_await(r.p, &b, v, false, 20 * SEC);
	for (uint32_t i = 0; i < MANY; i++)
		counts[!v[i].status ? 0 : v[i].status == -ECONNRESET ? 1 : 2]++;
	ok(counts[1] && !counts[2] && !strcmp(b.why.msg, "moved"),
	   "%s: abort: %d were read, %d fail with its reason", below, counts[0], counts[1]);
	rig_close(&r);
	free(v);
}

/* ---- files that are not what they were ---------------------------------------------------- */

static bool fails(struct rig *r, int op, size_t file, int want, const char *how)
{
	struct batch b;
	int rc = move(r, &b, op, 0, r->start[file], MIN(r->len[file], 4096));
	bool named = strstr(b.why.msg, r->path[file]) != NULL;

	if (rc == want && named && !memcmp(r->mem, r->expect, MEMORY))
		return true;
	printf("# %s: %s, %s\n", how, strerror(-rc), b.why.msg);
	return false;
}

/* update() with the same descriptor cures what has been put right. */
static bool cured(struct rig *r, size_t file)
{
	struct batch b;
	int rc;

	r->p->ops->update(r->p, r->d);
	rc = move(r, &b, TE_READ, 0, r->start[file], MIN(r->len[file], 4096));
	if (rc)
		printf("# not cured: %s\n", b.why.msg);
	memcpy(r->mem, r->expect, MEMORY);
	return rc == 0;
}

static void changed(void)
{
	static const uint64_t len[] = { 10000, 8192, 513 };
	struct batch b;
	struct rig r;
	char aside[PATH_MAX];

	rig_files(&r, below, len, 3);
	rig_open(&r, NULL);
	snprintf(aside, sizeof(aside), "%s/aside", r.dir);

	truncate(r.path[0], 9999);
	ok(fails(&r, TE_READ, 0, -ESTALE, "cut"), "%s: a file that was cut is refused", below);
	truncate(r.path[0], 10001);
	r.p->ops->update(r.p, r.d);
	ok(fails(&r, TE_WRITE, 0, -ESTALE, "grown"), "one that has grown too");
	ok(move(&r, &b, TE_READ, 0, r.start[1], 8192) == 0, "the others go on");
	memcpy(r.mem, r.expect, MEMORY);
	put_file(r.path[0], r.files, len[0]);
	ok(cured(&r, 0), "put right, it is used again after an update");

	rename(r.path[1], aside);
	ok(fails(&r, TE_READ, 1, -ENOENT, "moved away"), "moved away: refused");
	put_file(r.path[1], r.files, len[1]);
	ok(cured(&r, 1), "another one in its place is read after an update");
	rename(aside, r.path[1]);
	ok(fails(&r, TE_READ, 1, -ESTALE, "replaced"), "replaced: refused");
	ok(cured(&r, 1), "until the update");
	unlink(r.path[2]);
	ok(fails(&r, TE_WRITE, 2, -ENOENT, "removed"), "removed: refused");
	put_file(r.path[2], r.files + r.start[2], len[2]);
	ok(cured(&r, 2), "and good when it is there again");
	ok(move(&r, &b, TE_READ, 0, r.size - 1, 2) == -ENXIO, "past the end: %s", b.why.msg);
	rig_close(&r);
}

static int open_now(const char *path, uint64_t len, struct te_err *err)
{
	struct rig r = { .n = 1, .len = { len } };
	int rc;

	te_strlcpy(r.path[0], path, sizeof(r.path[0]));
	rig_describe(&r);
	rc = rig_open(&r, err);
	r.n = 0;
	rig_close(&r);
	return rc;
}

static void no_files(void)
{
	char dir[64] = "/dev/shm/te-files-XXXXXX", path[128];
	struct te_err err;
	uint64_t began = te_now();

	mkdtemp(dir);
	snprintf(path, sizeof(path), "%s/f", dir);
	ok(open_now(path, 1, &err) == -ENOENT, "%s", err.msg);
	ok(open_now(dir, 4096, &err) == -EINVAL, "%s", err.msg);
	ok(open_now("/dev/zero", 4096, &err) == -EINVAL, "%s", err.msg);
	mkfifo(path, 0600);
	ok(open_now(path, 4096, &err) == -EINVAL, "%s", err.msg);
	unlink(path);
	put_file(path, "abc", 3);
	ok(open_now(path, 4, &err) == -ESTALE, "%s", err.msg);
	ok(open_now("", 4, &err) < 0 && err.msg[0], "%s", err.msg);
	ok(te_now() - began < 10 * SEC, "none of them waited");
	unlink(path);
	rmdir(dir);
}

/* ---- what is told ------------------------------------------------------------------------- */

static uint64_t bytes_of(struct rig *r, size_t i)
{
	struct te_path path = { .bytes = 0 };

	return r->p->ops->path(r->p, i, &path) ? path.bytes : UINT64_MAX;
}

static void updated(void)
{
	static const uint64_t len[] = { 4096, 8192, 100 };
	struct batch b;
	struct rig r;

	rig_files(&r, below, len, 3);
	r.n = 2;
	rig_describe(&r);
	rig_open(&r, NULL);
	ok(move(&r, &b, TE_READ, 0, 4096, 8192) == 0 && bytes_of(&r, 0) == 0 &&
		   bytes_of(&r, 1) == 8192 && bytes_of(&r, 2) == UINT64_MAX,
	   "%s: bytes are counted for each file", below);
	r.n = 3;
	rig_describe(&r);
	r.p->ops->update(r.p, r.d);
	ok(bytes_of(&r, 1) == 8192 && bytes_of(&r, 2) == 0, "one more: counters go on");
	ok(move(&r, &b, TE_READ, 0, 12288, 100) == 0 && bytes_of(&r, 2) == 100, "it can be read");
	te_strlcpy(r.path[3], r.path[0], sizeof(r.path[3])); /* from first to last */
	te_strlcpy(r.path[0], r.path[1], sizeof(r.path[0]));
	te_strlcpy(r.path[1], r.path[2], sizeof(r.path[1]));
	te_strlcpy(r.path[2], r.path[3], sizeof(r.path[2]));
	r.len[0] = 8192;
	r.len[1] = 100;
	r.len[2] = 4096;
	rig_describe(&r);
	r.p->ops->update(r.p, r.d);
	ok(bytes_of(&r, 0) == 8192 && bytes_of(&r, 1) == 100 && bytes_of(&r, 2) == 0,
	   "in another order: counters are those of the paths");
	rig_close(&r);
}

/* ------------------------------------------------------------------------------------------- */

static void everything(void)
{
	const char *const where[] = { disk, "/dev/shm" };

	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		below = where[i];
		model();
		patches(false);
		patches(true);
		threads();
		handover();
		not_begun();
		changed();
		updated();
	}
	no_files();
}

int main(void)
{
	disk = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
	without_io_uring(everything);
	everything();
	return tap_end();
}
