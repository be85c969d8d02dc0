/* engine.c - the type TransferEngine: made, initialized, closed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "binding.h"
#include "te_topo.h"

enum {
	MANAGED_ARENA = 64 << 20,
	MANAGED_LARGEST = 16 << 20,
	SCRATCH_ARENA = 8 << 20,
	SCRATCH_LARGEST = 2 << 20,
};

/* ---- calls and the end -------------------------------------------------------------------- */

static const char *unusable(const struct engine *e)
{
	if (e->te && e->pid != getpid())
		return "the engine is another process's (fork): make one of your own";
	if (atomic_load(&e->closing))
		return "the engine is closed";
	return e->te ? NULL : "call initialize() first";
}

static void enter(struct engine *e)
{
	pthread_mutex_lock(&e->lock);
	e->users++;
	pthread_mutex_unlock(&e->lock);
}

struct te_engine *engine_enter(struct engine *e, const char *call)
{
	const char *why = unusable(e);

	if (why) {
		te_warn("%s: %s", call, why);
		return NULL;
	}
	enter(e);
	return e->te;
}

void engine_leave(struct engine *e)
{
	pthread_mutex_lock(&e->lock);
	if (!--e->users)
		pthread_cond_broadcast(&e->idle);
	pthread_mutex_unlock(&e->lock);
}

static void unlink_engine(struct engine *e)
{
	if (!e->prev)
		return;
	*e->prev = e->next;
	if (e->next)
		e->next->prev = e->prev;
	e->prev = NULL;
}

static void link_engine(struct engine *e)
{
	e->next = e->state->engines;
	if (e->next)
		e->next->prev = &e->next;
	e->prev = &e->state->engines;
	e->state->engines = e;
}

/* Threads that are in a call notice `closing` within a moment, or the call is bounded. */
static void wait_idle(struct engine *e)
{
	pthread_mutex_lock(&e->lock);
	while (e->users)
		pthread_cond_wait(&e->idle, &e->lock);
	pthread_mutex_unlock(&e->lock);
}

void engine_close(struct engine *e)
{
	PyThreadState *gil;

	unlink_engine(e);
	/* A child has neither the threads nor the right to take our entries out of the store. */
	if (atomic_exchange(&e->closing, true) || e->pid != getpid())
		return;
	gil = PyEval_SaveThread();
	wait_idle(e);
	te_engine_close(e->te);
	PyEval_RestoreThread(gil);
	e->te = NULL;
	job_forget_all(e);
	registrations_clear(e);
	buddy_clear(&e->managed);
	buddy_clear(&e->scratch);
}

/* ---- initialize --------------------------------------------------------------------------- */

static bool is_p2p(const char *server, const char *type)
{
	return !strcasecmp(type, "p2p") || !strcasecmp(type, "P2PHANDSHAKE") ||
	       !strcmp(server, "P2PHANDSHAKE");
}

/* malloc'ed; NULL when memory is out. */
static char *store_uri(const char *server, const char *type)
{
	if (is_p2p(server, type))
		return te_strdup("P2PHANDSHAKE");
	if (!*type || !*server || strstr(server, "://"))
		return te_strdup(server);
	return te_asprintf("%s://%s", type, server);
}

/* "shm" and "local" are ways to peers, not to be found by: those are tcp's. */
static void choose_protocol(const char *protocol, struct te_engine_options *opt)
{
	bool way = !strcmp(protocol, "shm") || !strcmp(protocol, "local");

	opt->transport = way ? protocol : NULL;
	opt->protocol = way ? "tcp" : *protocol ? protocol : "auto";
}

/* Without the GIL. */
static int open_engine(struct engine *e, struct te_engine_options *opt, struct te_err *err)
{
	struct te_engine_info info;
	struct te_conf conf;
	struct te_engine *te;
	int r;

	te_conf_read(&conf);
	opt->conf = &conf;
	r = te_engine_open(&te, opt, err);
	if (r)
		return r;
	te_engine_info(te, &info);
	e->name = te_strdup(info.name);
	e->rpc_port = info.rpc_port;
	e->timeout_s = conf.transfer_timeout_s;
	e->te = te;
	return 0;
}

static int start(struct engine *e, struct te_engine_options *opt, struct te_err *err)
{
	int r;
	PyThreadState *gil;

	if (e->te || e->opening || atomic_load(&e->closing))
		return te_fail(err, -EINVAL, "the engine is initialized already");
	if (e->state->exiting)
		return te_fail(err, -ESHUTDOWN, "the interpreter is exiting");
	e->opening = true;
	e->pid = getpid();
	buddy_init(&e->managed, &managed_ops, e, MANAGED_ARENA, MANAGED_LARGEST);
	buddy_init(&e->scratch, &scratch_ops, e, SCRATCH_ARENA, SCRATCH_LARGEST);
	link_engine(e);
	enter(e);
	gil = PyEval_SaveThread();
	r = open_engine(e, opt, err);
	engine_leave(e);
	PyEval_RestoreThread(gil);
	e->opening = false;
	/* It may be tried again. */
	if (r)
		unlink_engine(e);
	return r;
}

/* type: "" for what the string itself says. */
static PyObject *initialize(struct engine *e, const char *call, PyObject *const *in,
			    const char *type)
{
	static const char *const what[] = { "local_hostname", "metadata_server", "protocol",
					    "device_name" };
	struct te_engine_options opt = { .auto_discovery = true };
	struct te_err err = { 0 };
	const char *text[4];
	char *uri;
	int r;

	for (int i = 0; i < 4; i++) {
		text[i] = arg_text(in[i], what[i]);
		if (!text[i])
			return NULL;
	}
	uri = store_uri(text[1], type);
	if (!uri)
		return PyErr_NoMemory();
	opt.local_server_name = text[0];
	opt.metadata_server = uri;
	opt.device_name = text[3];
	choose_protocol(text[2], &opt);
	r = start(e, &opt, &err);
	free(uri);
	return PyLong_FromLong(compat_fail(r, call, &err));
}

PyObject *engine_initialize(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = {
		"initialize", 4, { "local_hostname", "metadata_server", "protocol", "device_name" }
	};
	PyObject *out[4];

	if (!args_read(&args, in, n, kw, out))
		return NULL;
	return initialize((struct engine *)self, args.call, out, "");
}

PyObject *engine_initialize_ext(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "initialize_ext",
					  5,
					  { "local_hostname", "metadata_server", "protocol",
					    "device_name", "metadata_type" } };
	PyObject *out[5];
	const char *type;

	if (!args_read(&args, in, n, kw, out))
		return NULL;
	type = arg_text(out[4], "metadata_type");
	return type ? initialize((struct engine *)self, args.call, out, type) : NULL;
}

/* ---- what it is --------------------------------------------------------------------------- */

PyObject *engine_get_rpc_port(PyObject *self, PyObject *unused)
{
	struct engine *e = (struct engine *)self;
	long port = TE_CODE_INVALID_ARGUMENT;

	(void)unused;
	if (engine_enter(e, "get_rpc_port")) {
		port = (long)e->rpc_port;
		engine_leave(e);
	}
	return PyLong_FromLong(port);
}

PyObject *engine_get_local_topology(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args args = { "get_local_topology", 0, { "device_name" } };
	const char *device = "";
	struct te_topo *t = NULL;
	struct te_conf conf;
	struct te_err err;
	PyObject *out[1], *json;
	int r;
	PyThreadState *gil;

	(void)self;
	if (!args_read(&args, in, n, kw, out))
		return NULL;
	if (out[0] && out[0] != Py_None)
		device = arg_text(out[0], "device_name");
	if (!device)
		return NULL;
	gil = PyEval_SaveThread();
	te_conf_read(&conf);
	if (*device)
		te_strlcpy(conf.te_filters, device, sizeof(conf.te_filters));
	r = te_topo_open_host(&conf, &t, &err);
	PyEval_RestoreThread(gil);
	if (r)
		return PyErr_Format(PyExc_RuntimeError, "%s: %s", args.call, err.msg);
	json = PyUnicode_FromString(te_topo_json(t));
	te_topo_close(t);
	return json;
}

static PyObject *engine_repr(PyObject *self)
{
	const struct engine *e = (struct engine *)self;

	if (unusable(e))
		return PyUnicode_FromFormat("<TransferEngine, %s>",
					    e->te || atomic_load(&e->closing) ? "closed"
									      : "not initialized");
	return PyUnicode_FromFormat("<TransferEngine '%s', RPC port %u>", e->name, e->rpc_port);
}

/* ---- the type ----------------------------------------------------------------------------- */

static PyObject *engine_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *module = module_of(type);
	struct engine *e = module ? (struct engine *)alloc(type, 0) : NULL;

	(void)args;
	(void)kw;
	if (!e)
		return NULL;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->idle, NULL);
	e->module = Py_NewRef(module);
	e->state = state_of(module);
	e->segments = PyDict_New();
	if (e->segments)
		return (PyObject *)e;
	Py_DECREF((PyObject *)e);
	return NULL;
}

static int engine_init(PyObject *self, PyObject *args, PyObject *kw)
{
	(void)self;
	if (PyTuple_Size(args) == 0 && (!kw || PyDict_Size(kw) == 0))
		return 0;
	PyErr_SetString(PyExc_TypeError, "TransferEngine() takes no arguments");
	return -1;
}

static void engine_dealloc(PyObject *self)
{
	struct engine *e = (struct engine *)self;
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (e->te)
		engine_close(e);
	free(e->name);
	Py_XDECREF(e->segments);
	Py_XDECREF(e->module);
	pthread_mutex_destroy(&e->lock);
	pthread_cond_destroy(&e->idle);
	release(self);
	Py_DECREF(type);
}

static PyType_Slot engine_slots[] = {
	{ Py_tp_doc, (void *)engine_doc },
	{ Py_tp_new, engine_new },
	{ Py_tp_init, engine_init },
	{ Py_tp_dealloc, engine_dealloc },
	{ Py_tp_repr, engine_repr },
	{ Py_tp_methods, engine_methods },
	{ 0, NULL },
};

PyType_Spec engine_spec = {
	.name = "mooncake.engine.TransferEngine",
	.basicsize = sizeof(struct engine),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = engine_slots,
};
