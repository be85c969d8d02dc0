/*
 * task.h - work that may get stuck in the kernel (a silent target, a dead mount), in a process of its own.
 *
 * A thread would not do: one that the kernel holds keeps its whole process from ending.
 */
#ifndef TE_MOUNT_TASK_H
#define TE_MOUNT_TASK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "te_err.h"

struct limit {				/* until when, or until who, somebody waits */
	int64_t deadline_ms;		/* CLOCK_MONOTONIC */
	int stop;			/* a signalfd, or -1 */
};
int64_t limit_now_ms(void);
/* seconds from now; stop as above. */
struct limit limit_in(double seconds, int stop);
/* Milliseconds left, >= 0. */
int64_t limit_left_ms(const struct limit *l);
/* Sleeps for that long at most. 0, or -ETIMEDOUT, -EINTR (a signal): time to give up. */
int limit_pause(const struct limit *l, int ms);

struct task_ops {
	/* In the child: the standard files are /dev/null, all others closed, nothing may be logged. result is zeroed
	   and goes to the parent as bytes: no pointers. */
	void (*run)(const void *arg, void *result);
	/* NULL, or how the child takes back what it did when the parent has not waited for it. */
	void (*undo)(const void *arg, void *result);
	size_t size;			/* of the result */
};

struct task {
	pid_t pid;			/* 0: none runs */
	int fd;
	size_t size, have;
};
int task_start(struct task *t, const struct task_ops *ops, const void *arg, struct te_err *err);
/*
 * 0 and the result; -ETIMEDOUT or -EINTR as limit_pause(), -ECHILD: the child died. The task is over in each case: a child
 * that is late is interrupted, if the kernel lets it be, and left to itself.
 */
int task_wait(struct task *t, const struct limit *l, void *result);
/* Both. err only says why no child could be made. */
int task_run(const struct task_ops *ops, const void *arg, const struct limit *l, void *result,
	     struct te_err *err);

#endif
