/* crew.h - the threads of a case: streams of batches, in rounds that the main thread calls. */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <pthread.h>

#include "bench.h"
#include "gang.h"
#include "hist.h"
#include "slots.h"

/* A round: all threads start together, and each stops starting batches when a limit is reached. */
struct round {
	uint64_t ns;		/* 0: no limit */
	uint64_t tickets;	/* requests; UINT64_MAX: no limit */
	uint64_t last;		/* bytes of the last of them */
	bool counted;		/* false: warm-up, which leaves no trace in latencies */
};

struct round_result {		/* sums over all threads */
	double seconds;		/* without verification */
	uint64_t requests, bytes, batches, errors, checked_bytes, mismatches;
};

struct stream;
struct worker {			/* owned by its thread during a round, by the main thread between rounds */
	struct crew *crew;
	unsigned index;
	struct stream *streams;	/* `parts` for each segment, twice as many with bidir */
	size_t nstreams;
	struct hist latency;	/* ns */
	uint64_t end;		/* ns: its last completion, or when it ran out of segments */
	uint64_t verify_ns;	/* spent on filling and comparing */
	uint64_t verify_before_end;	/* the part of it that lies before end */
	struct round_result sum;
	_Atomic uint64_t live_requests, live_bytes;	/* relaxed: for progress only */
};

/* Where the writes of several threads would meet, one verifies at a time. */
struct lanes {
	pthread_mutex_t *locks;	/* NULL: they never meet */
	size_t n;
};

struct crew {
	struct session *session;
	struct case_spec spec;
	struct slots *slots;	/* two for each segment, by enum te_op */
	struct lanes *lanes;	/* one for each segment */
	void *memory;		/* te_alloc(): the streams' source blocks */
	void *back;		/* the checker's te_alloc(): what is read back */
	uint64_t area;		/* bytes of each that a stream owns */
	size_t room;		/* blocks in it */
	size_t parts;		/* batches that the requests of a thread to one segment are dealt out to */
	struct worker *workers;
	size_t nworkers;

	struct gang gang;
	struct round round;	/* written between rounds, as is begin */
	uint64_t begin;		/* ns */
	_Atomic uint64_t tickets;	/* taken in this round; relaxed */
	_Atomic bool stop;	/* a signal has come; relaxed */
	_Atomic bool unquiet;	/* a request that failed may still touch our memory; relaxed */
	_Atomic unsigned told;	/* mismatches printed; relaxed */
};

int crew_open(struct crew *c, struct session *s, const struct case_spec *spec, struct te_err *err);
void crew_close(struct crew *c);
/* Runs one round to its end. -EINTR when a signal cut it short (*out is filled as well). */
int crew_round(struct crew *c, const struct round *r, struct round_result *out);

void round_result_add(struct round_result *sum, const struct round_result *r);

/* ---- stream.c: one batch in flight ------------------------------------------------------------- */

struct stream {
	struct worker *worker;
	struct segment *segment;
	bool reads, writes;	/* both: alternating */
	unsigned turn;
	struct walk walk[2];	/* by enum te_op */
	struct stream *first;	/* whose walks this one goes on with: of a segment's streams of one kind the first */
	uint8_t *memory, *back;
	size_t depth;		/* requests in a full batch */
	pthread_mutex_t *lane;	/* NULL: nobody else writes there; held while busy */
	uint32_t epoch;		/* of the pattern; changes with each batch */

	bool busy;		/* a batch is in flight */
	bool dead;		/* its part of the run is over */
	uint64_t batch;
	size_t n;		/* requests in it */
	struct te_request *req;
	struct place *place;
	bool *ok;		/* which of them did well */
	struct te_status *status;
	uint64_t submitted, expected, usual;	/* ns: when, until about when, how long batches take */
};

int stream_open(struct stream *s, struct worker *w, struct segment *g, size_t index, struct te_err *err);
void stream_close(struct stream *s);
/* Submits up to n more requests, as many as tickets and the batch allow; returns how many. */
size_t stream_submit(struct stream *s, size_t n);
/* Has the batch ended? Waits up to timeout_ms. */
bool stream_wait(struct stream *s, int timeout_ms);
/* Counts, verifies and frees a batch that has ended. */
void stream_collect(struct stream *s);
/* Ends a batch before its time. */
void stream_abort(struct stream *s);

/* ---- verify.c ----------------------------------------------------------------------------------- */

/* Before requests [from, from + n) go out: what is written gets its pattern, what is read is spoiled. */
void verify_fill(struct stream *s, size_t from, size_t n);
/* Once the batch has ended: checks the requests that did well. Says on stderr what is wrong. */
void verify_batch(struct stream *s);

/* ---- worker.c ----------------------------------------------------------------------------------- */

/* The life of a thread in one round. */
void worker_round(struct worker *w);
/* Its round ends at `now`, as far as is known. */
void worker_ends(struct worker *w, uint64_t now);

static inline bool crew_stopped(const struct crew *c)
{
	return atomic_load_explicit(&c->stop, memory_order_relaxed);
}

/* Reads and writes of bidir have batches of their own. */
static inline size_t crew_ways(const struct crew *c)
{
	return c->spec.op == BENCH_BIDIR ? 2 : 1;
}

static inline size_t streams_per_segment(const struct crew *c)
{
	return c->parts * crew_ways(c);
}

#endif
