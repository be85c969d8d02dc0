/*
 * binding.h - what the files of this module share: engines, arguments, the memory and the requests of a transfer.
 *
 * The GIL guards everything of an engine unless a comment says otherwise. Whatever may block runs without it, between
 * engine_enter() and engine_leave(). Functions that return PyObject * follow Python's rules.
 */
#ifndef TE_PY_BINDING_H
#define TE_PY_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "buddy.h"
#include "compat/compat.h"
#include "te.h"

struct engine;

struct state {			/* of the module */
	PyTypeObject *engine, *notify;
	PyObject *op[2];	/* TransferOpcode.READ, WRITE; by enum te_op */
	struct engine *engines;	/* those that are open */
	bool exiting;		/* the interpreter ends: no more of them */
};
struct state *state_of(PyObject *module);
/* Of the module that a type, or what it derives from, is of. NULL with an exception. */
PyObject *module_of(PyTypeObject *type);

enum { JOB_BUCKETS = 512 };

struct engine {
	PyObject_HEAD
	PyObject *module;
	struct state *state;
	struct engine *next, **prev;	/* in state->engines */

	struct te_engine *te;	/* NULL before initialize() and after the end */
	char *name;		/* of the segment */
	unsigned rpc_port;
	double timeout_s;
	pid_t pid;		/* whose engine it is: a fork's child has none of its threads */
	_Atomic bool closing;
	bool opening;

	pthread_mutex_t lock;	/* users */
	pthread_cond_t idle;
	unsigned users;		/* calls that have left the GIL */

	PyObject *segments;	/* dict: name -> id, opened once */
	struct job *jobs[JOB_BUCKETS];	/* submitted, and nobody has been told yet how they ended */
	struct registration *registrations;	/* by the program */
	struct buddy managed, scratch;	/* have locks of their own */
};

/* ---- args.c ------------------------------------------------------------------------------- */

enum { ARGS_MAX = 8 };
struct args {
	const char *call;	/* for messages */
	int required;
	const char *names[ARGS_MAX + 1];	/* in order, NULL after the last */
};
/* Positional and keyword arguments to their places; NULL where an optional one is absent. false: an exception is set. */
bool args_read(const struct args *a, PyObject *const *in, Py_ssize_t n, PyObject *kwnames,
	       PyObject **out);
/* A str without NUL inside; NULL with an exception. Lives as long as o. */
const char *arg_text(PyObject *o, const char *what);
/* An address or a length. What no 64 bits hold (negative ones) becomes UINT64_MAX, where there is never any memory.
   false: not an integer, TypeError. */
bool arg_u64(PyObject *o, const char *what, uint64_t *out);
/* Is o a number rather than memory? numpy's scalars are both. */
bool arg_is_number(PyObject *o);
/* A list or another sequence, but not text: its length, or -1 with an exception. */
Py_ssize_t arg_list(PyObject *o, const char *what);

/* ---- engine.c ----------------------------------------------------------------------------- */

extern PyType_Spec engine_spec;
/* NULL, with the reason in the log: not initialized, closed, or another process's. */
struct te_engine *engine_enter(struct engine *e, const char *call);
/* With or without the GIL. */
void engine_leave(struct engine *e);
void engine_close(struct engine *e);

PyObject *engine_initialize(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *engine_initialize_ext(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *engine_get_rpc_port(PyObject *self, PyObject *unused);
PyObject *engine_get_local_topology(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);

/* ---- methods.c: the table of methods with what help() shows */

extern PyMethodDef engine_methods[];
extern const char engine_doc[], notify_doc[], module_doc[];

/* ---- segment.c ---------------------------------------------------------------------------- */

/* Between enter and leave, with the GIL, which is let go where the segment is not known yet. An id, or negative errno
   with the reason in err. name: a str. -ECANCELED: an exception is set. */
int32_t segment_get(struct engine *e, PyObject *name, struct te_err *err);
PyObject *segment_first_buffer(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);

/* ---- copy.c ------------------------------------------------------------------------------- */

/* Copies whatever the addresses are worth: 0, or -EFAULT where there is no such memory, or it may not be written to. */
int copy_checked(uint64_t to, uint64_t from, uint64_t len);
/* Is there memory at every page of it? */
bool is_mapped(uint64_t addr, uint64_t len);

/* ---- source.c: the local side of a request */

struct source {
	uint64_t addr, len;	/* what was asked for, in bytes */
	enum te_op op;
	Py_buffer view;		/* view.obj NULL: an address */
	void *bounce;		/* scratch that stands for it */
	bool registered;	/* for this request only */
};
/* With the GIL. buffer: an address or an object. false: an exception is set. */
bool source_init(struct source *s, PyObject *buffer, enum te_op op);
/* Does the transfer need source_prepare() in any case? */
bool source_is_foreign(const struct source *s);
/* Memory of an object becomes usable as a source: registered, or through scratch. Where it is registered already, it is
   used as it is. Without the GIL. */
int source_prepare(struct engine *e, struct source *s, struct te_err *err);
/* What transfers work on. */
void *source_address(const struct source *s);
/* Nobody touches the memory any more. done: it was moved. Without the GIL. */
void source_finish(struct engine *e, struct source *s, bool done);
/* With the GIL. */
void source_clear(struct source *s);

/* ---- job.c: requests to one segment, from their arguments to their end */

struct job {
	struct job *next;	/* in its bucket */
	uint64_t batch;
	size_t n;
	struct te_request *req;
	struct source *src;
	PyObject *notify[2];	/* name and message, str; NULL: none */
	const char *notify_text[2];	/* of these, without NUL inside */
	struct te_request one_req;	/* n == 1 */
	struct source one_src;
};
/* Room for n requests; false: MemoryError is set. */
bool job_init(struct job *j, size_t n);
/* With the GIL: objects are let go, memory is freed; not j itself. */
void job_clear(struct job *j);
/* Without the GIL. Negative errno: nothing is in flight, the memory is quiet. */
int job_submit(struct engine *e, struct job *j, struct te_err *err);
/* Without the GIL: 0 ended well, 1 not yet, else negative errno of the first that failed. At most ms. */
int job_poll(struct engine *e, struct job *j, int ms, struct te_err *err);
/* The end of what job_poll() has said has ended (done: well), or of what shall not go on. Without the GIL: waits until the
   memory is quiet, at most limit_ms, and gives everything back. false: it is not quiet, flight_keep() what holds it. */
bool job_finish(struct engine *e, struct job *j, bool done, int limit_ms);
/* Longer than it takes any transport. */
int job_patience_ms(const struct engine *e);
/* With the GIL, for an engine that has closed. */
void job_forget_all(struct engine *e);

/* ---- run.c: jobs from a method's arguments to its result */

/* What a method was called with. */
struct call {
	const char *name;
	PyObject *target, *buffers, *addresses, *lengths;	/* lists, or one of each */
	PyObject *notify;	/* or NULL */
	enum te_op op;
	bool many;		/* lists */
};
/* 0, a code < 0, or an exception. */
PyObject *run_sync(struct engine *e, const struct call *c);
/* An id >= 1; on failure a code < 0, or 0 if asked for; or an exception. */
PyObject *run_async(struct engine *e, const struct call *c, bool zero_on_failure);
/* Waits for a job in flight, then it is over: 0 or negative errno; *raised: an exception is set and j is as before. */
int run_wait(struct engine *e, struct job *j, struct te_err *err, bool *quiet, bool *raised);

/* ---- transfer.c: the methods ---------------------------------------------------------------- */

/* Opcode of a TransferOpcode; false: TypeError is set. */
bool transfer_op(const struct engine *e, PyObject *o, enum te_op *out);
PyObject *transfer_sync(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *transfer_sync_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *transfer_sync_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *transfer_submit_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *transfer_submit_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *batch_sync(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *batch_sync_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *batch_sync_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *batch_async(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *batch_async_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *batch_async_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);

/* ---- flight.c: what was submitted, until it is told how it ended */

/* Takes j. Its id, >= 1. */
PyObject *flight_add(struct engine *e, struct job *j);
/* A copy of j holds its memory until the engine closes. */
void flight_keep(struct engine *e, const struct job *j);
PyObject *flight_check(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *flight_wait(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);

/* ---- memory.c ----------------------------------------------------------------------------- */

/* 0: of peers' too. */
extern const struct buddy_ops managed_ops, scratch_ops;
void registrations_clear(struct engine *e);
PyObject *memory_register(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *memory_unregister(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *memory_register_buffer(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *memory_deregister_buffer(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *memory_register_batch(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *memory_unregister_batch(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);

/* ---- managed.c ---------------------------------------------------------------------------- */

PyObject *managed_alloc(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *managed_free(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *managed_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);
PyObject *managed_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);

/* ---- notify.c ----------------------------------------------------------------------------- */

extern PyType_Spec notify_spec;
/* Name and message of a TransferNotify, new references; both NULL for None and for NULL. false: an exception is set. */
bool notify_take(struct engine *e, PyObject *notify, PyObject *texts[2]);
PyObject *notify_get(PyObject *self, PyObject *unused);
PyObject *notify_probe(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw);

#endif
