/* transfer.c - the methods that move bytes: what each is called, and takes. */
#include "binding.h"

bool transfer_op(const struct engine *e, PyObject *o, enum te_op *out)
{
	for (int op = TE_READ; op <= TE_WRITE; op++)
		if (o == e->state->op[op]) {
			*out = (enum te_op)op;
			return true;
		}
	PyErr_SetString(PyExc_TypeError, "opcode must be TransferOpcode.READ or .WRITE");
	return false;
}

/* Arguments in the order of struct call; transport_hint is Mooncake's, and chooses nothing here. */
enum { TARGET, BUFFERS, ADDRESSES, LENGTHS, OPCODE, NOTIFY };
#define ONE  "target_hostname", "buffer", "peer_buffer_address", "length"
#define MANY "target_hostname", "buffers", "peer_buffer_addresses", "lengths"

enum how { SYNC, SUBMIT, SUBMIT_OR_ZERO };

struct method {
	enum { READ = TE_READ, WRITE = TE_WRITE, ASKED } direction; /* ASKED: an argument */
	bool many;
	enum how how;
	struct args args;
};

static PyObject *run(PyObject *self, const struct method *m, PyObject *const *in, Py_ssize_t n,
		     PyObject *kw)
{
	struct call c = { .name = m->args.call, .op = (enum te_op)m->direction, .many = m->many };
	struct engine *e = (struct engine *)self;
	PyObject *out[ARGS_MAX];

	if (!args_read(&m->args, in, n, kw, out))
		return NULL;
	if (m->direction == ASKED) {
		if (!transfer_op(e, out[OPCODE], &c.op))
			return NULL;
		c.notify = out[NOTIFY];
	}
	c.target = out[TARGET];
	c.buffers = out[BUFFERS];
	c.addresses = out[ADDRESSES];
	c.lengths = out[LENGTHS];
	return m->how == SYNC ? run_sync(e, &c) : run_async(e, &c, m->how == SUBMIT_OR_ZERO);
}

/* ---- one request -------------------------------------------------------------------------- */

PyObject *transfer_sync(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		ASKED,
		false,
		SYNC,
		{ "transfer_sync", 5, { ONE, "opcode", "notify", "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}

PyObject *transfer_sync_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		READ, false, SYNC, { "transfer_sync_read", 4, { ONE, "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}

PyObject *transfer_sync_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		WRITE, false, SYNC, { "transfer_sync_write", 4, { ONE, "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}

PyObject *transfer_submit_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		READ, false, SUBMIT, { "transfer_submit_read", 4, { ONE, "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}

PyObject *transfer_submit_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		WRITE, false, SUBMIT, { "transfer_submit_write", 4, { ONE, "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}

/* ---- several ------------------------------------------------------------------------------ */

PyObject *batch_sync(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		ASKED,
		true,
		SYNC,
		{ "batch_transfer_sync", 5, { MANY, "opcode", "notify", "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}

PyObject *batch_sync_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		READ, true, SYNC, { "batch_transfer_sync_read", 4, { MANY, "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}

PyObject *batch_sync_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		WRITE, true, SYNC, { "batch_transfer_sync_write", 4, { MANY, "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}

PyObject *batch_async(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		ASKED,
		true,
		SUBMIT_OR_ZERO,
		{ "batch_transfer_async", 5, { MANY, "opcode", "notify", "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}

PyObject *batch_async_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		READ,
		true,
		SUBMIT_OR_ZERO,
		{ "batch_transfer_async_read", 4, { MANY, "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}

PyObject *batch_async_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct method m = {
		WRITE,
		true,
		SUBMIT_OR_ZERO,
		{ "batch_transfer_async_write", 4, { MANY, "transport_hint" } }
	};

	return run(self, &m, in, n, kw);
}
