/*
 * copier.h - slices that are done by copying: small ones at once, others by a worker and whoever waits.
 *
 * The queue holds runs: consecutive slices of one peer, RUN_BYTES or one slice long. The lock is taken once a run.
 */
#ifndef TE_TRANSPORT_COPIER_H
#define TE_TRANSPORT_COPIER_H

#include <pthread.h>
#include <stdbool.h>

#include "transport/transport.h"

/* Copy those slices of the chain (all of one peer) whose status is 0; set it where that fails, and say why. */
typedef void te_copy_fn(struct te_peer *p, struct te_slice *list, struct te_err *why);

struct te_copier {
	const struct te_transport_env *env; /* constant, from here ... */
	te_copy_fn *copy;	/* ... to here */
	_Atomic uint32_t active; /* runs that are being copied from the queue */

	pthread_mutex_t lock;	/* everything below */
	pthread_cond_t wake;	/* the worker */
	struct te_slice *head, *tail;
	bool started, asleep, stop;
	pthread_t worker;
};

void te_copier_init(struct te_copier *c, const struct te_transport_env *env, te_copy_fn *copy);
/* Nothing is queued any more. */
void te_copier_clear(struct te_copier *c);

/* What te_transport_ops says of submit, help and abort. */
void te_copier_submit(struct te_copier *c, struct te_slice *list);
void te_copier_help(struct te_copier *c, const _Atomic uint32_t *pending, uint64_t until);
void te_copier_abort(struct te_copier *c, struct te_peer *p, int status, const struct te_err *why);

#endif
