// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The extension ferrite._bridge: the embedding API of ferrite.h for Python, in CPython's limited API, so that
// one library serves all versions of Python from 3.10 on. Tensors come and go by DLPack; nothing of PyTorch
// or numpy is linked. The GIL is released while models load, compile and run.
//
// The module holds what Python cannot do fast or at all. The interface for people is in the package's Python
// files.
#include "bridge.h"

static PyObject* version(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyUnicode_FromString(ferrite_version());
}

static PyMethodDef functions[] = {
    {"version", version, METH_NOARGS, "The version of the library."},
    {"set_error_class", set_error_class, METH_O, "The class of the errors that are raised."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT,
                                    "ferrite._bridge",
                                    "The embedding API of Ferrite.",
                                    -1,
                                    functions,
                                    NULL,
                                    NULL,
                                    NULL,
                                    NULL};

PyMODINIT_FUNC PyInit__bridge(void) {
  PyObject* made = PyModule_Create(&module);
  if (!made) return NULL;
  tensor_type = PyType_FromSpec(&tensor_spec);
  model_type = PyType_FromSpec(&model_spec);
  PyObject* session = PyType_FromSpec(&session_spec);
  PyObject* program = PyType_FromSpec(&program_spec);
  if (!tensor_type || !model_type || !session || !program ||
      PyModule_AddObjectRef(made, "Tensor", tensor_type) != 0 ||
      PyModule_AddObjectRef(made, "Model", model_type) != 0 ||
      PyModule_AddObjectRef(made, "Session", session) != 0 ||
      PyModule_AddObjectRef(made, "Program", program) != 0)
    Py_CLEAR(made);
  Py_XDECREF(session);
  Py_XDECREF(program);
  return made;
}
