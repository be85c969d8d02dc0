/* args.c - arguments: positions and keywords, text, addresses and lengths. */
#include <string.h>

#include "binding.h"

static int place_of(const struct args *a, PyObject *name)
{
	for (int i = 0; a->names[i]; i++)
		if (PyUnicode_CompareWithASCIIString(name, a->names[i]) == 0)
			return i;
	return -1;
}

static bool read_keywords(const struct args *a, PyObject *const *values, PyObject *kwnames,
			  PyObject **out)
{
	Py_ssize_t n = kwnames ? PyTuple_Size(kwnames) : 0;

	for (Py_ssize_t k = 0; k < n; k++) {
		PyObject *name = PyTuple_GetItem(kwnames, k);
		int i = place_of(a, name);

		if (i < 0) {
			PyErr_Format(PyExc_TypeError,
				     "%s() got an unexpected keyword argument '%U'", a->call, name);
			return false;
		}
		if (out[i]) {
			PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'",
				     a->call, a->names[i]);
			return false;
		}
		out[i] = values[k];
	}
	return true;
}

bool args_read(const struct args *a, PyObject *const *in, Py_ssize_t n, PyObject *kwnames,
	       PyObject **out)
{
	int max = 0;

	while (a->names[max])
		out[max++] = NULL;
	if (n > max) {
		PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments (%zd given)",
			     a->call, max, n);
		return false;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		out[i] = in[i];
	if (!read_keywords(a, in + n, kwnames, out))
		return false;
	for (int i = 0; i < a->required; i++)
		if (!out[i]) {
			PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'",
				     a->call, a->names[i]);
			return false;
		}
	return true;
}

static void wrong_type(PyObject *o, const char *what, const char *expected)
{
	PyObject *type = PyType_GetName(Py_TYPE(o));

	if (type)
		PyErr_Format(PyExc_TypeError, "%s must be %s, not %U", what, expected, type);
	Py_XDECREF(type);
}

const char *arg_text(PyObject *o, const char *what)
{
	Py_ssize_t len;
	const char *s;

	if (!PyUnicode_Check(o)) {
		wrong_type(o, what, "str");
		return NULL;
	}
	s = PyUnicode_AsUTF8AndSize(o, &len);
	if (s && strlen(s) != (size_t)len) {
		PyErr_Format(PyExc_ValueError, "%s contains a null character", what);
		return NULL;
	}
	return s;
}

bool arg_u64(PyObject *o, const char *what, uint64_t *out)
{
	PyObject *number = PyLong_Check(o) ? Py_NewRef(o) : NULL;

	if (!number && PyIndex_Check(o))
		number = PyNumber_Index(o);
	else if (!number)
		wrong_type(o, what, "int");
	if (!number)
		return false;
	*out = PyLong_AsUnsignedLongLong(number);
	Py_DECREF(number);
	if (*out == UINT64_MAX && PyErr_Occurred()) {
		if (!PyErr_ExceptionMatches(PyExc_OverflowError))
			return false;
		PyErr_Clear();
	}
	return true;
}

bool arg_is_number(PyObject *o)
{
	bool scalar;
	Py_buffer view;

	if (PyLong_Check(o) || !PyObject_CheckBuffer(o))
		return true;
	if (!PyIndex_Check(o))
		return false;
	if (PyObject_GetBuffer(o, &view, PyBUF_ND)) {
		PyErr_Clear();
		return false;
	}
	scalar = view.ndim == 0 && view.readonly;
	PyBuffer_Release(&view);
	return scalar;
}

Py_ssize_t arg_list(PyObject *o, const char *what)
{
	if (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) &&
	    !PyByteArray_Check(o))
		return PySequence_Size(o);
	wrong_type(o, what, "a list");
	return -1;
}
