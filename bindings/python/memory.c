/* memory.c - registering memory: by address, or an object, which is then kept. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"

/* What the program has registered; memory of its own never leaves by this way. */
struct registration {
	struct registration *next;
	uint64_t addr, len;
	Py_buffer view; /* view.obj NULL: the program sees to it that the memory stays */
};

/* ---- the list ----------------------------------------------------------------------------- */

static struct registration *take_out(struct engine *e, uint64_t addr)
{
	struct registration **at = &e->registrations, *r;

	while (*at && (*at)->addr != addr)
		at = &(*at)->next;
	r = *at;
	if (r)
		*at = r->next;
	return r;
}

static void put_in(struct engine *e, struct registration *r)
{
	r->next = e->registrations;
	e->registrations = r;
}

static void registration_free(struct registration *r)
{
	if (!r)
		return;
	if (r->view.obj)
		PyBuffer_Release(&r->view);
	free(r);
}

static void list_free(struct registration **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		registration_free(list[i]);
	free(list);
}

void registrations_clear(struct engine *e)
{
	while (e->registrations)
		registration_free(take_out(e, e->registrations->addr));
}

static PyObject *result(int r, const char *call, const struct te_err *err)
{
	if (r < 0)
		te_warn("%s: %s", call, err->msg);
	return PyLong_FromLong(compat_memory_code(r));
}

/* ---- registering -------------------------------------------------------------------------- */

/* Memory of a GPU need not be mapped: te_register() knows about it. */
static int check(const struct te_buffer *b, size_t n, struct te_err *err)
{
	for (size_t i = 0; i < n; i++)
		if (b[i].len && strncmp(b[i].location, "cuda:", 5) &&
		    !is_mapped((uint64_t)(uintptr_t)b[i].addr, b[i].len))
			return te_fail(err, -EFAULT, "%p+%zu is not memory of this process",
				       b[i].addr, b[i].len);
	return 0;
}

/* Takes list and what is in it. A code, or -1 with an exception. */
static PyObject *register_list(struct engine *e, const char *call, struct registration **list,
			       size_t n, const char *location)
{
	struct te_buffer *b = calloc(n + 1, sizeof(*b));
	struct te_err err = { 0 };
	int r = -EINVAL;
	PyThreadState *gil;

	if (!b) {
		list_free(list, n);
		return PyErr_NoMemory();
	}
	for (size_t i = 0; i < n; i++)
		b[i] = (struct te_buffer){ .addr = (void *)(uintptr_t)list[i]->addr,
					   .len = list[i]->len,
					   .location = location,
					   .remote =
						   !list[i]->view.obj || !list[i]->view.readonly };
	te_fail(&err, r, "no engine");
	if (engine_enter(e, call)) {
		gil = PyEval_SaveThread();
		r = check(b, n, &err);
		if (!r)
			r = te_register_batch(e->te, b, n, &err);
		PyEval_RestoreThread(gil);
		engine_leave(e);
	}
	free(b);
	for (size_t i = 0; i < n && !r; i++)
		put_in(e, list[i]);
	if (r)
		list_free(list, n);
	else
		free(list);
	return result(r, call, &err);
}

/* New, of an address; NULL with an exception. */
static struct registration *from_address(PyObject *addr, PyObject *len)
{
	struct registration *r = calloc(1, sizeof(*r));

	if (!r)
		PyErr_NoMemory();
	if (r && arg_u64(addr, "buffer_addr", &r->addr) && arg_u64(len, "capacity", &r->len))
		return r;
	free(r);
	return NULL;
}

/* New, of an object's memory: all of it (len NULL), or its first len bytes. */
static struct registration *from_object(PyObject *o, PyObject *len)
{
	struct registration *r = calloc(1, sizeof(*r));

	if (!r)
		PyErr_NoMemory();
	if (!r || PyObject_GetBuffer(o, &r->view, PyBUF_SIMPLE)) {
		free(r);
		return NULL;
	}
	r->addr = (uint64_t)(uintptr_t)r->view.buf;
	r->len = (uint64_t)r->view.len;
	if (len && !arg_u64(len, "length", &r->len)) {
		registration_free(r);
		return NULL;
	}
	return r;
}

static const char *location_of(PyObject *location)
{
	return location && location != Py_None ? arg_text(location, "location") : "*";
}

static PyObject *register_one(struct engine *e, const char *call, struct registration *r,
			      PyObject *location)
{
	const char *where = r ? location_of(location) : NULL;
	struct registration **list;

	if (!where) {
		registration_free(r);
		return NULL;
	}
	if (r->view.obj && r->len > (uint64_t)r->view.len) {
		te_warn("%s: the buffer has only %zd bytes", call, r->view.len);
		registration_free(r);
		return PyLong_FromLong(TE_CODE_INVALID_ARGUMENT);
	}
	list = malloc(sizeof(*list));
	if (!list) {
		registration_free(r);
		return PyErr_NoMemory();
	}
	list[0] = r;
	return register_list(e, call, list, 1, where);
}

PyObject *memory_register(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "register_memory",
					  2,
					  { "buffer_addr", "capacity", "location" } };
	PyObject *out[3];

	if (!args_read(&args, in, n, kw, out))
		return NULL;
	return register_one((struct engine *)self, args.call, from_address(out[0], out[1]), out[2]);
}

PyObject *memory_register_buffer(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "register", 1, { "buffer", "length", "location" } };
	struct registration *r;
	PyObject *out[3];

	if (!args_read(&args, in, n, kw, out))
		return NULL;
	if (out[1] == Py_None)
		out[1] = NULL;
	if (!arg_is_number(out[0])) {
		r = from_object(out[0], out[1]);
	} else if (out[1]) {
		r = from_address(out[0], out[1]);
	} else {
		PyErr_SetString(PyExc_TypeError, "register() of an address needs a length");
		return NULL;
	}
	return register_one((struct engine *)self, args.call, r, out[2]);
}

static bool fill_list(struct registration **list, Py_ssize_t n, PyObject *addrs, PyObject *lens)
{
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *addr = PySequence_GetItem(addrs, i);
		PyObject *len = PySequence_GetItem(lens, i);

		if (addr && len)
			list[i] = from_address(addr, len);
		Py_XDECREF(addr);
		Py_XDECREF(len);
		if (!list[i])
			return false;
	}
	return true;
}

PyObject *memory_register_batch(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "batch_register_memory",
					  2,
					  { "buffer_addresses", "capacities", "location" } };
	struct registration **list;
	PyObject *out[3];
	const char *where;
	Py_ssize_t many, lens;

	if (!args_read(&args, in, n, kw, out))
		return NULL;
	many = arg_list(out[0], "buffer_addresses");
	lens = many < 0 ? -1 : arg_list(out[1], "capacities");
	where = lens < 0 ? NULL : location_of(out[2]);
	if (!where)
		return NULL;
	if (many != lens) {
		te_warn("%s: %zd addresses, %zd capacities", args.call, many, lens);
		return PyLong_FromLong(TE_CODE_INVALID_ARGUMENT);
	}
	list = calloc((size_t)many + 1, sizeof(struct registration *));
	if (!list)
		return PyErr_NoMemory();
	if (fill_list(list, many, out[0], out[1]))
		return register_list((struct engine *)self, args.call, list, (size_t)many, where);
	list_free(list, (size_t)many);
	return NULL;
}

/* ---- and back ----------------------------------------------------------------------------- */

static int unregister(struct engine *e, uint64_t addr, struct te_err *err)
{
	struct registration *reg = take_out(e, addr);
	int r;
	PyThreadState *gil;

	if (!reg)
		return te_fail(err, -ENOENT, "%#llx is not the start of registered memory",
			       (unsigned long long)addr);
	gil = PyEval_SaveThread();
	r = te_unregister(e->te, (void *)(uintptr_t)addr, err);
	PyEval_RestoreThread(gil);
	if (r)
		put_in(e, reg);
	else
		registration_free(reg);
	return r;
}

static PyObject *unregister_one(struct engine *e, const char *call, uint64_t addr)
{
	struct te_err err = { 0 };
	int r;

	if (!engine_enter(e, call))
		return PyLong_FromLong(TE_CODE_INVALID_ARGUMENT);
	r = unregister(e, addr, &err);
	engine_leave(e);
	return result(r, call, &err);
}

PyObject *memory_unregister(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "unregister_memory", 1, { "buffer_addr" } };
	PyObject *out[1];
	uint64_t addr;

	if (!args_read(&args, in, n, kw, out) || !arg_u64(out[0], "buffer_addr", &addr))
		return NULL;
	return unregister_one((struct engine *)self, args.call, addr);
}

PyObject *memory_deregister_buffer(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "deregister", 1, { "buffer" } };
	Py_buffer view;
	PyObject *out[1];
	uint64_t addr;

	if (!args_read(&args, in, n, kw, out))
		return NULL;
	if (arg_is_number(out[0])) {
		if (!arg_u64(out[0], "buffer", &addr))
			return NULL;
	} else {
		if (PyObject_GetBuffer(out[0], &view, PyBUF_SIMPLE))
			return NULL;
		addr = (uint64_t)(uintptr_t)view.buf;
		PyBuffer_Release(&view);
	}
	return unregister_one((struct engine *)self, args.call, addr);
}

/* As far as they are known; the first error is what is told. */
static int unregister_all(struct engine *e, PyObject *addrs, Py_ssize_t n, struct te_err *err)
{
	int first = 0;

	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PySequence_GetItem(addrs, i);
		struct te_err why;
		uint64_t addr;
		int r = item && arg_u64(item, "buffer_addresses", &addr) ? unregister(e, addr, &why)
									 : 1;

		Py_XDECREF(item);
		if (r > 0)
			return r;
		if (r && !first) {
			first = r;
			*err = why;
		}
	}
	return first;
}

PyObject *memory_unregister_batch(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "batch_unregister_memory", 1, { "buffer_addresses" } };
	struct engine *e = (struct engine *)self;
	struct te_err err = { 0 };
	PyObject *out[1];
	Py_ssize_t many;
	int r;

	if (!args_read(&args, in, n, kw, out))
		return NULL;
	many = arg_list(out[0], "buffer_addresses");
	if (many < 0)
		return NULL;
	if (!engine_enter(e, args.call))
		return PyLong_FromLong(TE_CODE_INVALID_ARGUMENT);
	r = unregister_all(e, out[0], many, &err);
	engine_leave(e);
	return r > 0 ? NULL : result(r, args.call, &err);
}
