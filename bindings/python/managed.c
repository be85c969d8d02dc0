/* managed.c - buffers that the engine allocates, and bytes to and from addresses. */
#include <errno.h>

#include "binding.h"

/* ---- arenas ------------------------------------------------------------------------------- */

static int arena_get(struct engine *e, size_t len, bool remote, void **out)
{
	struct te_err err;
	int r = te_alloc(e->te, len, -1, 0, out, &err);

	if (!r) {
		r = te_register(e->te, *out, len, NULL, remote, &err);
		if (r)
			te_free(e->te, *out);
	}
	if (r)
		te_warn("cannot allocate %zu bytes: %s", len, err.msg);
	return r;
}

static int managed_get(void *arg, size_t len, void **out)
{
	return arena_get(arg, len, true, out);
}

static int scratch_get(void *arg, size_t len, void **out)
{
	return arena_get(arg, len, false, out);
}

static int arena_put(void *arg, void *addr)
{
	struct engine *e = arg;
	struct te_err err;
	int r = te_unregister(e->te, addr, &err);

	if (r)
		te_warn("%s", err.msg);
	return r ? r : te_free(e->te, addr);
}

const struct buddy_ops managed_ops = { .get = managed_get, .put = arena_put };
const struct buddy_ops scratch_ops = { .get = scratch_get, .put = arena_put };

/* ---- buffers ------------------------------------------------------------------------------ */

PyObject *managed_alloc(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "allocate_managed_buffer", 1, { "length" } };
	struct engine *e = (struct engine *)self;
	PyObject *out[1];
	uint64_t len;
	void *addr;
	PyThreadState *gil;

	if (!args_read(&args, in, n, kw, out) || !arg_u64(out[0], "length", &len))
		return NULL;
	if (!engine_enter(e, args.call))
		return PyLong_FromLong(0);
	gil = PyEval_SaveThread();
	addr = buddy_alloc(&e->managed, len);
	engine_leave(e);
	PyEval_RestoreThread(gil);
	return PyLong_FromUnsignedLongLong((uint64_t)(uintptr_t)addr);
}

static const char *free_problem(int r)
{
	return r == -ENOENT  ? "is not a managed buffer"
	       : r == -EBUSY ? "is still in use by a transfer"
			     : "is free already, or is not the start of a buffer of that length";
}

PyObject *managed_free(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "free_managed_buffer", 2, { "buffer_addr", "length" } };
	struct engine *e = (struct engine *)self;
	PyObject *out[2];
	uint64_t addr, len;
	int r;
	PyThreadState *gil;

	if (!args_read(&args, in, n, kw, out) || !arg_u64(out[0], "buffer_addr", &addr) ||
	    !arg_u64(out[1], "length", &len))
		return NULL;
	if (!engine_enter(e, args.call))
		return PyLong_FromLong(TE_CODE_INVALID_ARGUMENT);
	gil = PyEval_SaveThread();
	r = buddy_free(&e->managed, (void *)(uintptr_t)addr, len);
	engine_leave(e);
	PyEval_RestoreThread(gil);
	if (!r)
		return PyLong_FromLong(0);
	te_warn("%s: %#llx+%llu %s", args.call, (unsigned long long)addr, (unsigned long long)len,
		free_problem(r));
	return PyLong_FromLong(compat_memory_code(r));
}

/* ---- bytes -------------------------------------------------------------------------------- */

/* A code < 0, or 0. */
static int write_bytes(uint64_t to, const Py_buffer *from, uint64_t len)
{
	int r;
	PyThreadState *gil;

	if (len > (uint64_t)from->len) {
		te_warn("write_bytes_to_buffer: length %llu is more than the %zd bytes given",
			(unsigned long long)len, from->len);
		return TE_CODE_INVALID_ARGUMENT;
	}
	gil = PyEval_SaveThread();
	r = copy_checked(to, (uint64_t)(uintptr_t)from->buf, len);
	PyEval_RestoreThread(gil);
	if (r)
		te_warn("write_bytes_to_buffer: %#llx+%llu is not memory that can be written to",
			(unsigned long long)to, (unsigned long long)len);
	return compat_code(r);
}

PyObject *managed_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "write_bytes_to_buffer",
					  3,
					  { "dest_address", "src_ptr", "length" } };
	PyObject *out[3];
	uint64_t to, len;
	Py_buffer from;
	int r;

	(void)self;
	if (!args_read(&args, in, n, kw, out) || !arg_u64(out[0], "dest_address", &to) ||
	    !arg_u64(out[2], "length", &len) || PyObject_GetBuffer(out[1], &from, PyBUF_SIMPLE))
		return NULL;
	r = write_bytes(to, &from, len);
	PyBuffer_Release(&from);
	return PyLong_FromLong(r);
}

static PyObject *no_memory_at(uint64_t addr, uint64_t len)
{
	return PyErr_Format(PyExc_ValueError, "read_bytes_from_buffer: %p+%llu is not memory",
			    (void *)(uintptr_t)addr, (unsigned long long)len);
}

PyObject *managed_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "read_bytes_from_buffer",
					  2,
					  { "source_address", "length" } };
	PyObject *out[2], *bytes;
	uint64_t from, len;
	char *to;
	int r;
	PyThreadState *gil;

	(void)self;
	if (!args_read(&args, in, n, kw, out) || !arg_u64(out[0], "source_address", &from) ||
	    !arg_u64(out[1], "length", &len))
		return NULL;
	/* Before so much is allocated. */
	if (len && (len > PY_SSIZE_T_MAX || !is_mapped(from, len)))
		return no_memory_at(from, len);
	bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)len);
	if (!bytes)
		return NULL;
	to = PyBytes_AsString(bytes);
	gil = PyEval_SaveThread();
	r = copy_checked((uint64_t)(uintptr_t)to, from, len);
	PyEval_RestoreThread(gil);
	if (!r)
		return bytes;
	Py_DECREF(bytes);
	return no_memory_at(from, len);
}
