/* notify.c - TransferNotify, what has arrived of them, and probes. */
#include <string.h>

#include "binding.h"

struct notify {
	PyObject_HEAD PyObject *text[2]; /* name, msg: str */
};

static const char *const members[] = { "name", "msg" };

/* ---- the type ----------------------------------------------------------------------------- */

static PyObject *get_text(PyObject *self, void *which)
{
	return Py_NewRef(((struct notify *)self)->text[(intptr_t)which]);
}

static int set_text(PyObject *self, PyObject *value, void *which)
{
	PyObject **at = &((struct notify *)self)->text[(intptr_t)which], *old = *at;

	if (!value) {
		PyErr_Format(PyExc_AttributeError, "%s cannot be deleted",
			     members[(intptr_t)which]);
		return -1;
	}
	if (!arg_text(value, members[(intptr_t)which]))
		return -1;
	*at = Py_NewRef(value);
	Py_XDECREF(old);
	return 0;
}

static PyObject *notify_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct notify *n = (struct notify *)alloc(type, 0);

	(void)args;
	(void)kw;
	for (int i = 0; n && i < 2; i++) {
		n->text[i] = PyUnicode_FromString("");
		if (!n->text[i]) {
			Py_DECREF((PyObject *)n);
			return NULL;
		}
	}
	return (PyObject *)n;
}

static int notify_init(PyObject *self, PyObject *args, PyObject *kw)
{
	char name[] = "name", msg[] = "msg", *names[] = { name, msg, NULL };
	PyObject *text[2] = { NULL, NULL };

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|OO:TransferNotify", names, &text[0], &text[1]))
		return -1;
	for (intptr_t i = 0; i < 2; i++)
		if (text[i] && set_text(self, text[i], (void *)i))
			return -1;
	return 0;
}

static void notify_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	Py_XDECREF(((struct notify *)self)->text[0]);
	Py_XDECREF(((struct notify *)self)->text[1]);
	release(self);
	Py_DECREF(type);
}

static PyObject *notify_repr(PyObject *self)
{
	const struct notify *n = (struct notify *)self;

	return PyUnicode_FromFormat("TransferNotify(name=%R, msg=%R)", n->text[0], n->text[1]);
}

static PyGetSetDef notify_getset[] = {
	{ "name", get_text, set_text, "What kind of message it is (str).", (void *)0 },
	{ "msg", get_text, set_text, "The message (str).", (void *)1 },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot notify_slots[] = {
	{ Py_tp_doc, (void *)notify_doc },
	{ Py_tp_new, notify_new },
	{ Py_tp_init, notify_init },
	{ Py_tp_dealloc, notify_dealloc },
	{ Py_tp_repr, notify_repr },
	{ Py_tp_getset, notify_getset },
	{ 0, NULL },
};

PyType_Spec notify_spec = {
	.name = "mooncake.engine.TransferNotify",
	.basicsize = sizeof(struct notify),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = notify_slots,
};

bool notify_take(struct engine *e, PyObject *notify, PyObject *texts[2])
{
	if (!notify || notify == Py_None)
		return true;
	if (!PyObject_TypeCheck(notify, e->state->notify)) {
		PyErr_SetString(PyExc_TypeError, "notify must be a TransferNotify or None");
		return false;
	}
	for (int i = 0; i < 2; i++)
		texts[i] = Py_NewRef(((struct notify *)notify)->text[i]);
	return true;
}

/* ---- what has arrived --------------------------------------------------------------------- */

/* A peer's bytes need not be UTF-8. */
static PyObject *text_of(const char *s)
{
	return PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "replace");
}

static PyObject *notify_from(struct engine *e, const struct te_notify *from)
{
	PyObject *name = text_of(from->name), *msg = text_of(from->msg), *n = NULL;

	if (name && msg)
		n = PyObject_CallFunctionObjArgs((PyObject *)e->state->notify, name, msg, NULL);
	Py_XDECREF(name);
	Py_XDECREF(msg);
	return n;
}

static PyObject *list_from(struct engine *e, const struct te_notify *from, int n)
{
	PyObject *list = PyList_New(0);

	for (int i = 0; i < n && list; i++) {
		PyObject *x = notify_from(e, &from[i]);

		if (!x || PyList_Append(list, x))
			Py_CLEAR(list);
		Py_XDECREF(x);
	}
	return list;
}

PyObject *notify_get(PyObject *self, PyObject *unused)
{
	struct engine *e = (struct engine *)self;
	struct te_notify *got = NULL;
	PyObject *list;
	int n;
	PyThreadState *gil;

	(void)unused;
	if (!engine_enter(e, "get_notifies"))
		return PyList_New(0);
	gil = PyEval_SaveThread();
	n = te_notify_recv(e->te, &got, NULL);
	engine_leave(e);
	PyEval_RestoreThread(gil);
	list = list_from(e, got, n);
	if (n >= 0)
		te_notify_free(got, (size_t)n);
	return list;
}

PyObject *notify_probe(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "send_probe", 1, { "peer_server_name" } };
	struct engine *e = (struct engine *)self;
	struct te_err err = { 0 };
	PyObject *out[1];
	const char *name;
	int r;
	PyThreadState *gil;

	if (!args_read(&args, in, n, kw, out))
		return NULL;
	name = arg_text(out[0], "peer_server_name");
	if (!name)
		return NULL;
	if (!engine_enter(e, args.call))
		return PyLong_FromLong(TE_CODE_INVALID_ARGUMENT);
	gil = PyEval_SaveThread();
	r = te_probe(e->te, name, &err);
	engine_leave(e);
	PyEval_RestoreThread(gil);
	return PyLong_FromLong(compat_fail(r, args.call, &err));
}
