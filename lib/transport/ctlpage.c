/* ctlpage.c - the target's side of the control page: rows come, and go once nobody copies there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "host/mem.h"
#include "te_err.h"
#include "transport/ctlpage.h"
#include "transport/region.h"

enum {
	OWNER_START_BITS = 40, /* clock ticks since boot: 348 years */
	RECHECK_MS = 5,	       /* how often a waiter looks whether the owner still lives */
};

struct te_ctl {
	struct te_ctl_page *page;
	int fd;
	pthread_mutex_t lock; /* everything below */
	uint32_t nrows;	      /* rows in use lie below */
	uint32_t nfree, cap_free;
	uint32_t *free_rows;
	uint32_t *state; /* of each row below nrows: the page's copy may have been written by others
			  */
	uint32_t cap_state;
};

/* ---- owners ------------------------------------------------------------------------------- */

struct proc_stat {
	char state;
	uint64_t threads, start;
};

/* Field n (the state is 3) of the text behind the command's name, proc(5). */
static const char *stat_field(const char *text, int n)
{
	for (int i = 3; i < n && text; i++) {
		text = strchr(text, ' ');
		if (text)
			text++;
	}
	return text;
}

static bool read_stat(pid_t pid, struct proc_stat *out)
{
	char path[32], text[1024];
	const char *p, *threads, *start;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	p = strrchr(text, ')'); /* the name may hold anything */
	if (!p || strlen(p) < 3)
		return false;
	p += 2;
	threads = stat_field(p, 20);
	start = stat_field(p, 22);
	if (!threads || !start)
		return false;
	out->state = *p;
	out->threads = strtoull(threads, NULL, 10);
	out->start = strtoull(start, NULL, 10);
	return true;
}

static uint64_t owner_word(pid_t pid, uint64_t start)
{
	return (uint64_t)pid << OWNER_START_BITS | (start & ((1ull << OWNER_START_BITS) - 1));
}

uint64_t te_ctl_owner_self(void)
{
	struct proc_stat st = { 0 };

	read_stat(getpid(), &st);
	return owner_word(getpid(), st.start);
}

bool te_ctl_owner_is_dead(uint64_t owner)
{
	pid_t pid = (pid_t)(owner >> OWNER_START_BITS);
	struct proc_stat st;

	if (!pid || (kill(pid, 0) && errno == ESRCH))
		return true;
	if (!read_stat(pid, &st))
		return false; /* when in doubt it lives: hidepid, no file descriptors left */
	if (owner_word(pid, st.start) != owner)
		return true;
	/* A zombie is dead, unless only its first thread has ended. */
	return strchr("ZXx", st.state) && st.threads <= 1;
}

/* ---- hazards ------------------------------------------------------------------------------ */

bool te_ctl_hazard_take(struct te_ctl_hazard *h, uint64_t owner, uint64_t new_owner)
{
	if (!atomic_compare_exchange_strong(&h->owner, &owner, new_owner))
		return false;
	for (unsigned k = 0; k < TE_CTL_HELD; k++)
		te_ctl_hazard_drop(h, k);
	return true;
}

void te_ctl_hazard_drop(struct te_ctl_hazard *h, unsigned k)
{
	/* Pairs with the load in wait_slot(): what was copied is there before the hazard is gone.
	 */
	if (atomic_exchange(&h->row[k], 0) & TE_CTL_WAITED)
		syscall(SYS_futex, &h->row[k], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_on(_Atomic uint32_t *word, uint32_t seen, uint64_t until)
{
	uint64_t now = te_now(), left = until > now ? until - now : 0;
	struct timespec ts = { .tv_nsec =
				       (long)MIN(left, RECHECK_MS * (uint64_t)TE_NSEC_PER_MSEC) };

	syscall(SYS_futex, word, FUTEX_WAIT, seen, &ts, NULL, 0); /* not private: others wake */
}

/* Wait until slot k of h does not name `row` (number + 1) for a living process. */
static int wait_slot(struct te_ctl_hazard *h, unsigned k, uint32_t row, uint64_t until)
{
	uint32_t v;

	while (((v = atomic_load(&h->row[k])) & ~TE_CTL_WAITED) == row) {
		uint64_t owner = atomic_load(&h->owner);

		/* An owner that comes later sees the row dead: then this slot does not matter. */
		if (te_ctl_owner_is_dead(owner) && atomic_load(&h->row[k]) == v)
			return 0;
		if (te_now() >= until)
			return -EBUSY;
		if (v & TE_CTL_WAITED)
			sleep_on(&h->row[k], v, until);
		else if (atomic_compare_exchange_strong(&h->row[k], &v, v | TE_CTL_WAITED))
			sleep_on(&h->row[k], v | TE_CTL_WAITED, until);
	}
	return 0;
}

static int wait_row(struct te_ctl_page *page, uint32_t row, uint64_t until)
{
	for (unsigned i = 0; i < TE_CTL_HAZARDS; i++) {
		struct te_ctl_hazard *h = &page->hazards[i];

		for (unsigned k = 0; k < TE_CTL_HELD; k++)
			if (wait_slot(h, k, row, until))
				return -EBUSY;
	}
	return 0;
}

/* ---- rows --------------------------------------------------------------------------------- */

int te_ctl_new(const char *token, struct te_ctl **out, struct te_err *err)
{
	struct te_ctl *c = calloc(1, sizeof(*c));
	void *page;
	int rc;

	if (!c)
		return te_fail(err, -ENOMEM, "no memory for a control page");
	rc = te_mem_shared(sizeof(*c->page), -1, false, "te-control", &page, &c->fd, err);
	if (rc) {
		free(c);
		return rc;
	}
	c->page = page;
	c->page->version = TE_CTL_VERSION;
	c->page->pid = getpid();
	te_strlcpy(c->page->token, token, sizeof(c->page->token));
	c->page->self = (uintptr_t)page;
	te_random(&c->page->nonce, sizeof(c->page->nonce));
	c->page->magic = TE_CTL_MAGIC;
	pthread_mutex_init(&c->lock, NULL);
	*out = c;
	return 0;
}

void te_ctl_free(struct te_ctl *c)
{
	if (!c)
		return;
	atomic_store(&c->page->closed, 1);
	pthread_mutex_destroy(&c->lock);
	munmap(c->page, sizeof(*c->page));
	close(c->fd);
	free(c->free_rows);
	free(c->state);
	free(c);
}

int te_ctl_fd(const struct te_ctl *c)
{
	return c->fd;
}

/* Room for n numbers; false: no memory. */
static bool room(uint32_t **v, uint32_t *cap, uint32_t n)
{
	uint32_t more = *cap ? *cap * 2 : 64;
	uint32_t *w;

	if (n <= *cap)
		return true;
	w = reallocarray(*v, more, sizeof(*w));
	if (!w)
		return false;
	*v = w;
	*cap = more;
	return true;
}

/* Under the lock. Room to give the row back is made here, where failing is easy. */
static int take_row(struct te_ctl *c, uint32_t *row, struct te_err *err)
{
	if (c->nfree) {
		*row = c->free_rows[--c->nfree];
		return 0;
	}
	if (c->nrows == TE_CTL_ROWS)
		return te_fail(err, -ENOSPC, "more than %d buffers that peers may reach",
			       TE_CTL_ROWS);
	if (!room(&c->free_rows, &c->cap_free, c->nrows + 1) ||
	    !room(&c->state, &c->cap_state, c->nrows + 1))
		return te_fail(err, -ENOMEM, "no memory for the control page's rows");
	*row = c->nrows++;
	c->state[*row] = 0;
	return 0;
}

static void set_state(struct te_ctl *c, uint32_t row, uint32_t state)
{
	/* Pairs with the load behind the hazard in te_ctl_use_row(): one of the two sees the other.
	 */
	atomic_store(&c->page->row[row].state, state);
	atomic_fetch_add(&c->page->generation, 1);
}

int te_ctl_add(struct te_ctl *c, struct te_region *r, struct te_err *err)
{
	struct te_ctl_row *to;
	struct stat st = { 0 };
	uint32_t row = 0;
	int rc;

	if (r->memfd >= 0 && fstat(r->memfd, &st))
		return te_fail(err, -errno, "cannot look at memfd %d: %s", r->memfd,
			       strerror(errno));
	pthread_mutex_lock(&c->lock);
	rc = take_row(c, &row, err);
	if (!rc) {
		to = &c->page->row[row];
		/* Released: who reads one of these also sees that the row was not live then. */
		atomic_store_explicit(&to->addr, r->addr, memory_order_release);
		atomic_store_explicit(&to->len, r->len, memory_order_release);
		atomic_store_explicit(&to->memfd_ino, st.st_ino, memory_order_release);
		atomic_store_explicit(&to->memfd_offset, r->memfd_offset, memory_order_release);
		atomic_store_explicit(&to->memfd, r->memfd, memory_order_release);
		atomic_store_explicit(&c->page->rows, c->nrows, memory_order_release);
		set_state(c, row, ++c->state[row]);
		r->page_slot = (int)row;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int te_ctl_remove(struct te_ctl *c, const struct te_region *r, uint64_t until)
{
	uint32_t row = (uint32_t)r->page_slot, state;
	int rc;

	pthread_mutex_lock(&c->lock);
	state = c->state[row];
	set_state(c, row, state + 1);
	pthread_mutex_unlock(&c->lock);

	rc = wait_row(c->page, row + 1, until);

	pthread_mutex_lock(&c->lock);
	if (rc) {
		set_state(c, row, state);
	} else {
		c->state[row] = state + 1;
		c->free_rows[c->nfree++] = row;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}
