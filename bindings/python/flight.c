/* flight.c - what was submitted, until the program has been told how it ended. */
#include <errno.h>
#include <stdlib.h>

#include "binding.h"

enum { DONE = 1, RUNNING = 0, FAILED = -1, TIMED_OUT = -2 }; /* as the documents say */

static struct job **place_of(struct engine *e, uint64_t id)
{
	struct job **at = &e->jobs[id % JOB_BUCKETS];

	while (*at && (*at)->batch != id)
		at = &(*at)->next;
	return at;
}

static void put_in(struct engine *e, struct job *j)
{
	struct job **at = &e->jobs[j->batch % JOB_BUCKETS];

	j->next = *at;
	*at = j;
}

PyObject *flight_add(struct engine *e, struct job *j)
{
	put_in(e, j);
	return PyLong_FromUnsignedLongLong(j->batch);
}

static struct job *take_out(struct engine *e, uint64_t id)
{
	struct job **at = place_of(e, id), *j = *at;

	if (j)
		*at = j->next;
	return j;
}

void flight_keep(struct engine *e, const struct job *j)
{
	struct job *copy = malloc(sizeof(*copy));

	te_info("memory of a transfer that has ended is still in use: it is kept");
	if (!copy) /* lost, which is better than used by others */
		return;
	*copy = *j;
	if (j->n <= 1) {
		copy->req = &copy->one_req;
		copy->src = &copy->one_src;
	}
	put_in(e, copy);
}

/* Out of the table already. */
static void end(struct engine *e, struct job *j, bool quiet)
{
	if (quiet)
		job_clear(j);
	else
		flight_keep(e, j);
	free(j);
}

/* One that failed is told once its memory is quiet. */
static bool still_in_use(struct engine *e, const struct job *j)
{
	return te_batch_drain(e->te, j->batch, 0) == -ETIMEDOUT;
}

static int unknown(uint64_t id, struct te_err *err)
{
	return te_fail(err, FAILED, "batch id %llu is unknown, or its end was told",
		       (unsigned long long)id);
}

static int check(struct engine *e, uint64_t id, struct te_err *err)
{
	struct job *j = *place_of(e, id);
	bool quiet;
	int r;
	PyThreadState *gil;

	if (!j)
		return unknown(id, err);
	r = job_poll(e, j, 0, err);
	if (r == 1 || (r < 0 && still_in_use(e, j)))
		return RUNNING;
	take_out(e, id);
	gil = PyEval_SaveThread();
	quiet = job_finish(e, j, !r, job_patience_ms(e));
	PyEval_RestoreThread(gil);
	end(e, j, quiet);
	return !r ? DONE : r == -ETIMEDOUT ? TIMED_OUT : FAILED;
}

PyObject *flight_check(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "transfer_check_status", 1, { "batch_id" } };
	struct engine *e = (struct engine *)self;
	struct te_err err = { 0 };
	PyObject *out[1];
	uint64_t id;
	int r;

	if (!args_read(&args, in, n, kw, out) || !arg_u64(out[0], "batch_id", &id))
		return NULL;
	if (!engine_enter(e, args.call))
		return PyLong_FromLong(FAILED);
	r = check(e, id, &err);
	engine_leave(e);
	if (r < 0)
		te_warn("%s: %s", args.call, err.msg);
	return PyLong_FromLong(r);
}

/* Out of the table already. 0 or negative errno; *raised: an exception is set. */
static int wait_for(struct engine *e, struct job *j, struct te_err *err, bool *raised)
{
	bool quiet = true;
	int r = run_wait(e, j, err, &quiet, raised);

	if (*raised)
		put_in(e, j);
	else
		end(e, j, quiet);
	return r;
}

/* One that failed does not end it, one that is unknown does: range(1 << 60) is a list of such. */
static int wait_for_all(struct engine *e, PyObject *ids, Py_ssize_t n, bool *raised)
{
	struct te_err err = { 0 };
	int bad = 0;

	for (Py_ssize_t i = 0; i < n && !*raised; i++) {
		PyObject *item = PySequence_GetItem(ids, i);
		struct job *j;
		uint64_t id = 0;

		*raised = !item || !arg_u64(item, "batch_ids", &id);
		Py_XDECREF(item);
		if (*raised)
			break;
		j = take_out(e, id);
		if (!j)
			unknown(id, &err);
		else if (!wait_for(e, j, &err, raised) || *raised)
			continue;
		te_warn("get_batch_transfer_status: %s", err.msg);
		bad = FAILED;
		if (!j)
			break;
	}
	return bad;
}

PyObject *flight_wait(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "get_batch_transfer_status", 1, { "batch_ids" } };
	struct engine *e = (struct engine *)self;
	bool raised = false;
	PyObject *out[1];
	Py_ssize_t many;
	int r;

	if (!args_read(&args, in, n, kw, out))
		return NULL;
	many = arg_list(out[0], "batch_ids");
	if (many < 0)
		return NULL;
	if (!engine_enter(e, args.call))
		return PyLong_FromLong(FAILED);
	r = wait_for_all(e, out[0], many, &raised);
	engine_leave(e);
	return raised ? NULL : PyLong_FromLong(r);
}
