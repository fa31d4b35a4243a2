// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations that the files of the extension share.
#ifndef FERRITE_BRIDGE_H
#define FERRITE_BRIDGE_H

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ferrite/ferrite.h"

enum { most_rank = 64 };

// Raises the calling thread's last error of ferrite.h as ferrite.Error; returns null.
PyObject* raise_last(void);
PyObject* set_error_class(PyObject* module, PyObject* given);

PyObject* dims_tuple(int32_t rank, const int64_t* dims);
// Reads a sequence of integers into dims[most_rank] and returns the rank; -1 with an error set if it is none.
int32_t dims_from(PyObject* sequence, int64_t* dims);

// The elements of a sequence of strings, in memory that the caller frees; the list `held` keeps them alive.
// Null with an error set if it is none.
const char** names_of(PyObject* sequence, uint64_t* count, PyObject* held);

// A text that a call of ferrite.h gives.
typedef struct {
  char* data;
  size_t bytes;
} Text;
// A `write` function of ferrite.h: copies to the Text that `context` points to. It does not take the
// interpreter's lock: a fork holds it, and waits for calls of ferrite.h that have begun.
void take_text(void* context, const char* text, uint64_t bytes);
// The text as a string, or the error that the status says; frees the text.
PyObject* string_of(Text text, int32_t status);

// The tensor as DLPack before 1.0 has it, for consumers that ask for no version.
typedef struct {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(void* self);
} Unversioned;

// Makes a Tensor, which takes `managed` over in any case.
PyObject* tensor_of(DLManagedTensorVersioned* managed);

typedef struct {
  PyObject_HEAD
  ferrite_model* model;
  PyObject* session;  // outlives the model
} Model;

PyObject* model_of(PyObject* session, ferrite_model* opened);

extern PyObject *tensor_type, *model_type;
extern PyType_Spec tensor_spec, session_spec, model_spec, program_spec;

#endif
