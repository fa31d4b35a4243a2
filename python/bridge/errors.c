// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors, and dims as Python has them.
#include "bridge.h"

static PyObject* error_class;  // ferrite.Error

PyObject* raise_last(void) {
  ferrite_error error = {.size = sizeof error};
  ferrite_last_error(&error);
  PyObject* made = PyObject_CallFunction(error_class ? error_class : PyExc_RuntimeError, "sssi",
                                         error.code ? error.code : "", error.text ? error.text : "",
                                         error.where ? error.where : "", (int)error.status);
  if (made) {
    PyErr_SetObject((PyObject*)Py_TYPE(made), made);
    Py_DECREF(made);
  }
  return NULL;
}

PyObject* set_error_class(PyObject* module, PyObject* given) {
  (void)module;
  Py_INCREF(given);
  Py_XDECREF(error_class);
  error_class = given;
  Py_RETURN_NONE;
}

PyObject* dims_tuple(int32_t rank, const int64_t* dims) {
  PyObject* tuple = PyTuple_New(rank);
  for (int32_t k = 0; tuple && k < rank; ++k) {
    PyObject* dim = PyLong_FromLongLong(dims[k]);
    if (!dim) {
      Py_CLEAR(tuple);
      break;
    }
    PyTuple_SetItem(tuple, k, dim);
  }
  return tuple;
}

// Reads a sequence of integers into dims[most_rank]; -1 with an error set if it is none.
int32_t dims_from(PyObject* sequence, int64_t* dims) {
  const Py_ssize_t rank = PySequence_Size(sequence);
  if (rank < 0) return -1;
  if (rank > most_rank) {
    PyErr_Format(PyExc_ValueError, "a tensor has %zd dims, and at most %d are supported", rank, most_rank);
    return -1;
  }
  for (Py_ssize_t k = 0; k < rank; ++k) {
    PyObject* item = PySequence_GetItem(sequence, k);
    if (!item) return -1;
    dims[k] = PyLong_AsLongLong(item);
    Py_DECREF(item);
    if (dims[k] == -1 && PyErr_Occurred()) return -1;
  }
  return (int32_t)rank;
}
