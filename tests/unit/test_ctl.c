/* test_ctl.c - the control page: unregister against copying, dying, frozen and hostile processes.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "host/mem.h"
#include "slices.h"
#include "tap.h"
#include "transport/ctlpage.h"
#include "transport/ctlpeer.h"

enum { LEN = 1 << 20 };

static pid_t fork_child(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The page as another process would map it. */
static struct te_ctl_page *map_page(const struct te_desc *d)
{
	void *page;
	size_t len;

	return te_mem_map_peer(d->te.pid, d->te.ctl_fd, sizeof(struct te_ctl_page), &page, &len,
			       NULL)
		       ? NULL
		       : page;
}

/* ---- unregister against initiators at full speed ------------------------------------------ */

struct storm {
	struct te_desc desc;
	uint64_t addr;
	size_t len;				  /* of each WRITE */
	_Atomic uint64_t written, refused, other; /* shared by all processes */
};

static void *storm_thread(void *arg)
{
	struct storm *storm = arg;
	uint8_t *mine = malloc(storm->len);
	struct te_peer *p;
	struct side s;

	memset(mine, 0x55, storm->len);
	if (side_open(&s, &te_transport_shm, false) || side_peer(&s, "h", &storm->desc, &p, NULL))
		_exit(1);
	for (uint64_t i = 0;; i++) {
		int rc = transfer(&s, p, TE_WRITE, mine, storm->addr + i % 64 * 64, storm->len);

		atomic_fetch_add(!rc		 ? &storm->written
				 : rc == -EFAULT ? &storm->refused
						 : &storm->other,
				 1);
	}
	return NULL;
}

static pid_t storm_start(struct storm *storm, int threads)
{
	pid_t pid = fork_child();
	pthread_t th;

	if (pid)
		return pid;
	while (--threads > 0)
		pthread_create(&th, NULL, storm_thread, storm);
	storm_thread(storm);
	_exit(0);
}

/* Nobody may write after unregister: fill, look again and again. */
static bool stays(const uint8_t *p)
{
	memset((void *)(uintptr_t)p, 0xaa, LEN);
	for (int round = 0; round < 3; round++) {
		__asm__ volatile("" ::: "memory"); /* others write there, if we are wrong */
		for (size_t i = 0; i < LEN; i += 64)
			if (p[i] != 0xaa)
				return false;
	}
	return true;
}

static void until_more(const _Atomic uint64_t *count)
{
	uint64_t seen = atomic_load(count), end = te_now() + 5 * TE_NSEC_PER_SEC;

	while (atomic_load(count) < seen + 20 && te_now() < end)
		sched_yield();
}

static void storms(bool shared, size_t len, int processes, int threads, bool murder)
{
	struct storm *storm = mmap(NULL, sizeof(*storm), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int rounds = 0, torn = 0, busy = 0, fd = -1;
	pid_t pids[4] = { 0 };
	struct te_region *r;
	struct side s;
	void *p;

	side_open(&s, &te_transport_shm, true);
	if (shared)
		te_mem_shared(LEN, -1, false, "test", &p, &fd, NULL);
	else
		p = malloc(LEN);
	storm->desc = s.desc;
	storm->addr = (uintptr_t)p;
	storm->len = len;
	for (int i = 0; i < processes; i++)
		pids[i] = storm_start(storm, threads);
	for (uint64_t end = te_now() + TE_NSEC_PER_SEC; te_now() < end || rounds < 10; rounds++) {
		r = side_reg(&s, p, LEN, true, fd);
		until_more(&storm->written);
		if (murder)
			kill(pids[rounds % processes], SIGKILL);
		busy += side_unreg(&s, r, 2000) != 0;
		torn += !stays(p);
		until_more(&storm->refused);
		if (murder) {
			waitpid(pids[rounds % processes], NULL, 0);
			pids[rounds % processes] = storm_start(storm, threads);
		}
	}
	ok(!busy && !torn, "no write after unregister: %s, %zu bytes, %d processes, %d threads%s",
	   shared ? "shared" : "plain", len, processes, threads, murder ? ", killed in it" : "");
	ok(storm->written && storm->refused && !storm->other,
	   "%d rounds, %llu written, %llu refused", rounds, (unsigned long long)storm->written,
	   (unsigned long long)storm->refused);
	for (int i = 0; i < processes; i++)
		end_child(pids[i]);
	side_close(&s);
	munmap(storm, sizeof(*storm));
	if (shared) {
		munmap(p, LEN);
		close(fd);
	} else {
		free(p);
	}
}

/* ---- one initiator that holds a row and stops there --------------------------------------- */

static void hold_and_stop(const struct te_desc *desc, uint64_t addr)
{
	struct te_ctl_peer *p;
	struct te_ctl_seen *row;
	struct te_ctl_use use;

	if (te_ctl_peer_open(desc, &p, NULL) || te_ctl_use_begin(&use, p) ||
	    te_ctl_use_row(&use, addr, 1, &row))
		_exit(1);
	raise(SIGSTOP);
	te_ctl_use_end(&use);
	te_ctl_peer_close(p);
	_exit(0);
}

static pid_t holder(const struct side *s, const void *p)
{
	pid_t pid = fork_child();
	int status;

	if (!pid)
		hold_and_stop(&s->desc, (uintptr_t)p);
	waitpid(pid, &status, WUNTRACED);
	return WIFSTOPPED(status) ? pid : 0;
}

static void *resume_soon(void *arg)
{
	kill(*(pid_t *)arg, SIGCONT);
	return NULL;
}

static void frozen(void)
{
	struct te_region *r;
	struct te_ctl_peer *cp;
	struct side s;
	char *p = malloc(LEN);
	uint64_t start;
	pthread_t th;
	pid_t pid;

	side_open(&s, &te_transport_shm, true);
	r = side_reg(&s, p, LEN, true, -1);
	pid = holder(&s, p);
	ok(pid > 0, "an initiator is frozen in a copy");
	start = te_now();
	ok(side_unreg(&s, r, 50) == -EBUSY, "unregister is refused");
	ok(te_now() - start < 500 * TE_NSEC_PER_MSEC, "within its bound");
	ok(!te_ctl_peer_open(&s.desc, &cp, NULL) && te_ctl_peer_covers(cp, (uintptr_t)p, LEN),
	   "and the buffer is as before");
	te_ctl_peer_close(cp);
	pthread_create(&th, NULL, resume_soon, &pid);
	ok(side_unreg(&s, r, 5000) == 0, "once it goes on, unregister returns");
	pthread_join(th, NULL);
	waitpid(pid, NULL, 0);

	r = side_reg(&s, p, LEN, true, -1);
	pid = holder(&s, p);
	kill(pid, SIGKILL);
	waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	start = te_now();
	ok(side_unreg(&s, r, 5000) == 0, "a dead one, not yet reaped, does not count");
	ok(te_now() - start < 500 * TE_NSEC_PER_MSEC, "nor delay");
	waitpid(pid, NULL, 0);
	side_close(&s);
	free(p);
}

/* ---- hostile and forgotten hazards -------------------------------------------------------- */

static uint64_t dead_owner(void)
{
	pid_t pid = fork_child();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return (uint64_t)pid << 40 | 5;
}

static void hazards(void)
{
	uint64_t dead = dead_owner(), start, recycled = te_ctl_owner_self() ^ 1;
	struct te_ctl_page *page;
	struct te_ctl_peer *cp;
	struct te_ctl_use use, uses[TE_CTL_HAZARDS];
	struct te_region *r;
	struct side s;
	char *p = malloc(LEN);
	unsigned n = 0;

	side_open(&s, &te_transport_shm, true);
	page = map_page(&s.desc);
	te_ctl_peer_open(&s.desc, &cp, NULL);
	while (n < TE_CTL_HAZARDS && !te_ctl_use_begin(&uses[n], cp))
		n++;
	ok(n == TE_CTL_HAZARDS && te_ctl_use_begin(&use, cp) == -EBUSY, "a full table is said");
	while (n)
		te_ctl_use_end(&uses[--n]);

	r = side_reg(&s, p, LEN, true, -1);
	for (n = 0; n < TE_CTL_HAZARDS; n++) {
		atomic_store(&page->hazards[n].owner, n & 1 ? dead : recycled);
		atomic_store(&page->hazards[n].row[n % TE_CTL_HELD], 1);
	}
	ok(te_ctl_owner_is_dead(dead) && te_ctl_owner_is_dead(recycled) &&
		   !te_ctl_owner_is_dead(te_ctl_owner_self()),
	   "the dead are known, pids that were used again too");
	ok(!te_ctl_use_begin(&use, cp), "their hazards are taken over");
	te_ctl_use_end(&use);
	ok(side_unreg(&s, r, 3000) == 0, "a thousand of them do not hold up unregister");

	r = side_reg(&s, p, LEN, true, -1);
	memset((void *)page->hazards, 0xff, sizeof(page->hazards));
	ok(side_unreg(&s, r, 1000) == 0, "nor does garbage");
	r = side_reg(&s, p, LEN, true, -1);
	atomic_store(&page->hazards[7].owner, te_ctl_owner_self());
	atomic_store(&page->hazards[7].row[3], 1 | TE_CTL_WAITED);
	start = te_now();
	ok(side_unreg(&s, r, 60) == -EBUSY && te_now() - start < 500 * TE_NSEC_PER_MSEC,
	   "a lie delays it to its bound only");
	memset((void *)page->hazards, 0, sizeof(page->hazards));
	ok(side_unreg(&s, r, 1000) == 0, "and no longer");
	te_ctl_peer_close(cp);
	munmap(page, sizeof(*page));
	side_close(&s);
	free(p);
}

/* ---- hostile rows ------------------------------------------------------------------------- */

static void rows(void)
{
	struct te_ctl_page *page;
	struct te_ctl_peer *cp;
	struct te_ctl_seen *row;
	struct te_ctl_use use;
	struct te_region *r;
	struct side s;
	void *p;
	int fd;

	side_open(&s, &te_transport_shm, true);
	page = map_page(&s.desc);
	te_mem_shared(LEN, -1, false, "test", &p, &fd, NULL);
	r = side_reg(&s, p, LEN, true, fd);
	te_ctl_peer_open(&s.desc, &cp, NULL);
	ok(!te_ctl_use_begin(&use, cp) && !te_ctl_use_row(&use, (uintptr_t)p + 5, 7, &row) &&
		   te_ctl_use_map(&use, row, (uintptr_t)p + 5, 7),
	   "a row is mapped");
	te_ctl_use_end(&use);

	atomic_store(&page->rows, UINT32_MAX);
	atomic_store(&page->row[9].state, 1);
	atomic_store(&page->row[9].addr, UINT64_MAX - 10);
	atomic_store(&page->row[9].len, 100);
	atomic_store(&page->row[10].state, 1);
	atomic_store(&page->row[10].addr, 1 << 20);
	atomic_store(&page->row[10].len, 1 << 20);
	atomic_store(&page->row[10].memfd, fd);
	atomic_store(&page->row[10].memfd_offset, UINT64_MAX - 100);
	atomic_store(&page->row[11].state, 1);
	atomic_store(&page->row[11].addr, 3 << 20);
	atomic_store(&page->row[11].len, 1ull << 50);
	atomic_store(&page->row[11].memfd, fd);
	atomic_fetch_add(&page->generation, 1);
	ok(!te_ctl_peer_covers(cp, UINT64_MAX - 10, 5), "a row that wraps is none");
	ok(!te_ctl_use_begin(&use, cp) && !te_ctl_use_row(&use, 1 << 20, 200, &row) &&
		   !te_ctl_use_map(&use, row, 1 << 20, 200),
	   "an offset that wraps is not mapped");
	ok(!te_ctl_use_row(&use, (3ull << 20) + LEN - 1, 2, &row) &&
		   !te_ctl_use_map(&use, row, (3ull << 20) + LEN - 1, 2),
	   "nothing is mapped beyond the memory's end");
	te_ctl_use_end(&use);
	ok(side_unreg(&s, r, 100) == 0, "and the target does not care");
	te_ctl_peer_close(cp);
	munmap(page, sizeof(*page));
	side_close(&s);
	munmap(p, LEN);
	close(fd);
}

/* More buffers than a hazard can name, coming and going under a peer that has seen the old ones. */
static void many(void)
{
	enum { N = 10000 };
	struct te_region **r = calloc(N, sizeof(struct te_region *));
	struct te_ctl_peer *cp;
	char *p = malloc(N);
	struct side s;
	int bad = 0;

	side_open(&s, &te_transport_shm, true);
	te_ctl_peer_open(&s.desc, &cp, NULL);
	for (int i = 0; i < N; i++)
		bad += !(r[i] = side_reg(&s, p + i, 1, true, -1));
	ok(!bad, "%d buffers are registered", N);
	for (int i = 0; i < N; i++)
		bad += !te_ctl_peer_covers(cp, (uintptr_t)p + (uint64_t)(i * 7919ull % N), 1);
	ok(!bad, "all are seen by a peer that was there before");
	for (int i = 0; i < N; i += 2)
		bad += side_unreg(&s, r[i], 100);
	for (int i = 0; i < N; i++)
		bad += te_ctl_peer_covers(cp, (uintptr_t)p + (uint64_t)i, 1) != (i & 1);
	ok(!bad, "and half of them when the others are gone");
	for (int i = 1; i < N; i += 2)
		bad += side_unreg(&s, r[i], 100);
	r[0] = side_reg(&s, p, N, true, -1);
	ok(!bad && r[0]->page_slot < N && te_ctl_peer_covers(cp, (uintptr_t)p, N),
	   "rows are used again");
	te_ctl_peer_close(cp);
	side_close(&s);
	free(p);
	free(r);
}

int main(void)
{
	frozen();
	hazards();
	rows();
	many();
	storms(false, 64, 2, 2, false);
	storms(true, 64, 2, 2, false);
	storms(false, LEN / 2, 2, 1, false);
	storms(true, LEN / 2, 2, 1, false);
	storms(false, LEN / 2, 2, 2, true);
	storms(true, LEN / 2, 2, 2, true);
	return tap_end();
}
