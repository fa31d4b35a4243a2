// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Session: an open pipeline.
#include <stdlib.h>

#include "bridge.h"

typedef struct {
  PyObject_HEAD
  ferrite_session* session;
} Session;

static const char* text_or_null(PyObject* object) {
  if (!object || object == Py_None) return NULL;
  return PyUnicode_AsUTF8AndSize(object, NULL);  // limited API from 3.10 on
}

static PyObject* session_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"manifest", "plugins",   "device", "threads", "log",
                          "profile",  "safe_mode", "tf32",   "tune",    NULL};
  PyObject *manifest = NULL, *plugins = NULL, *device = NULL, *log = NULL, *profile = NULL, *tune = NULL;
  long long threads = 0;
  int safe_mode = 0, tf32 = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOLOOppO", names, &manifest, &plugins, &device, &threads,
                                   &log, &profile, &safe_mode, &tf32, &tune))
    return NULL;
  ferrite_session_options options = {
      .size = sizeof options, .threads = threads, .safe_mode = (uint32_t)safe_mode, .tf32 = (uint32_t)tf32};
  options.manifest = text_or_null(manifest);
  options.device = text_or_null(device);
  options.log = text_or_null(log);
  options.profile = text_or_null(profile);
  options.tune = text_or_null(tune);
  if (PyErr_Occurred()) return NULL;
  PyObject* held = PyList_New(0);
  if (!held) return NULL;
  const char** list = NULL;
  if (plugins && plugins != Py_None && !(list = names_of(plugins, &options.plugin_count, held))) {
    Py_DECREF(held);
    return NULL;
  }
  options.plugins = list;
  ferrite_session* opened = NULL;
  int32_t status;
  Py_BEGIN_ALLOW_THREADS
  status = ferrite_session_open(&options, &opened);
  Py_END_ALLOW_THREADS
  free(list);
  Py_DECREF(held);
  if (status != FERRITE_OK) return raise_last();
  Session* self = (Session*)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self)
    self->session = opened;
  else
    ferrite_session_close(opened);
  return (PyObject*)self;
}

static void session_free(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  ferrite_session_close(((Session*)self)->session);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject* session_load(PyObject* self, PyObject* args) {
  const char *path, *data = NULL;
  Py_ssize_t bytes = 0;
  if (!PyArg_ParseTuple(args, "s|y#", &path, &data, &bytes)) return NULL;
  ferrite_session* session = ((Session*)self)->session;
  ferrite_model* opened = NULL;
  int32_t status;
  Py_BEGIN_ALLOW_THREADS
  status = data ? ferrite_model_load_bytes(session, path, data, (uint64_t)bytes, &opened)
                : ferrite_model_load(session, path, &opened);
  Py_END_ALLOW_THREADS
  return status == FERRITE_OK ? model_of(self, opened) : raise_last();
}

static PyObject* session_device(PyObject* self, PyObject* unused) {
  (void)unused;
  DLDevice device;
  int32_t status;
  Py_BEGIN_ALLOW_THREADS
  status = ferrite_session_device(((Session*)self)->session, &device);
  Py_END_ALLOW_THREADS
  if (status != FERRITE_OK) return raise_last();
  return Py_BuildValue("ii", (int)device.device_type, (int)device.device_id);
}

static PyObject* session_passes(PyObject* self, PyObject* args) {
  const char* phase;
  if (!PyArg_ParseTuple(args, "s", &phase)) return NULL;
  Text text = {NULL, 0};
  int32_t status;
  Py_BEGIN_ALLOW_THREADS
  status = ferrite_session_passes(((Session*)self)->session, phase, &text, take_text);
  Py_END_ALLOW_THREADS
  return string_of(text, status);
}

static PyObject* session_identity(PyObject* self, PyObject* unused) {
  (void)unused;
  Text text = {NULL, 0};
  int32_t status;
  Py_BEGIN_ALLOW_THREADS
  status = ferrite_session_identity(((Session*)self)->session, &text, take_text);
  Py_END_ALLOW_THREADS
  return string_of(text, status);
}

static PyMethodDef session_methods[] = {
    {"identity", session_identity, METH_NOARGS,
     "A text that only sessions share which compile models alike, where their options are the same."},
    {"passes", session_passes, METH_VARARGS, "passes(phase): a line for each, its name and its plugin."},
    {"load", session_load, METH_VARARGS, "load(path[, contents]): opens a model."},
    {"device", session_device, METH_NOARGS, "(device type, device number) in DLPack's numbers."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot session_slots[] = {{Py_tp_new, session_new},
                                      {Py_tp_dealloc, session_free},
                                      {Py_tp_methods, session_methods},
                                      {Py_tp_doc, "An open pipeline; see ferrite.Session."},
                                      {0, NULL}};
PyType_Spec session_spec = {"ferrite._bridge.Session", sizeof(Session), 0, Py_TPFLAGS_DEFAULT, session_slots};
