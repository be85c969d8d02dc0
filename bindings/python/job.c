/* job.c - requests to one segment, from their arguments to their end. */
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "binding.h"

bool job_init(struct job *j, size_t n)
{
	*j = (struct job){ .n = n, .req = &j->one_req, .src = &j->one_src };
	if (n <= 1)
		return true;
	j->req = calloc(n, sizeof(*j->req));
	j->src = calloc(n, sizeof(*j->src));
	if (j->req && j->src)
		return true;
	free(j->req);
	free(j->src);
	PyErr_NoMemory();
	return false;
}

void job_clear(struct job *j)
{
	Py_XDECREF(j->notify[0]);
	Py_XDECREF(j->notify[1]);
	for (size_t i = 0; i < j->n; i++)
		source_clear(&j->src[i]);
	if (j->n <= 1)
		return;
	free(j->req);
	free(j->src);
}

static void finish_sources(struct engine *e, struct job *j, bool done)
{
	for (size_t i = 0; i < j->n; i++)
		source_finish(e, &j->src[i], done);
}

/* only_foreign: objects that may be registered already are left as they are. */
static int prepare(struct engine *e, struct job *j, bool only_foreign, struct te_err *err)
{
	for (size_t i = 0; i < j->n; i++) {
		int r = only_foreign && !source_is_foreign(&j->src[i])
				? 0
				: source_prepare(e, &j->src[i], err);

		if (r < 0)
			return r;
		j->req[i].source = source_address(&j->src[i]);
	}
	return 0;
}

static int submit(struct engine *e, struct job *j, struct te_err *err)
{
	if (j->notify_text[0])
		return te_batch_submit_notify(e->te, j->batch, j->req, j->n, j->notify_text[0],
					      j->notify_text[1], err);
	return te_batch_submit(e->te, j->batch, j->req, j->n, err);
}

static bool has_objects(const struct job *j)
{
	for (size_t i = 0; i < j->n; i++)
		if (j->src[i].view.obj)
			return true;
	return false;
}

int job_submit(struct engine *e, struct job *j, struct te_err *err)
{
	int r = prepare(e, j, true, err);

	if (!r)
		r = te_batch_alloc(e->te, j->n, &j->batch, err);
	if (r) {
		finish_sources(e, j, false);
		return r;
	}
	r = submit(e, j, err);
	/* Only now we know which objects are not in registered memory; an object that is costs
	 * nothing. */
	if (r == -EFAULT && has_objects(j)) {
		r = prepare(e, j, false, err);
		if (!r)
			r = submit(e, j, err);
	}
	if (r) {
		te_batch_free(e->te, j->batch);
		finish_sources(e, j, false);
	}
	return r;
}

/* The first that failed says why. */
static int reason(struct engine *e, struct job *j, struct te_err *err)
{
	struct te_status s;

	for (size_t i = 0; i < j->n; i++) {
		if (te_batch_status(e->te, j->batch, i, &s) || s.state == TE_COMPLETED)
			continue;
		if (te_batch_error(e->te, j->batch, i, err))
			te_fail(err, -EIO, "request %zu failed", i);
		return s.state == TE_TIMEOUT ? -ETIMEDOUT : s.error ? s.error : -EIO;
	}
	return te_fail(err, -EIO, "the transfer failed");
}

int job_poll(struct engine *e, struct job *j, int ms, struct te_err *err)
{
	size_t failed = 0;
	int r = te_batch_wait(e->te, j->batch, ms, &failed);

	if (r == -ETIMEDOUT)
		return 1;
	if (r < 0)
		return te_fail(err, r, "unknown batch");
	return failed ? reason(e, j, err) : 0;
}

bool job_finish(struct engine *e, struct job *j, bool done, int limit_ms)
{
	if (!done)
		te_batch_cancel(e->te, j->batch);
	if (te_batch_free(e->te, j->batch)) {
		if (te_batch_drain(e->te, j->batch, limit_ms))
			return false;
		te_batch_free(e->te, j->batch);
	}
	finish_sources(e, j, done);
	return true;
}

int job_patience_ms(const struct engine *e)
{
	return (int)(MIN(e->timeout_s, 1e6) * 1000) + 5000;
}

void job_forget_all(struct engine *e)
{
	for (size_t i = 0; i < JOB_BUCKETS; i++)
		while (e->jobs[i]) {
			struct job *j = e->jobs[i];

			e->jobs[i] = j->next;
			job_clear(j);
			free(j);
		}
}
