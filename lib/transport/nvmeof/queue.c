/*
 * queue.c - slices that wait, reads and writes in flight, and what comes back.
 *
 * Whoever submits also starts requests; whoever waits for a batch reaps them (nv_help), else the
 * transport's thread does, which also looks at the clock. A slice whose time is up while the kernel
 * has its memory ends for the program at once (sink->expired) and comes back when the kernel lets
 * go.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "transport/nvmeof/nvmeof.h"

/* te_slice.scratch: how many ios are out, and: */
#define ALL_CUT (1ull << 63) /* no more will be made */
#define STOPPED (1ull << 62) /* it is over: the kernel was told of what it has of it */
#define EXPIRED (1ull << 61) /* its time is up: so was the program */

/* ---- the queue: lock held ----------------------------------------------------------------- */

static void fail_slice(struct te_slice *s, int status, const struct te_err *why)
{
	if (s->status)
		return;
	s->status = status;
	nv_note(nv_peer_of(s), why);
}

/* All of it was cut, and nothing of it is out. */
static bool is_back(const struct te_slice *s)
{
	return (s->scratch & ~(STOPPED | EXPIRED)) == ALL_CUT;
}

/* The head needs no more ios. */
static void pop(struct nv_peer *p, struct nv_done *done)
{
	struct te_slice *s = p->head;

	p->head = s->next;
	if (!p->head)
		p->tail = &p->head;
	p->cursor = 0;
	s->scratch |= ALL_CUT;
	if (is_back(s))
		nv_done_add(done, s);
}

/* Must it not go on? Sets its status. */
static bool is_over(struct te_slice *s, uint64_t now)
{
	struct te_err why;

	if (!s->status && nv_peer_of(s)->abort_status)
		s->status = nv_peer_of(s)->abort_status;
	else if (s->cancelled && atomic_load_explicit(s->cancelled, memory_order_relaxed))
		fail_slice(s, te_fail(&why, -ECANCELED, "cancelled"), &why);
	else if (now >= s->deadline)
		fail_slice(s,
			   te_fail(&why, -ETIMEDOUT, "its time was over before it was begun: %s",
				   "earlier reads and writes have not ended"),
			   &why);
	return s->status != 0;
}

static bool is_for_ring(const struct nvmeof *t, const struct nv_io *io)
{
	return t->ring && !io->gpu && !io->pooled;
}

static void launch(struct nvmeof *t, struct nv_io *io)
{
	if (!is_for_ring(t, io))
		nv_pool_start(t->pool, io);
	else if (!nv_ring_start(t->ring, io)) {
		io->next = t->again;
		t->again = io;
	}
}

static void start(struct nvmeof *t, struct nv_io *io)
{
	struct nv_inode *i = io->file->inode;

	io->waits = nv_conflicts(io);
	if (io->waits) {
		io->next = NULL;
		*i->waiting_end = io;
		i->waiting_end = &io->next;
		return;
	}
	if (io->write)
		nv_begin_write(io);
	launch(t, io);
}

/* NULL: as many are out as may be. */
static struct nv_io *take_io(struct nv_peer *p)
{
	struct nv_io *io = p->free;

	if (p->inflight >= (p->t->ring ? NV_DEPTH : NV_POOL_DEPTH))
		return NULL;
	if (io)
		p->free = io->next;
	else
		io = &p->ios[p->nios++];
	p->inflight++;
	return io;
}

static void give_io(struct nv_peer *p, struct nv_io *io)
{
	io->slice = NULL;
	io->file = NULL;
	io->next = p->free;
	p->free = io;
	p->inflight--;
}

/* The next io of the head; false: there is no room for it now. */
static bool issue_one(struct nv_peer *p)
{
	struct te_slice *s = p->head;
	struct nv_io *io = take_io(p);
	struct te_err why;
	int64_t n;

	if (!io)
		return false;
	n = nv_cut(p->t, s, p->cursor, io, &why);
	if (n <= 0)
		give_io(p, io);
	if (n < 0)
		fail_slice(s, (int)n, &why);
	if (n <= 0)
		return n < 0;
	s->scratch++;
	p->cursor += (uint64_t)n;
	start(p->t, io);
	return true;
}

/* Cuts and starts as much as there is room for. */
static void issue(struct nv_peer *p, struct nv_done *done)
{
	uint64_t now = p->head ? te_now() : 0;

	while (p->head) {
		if (is_over(p->head, now) || p->cursor == p->head->len)
			pop(p, done);
		else if (!issue_one(p))
			return;
	}
}

/* This burst is about p. */
static void heat(struct nv_peer *p)
{
	if (p->hot)
		return;
	p->hot = true;
	p->next_hot = p->t->hot;
	p->t->hot = p;
}

static void start_again(struct nvmeof *t)
{
	struct nv_io *list = t->again;

	t->again = NULL;
	while (list) {
		struct nv_io *next = list->next;

		launch(t, list);
		list = next;
	}
}

static void start_waiting(struct nvmeof *t, struct nv_inode *i)
{
	struct nv_io **at = &i->waiting, *io;

	while ((io = *at)) {
		if (nv_conflicts(io)) {
			at = &io->next;
			continue;
		}
		*at = io->next;
		io->waits = false;
		nv_begin_write(io);
		launch(t, io);
	}
	i->waiting_end = at;
}

/* ---- what has come back: lock held -------------------------------------------------------- */

static void end_io(struct nvmeof *t, struct nv_io *io, struct nv_done *done)
{
	struct te_slice *s = io->slice;
	struct nv_peer *p = nv_peer_of(s);
	struct nv_file *f = io->file;
	uint32_t take = io->take;

	if (io->write && !io->waits)
		nv_end_write(io);
	if (f->inode->waiting)
		start_waiting(t, f->inode);
	nv_release(io);
	give_io(p, io);
	heat(p);
	s->scratch--;
	if (!s->status) {
		f->bytes += take;
		f->slices += is_back(s);
	}
	if (is_back(s))
		nv_done_add(done, s);
	nv_file_put(t, f);
}

static void complete(struct nvmeof *t, struct nv_io *io, struct nv_done *done)
{
	struct te_slice *s = io->slice;
	struct te_err why;
	int status;

	/* Not by us: the thread that submitted it has ended, or no more may be started for the
	 * kernel's work (ulimit -u): asked again, it would only say so again. */
	if (io->result == -ECANCELED && !(s->scratch & STOPPED)) {
		io->pooled = true;
		io->result = -EAGAIN;
	}
	if (nv_advance(t, io, &status, &why) && !(s->scratch & STOPPED)) {
		launch(t, io);
		return;
	}
	if (status)
		fail_slice(s, status, &why);
	end_io(t, io, done);
}

/* ---- bursts ------------------------------------------------------------------------------- */

static void begin(struct nvmeof *t, struct nv_done *done)
{
	nv_done_init(done);
	pthread_mutex_lock(&t->lock);
	t->burst++;
}

/* Unlocks. */
static void end(struct nvmeof *t, struct nv_done *done)
{
	struct nv_peer *p;

	start_again(t);
	while ((p = t->hot)) {
		t->hot = p->next_hot;
		p->hot = false;
		issue(p, done);
	}
	if (t->ring)
		nv_ring_flush(t->ring);
	nv_unlock(t);
	nv_deliver(t, done);
}

void nv_submit(struct te_peer *base, struct te_slice *list)
{
	struct nvmeof *t = container_of(base->transport, struct nvmeof, base);
	struct nv_peer *p = container_of(base, struct nv_peer, p);
	struct nv_done done;

	begin(t, &done);
	*p->tail = list;
	for (struct te_slice *s = list; s; s = s->next) {
		s->status = 0;
		s->scratch = 0;
		p->tail = &s->next;
	}
	heat(p);
	end(t, &done);
	if (atomic_load(&t->asleep) && atomic_exchange(&t->asleep, false))
		eventfd_write(t->wake, 1);
}

/* false: nothing had come back. */
static bool take_back(struct nvmeof *t, struct nv_io *list)
{
	struct nv_done done;

	if (!list)
		return false;
	begin(t, &done);
	while (list) {
		struct nv_io *next = list->next;

		complete(t, list, &done);
		list = next;
	}
	end(t, &done);
	return true;
}

/* driver held; false: nothing had come back. */
static bool drive(struct nvmeof *t)
{
	struct nv_back v[NV_REAP];
	unsigned n = nv_ring_reap(t->ring, v);
	struct nv_done done;

	if (!n)
		return false;
	begin(t, &done);
	for (unsigned i = 0; i < n; i++) {
		if (!v[i].io)
			continue;
		v[i].io->result = v[i].result;
		complete(t, v[i].io, &done);
	}
	end(t, &done);
	return true;
}

void nv_help(struct te_peer *base, struct te_slice *s, const _Atomic uint32_t *pending,
	     uint64_t until)
{
	struct nvmeof *t = container_of(base->transport, struct nvmeof, base);

	if (!t->ring || nv_is_gpu(s->region) || pthread_mutex_trylock(&t->driver))
		return;
	nv_ring_mute(t->ring, true);
	while (atomic_load_explicit(pending, memory_order_acquire) &&
	       atomic_load_explicit(&s->lent, memory_order_acquire)) {
		uint64_t now = te_now();

		if (now >= until)
			break;
		if (!drive(t))
			nv_ring_wait(t->ring,
				     MIN(until, now + NV_TICK_MS * (uint64_t)TE_NSEC_PER_MSEC));
	}
	nv_ring_mute(t->ring, false);
	drive(t);
	pthread_mutex_unlock(&t->driver);
	/* The thread was not told of it, or found us driving. */
	if (nv_ring_is_ready(t->ring))
		eventfd_write(t->wake, 1);
}

void nv_abort(struct te_peer *base, int status, const struct te_err *why)
{
	struct nvmeof *t = container_of(base->transport, struct nvmeof, base);
	struct nv_peer *p = container_of(base, struct nv_peer, p);
	struct nv_done done;

	begin(t, &done);
	p->abort_status = status;
	nv_note(p, why);
	heat(p);
	end(t, &done);
}

/* ---- the clock: lock held ----------------------------------------------------------------- */

static void unqueue_waiting(struct nv_io *io)
{
	struct nv_inode *i = io->file->inode;
	struct nv_io **at = &i->waiting;

	while (*at != io)
		at = &(*at)->next;
	*at = io->next;
	if (!io->next)
		i->waiting_end = at;
}

/* The kernel holds the memory of a slice that is over: the program learns that much. */
static void expire(struct nvmeof *t, struct nv_io *io)
{
	struct te_slice *s = io->slice;
	struct te_err why;

	s->scratch |= STOPPED | EXPIRED;
	te_fail(&why, -ETIMEDOUT,
		"file '%s': %s of %u bytes at %llu: the kernel has not ended it in time and still "
		"holds the memory",
		io->file->path, io->write ? "WRITE" : "READ", io->take,
		(unsigned long long)io->from);
	if (!s->status)
		s->status = -ETIMEDOUT;
	io->file->ill = true;
	t->base.env->sink->expired(t->base.env->sink, s, &why);
}

static void stop(struct nvmeof *t, struct nv_io *io, uint64_t now, struct nv_done *done)
{
	struct te_slice *s = io->slice;

	if (now >= s->deadline && !(s->scratch & EXPIRED))
		expire(t, io);
	else if (!(s->scratch & STOPPED) && is_over(s, now))
		s->scratch |= STOPPED;
	if (!(s->scratch & STOPPED))
		return;
	if (io->waits) {
		unqueue_waiting(io);
		end_io(t, io, done);
	} else if (!io->told && is_for_ring(t, io)) {
		io->told = true;
		nv_ring_cancel(t->ring, io);
	}
}

/* Slices that have not begun, wherever they stand in the queue. */
static void drop_queued(struct nv_peer *p, uint64_t now, struct nv_done *done)
{
	struct te_slice **at = &p->head, *s;

	while (p->head && is_over(p->head, now))
		pop(p, done);
	while ((s = *at)) {
		if (s == p->head || !is_over(s, now)) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		nv_done_add(done, s);
	}
	p->tail = at;
}

/* true: there is something to look after. */
static bool tick(struct nvmeof *t)
{
	uint64_t now = te_now();
	struct nv_done done;
	bool busy = false;

	begin(t, &done);
	for (struct nv_peer *p = t->peers; p; p = p->next) {
		drop_queued(p, now, &done);
		for (uint32_t i = 0; i < p->nios && p->inflight; i++)
			if (p->ios[i].slice)
				stop(t, &p->ios[i], now, &done);
		busy |= p->head || p->inflight;
		if (p->head)
			heat(p);
	}
	end(t, &done);
	return busy;
}

/* ---- the thread --------------------------------------------------------------------------- */

void *nv_main(void *arg)
{
	struct nvmeof *t = arg;
	struct pollfd fds[3] = {
		{ .fd = t->wake, .events = POLLIN },
		{ .fd = nv_pool_fd(t->pool), .events = POLLIN },
		{ .fd = t->ring ? nv_ring_fd(t->ring) : -1, .events = POLLIN },
	};
	uint64_t ticked = 0;
	bool busy = false, more = false;

	while (!atomic_load(&t->stop)) {
		eventfd_t count;

		if (te_now() - ticked >= NV_TICK_MS * (uint64_t)TE_NSEC_PER_MSEC) {
			ticked = te_now();
			busy = tick(t);
		}
		if (!busy) { /* whoever brings work from now on wakes us */
			atomic_store(&t->asleep, true);
			busy = tick(t);
		}
		poll(fds, 3, more ? 0 : busy ? NV_TICK_MS : -1);
		atomic_store(&t->asleep, false);
		for (int i = 0; i < 3; i++)
			if (fds[i].revents & POLLIN) {
				eventfd_read(fds[i].fd, &count);
				busy = true;
			}
		more = take_back(t, nv_pool_reap(t->pool));
		if (t->ring && !pthread_mutex_trylock(&t->driver)) {
			more |= drive(t);
			pthread_mutex_unlock(&t->driver);
		}
	}
	return NULL;
}

/* ---- open and close ----------------------------------------------------------------------- */

#define IOS_BYTES (NV_DEPTH * sizeof(struct nv_io))

/* Pages that are never used cost nothing. */
int nv_queue_init(struct nv_peer *p, struct te_err *err)
{
	char *at = mmap(NULL, IOS_BYTES + (size_t)NV_BOUNCES * NV_BOUNCE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return te_fail(err, -ENOMEM, "out of memory");
	p->bounces = at;
	p->ios = (struct nv_io *)(void *)(at + (size_t)NV_BOUNCES * NV_BOUNCE);
	for (unsigned i = NV_BOUNCES; i-- > 0;)
		p->bounce_free[p->nbounce++] = (uint16_t)i;
	p->tail = &p->head;
	return 0;
}

void nv_queue_clear(struct nv_peer *p)
{
	if (p->bounces)
		munmap(p->bounces, IOS_BYTES + (size_t)NV_BOUNCES * NV_BOUNCE);
}
