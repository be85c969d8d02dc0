/* gang.c - threads that all start together, again and again. */
#include "gang.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void end_round(struct gang *g)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&g->lock);
	if (--g->running == 0 && write(g->done, &one, sizeof(one)) < 0)
		abort(); /* an eventfd that is read each round cannot be full */
	pthread_mutex_unlock(&g->lock);
}

static void *run(void *arg)
{
	struct gang_member *m = arg;
	struct gang *g = m->gang;
	unsigned seen = 0;
	bool quit;

	for (;;) {
		pthread_mutex_lock(&g->lock);
		while (!g->quit && g->round == seen)
			pthread_cond_wait(&g->go, &g->lock);
		quit = g->quit;
		seen = g->round;
		pthread_mutex_unlock(&g->lock);
		if (quit)
			return NULL;
		g->work(m->arg);
		end_round(g);
	}
}

int gang_open(struct gang *g, void (*work)(void *arg), void *args, size_t size, size_t n,
	      struct te_err *err)
{
	int rc = 0;

	*g = (struct gang){ .work = work };
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->go, NULL);
	g->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (g->done < 0)
		rc = te_fail(err, -errno, "cannot make an eventfd: %s", strerror(errno));
	g->members = calloc(n, sizeof(*g->members));
	if (!rc && !g->members)
		rc = te_fail(err, -ENOMEM, "out of memory");
	while (!rc && g->n < n) {
		struct gang_member *m = &g->members[g->n];

		*m = (struct gang_member){ .gang = g, .arg = (char *)args + g->n * size };
		rc = pthread_create(&m->thread, NULL, run, m);
		if (rc)
			rc = te_fail(err, -rc, "cannot start thread %zu: %s", g->n + 1,
				     strerror(rc));
		else
			g->n++;
	}
	if (rc)
		gang_close(g);
	return rc;
}

void gang_close(struct gang *g)
{
	size_t i;

	if (!g->work)
		return;
	pthread_mutex_lock(&g->lock);
	g->quit = true;
	pthread_cond_broadcast(&g->go);
	pthread_mutex_unlock(&g->lock);
	for (i = 0; i < g->n; i++)
		pthread_join(g->members[i].thread, NULL);
	free(g->members);
	if (g->done >= 0)
		close(g->done);
	pthread_cond_destroy(&g->go);
	pthread_mutex_destroy(&g->lock);
	*g = (struct gang){ .done = -1 };
}

void gang_start(struct gang *g)
{
	pthread_mutex_lock(&g->lock);
	g->running = g->n;
	g->round++;
	pthread_cond_broadcast(&g->go);
	pthread_mutex_unlock(&g->lock);
}

bool gang_ended(struct gang *g)
{
	uint64_t count;
	bool ended;

	pthread_mutex_lock(&g->lock);
	ended = read(g->done, &count, sizeof(count)) > 0;
	pthread_mutex_unlock(&g->lock);
	return ended;
}
