/* module.c - the module mooncake.engine: its types and constants, and its end. */
#include "binding.h"

PyMODINIT_FUNC PyInit_engine(void);
static struct PyModuleDef definition;

struct state *state_of(PyObject *module)
{
	return PyModule_GetState(module);
}

PyObject *module_of(PyTypeObject *type)
{
	while (type) {
		PyObject *m = PyType_GetModule(type);

		if (m && PyModule_GetDef(m) == &definition)
			return m;
		PyErr_Clear();
		type = PyType_GetSlot(type, Py_tp_base);
	}
	PyErr_SetString(PyExc_TypeError, "not a type of mooncake.engine");
	return NULL;
}

/* ---- the end of the interpreter ----------------------------------------------------------- */

/* Before it: threads of the program may still be in a call, and get an answer. */
static PyObject *close_engines(PyObject *module, PyObject *unused)
{
	struct state *s = state_of(module);

	(void)unused;
	s->exiting = true;
	while (s->engines) {
		struct engine *e = s->engines;

		Py_INCREF((PyObject *)e);
		engine_close(e);
		Py_DECREF((PyObject *)e);
	}
	Py_RETURN_NONE;
}

static PyMethodDef at_exit = { "_close_engines", close_engines, METH_NOARGS,
			       "Close what is open: the interpreter ends." };

static int register_at_exit(PyObject *module)
{
	PyObject *atexit = PyImport_ImportModule("atexit");
	PyObject *function = PyCFunction_NewEx(&at_exit, module, NULL), *done = NULL;

	if (atexit && function)
		done = PyObject_CallMethod(atexit, "register", "O", function);
	Py_XDECREF(atexit);
	Py_XDECREF(function);
	Py_XDECREF(done);
	return done ? 0 : -1;
}

/* ---- types and constants ------------------------------------------------------------------ */

static int add_types(PyObject *module)
{
	struct state *s = state_of(module);

	s->engine = (PyTypeObject *)PyType_FromModuleAndSpec(module, &engine_spec, NULL);
	s->notify = (PyTypeObject *)PyType_FromModuleAndSpec(module, &notify_spec, NULL);
	if (!s->engine || !s->notify || PyModule_AddType(module, s->engine))
		return -1;
	return PyModule_AddType(module, s->notify);
}

/* enum.IntEnum, so that it prints, compares and pickles as people expect; Read and Write are
   Mooncake's names of the same. */
static PyObject *make_opcodes(void)
{
	PyObject *enums = PyImport_ImportModule("enum"), *type = NULL;
	PyObject *base = enums ? PyObject_GetAttrString(enums, "IntEnum") : NULL;
	PyObject *args = Py_BuildValue("(s((si)(si)(si)(si)))", "TransferOpcode", "READ", TE_READ,
				       "WRITE", TE_WRITE, "Read", TE_READ, "Write", TE_WRITE);
	PyObject *where = Py_BuildValue("{ss}", "module", "mooncake.engine");

	if (base && args && where)
		type = PyObject_Call(base, args, where);
	Py_XDECREF(enums);
	Py_XDECREF(base);
	Py_XDECREF(args);
	Py_XDECREF(where);
	return type;
}

static int add_opcodes(PyObject *module)
{
	static const char *const names[] = { "Read", "Write" };
	struct state *s = state_of(module);
	PyObject *type = make_opcodes();
	int r = type ? PyModule_AddObjectRef(module, "TransferOpcode", type) : -1;

	for (int op = TE_READ; op <= TE_WRITE && !r; op++) {
		s->op[op] = PyObject_GetAttrString(type, names[op]);
		r = s->op[op] ? PyModule_AddObjectRef(module, names[op], s->op[op]) : -1;
	}
	Py_XDECREF(type);
	return r;
}

static int exec_module(PyObject *module)
{
	if (add_types(module) || add_opcodes(module) ||
	    PyModule_AddStringConstant(module, "__version__", te_version()))
		return -1;
	return register_at_exit(module);
}

static int clear_module(PyObject *module)
{
	struct state *s = state_of(module);

	if (!s)
		return 0;
	Py_CLEAR(s->engine);
	Py_CLEAR(s->notify);
	Py_CLEAR(s->op[TE_READ]);
	Py_CLEAR(s->op[TE_WRITE]);
	return 0;
}

static int traverse_module(PyObject *module, visitproc visit, void *arg)
{
	struct state *s = state_of(module);

	if (!s)
		return 0;
	Py_VISIT(s->engine);
	Py_VISIT(s->notify);
	Py_VISIT(s->op[TE_READ]);
	Py_VISIT(s->op[TE_WRITE]);
	return 0;
}

static void free_module(void *module)
{
	clear_module(module);
}

static PyModuleDef_Slot slots[] = { { Py_mod_exec, exec_module }, { 0, NULL } };

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,	 .m_name = "mooncake.engine",
	.m_doc = module_doc,	 .m_size = sizeof(struct state),
	.m_slots = slots,	 .m_traverse = traverse_module,
	.m_clear = clear_module, .m_free = free_module,
};

PyMODINIT_FUNC PyInit_engine(void)
{
	return PyModuleDef_Init(&definition);
}
