/* gang.h - threads that all start together, again and again. */
#ifndef BENCH_GANG_H
#define BENCH_GANG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "te_err.h"

struct gang_member {
	struct gang *gang;
	pthread_t thread;
	void *arg;
};

struct gang {
	void (*work)(void *arg);	/* one round of one member */
	struct gang_member *members;
	size_t n;			/* threads that were started */
	pthread_mutex_t lock;		/* guards the rest; what one side writes before a round or its end, the other sees */
	pthread_cond_t go;
	unsigned round;
	size_t running;
	bool quit;
	int done;			/* eventfd, readable once all members have ended a round */
};

/* Member i runs work(args + i * size). */
int gang_open(struct gang *g, void (*work)(void *arg), void *args, size_t size, size_t n, struct te_err *err);
/* Between rounds only. */
void gang_close(struct gang *g);
void gang_start(struct gang *g);
/* Has the round ended? Takes the event. */
bool gang_ended(struct gang *g);

#endif
