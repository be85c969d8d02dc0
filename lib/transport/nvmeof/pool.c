/* pool.c - reads and writes by threads that block in them: where there is no io_uring (containers
 * often forbid it), and by libcufile for the memory of GPUs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/cufile.h"
#include "transport/nvmeof/nvmeof.h"

enum { THREADS = 16 };

struct nv_pool {
	bool sync; /* WRITEs are durable when they complete */
	int event;
	pthread_mutex_t gpu_lock; /* making file->gpu */

	pthread_mutex_t lock; /* everything below */
	pthread_cond_t wake;
	struct nv_io *head, **tail, *done, **done_tail;
	bool stop;
	unsigned nthreads, idle, queued;
	pthread_t threads[THREADS];
};

static int gpu_handle(struct nv_pool *p, struct nv_file *f)
{
	struct te_err err;
	int r = 0;

	pthread_mutex_lock(&p->gpu_lock);
	if (!f->gpu)
		r = te_cufile_open(f->fd, &f->gpu, &err);
	pthread_mutex_unlock(&p->gpu_lock);
	if (r)
		te_warn("file '%s': %s", f->path, err.msg);
	return r;
}

static int32_t carry_out_gpu(struct nv_pool *p, const struct nv_io *io)
{
	int r = gpu_handle(p, io->file);

	if (!r)
		r = (int)te_cufile_io(io->file->gpu, io->write, io->buf, io->len, io->off);
	if (r >= 0 && io->write && p->sync && fdatasync(io->file->fd))
		r = -errno;
	return r;
}

static int32_t carry_out(const struct nv_pool *p, const struct nv_io *io)
{
	struct iovec v = { io->buf, io->len };
	bool write = nv_asks_write(io);
	ssize_t n = write ? pwritev2(nv_fd(io), &v, 1, (off_t)io->off, p->sync ? RWF_DSYNC : 0)
			  : preadv(nv_fd(io), &v, 1, (off_t)io->off);

	return n < 0 ? -errno : (int32_t)n;
}

static void finish(struct nv_pool *p, struct nv_io *io)
{
	bool first = !p->done;

	io->next = NULL;
	*p->done_tail = io;
	p->done_tail = &io->next;
	if (first)
		eventfd_write(p->event, 1);
}

static void *work(void *arg)
{
	struct nv_pool *p = arg;
	struct nv_io *io;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		io = p->head;
		if (!io) {
			p->idle++;
			pthread_cond_wait(&p->wake, &p->lock);
			p->idle--;
			continue;
		}
		p->head = io->next;
		if (!p->head)
			p->tail = &p->head;
		p->queued--;
		pthread_mutex_unlock(&p->lock);
		io->result = io->gpu ? carry_out_gpu(p, io) : carry_out(p, io);
		pthread_mutex_lock(&p->lock);
		finish(p, io);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

void nv_pool_start(struct nv_pool *p, struct nv_io *io)
{
	pthread_mutex_lock(&p->lock);
	/* Those that are idle may not have woken up yet for what was queued before. */
	if (p->queued >= p->idle && p->nthreads < THREADS &&
	    !te_thread_start(&p->threads[p->nthreads], "te-file-io", work, p))
		p->nthreads++;
	if (p->nthreads) {
		io->next = NULL;
		*p->tail = io;
		p->tail = &io->next;
		p->queued++;
	} else {
		io->result = -ENOMEM; /* no thread to be had */
		finish(p, io);
	}
	pthread_mutex_unlock(&p->lock);
	pthread_cond_signal(&p->wake);
}

struct nv_io *nv_pool_reap(struct nv_pool *p)
{
	struct nv_io *list;

	pthread_mutex_lock(&p->lock);
	list = p->done;
	p->done = NULL;
	p->done_tail = &p->done;
	pthread_mutex_unlock(&p->lock);
	return list;
}

int nv_pool_fd(const struct nv_pool *p)
{
	return p->event;
}

struct nv_pool *nv_pool_open(const struct te_conf *conf, struct te_err *err)
{
	struct nv_pool *p = calloc(1, sizeof(*p));

	if (!p) {
		te_fail(err, -ENOMEM, "out of memory");
		return NULL;
	}
	p->sync = conf->file_sync;
	p->tail = &p->head;
	p->done_tail = &p->done;
	pthread_mutex_init(&p->lock, NULL);
	pthread_mutex_init(&p->gpu_lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	p->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->event >= 0)
		return p;
	te_fail(err, -errno, "cannot make an eventfd: %s", strerror(errno));
	nv_pool_close(p);
	return NULL;
}

void nv_pool_close(struct nv_pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_mutex_unlock(&p->lock);
	pthread_cond_broadcast(&p->wake);
	for (unsigned i = 0; i < p->nthreads; i++)
		pthread_join(p->threads[i], NULL);
	if (p->event >= 0)
		close(p->event);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->gpu_lock);
	free(p);
}
