/* ctlpeer.c - the initiator's side of a control page: a sorted view of its rows, and our hazards in
 * it. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "host/mem.h"
#include "te_err.h"
#include "te_segment.h"
#include "transport/ctlpeer.h"

/* A memfd of the target, mapped whole; counted by the rows of views that point to it. */
struct te_ctl_map {
	struct te_ctl_map *next;
	uint64_t ino;
	int memfd;
	void *addr; /* NULL: it could not be mapped */
	size_t len;
	unsigned refs;
};

struct te_ctl_view {
	_Atomic uint32_t refs;
	uint32_t generation; /* of the page, read before its rows */
	size_t n;
	struct te_ctl_seen row[]; /* by addr */
};

struct te_ctl_peer {
	struct te_ctl_page *page; /* constant, from here ... */
	size_t page_len;
	int pid;
	uint64_t owner, nonce, nonce_addr; /* ... to here */
	_Atomic uint32_t hint;		   /* where to look for a free hazard */

	pthread_rwlock_t lock; /* the pointer */
	struct te_ctl_view *view;
	pthread_mutex_t map_lock;
	struct te_ctl_map *maps;
};

/* ---- maps --------------------------------------------------------------------------------- */

/* Under map_lock. */
static void map_put(struct te_ctl_peer *p, struct te_ctl_map *m)
{
	struct te_ctl_map **at = &p->maps;

	if (!m || --m->refs)
		return;
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	if (m->addr)
		munmap(m->addr, m->len);
	free(m);
}

/* Under map_lock, the row in use: so the target cannot have closed its memfd. */
static struct te_ctl_map *map_get(struct te_ctl_peer *p, const struct te_ctl_seen *row)
{
	struct te_ctl_map *m;

	for (m = p->maps; m; m = m->next)
		if (m->memfd == row->memfd && m->ino == row->memfd_ino)
			break;
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return NULL;
		m->memfd = row->memfd;
		m->ino = row->memfd_ino;
		if (te_mem_map_peer(p->pid, row->memfd, 1, &m->addr, &m->len, NULL))
			m->addr = NULL;
		m->next = p->maps;
		p->maps = m;
	}
	m->refs++;
	return m;
}

void *te_ctl_use_map(struct te_ctl_use *u, struct te_ctl_seen *row, uint64_t addr, uint64_t len)
{
	struct te_ctl_map *m;
	uint64_t at;

	if (row->memfd < 0)
		return NULL;
	m = atomic_load_explicit(&row->map, memory_order_acquire);
	if (!m) {
		pthread_mutex_lock(&u->peer->map_lock);
		m = atomic_load_explicit(&row->map, memory_order_relaxed);
		if (!m)
			m = map_get(u->peer, row);
		atomic_store_explicit(&row->map, m, memory_order_release);
		pthread_mutex_unlock(&u->peer->map_lock);
	}
	at = row->memfd_offset + (addr - row->addr);
	if (!m || !m->addr || at < row->memfd_offset || at > m->len || len > m->len - at)
		return NULL;
	return (char *)m->addr + at;
}

/* ---- views -------------------------------------------------------------------------------- */

static void view_put(struct te_ctl_peer *p, struct te_ctl_view *v)
{
	if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1)
		return;
	pthread_mutex_lock(&p->map_lock);
	for (size_t i = 0; i < v->n; i++)
		map_put(p, atomic_load_explicit(&v->row[i].map, memory_order_relaxed));
	pthread_mutex_unlock(&p->map_lock);
	free(v);
}

static int by_addr(const void *x, const void *y)
{
	const struct te_ctl_seen *a = x, *b = y;

	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

/* Copy a row that does not change meanwhile. Nothing here is believed beyond its own bounds. */
static bool see(struct te_ctl_peer *p, uint32_t number, struct te_ctl_seen *out)
{
	struct te_ctl_row *r = &p->page->row[number];

	out->number = number;
	out->state = atomic_load_explicit(&r->state, memory_order_acquire);
	if (!(out->state & 1))
		return false;
	out->addr = atomic_load_explicit(&r->addr, memory_order_acquire);
	out->len = atomic_load_explicit(&r->len, memory_order_acquire);
	out->memfd_ino = atomic_load_explicit(&r->memfd_ino, memory_order_acquire);
	out->memfd_offset = atomic_load_explicit(&r->memfd_offset, memory_order_acquire);
	out->memfd = atomic_load_explicit(&r->memfd, memory_order_acquire);
	return out->len && !te_wraps(out->addr, out->len) &&
	       atomic_load_explicit(&r->state, memory_order_acquire) == out->state;
}

/* Under map_lock: rows that are the same as in the old view keep their maps. */
static void keep_maps(struct te_ctl_view *v, const struct te_ctl_view *old)
{
	size_t j = 0;

	for (size_t i = 0; i < v->n && old; i++) {
		struct te_ctl_map *m;

		while (j < old->n && old->row[j].addr < v->row[i].addr)
			j++;
		if (j == old->n || old->row[j].number != v->row[i].number ||
		    old->row[j].state != v->row[i].state)
			continue;
		m = atomic_load_explicit(&old->row[j].map, memory_order_relaxed);
		if (m)
			m->refs++;
		atomic_store_explicit(&v->row[i].map, m, memory_order_relaxed);
	}
}

static struct te_ctl_view *view_get(struct te_ctl_peer *p)
{
	struct te_ctl_view *v;

	pthread_rwlock_rdlock(&p->lock);
	v = p->view;
	atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
	pthread_rwlock_unlock(&p->lock);
	return v;
}

static int view_renew(struct te_ctl_peer *p)
{
	uint32_t generation = atomic_load(&p->page->generation);
	uint32_t rows = MIN(atomic_load(&p->page->rows), (uint32_t)TE_CTL_ROWS);
	struct te_ctl_view *v = calloc(1, sizeof(*v) + rows * sizeof(v->row[0])), *old;

	if (!v)
		return -ENOMEM;
	v->generation = generation;
	atomic_store_explicit(&v->refs, 1, memory_order_relaxed);
	for (uint32_t i = 0; i < rows; i++)
		if (see(p, i, &v->row[v->n]))
			v->n++;
	qsort(v->row, v->n, sizeof(v->row[0]), by_addr);

	pthread_rwlock_wrlock(&p->lock);
	old = p->view;
	pthread_mutex_lock(&p->map_lock);
	keep_maps(v, old);
	pthread_mutex_unlock(&p->map_lock);
	p->view = v;
	pthread_rwlock_unlock(&p->lock);
	view_put(p, old);
	return 0;
}

static bool seen_holds(const struct te_ctl_seen *r, uint64_t addr, uint64_t len)
{
	return addr >= r->addr && len <= r->len && addr - r->addr <= r->len - len;
}

static struct te_ctl_seen *view_find(struct te_ctl_view *v, uint64_t addr, uint64_t len)
{
	size_t low = 0, high = v->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (v->row[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low && seen_holds(&v->row[low - 1], addr, len) ? &v->row[low - 1] : NULL;
}

static bool view_is_stale(const struct te_ctl_peer *p, const struct te_ctl_view *v)
{
	return atomic_load(&p->page->generation) != v->generation;
}

static bool is_live(const struct te_ctl_peer *p, const struct te_ctl_seen *r)
{
	return atomic_load(&p->page->row[r->number].state) == r->state;
}

bool te_ctl_peer_covers(struct te_ctl_peer *p, uint64_t addr, uint64_t len)
{
	/* Twice: with the view that we have, and with a new one. */
	for (int i = 0; i < 2; i++) {
		struct te_ctl_seen *r;
		bool live, stale;

		pthread_rwlock_rdlock(&p->lock);
		r = view_find(p->view, addr, len);
		live = r && is_live(p, r);
		stale = !live && view_is_stale(p, p->view);
		pthread_rwlock_unlock(&p->lock);
		if (live || !stale || view_renew(p))
			return live;
	}
	return false;
}

void te_ctl_peer_count(struct te_ctl_peer *p, unsigned *rows, unsigned *mappable)
{
	struct te_ctl_view *v = view_get(p);

	*rows = (unsigned)v->n;
	*mappable = 0;
	for (size_t i = 0; i < v->n; i++)
		*mappable += v->row[i].memfd >= 0;
	view_put(p, v);
}

/* ---- use ---------------------------------------------------------------------------------- */

/* A free hazard becomes ours; failing that, one of a process that died with it. */
static struct te_ctl_hazard *claim(struct te_ctl_peer *p)
{
	uint32_t start = atomic_load_explicit(&p->hint, memory_order_relaxed);

	for (uint32_t i = 0; i < 2 * TE_CTL_HAZARDS; i++) {
		uint32_t at = (start + i) % TE_CTL_HAZARDS;
		struct te_ctl_hazard *h = &p->page->hazards[at];
		uint64_t owner = atomic_load_explicit(&h->owner, memory_order_relaxed);

		if (!owner ? atomic_compare_exchange_strong(&h->owner, &owner, p->owner)
			   : i >= TE_CTL_HAZARDS && te_ctl_owner_is_dead(owner) &&
				     te_ctl_hazard_take(h, owner, p->owner)) {
			atomic_store_explicit(&p->hint, at, memory_order_relaxed);
			return h;
		}
	}
	return NULL;
}

int te_ctl_use_begin(struct te_ctl_use *u, struct te_ctl_peer *p)
{
	u->hazard = claim(p);
	if (!u->hazard)
		return -EBUSY;
	u->peer = p;
	u->view = view_get(p);
	u->n = 0;
	return 0;
}

int te_ctl_use_row(struct te_ctl_use *u, uint64_t addr, uint64_t len, struct te_ctl_seen **out)
{
	struct te_ctl_seen *r;

	for (unsigned i = 0; i < u->n; i++)
		if (seen_holds(u->row[i], addr, len)) {
			*out = u->row[i];
			return 0;
		}
	r = view_find(u->view, addr, len);
	if (!r)
		return view_is_stale(u->peer, u->view) ? -EAGAIN : -EFAULT;
	if (u->n == TE_CTL_HELD)
		return -EAGAIN;
	/* Pairs with set_state() at the target, which looks at the hazards after it. */
	atomic_store(&u->hazard->row[u->n], r->number + 1);
	if (!is_live(u->peer, r)) {
		te_ctl_hazard_drop(u->hazard, u->n);
		return view_is_stale(u->peer, u->view) ? -EAGAIN : -EFAULT;
	}
	u->row[u->n++] = r;
	*out = r;
	return 0;
}

static void drop_all(struct te_ctl_use *u)
{
	while (u->n)
		te_ctl_hazard_drop(u->hazard, --u->n);
}

void te_ctl_use_renew(struct te_ctl_use *u)
{
	drop_all(u);
	if (!view_is_stale(u->peer, u->view) || view_renew(u->peer))
		return;
	view_put(u->peer, u->view);
	u->view = view_get(u->peer);
}

void te_ctl_use_end(struct te_ctl_use *u)
{
	drop_all(u);
	atomic_store_explicit(&u->hazard->owner, 0, memory_order_release);
	view_put(u->peer, u->view);
}

/* ---- open and close ----------------------------------------------------------------------- */

static int check_page(const struct te_ctl_page *page, const struct te_desc *desc,
		      struct te_err *err)
{
	if (page->magic != TE_CTL_MAGIC || page->version != TE_CTL_VERSION)
		return te_fail(err, -EOPNOTSUPP, "control page of pid %d has another format",
			       desc->te.pid);
	if (page->pid != desc->te.pid || !desc->te.token[0] ||
	    strncmp(page->token, desc->te.token, sizeof(page->token)) != 0)
		return te_fail(err, -EOPNOTSUPP, "control page of pid %d is another engine's",
			       desc->te.pid);
	if (atomic_load(&page->closed))
		return te_fail(err, -EOPNOTSUPP, "the engine in pid %d is closed", desc->te.pid);
	return 0;
}

static int check_desc(const struct te_desc *desc, struct te_err *err)
{
	char host[sizeof(desc->te.host)];

	if (!desc->te.present)
		return te_fail(err, -EOPNOTSUPP, "not a te engine");
	te_host_id(host, sizeof(host));
	if (strcmp(host, desc->te.host) != 0)
		return te_fail(err, -EOPNOTSUPP, "on another host");
	if (desc->te.pid <= 0 || desc->te.ctl_fd < 0)
		return te_fail(err, -EOPNOTSUPP, "it offers no control page");
	return 0;
}

static int map_page(struct te_ctl_peer *p, const struct te_desc *desc, struct te_err *err)
{
	void *page;
	int rc;

	if (te_mem_map_peer(desc->te.pid, desc->te.ctl_fd, sizeof(*p->page), &page, &p->page_len,
			    err)) {
		te_wrap(err, -EOPNOTSUPP, "control page of pid %d", desc->te.pid);
		if (err)
			err->code = -EOPNOTSUPP; /* whatever it was: not this way */
		return -EOPNOTSUPP;
	}
	p->page = page;
	rc = check_page(p->page, desc, err);
	if (rc)
		munmap(p->page, p->page_len);
	return rc;
}

int te_ctl_peer_open(const struct te_desc *desc, struct te_ctl_peer **out, struct te_err *err)
{
	struct te_ctl_peer *p;
	int rc = check_desc(desc, err);

	if (rc)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p)
		return te_fail(err, -ENOMEM, "no memory for a peer");
	p->pid = desc->te.pid;
	p->owner = te_ctl_owner_self();
	rc = p->owner ? map_page(p, desc, err)
		      : te_fail(err, -EOPNOTSUPP, "cannot read /proc/%d/stat", (int)getpid());
	if (rc)
		goto no_page;
	p->nonce = p->page->nonce;
	p->nonce_addr = p->page->self + offsetof(struct te_ctl_page, nonce);
	atomic_store(&p->hint, (uint32_t)getpid() * 37 % TE_CTL_HAZARDS);
	pthread_rwlock_init(&p->lock, NULL);
	pthread_mutex_init(&p->map_lock, NULL);
	rc = view_renew(p);
	if (!rc) {
		*out = p;
		return 0;
	}
	te_fail(err, rc, "no memory for a view of the control page");
	pthread_mutex_destroy(&p->map_lock);
	pthread_rwlock_destroy(&p->lock);
	munmap(p->page, p->page_len);
no_page:
	free(p);
	return rc;
}

void te_ctl_peer_close(struct te_ctl_peer *p)
{
	if (!p)
		return;
	view_put(p, p->view);
	pthread_mutex_destroy(&p->map_lock);
	pthread_rwlock_destroy(&p->lock);
	munmap(p->page, p->page_len);
	free(p);
}

int te_ctl_peer_pid(const struct te_ctl_peer *p)
{
	return p->pid;
}

uint64_t te_ctl_peer_nonce(const struct te_ctl_peer *p, uint64_t *addr)
{
	*addr = p->nonce_addr;
	return p->nonce;
}

bool te_ctl_peer_is_closed(const struct te_ctl_peer *p)
{
	return atomic_load_explicit(&p->page->closed, memory_order_relaxed);
}
