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

static PyObject *run(PyObject *self, const struct call *c, enum how how)
{
	struct engine *e = (struct engine *)self;

	return how == SYNC ? run_sync(e, c) : run_async(e, c, how == SUBMIT_OR_ZERO);
}

/* The direction is in the name. */
static PyObject *named(PyObject *self, const struct args *a, PyObject *const *in, Py_ssize_t n,
		       PyObject *kw, enum te_op op, bool many, enum how how)
{
	PyObject *out[ARGS_MAX];

	if (!args_read(a, in, n, kw, out))
		return NULL;
	return run(self,
		   &(struct call){ .name = a->call,
				   .target = out[TARGET],
				   .buffers = out[BUFFERS],
				   .addresses = out[ADDRESSES],
				   .lengths = out[LENGTHS],
				   .op = op,
				   .many = many },
		   how);
}

/* The direction is an argument. */
static PyObject *general(PyObject *self, const struct args *a, PyObject *const *in, Py_ssize_t n,
			 PyObject *kw, bool many, enum how how)
{
	struct call c = { .name = a->call, .many = many };
	PyObject *out[ARGS_MAX];

	if (!args_read(a, in, n, kw, out) ||
	    !transfer_op((struct engine *)self, out[OPCODE], &c.op))
		return NULL;
	c.target = out[TARGET];
	c.buffers = out[BUFFERS];
	c.addresses = out[ADDRESSES];
	c.lengths = out[LENGTHS];
	c.notify = out[NOTIFY];
	return run(self, &c, how);
}

/* ---- one request -------------------------------------------------------------------------- */

PyObject *transfer_sync(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "transfer_sync",
				       5,
				       { ONE, "opcode", "notify", "transport_hint" } };

	return general(self, &a, in, n, kw, false, SYNC);
}

PyObject *transfer_sync_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "transfer_sync_read", 4, { ONE, "transport_hint" } };

	return named(self, &a, in, n, kw, TE_READ, false, SYNC);
}

PyObject *transfer_sync_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "transfer_sync_write", 4, { ONE, "transport_hint" } };

	return named(self, &a, in, n, kw, TE_WRITE, false, SYNC);
}

PyObject *transfer_submit_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "transfer_submit_read", 4, { ONE, "transport_hint" } };

	return named(self, &a, in, n, kw, TE_READ, false, SUBMIT);
}

PyObject *transfer_submit_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "transfer_submit_write", 4, { ONE, "transport_hint" } };

	return named(self, &a, in, n, kw, TE_WRITE, false, SUBMIT);
}

/* ---- several ------------------------------------------------------------------------------ */

PyObject *batch_sync(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "batch_transfer_sync",
				       5,
				       { MANY, "opcode", "notify", "transport_hint" } };

	return general(self, &a, in, n, kw, true, SYNC);
}

PyObject *batch_sync_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "batch_transfer_sync_read", 4, { MANY, "transport_hint" } };

	return named(self, &a, in, n, kw, TE_READ, true, SYNC);
}

PyObject *batch_sync_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "batch_transfer_sync_write", 4, { MANY, "transport_hint" } };

	return named(self, &a, in, n, kw, TE_WRITE, true, SYNC);
}

PyObject *batch_async(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "batch_transfer_async",
				       5,
				       { MANY, "opcode", "notify", "transport_hint" } };

	return general(self, &a, in, n, kw, true, SUBMIT_OR_ZERO);
}

PyObject *batch_async_read(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "batch_transfer_async_read", 4, { MANY, "transport_hint" } };

	return named(self, &a, in, n, kw, TE_READ, true, SUBMIT_OR_ZERO);
}

PyObject *batch_async_write(PyObject *self, PyObject *const *in, Py_ssize_t n, PyObject *kw)
{
	static const struct args a = { "batch_transfer_async_write",
				       4,
				       { MANY, "transport_hint" } };

	return named(self, &a, in, n, kw, TE_WRITE, true, SUBMIT_OR_ZERO);
}
