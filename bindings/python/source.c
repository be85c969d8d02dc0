/* source.c - the local side of a request: registered memory, or an object for the time of the
 * transfer. */
#include <errno.h>
#include <string.h>

#include "binding.h"

/* Up to here a copy into scratch, which is registered, costs less than registering. */
enum { COPY_MAX = 256 << 10 };

bool source_init(struct source *s, PyObject *buffer, enum te_op op)
{
	*s = (struct source){ .op = op };
	if (arg_is_number(buffer))
		return arg_u64(buffer, "buffer", &s->addr);
	if (PyObject_GetBuffer(buffer, &s->view, PyBUF_SIMPLE)) {
		s->view.obj = NULL;
		return false;
	}
	s->addr = (uint64_t)(uintptr_t)s->view.buf;
	if (op == TE_WRITE || !s->view.readonly)
		return true;
	PyErr_SetString(PyExc_TypeError, "buffer is read-only: data cannot be read into it");
	return false;
}

bool source_is_foreign(const struct source *s)
{
	return s->view.obj && s->view.readonly && s->len;
}

void *source_address(const struct source *s)
{
	return s->bounce ? s->bounce : (void *)(uintptr_t)s->addr;
}

static int bounce(struct engine *e, struct source *s, struct te_err *err)
{
	s->bounce = buddy_alloc(&e->scratch, s->len);
	if (!s->bounce)
		return te_fail(err, -ENOMEM, "out of memory for a copy of %llu bytes",
			       (unsigned long long)s->len);
	if (s->op == TE_WRITE)
		memcpy(s->bounce, s->view.buf, s->len);
	return 0;
}

int source_prepare(struct engine *e, struct source *s, struct te_err *err)
{
	int r;

	if (!s->view.obj || !s->len || s->bounce || s->registered)
		return 0;
	if (s->len <= COPY_MAX)
		return bounce(e, s, err);
	r = te_register(e->te, s->view.buf, s->len, NULL, false, err);
	s->registered = !r;
	/* Where a part of it is registered, by the program or for another thread, all of it is not
	   in one buffer. */
	return r ? bounce(e, s, err) : 0;
}

void source_finish(struct engine *e, struct source *s, bool done)
{
	if (s->bounce) {
		if (done && s->op == TE_READ)
			memcpy(s->view.buf, s->bounce, s->len);
		buddy_free(&e->scratch, s->bounce, s->len);
		s->bounce = NULL;
	}
	/* Another thread's transfer may use the registration, as long as that takes. */
	while (s->registered && !atomic_load(&e->closing) &&
	       te_unregister(e->te, s->view.buf, NULL) == -EBUSY)
		continue;
	s->registered = false;
}

void source_clear(struct source *s)
{
	if (s->view.obj)
		PyBuffer_Release(&s->view);
	s->view.obj = NULL;
}
