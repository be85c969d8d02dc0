/* pattern.c - the position-keyed verification pattern of te-bench and te-target. */
#include "pattern.h"

#include <stdbool.h>
#include <string.h>

enum { WORD = 8, INDEX_BITS = 36, BUFFER_BITS = 10, EPOCH_BITS = 18 };

/* What a word says. Longer numbers than the fields are cut: a clash is one in a thousand buffers,
   or half a TiB, away. */
struct fields {
	uint64_t index;
	uint32_t buffer, epoch;
};

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014), a bijection: so a word that is found can
 * be read back. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static uint64_t unmix(uint64_t x)
{
	x = (x ^ (x >> 31) ^ (x >> 62)) * UINT64_C(0x319642b2d24d8ec3);
	x = (x ^ (x >> 27) ^ (x >> 54)) * UINT64_C(0x96de1b173f119089);
	return x ^ (x >> 30) ^ (x >> 60);
}

/* Everything of a word but its index. */
static uint64_t base(const struct pattern *p)
{
	const uint64_t buffer = p->buffer & ((1u << BUFFER_BITS) - 1);
	const uint64_t epoch = p->epoch & ((1u << EPOCH_BITS) - 1);

	return mix(p->seed + UINT64_C(0x9e3779b97f4a7c15)) ^ (buffer << INDEX_BITS) ^
	       (epoch << (INDEX_BITS + BUFFER_BITS));
}

static uint64_t word(uint64_t key, uint64_t index)
{
	return mix(key ^ (index & ((UINT64_C(1) << INDEX_BITS) - 1)));
}

static struct fields decode(const struct pattern *p, const uint8_t *at)
{
	const struct pattern zero = { .seed = p->seed };
	struct fields f;
	uint64_t x;

	memcpy(&x, at, WORD);
	x = unmix(x) ^ base(&zero);
	f.index = x & ((UINT64_C(1) << INDEX_BITS) - 1);
	f.buffer = (x >> INDEX_BITS) & ((1u << BUFFER_BITS) - 1);
	f.epoch = (uint32_t)(x >> (INDEX_BITS + BUFFER_BITS));
	return f;
}

void pattern_fill(const struct pattern *p, uint64_t offset, void *to, size_t len)
{
	const uint64_t key = base(p);
	const size_t skip = offset % WORD;
	uint64_t index = offset / WORD, w;
	uint8_t *out = to;
	size_t n;

	if (skip && len) {
		n = WORD - skip < len ? WORD - skip : len;
		w = word(key, index++);
		memcpy(out, (uint8_t *)&w + skip, n);
		out += n;
		len -= n;
	}
	for (; len >= WORD; len -= WORD, out += WORD) {
		w = word(key, index++);
		memcpy(out, &w, WORD);
	}
	if (len) {
		w = word(key, index);
		memcpy(out, &w, len);
	}
}

/* ---- what is wrong ------------------------------------------------------------------------ */

/* A checked range with the first thing that is wrong in it. */
struct range {
	const struct pattern *p;
	uint64_t offset;
	const uint8_t *at;
	size_t len, first;
	bool none_right; /* no whole word (of less than one: no byte) is as expected */
};

/* Does the range hold these bytes of another epoch from `first` on? For ranges too short to decode.
 */
static bool is_epoch(const struct range *r, uint32_t epoch)
{
	struct pattern old = *r->p;
	uint8_t want[2 * WORD];
	size_t n = r->len - r->first < sizeof(want) ? r->len - r->first : sizeof(want);

	old.epoch = epoch;
	pattern_fill(&old, r->offset + r->first, want, n);
	return memcmp(want, r->at + r->first, n) == 0;
}

/* Where the first whole word of a buffer at or behind the wrong byte's own begins; len when none is
 * left. */
static size_t first_word(const struct range *r)
{
	uint64_t begin = (r->offset + r->first) / WORD * WORD;

	if (begin < r->offset)
		begin += WORD;
	begin -= r->offset;
	return begin + WORD <= r->len ? (size_t)begin : r->len;
}

/* Bytes of another place of the same round? Any byte distance counts, so all eight phases are
 * tried. */
static enum pattern_kind displaced(const struct range *r)
{
	const struct pattern own = { .buffer = r->p->buffer & ((1u << BUFFER_BITS) - 1),
				     .epoch = r->p->epoch & ((1u << EPOCH_BITS) - 1) };
	const size_t word_at = first_word(r);
	struct fields f, next;
	size_t at, d;
	int64_t by;

	for (d = 0; d < WORD && word_at + d + WORD <= r->len; d++) {
		at = word_at + d;
		f = decode(r->p, r->at + at);
		if (f.epoch != own.epoch)
			continue;
		by = (int64_t)(f.index * WORD) - (int64_t)(r->offset + at);
		if (f.buffer == own.buffer && by != 0)
			return (uint64_t)(by < 0 ? -by : by) < r->len ? PATTERN_SHIFTED
								      : PATTERN_SWAPPED;
		if (f.buffer == own.buffer || at + 2 * WORD > r->len)
			continue;
		/* 18 bits that agree prove little: the next word must go on where this one ends. */
		next = decode(r->p, r->at + at + WORD);
		if (next.epoch == f.epoch && next.buffer == f.buffer && next.index == f.index + 1)
			return PATTERN_SWAPPED;
	}
	return PATTERN_OK;
}

static bool is_old(const struct range *r)
{
	const size_t at = first_word(r);
	struct fields f;

	if (at == r->len)
		return is_epoch(r, r->p->epoch - 1) || is_epoch(r, 0);
	f = decode(r->p, r->at + at);
	return f.buffer == (r->p->buffer & ((1u << BUFFER_BITS) - 1)) &&
	       f.index == (r->offset + at) / WORD;
}

static enum pattern_kind classify(const struct range *r)
{
	enum pattern_kind kind = displaced(r);

	if (kind != PATTERN_OK)
		return kind;
	if (!r->none_right)
		return PATTERN_TORN;
	return is_old(r) ? PATTERN_STALE : PATTERN_FOREIGN;
}

/* ---- checking ----------------------------------------------------------------------------- */

/* Compare up to a word; count what differs. */
static void compare(struct range *r, struct pattern_mismatch *m, size_t at, const uint8_t *want,
		    size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (r->at[at + i] == want[i])
			continue;
		if (!m->count++) {
			r->first = at + i;
			m->offset = r->offset + at + i;
			m->expected = want[i];
			m->found = r->at[at + i];
		}
	}
}

int pattern_check(const struct pattern *p, uint64_t offset, const void *at, size_t len,
		  struct pattern_mismatch *out)
{
	struct range r = { .p = p, .offset = offset, .at = at, .len = len };
	struct pattern_mismatch m = { .kind = PATTERN_OK };
	const uint64_t key = base(p);
	uint64_t index = offset / WORD, w, found;
	size_t done = 0, words = 0, right = 0, skip = offset % WORD, n;

	if (skip) {
		n = WORD - skip < len ? WORD - skip : len;
		w = word(key, index++);
		compare(&r, &m, 0, (uint8_t *)&w + skip, n);
		done = n;
	}
	for (; len - done >= WORD; done += WORD) {
		w = word(key, index++);
		memcpy(&found, r.at + done, WORD);
		if (found == w)
			right++;
		else
			compare(&r, &m, done, (uint8_t *)&w, WORD);
		words++;
	}
	w = word(key, index);
	compare(&r, &m, done, (uint8_t *)&w, len - done);
	if (!m.count)
		return 0;
	r.none_right = !right;
	if (!words)
		r.none_right = m.count == len;
	m.kind = classify(&r);
	*out = m;
	return 1;
}

const char *pattern_kind_name(enum pattern_kind kind)
{
	static const char *const names[] = {
		[PATTERN_OK] = "ok",	       [PATTERN_TORN] = "torn",
		[PATTERN_STALE] = "stale",     [PATTERN_SWAPPED] = "swapped",
		[PATTERN_SHIFTED] = "shifted", [PATTERN_FOREIGN] = "foreign",
	};

	return names[kind];
}
