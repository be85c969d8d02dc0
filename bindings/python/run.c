/* run.c - transfers from a method's arguments to its result. */
#include <errno.h>
#include <stdlib.h>

#include "binding.h"

enum {
	SLICE_MS = 100,	      /* of a wait, between looks at signals and at the end of the engine */
	INTERRUPTED_MS = 500, /* how long who presses Ctrl-C has to wait for quiet memory */
};

/* ---- arguments ---------------------------------------------------------------------------- */

static bool fill(struct job *j, size_t i, PyObject *buffer, PyObject *address, PyObject *length,
		 enum te_op op, struct te_err *err)
{
	struct te_request *q = &j->req[i];
	struct source *s = &j->src[i];

	q->op = op;
	if (!source_init(s, buffer, op) || !arg_u64(address, "peer_buffer_address", &q->offset) ||
	    !arg_u64(length, "length", &q->length))
		return false;
	s->len = q->length;
	if (s->view.obj && s->len > (uint64_t)s->view.len)
		te_fail(err, -EINVAL, "length %llu is more than the %zd bytes of the buffer",
			(unsigned long long)s->len, s->view.len);
	else if (s->len && !s->addr)
		te_fail(err, -EFAULT, "the buffer's address is 0");
	return true;
}

static bool fill_from_lists(struct job *j, size_t i, const struct call *c, struct te_err *err)
{
	PyObject *buffer = PySequence_GetItem(c->buffers, (Py_ssize_t)i);
	PyObject *address = PySequence_GetItem(c->addresses, (Py_ssize_t)i);
	PyObject *length = PySequence_GetItem(c->lengths, (Py_ssize_t)i);
	bool good = buffer && address && length && fill(j, i, buffer, address, length, c->op, err);

	Py_XDECREF(buffer);
	Py_XDECREF(address);
	Py_XDECREF(length);
	return good;
}

/* How many requests; -1 with an exception, or with err. */
static Py_ssize_t count(const struct call *c, struct te_err *err)
{
	Py_ssize_t n = c->many ? arg_list(c->buffers, "buffers") : 1;

	if (n < 0 || !c->many)
		return n;
	for (int i = 0; i < 2; i++) {
		Py_ssize_t m = arg_list(i ? c->lengths : c->addresses,
					i ? "lengths" : "peer_buffer_addresses");

		if (m < 0)
			return -1;
		if (m != n && !err->code)
			te_fail(err, -EINVAL, "%zd buffers, %zd %s", n, m,
				i ? "lengths" : "addresses");
	}
	return err->code ? -1 : n;
}

/* false: an exception is set, or err is; j is as if it had not been. */
static bool read_job(struct engine *e, const struct call *c, struct job *j, struct te_err *err)
{
	Py_ssize_t n = count(c, err);
	bool good = n >= 0 && arg_text(c->target, "target_hostname");

	if (!good || !job_init(j, (size_t)n))
		return false;
	for (size_t i = 0; i < (size_t)n && good; i++)
		good = c->many ? fill_from_lists(j, i, c, err)
			       : fill(j, i, c->buffers, c->addresses, c->lengths, c->op, err);
	good = good && notify_take(e, c->notify, j->notify);
	for (int i = 0; i < 2 && good && j->notify[i]; i++)
		good = (j->notify_text[i] = arg_text(j->notify[i], "notify")) != NULL;
	if (good && !err->code)
		return true;
	job_clear(j);
	return false;
}

/* ---- to the end --------------------------------------------------------------------------- */

static int aim(struct engine *e, const struct call *c, struct job *j, struct te_err *err)
{
	int32_t id = segment_get(e, c->target, err);

	for (size_t i = 0; i < j->n && id >= 0; i++)
		j->req[i].target = id;
	return id < 0 ? id : 0;
}

/* Without the GIL. 1: not yet. */
static int step(struct engine *e, struct job *j, struct te_err *err, bool *quiet)
{
	int r = job_poll(e, j, SLICE_MS, err);

	if (r == 1 && atomic_load(&e->closing)) {
		/* Which waits for the memory more quickly than we could. */
		*quiet = false;
		return te_fail(err, -ECANCELED, "the engine is closing");
	}
	if (r != 1)
		*quiet = job_finish(e, j, !r, job_patience_ms(e));
	return r;
}

int run_wait(struct engine *e, struct job *j, struct te_err *err, bool *quiet, bool *raised)
{
	int r;
	PyThreadState *gil;

	do {
		gil = PyEval_SaveThread();
		r = step(e, j, err, quiet);
		PyEval_RestoreThread(gil);
	} while (r == 1 && !PyErr_CheckSignals());
	*raised = r == 1;
	return r;
}

static int submit_and_wait(struct engine *e, struct job *j, struct te_err *err, bool *quiet,
			   bool *raised)
{
	int r;
	PyThreadState *gil;

	gil = PyEval_SaveThread();
	r = job_submit(e, j, err);
	if (!r)
		r = step(e, j, err, quiet);
	PyEval_RestoreThread(gil);
	if (r != 1)
		return r;
	*raised = PyErr_CheckSignals();
	if (!*raised)
		r = run_wait(e, j, err, quiet, raised);
	if (!*raised)
		return r;
	gil = PyEval_SaveThread();
	*quiet = job_finish(e, j, false, INTERRUPTED_MS);
	PyEval_RestoreThread(gil);
	return r;
}

static PyObject *result(int r, bool raised, const char *call, const struct te_err *err)
{
	return raised ? NULL : PyLong_FromLong(compat_fail(r, call, err));
}

PyObject *run_sync(struct engine *e, const struct call *c)
{
	struct te_err err = { 0 };
	struct job j;
	bool quiet = true, raised = false;
	int r;

	if (!read_job(e, c, &j, &err))
		return result(err.code, PyErr_Occurred() != NULL, c->name, &err);
	if (!engine_enter(e, c->name)) {
		job_clear(&j);
		return PyLong_FromLong(TE_CODE_INVALID_ARGUMENT);
	}
	r = aim(e, c, &j, &err);
	if (r == -ECANCELED && PyErr_Occurred())
		raised = true;
	else if (!r && j.n)
		r = submit_and_wait(e, &j, &err, &quiet, &raised);
	if (quiet)
		job_clear(&j);
	else
		flight_keep(e, &j);
	engine_leave(e);
	return result(r, raised, c->name, &err);
}

static PyObject *submit(struct engine *e, const struct call *c, struct job *j, struct te_err *err)
{
	int r = aim(e, c, j, err);
	PyThreadState *gil;

	if (!r && !j->n)
		r = te_fail(err, -EINVAL, "no requests");
	if (!r) {
		gil = PyEval_SaveThread();
		r = job_submit(e, j, err);
		PyEval_RestoreThread(gil);
	}
	if (!r)
		return flight_add(e, j);
	job_clear(j);
	free(j);
	return NULL;
}

PyObject *run_async(struct engine *e, const struct call *c, bool zero_on_failure)
{
	struct job *j = malloc(sizeof(*j));
	struct te_err err = { 0 };
	PyObject *id = NULL;
	int code;

	if (!j)
		return PyErr_NoMemory();
	if (!read_job(e, c, j, &err)) {
		free(j);
	} else if (!engine_enter(e, c->name)) {
		te_fail(&err, -EINVAL, "no engine");
		job_clear(j);
		free(j);
	} else {
		id = submit(e, c, j, &err);
		engine_leave(e);
	}
	if (id || PyErr_Occurred())
		return id;
	code = compat_fail(err.code, c->name, &err);
	return PyLong_FromLong(zero_on_failure ? 0 : code);
}
