/* raw.h - the same work without an engine: what sockets, process_vm, memcpy and io_uring give here. */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include "bench.h"

enum raw_kind { RAW_TCP, RAW_VM, RAW_COPY, RAW_FILE };

struct raw_files;

struct raw_spec {
	enum raw_kind kind;
	enum bench_op op;
	uint64_t block;
	uint64_t requests;	/* in flight of all threads */
	unsigned lanes;		/* tcp: connections; else threads */
	uint64_t target_bytes;	/* memory that the work walks through */
	const struct raw_files *files;	/* RAW_FILE: instead of it */
};

struct raw;
int raw_open(const struct raw_spec *spec, struct raw **out, struct te_err *err);
/* Runs for about that long; bytes a second, or a negative errno. */
double raw_round(struct raw *r, double seconds, struct te_err *err);
void raw_close(struct raw *r);

/* raw_file.c: the files that the session's segments are here, cut into blocks. -EOPNOTSUPP: a plain loop has no way to
   read them so. */
int raw_files_open(const struct session *s, const struct case_spec *spec, struct raw_files **out,
		   struct te_err *err);
void raw_files_close(struct raw_files *f);

/* ---- between raw.c and raw_*.c ------------------------------------------------------------------ */

struct raw_lane {		/* a thread, and a process that serves it where one is needed */
	struct raw *raw;
	const struct raw_ops *ops;
	unsigned index;
	bool writes;		/* with mixed: turns */
	uint64_t piece;		/* bytes of a request of this lane */
	size_t depth;		/* requests in flight */
	uint8_t *source;	/* depth pieces */
	uint8_t *target;	/* this lane's share of the target memory, which its server sees too */
	uint64_t places, at;	/* pieces in it, and the next one's number */
	int fd;			/* tcp: to the server */
	pid_t server;		/* 0: none */
	const struct raw_files *files;	/* as in raw_spec */
	size_t lanes;		/* that share them */
	void *own;		/* of its ops */
	uint64_t bytes;		/* of this round */
	int error;		/* negative errno */
};

struct raw_ops {
	/* All optional but one of batch and round. */
	int (*open)(struct raw_lane *l, struct te_err *err);
	/* Moves depth pieces one way. 0 or negative errno. */
	int (*batch)(struct raw_lane *l, bool write);
	/* Moves until `until` (ns) and ends with nothing in flight; counts the bytes itself. */
	int (*round)(struct raw_lane *l, uint64_t until);
	void (*close)(struct raw_lane *l);
};
extern const struct raw_ops raw_tcp_ops, raw_vm_ops, raw_copy_ops, raw_file_ops;

/* Where the next piece lies. */
static inline uint8_t *raw_next(struct raw_lane *l)
{
	uint8_t *p = l->target + l->at * l->piece;

	if (++l->at == l->places)
		l->at = 0;
	return p;
}

/* Reads one batch and writes the next. */
bool raw_takes_turns(const struct raw_lane *l);
/* fork() for a server that makes system calls only; it ends with us. 0 in the child. */
pid_t raw_fork(void);
void raw_reap(pid_t *server);

#endif
