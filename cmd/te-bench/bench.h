/* bench.h - what the parts of te-bench share: options, segments, results. */
#ifndef BENCH_H
#define BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "cli.h"
#include "te.h"

/* ---- options.c: the command line ----------------------------------------------------------- */

enum bench_op { BENCH_READ, BENCH_WRITE, BENCH_MIXED, BENCH_BIDIR };
extern const char *const bench_op_names[];

enum { SWEEP_MAX = 64 };
struct sweep {
	uint64_t at[SWEEP_MAX];
	size_t n;
};

/* What --report-unit may be: bytes (or bits) a second divided by `bytes`. */
struct unit {
	const char *name;
	double bytes;
};

struct bench_options {
	struct cli cli;
	const char *segment_id;
	bool self;
	bool target;			/* --mode=target */
	enum bench_op op;
	const char *protocol;		/* "auto", "local", "shm", "tcp", "rdma", "nvmeof" */
	const char *device_name, *nic_priority_matrix;
	bool auto_discovery;
	uint64_t buffer_size;		/* bytes; 0: not given */
	struct sweep block, batch, threads;
	double duration;		/* seconds; of the three limits one is not 0 */
	uint64_t requests, bytes;
	double warmup;			/* seconds; < 0: not given */
	double rate;			/* requests a second; 0: as fast as they go */
	bool verify;
	uint64_t seed;
	const char *require;		/* --require-transport */
	bool sync;			/* WRITEs of files are durable when they complete */
	bool fill;			/* files, with the pattern of fill_seed, before anything is measured */
	uint64_t fill_seed;
	bool baseline;
	double interval;		/* seconds; 0: no progress */
	const char *csv, *plot;
	const struct unit *unit;
	unsigned precision;
	const char *pattern, *ready_file;	/* for --mode=target */
};

/* Parses and checks; ends the program on a usage error and on --help. */
void options_parse(struct bench_options *o, int argc, char **argv);
/* Bytes of memory for a target of our own: as asked, else four times what the largest case has in flight, at least
   64 MiB and at most 1 GiB. */
uint64_t options_memory(const struct bench_options *o);
/* The words for target_main() that say what these options say, NULL-terminated. */
enum { TARGET_ARGV_MAX = 24 };
struct target_argv {
	char *argv[TARGET_ARGV_MAX];
	int argc;
	bool failed;			/* memory was out */
};
void options_target_argv(const struct bench_options *o, struct target_argv *t);
void target_argv_add(struct target_argv *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void target_argv_clear(struct target_argv *t);

static inline bool bench_writes(enum bench_op op)
{
	return op != BENCH_READ;
}

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- self.c: the target of --self in a process of its own ----------------------------------- */

struct self {
	pid_t pid;			/* 0: none */
	int out;			/* its standard output */
	char *segment;			/* the name it is reached by */
};

/* Returns when it serves. -EINTR: a signal waits in `signals`. */
int self_start(struct self *self, const struct bench_options *o, int signals, struct te_err *err);
/* Ends and reaps it, whatever state it is in. */
void self_stop(struct self *self);

/* ---- session.c: engine and segments ---------------------------------------------------------- */

struct segment {
	const char *name;
	int32_t id;
	int32_t check_id;		/* the same segment in the checker */
	struct te_desc *desc;		/* of files: one buffer, the whole segment */
	struct te_desc *files;		/* of files: as published; else NULL */
	_Atomic bool failed;		/* its part of the run is over */
};

struct session {
	const struct bench_options *opt;
	struct te_conf conf;
	const char *store;
	int signals;			/* signalfd of SIGINT and SIGTERM */
	struct te_engine *engine;
	struct te_engine *checker;	/* reads back what was written; NULL when not needed. An engine
					   of its own, so that the measured one counts no read-back */
	char *names;			/* what the names of segments point into */
	struct segment *segments;
	size_t nsegments;
	void *own;			/* --protocol=local: our own segment's memory */
	char *matrix;			/* the file --nic-priority-matrix names */
	bool rdma;			/* bytes may go by rdma: then both engines must be reachable */
	bool files;			/* all segments are of files: a name is only for finding them */
	char *own_name, *checker_name;	/* under which, unless --local-server-name says; NULL: the engine chooses */
	struct self self;
	bool no_baseline;		/* --baseline found no limit for this transport, and has said so */
	bool interrupted;		/* by a signal, before anything was measured */
	_Atomic uint32_t epoch;		/* of verified writes, never the same twice; starts anywhere, so
					   that a run does not take an older one's bytes for its own */
};

/* Says itself on stderr what failed; returns an exit status. */
int session_open(struct session *s, const struct bench_options *opt, int signals);
void session_close(struct session *s);
size_t session_alive(const struct session *s);
/* Ends the segment's part of the run; the first reason is printed. */
void segment_fail(struct segment *g, const char *reason);
bool session_is_local(const struct session *s);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Registered for our own use only, and every page of it touched. */
int memory_get(struct te_engine *e, uint64_t len, void **out, struct te_err *err);
/* addr may be NULL. What a request that failed still holds stays until the engine closes. */
void memory_put(struct te_engine *e, void *addr);

/* ---- files.c: segments of files --------------------------------------------------------------- */

/* Makes one buffer of them all, since requests may cross from file to file. Not of files: does nothing. */
int files_join(struct segment *g, struct te_err *err);
/* Can a byte of each be read? What is wrong is known better before a run than in the middle of it. */
int files_check(struct session *s, struct segment *g, struct te_err *err);
/* Every byte of them becomes the pattern of READs. -EINTR: a signal has come. */
int files_fill(struct session *s, struct segment *g, struct te_err *err);
/* The file that holds byte `offset` of the segment, and where in it; NULL: not of files. */
const char *files_at(const struct segment *g, uint64_t offset, uint64_t *within);

/* ---- publish.c ------------------------------------------------------------------------------- */

/* RDMA needs two that can reach each other: an initiator of other transports publishes nothing. Sets s->rdma and the
   names; asks the store what the targets offer where that decides. */
int publish_choose(struct session *s, struct te_err *err);

/* ---- results: filled by case.c, printed by report_*.c ---------------------------------------- */

struct case_spec {
	enum bench_op op;
	uint64_t block, batch, threads;
};

struct latency {			/* microseconds */
	double min, avg, p50, p90, p99, p999, max;
};

struct case_result {
	struct case_spec spec;
	double seconds;			/* the measured part, without verification */
	uint64_t requests, bytes, batches, errors, retries;
	struct latency latency;
	bool verified;
	uint64_t checked_bytes, mismatches;
	bool has_baseline;
	double raw_bytes_per_second, ratio, q1, q3;
	double user, system;		/* CPU seconds of this process */
	struct te_path *paths;		/* what each carried during the case */
	size_t npaths;
};

struct run {				/* everything there is to report */
	const struct bench_options *opt;
	const struct session *session;
	int argc;
	char **argv;
	struct case_result *cases;
	size_t ncases, planned;
	bool interrupted;
};

static inline double per_second(uint64_t n, double seconds)
{
	return seconds > 0 ? (double)n / seconds : 0;
}

/* Measures one case. Returns 0 (also when requests failed: see errors), -EINTR when a signal ended it with a part
   measured, or another error that made it impossible, which is told in err. */
int case_run(struct session *s, const struct case_spec *spec, struct case_result *out,
	     struct te_err *err);
void case_result_clear(struct case_result *r);

/* ---- reports ----------------------------------------------------------------------------------- */

struct report_ops {
	void (*begin)(const struct run *run);
	void (*result)(const struct run *run, const struct case_result *r);	/* as each case ends */
	void (*end)(const struct run *run);
};
extern const struct report_ops report_text, report_json;

/* --csv: one row a case. */
struct csv;
int csv_open(const char *path, struct csv **out, struct te_err *err);
void csv_row(struct csv *c, const struct run *run, const struct case_result *r);
int csv_close(struct csv *c, struct te_err *err);

/* --plot: can it be drawn here? Asked before the run. */
int plot_check(const char *path, struct te_err *err);
int plot_write(const char *path, const struct run *run, struct te_err *err);

#endif
