/* segment.c - segments by name: opened once, and kept as long as the engine. */
#include <errno.h>

#include "binding.h"

static int32_t known(struct engine *e, PyObject *name)
{
	PyObject *id = PyDict_GetItemWithError(e->segments, name);

	return id ? (int32_t)PyLong_AsLong(id) : PyErr_Occurred() ? -ECANCELED : -ENOENT;
}

/* Another thread may have opened it meanwhile: that was the same id, counted. */
static int32_t remember(struct engine *e, PyObject *name, int32_t id)
{
	PyObject *value = PyLong_FromLong(id);
	int r = value ? PyDict_SetItem(e->segments, name, value) : -1;

	Py_XDECREF(value);
	return r ? -ECANCELED : id;
}

int32_t segment_get(struct engine *e, PyObject *name, struct te_err *err)
{
	int32_t id = known(e, name);
	const char *text;
	PyThreadState *gil;

	if (id != -ENOENT)
		return id;
	text = arg_text(name, "target_hostname");
	if (!text)
		return -ECANCELED;
	gil = PyEval_SaveThread();
	id = te_segment_open(e->te, text, err);
	PyEval_RestoreThread(gil);
	return id < 0 ? id : remember(e, name, id);
}

static uint64_t first_buffer(struct engine *e, int32_t id, struct te_err *err)
{
	struct te_desc *d;
	uint64_t addr;

	/* What is cached may be from before the owner registered it. */
	if (te_segment_refresh(e->te, id, err) || te_segment_desc(e->te, id, &d, err))
		return 0;
	addr = d->nbuffers ? d->buffers[0].addr : 0;
	te_desc_free(d);
	return addr;
}

PyObject *segment_first_buffer(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "get_first_buffer_address", 1, { "segment_name" } };
	struct engine *e = (struct engine *)self;
	struct te_err err = { 0 };
	PyObject *out[1];
	uint64_t addr = 0;
	int32_t id;
	PyThreadState *gil;

	if (!args_read(&args, in, n, kw, out) || !arg_text(out[0], "segment_name"))
		return NULL;
	if (!engine_enter(e, args.call))
		return PyLong_FromLong(0);
	id = segment_get(e, out[0], &err);
	gil = PyEval_SaveThread();
	if (id >= 0)
		addr = first_buffer(e, id, &err);
	engine_leave(e);
	PyEval_RestoreThread(gil);
	if (id == -ECANCELED && PyErr_Occurred())
		return NULL;
	if (err.code)
		te_warn("%s: %s", args.call, err.msg);
	return PyLong_FromUnsignedLongLong(addr);
}
