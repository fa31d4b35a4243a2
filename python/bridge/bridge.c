// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The extension ferrite._bridge: the embedding API of ferrite.h for Python, in CPython's limited API, so that one
// library serves all versions of Python from 3.10 on. Tensors come and go by DLPack; nothing of PyTorch or numpy is
// linked. The GIL is released while models load, compile and run.
//
// The module holds what Python cannot do fast or at all. What people use is in the package's Python files.
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <stdlib.h>
#include <string.h>

#include "dlpack_exchange.h"
#include "ferrite/ferrite.h"

enum { most_rank = 64 };

static PyObject* error_class;  // ferrite.Error

// ---- errors

static PyObject* raise_last(void) {
  ferrite_error error = {.size = sizeof error};
  ferrite_last_error(&error);
  PyObject* made = PyObject_CallFunction(error_class ? error_class : PyExc_RuntimeError, "sssi", error.code ? error.code : "",
                                         error.text ? error.text : "", error.where ? error.where : "", (int)error.status);
  if (made) {
    PyErr_SetObject((PyObject*)Py_TYPE(made), made);
    Py_DECREF(made);
  }
  return NULL;
}

static PyObject* set_error_class(PyObject* module, PyObject* given) {
  (void)module;
  Py_INCREF(given);
  Py_XDECREF(error_class);
  error_class = given;
  Py_RETURN_NONE;
}

// ---- dtypes

static PyObject* dims_tuple(int32_t rank, const int64_t* dims) {
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
static int32_t dims_from(PyObject* sequence, int64_t* dims) {
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


// ---- Tensor: a result, as other libraries take it

typedef struct {
  PyObject_HEAD
  DLManagedTensorVersioned* managed;  // null once it was given away
} Tensor;

static PyObject* tensor_type;

static void tensor_free(PyObject* self) {
  Tensor* tensor = (Tensor*)self;
  PyTypeObject* type = Py_TYPE(self);
  if (tensor->managed && tensor->managed->deleter) tensor->managed->deleter(tensor->managed);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject* tensor_of(DLManagedTensorVersioned* managed) {
  allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject*)tensor_type, Py_tp_alloc);
  Tensor* tensor = (Tensor*)allocate((PyTypeObject*)tensor_type, 0);
  if (tensor)
    tensor->managed = managed;
  else if (managed->deleter)
    managed->deleter(managed);
  return (PyObject*)tensor;
}

// Each capsule that a consumer takes shares the result: it holds a reference to the Tensor.
typedef struct {
  DLManagedTensorVersioned managed;
  PyObject* owner;
} Share;

static void share_free(DLManagedTensorVersioned* managed) {
  Share* share = (Share*)managed;
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(share->owner);
  PyGILState_Release(state);
  free(share);
}

static void capsule_free(PyObject* capsule) {
  // A consumer renames the capsule when it takes the tensor.
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;
  DLManagedTensorVersioned* managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
  if (managed && managed->deleter) managed->deleter(managed);
}

// The tensor as DLPack before 1.0 has it, for consumers that ask for no version.
typedef struct {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(void* self);
} Unversioned;

typedef struct {
  Unversioned managed;
  PyObject* owner;
} OldShare;

static void old_share_free(void* managed) {
  OldShare* share = managed;
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(share->owner);
  PyGILState_Release(state);
  free(share);
}

static void old_capsule_free(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  Unversioned* managed = PyCapsule_GetPointer(capsule, "dltensor");
  if (managed && managed->deleter) managed->deleter(managed);
}

static PyObject* tensor_dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &version, &device, &copy)) return NULL;
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "a result is given without a copy; copy it with the library that takes it");
    return NULL;
  }
  Tensor* tensor = (Tensor*)self;
  long major = 0;
  if (version != Py_None) {
    PyObject* first = PySequence_GetItem(version, 0);
    if (!first) return NULL;
    major = PyLong_AsLong(first);
    Py_DECREF(first);
    if (major == -1 && PyErr_Occurred()) return NULL;
  }
  if (major >= 1) {
    Share* share = calloc(1, sizeof *share);
    if (!share) return PyErr_NoMemory();
    share->managed.version = (DLPackVersion){1, 0};
    share->managed.deleter = share_free;
    share->managed.dl_tensor = tensor->managed->dl_tensor;
    share->owner = self;
    Py_INCREF(self);
    PyObject* capsule = PyCapsule_New(share, "dltensor_versioned", capsule_free);
    if (!capsule) share_free(&share->managed);
    return capsule;
  }
  OldShare* share = calloc(1, sizeof *share);
  if (!share) return PyErr_NoMemory();
  share->managed.dl_tensor = tensor->managed->dl_tensor;
  share->managed.deleter = old_share_free;
  share->owner = self;
  Py_INCREF(self);
  PyObject* capsule = PyCapsule_New(share, "dltensor", old_capsule_free);
  if (!capsule) old_share_free(share);
  return capsule;
}

static PyObject* tensor_device(PyObject* self, PyObject* unused) {
  (void)unused;
  const DLDevice device = ((Tensor*)self)->managed->dl_tensor.device;
  return Py_BuildValue("ii", (int)device.device_type, (int)device.device_id);
}

static PyObject* tensor_shape(PyObject* self, void* unused) {
  (void)unused;
  const DLTensor* tensor = &((Tensor*)self)->managed->dl_tensor;
  return dims_tuple(tensor->ndim, tensor->shape);
}

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS, "The tensor as a capsule of DLPack."},
    {"__dlpack_device__", tensor_device, METH_NOARGS, "(device type, device number) in DLPack's numbers."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef tensor_members[] = {{"shape", tensor_shape, NULL, "The dims, as a tuple.", NULL},
                                       {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot tensor_slots[] = {{Py_tp_dealloc, tensor_free},
                                     {Py_tp_methods, tensor_methods},
                                     {Py_tp_getset, tensor_members},
                                     {Py_tp_doc, "A result in memory of Ferrite: numpy.from_dlpack and torch.from_dlpack take it without a copy."},
                                     {0, NULL}};
static PyType_Spec tensor_spec = {"ferrite._bridge.Tensor", sizeof(Tensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots};

// ---- Session

typedef struct {
  PyObject_HEAD
  ferrite_session* session;
} Session;

static const char* text_or_null(PyObject* object) {
  if (!object || object == Py_None) return NULL;
  return PyUnicode_AsUTF8AndSize(object, NULL);  // limited API from 3.10 on
}

static PyObject* session_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"manifest", "plugins", "device", "threads", "log", "profile", "safe_mode", NULL};
  PyObject *manifest = NULL, *plugins = NULL, *device = NULL, *log = NULL, *profile = NULL;
  long long threads = 0;
  int safe_mode = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOLOOp", names, &manifest, &plugins, &device, &threads, &log, &profile, &safe_mode))
    return NULL;
  ferrite_session_options options = {.size = sizeof options, .threads = threads, .safe_mode = (uint32_t)safe_mode};
  options.manifest = text_or_null(manifest);
  options.device = text_or_null(device);
  options.log = text_or_null(log);
  options.profile = text_or_null(profile);
  if (PyErr_Occurred()) return NULL;
  const Py_ssize_t count = plugins && plugins != Py_None ? PySequence_Size(plugins) : 0;
  if (count < 0) return NULL;
  const char** list = calloc((size_t)count + 1, sizeof *list);
  PyObject* held = PyList_New(0);
  if (!list || !held) {
    free(list);
    Py_XDECREF(held);
    return PyErr_NoMemory();
  }
  ferrite_session* opened = NULL;
  int32_t status = 0;
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* item = PySequence_GetItem(plugins, k);
    if (!item || PyList_Append(held, item) != 0 || !(list[k] = PyUnicode_AsUTF8AndSize(item, NULL))) {
      Py_XDECREF(item);
      goto failed;
    }
    Py_DECREF(item);
  }
  options.plugins = list;
  options.plugin_count = (uint64_t)count;
  Py_BEGIN_ALLOW_THREADS
  status = ferrite_session_open(&options, &opened);
  Py_END_ALLOW_THREADS
  if (status != FERRITE_OK) {
    raise_last();
    goto failed;
  }
  free(list);
  Py_DECREF(held);
  Session* self = (Session*)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self)
    self->session = opened;
  else
    ferrite_session_close(opened);
  return (PyObject*)self;
failed:
  free(list);
  Py_DECREF(held);
  return NULL;
}

static void session_free(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  ferrite_session_close(((Session*)self)->session);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

typedef struct {
  PyObject_HEAD
  ferrite_model* model;
  PyObject* session;  // outlives the model
} Model;

static PyObject* model_type;

static PyObject* model_of(PyObject* session, ferrite_model* opened) {
  allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject*)model_type, Py_tp_alloc);
  Model* model = (Model*)allocate((PyTypeObject*)model_type, 0);
  if (!model) {
    ferrite_model_free(opened);
    return NULL;
  }
  model->model = opened;
  model->session = session;
  Py_INCREF(session);
  return (PyObject*)model;
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

static PyMethodDef session_methods[] = {
    {"load", session_load, METH_VARARGS, "load(path[, contents]): opens a model."},
    {"device", session_device, METH_NOARGS, "(device type, device number) in DLPack's numbers."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot session_slots[] = {{Py_tp_new, session_new},
                                      {Py_tp_dealloc, session_free},
                                      {Py_tp_methods, session_methods},
                                      {Py_tp_doc, "An open pipeline; see ferrite.Session."},
                                      {0, NULL}};
static PyType_Spec session_spec = {"ferrite._bridge.Session", sizeof(Session), 0, Py_TPFLAGS_DEFAULT, session_slots};

// ---- Model

static void model_free(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  ferrite_model_free(((Model*)self)->model);
  Py_XDECREF(((Model*)self)->session);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject* ports(ferrite_model* model, uint64_t count, int32_t (*describe)(const ferrite_model*, uint64_t, ferrite_port*)) {
  PyObject* list = PyList_New(0);
  for (uint64_t k = 0; list && k < count; ++k) {
    ferrite_port port = {.size = sizeof port};
    if (describe(model, k, &port) != FERRITE_OK) {
      Py_DECREF(list);
      return raise_last();
    }
    PyObject* dims = port.rank < 0 ? Py_None : PyTuple_New(port.rank);
    if (port.rank < 0) Py_INCREF(dims);
    for (int32_t d = 0; dims && d < port.rank; ++d)
      PyTuple_SetItem(dims, d, port.dims[d] >= 0 ? PyLong_FromLongLong(port.dims[d]) : PyUnicode_FromString(port.dim_names[d]));
    PyObject* item = dims ? Py_BuildValue("ssN", port.name, port.dtype_name, dims) : NULL;
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

static PyObject* model_inputs(PyObject* self, PyObject* unused) {
  (void)unused;
  ferrite_model* model = ((Model*)self)->model;
  return ports(model, ferrite_model_input_count(model), ferrite_model_input);
}
static PyObject* model_outputs(PyObject* self, PyObject* unused) {
  (void)unused;
  ferrite_model* model = ((Model*)self)->model;
  return ports(model, ferrite_model_output_count(model), ferrite_model_output);
}

// Tensors that were given by their DLPack capsules.
typedef struct {
  Py_ssize_t count;
  DLTensor* tensors;
  const DLTensor** pointers;
  PyObject** capsules;
} Given;

static void given_free(Given* given) {
  for (Py_ssize_t k = 0; k < given->count; ++k) {
    PyObject* capsule = given->capsules[k];
    if (!capsule) continue;
    // The capsule was not renamed, so its own destructor releases the tensor.
    Py_DECREF(capsule);
  }
  free(given->tensors);
  free((void*)given->pointers);
  free(given->capsules);
}

static int given_take(Given* given, PyObject* sequence) {
  given->count = 0;
  const Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) return -1;
  given->tensors = calloc((size_t)count + 1, sizeof *given->tensors);
  given->pointers = calloc((size_t)count + 1, sizeof *given->pointers);
  given->capsules = calloc((size_t)count + 1, sizeof *given->capsules);
  if (!given->tensors || !given->pointers || !given->capsules) {
    PyErr_NoMemory();
    return -1;
  }
  PyObject* version = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
  PyObject* nothing = PyTuple_New(0);
  int status = version && nothing ? 0 : -1;
  for (Py_ssize_t k = 0; status == 0 && k < count; ++k) {
    PyObject* object = PySequence_GetItem(sequence, k);
    PyObject* method = object ? PyObject_GetAttrString(object, "__dlpack__") : NULL;
    if (object && !method)
      PyErr_Format(PyExc_TypeError, "input %zd is no tensor: its type has no method __dlpack__; give a numpy array, a torch.Tensor or another DLPack tensor", k);
    PyObject* capsule = method ? PyObject_Call(method, nothing, version) : NULL;
    if (method && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();  // a library of before DLPack 1.0
      capsule = PyObject_Call(method, nothing, NULL);
    }
    Py_XDECREF(method);
    Py_XDECREF(object);
    given->capsules[k] = capsule;
    given->count = k + 1;
    if (!capsule) {
      status = -1;
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
      given->tensors[k] = ((DLManagedTensorVersioned*)PyCapsule_GetPointer(capsule, "dltensor_versioned"))->dl_tensor;
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
      given->tensors[k] = ((Unversioned*)PyCapsule_GetPointer(capsule, "dltensor"))->dl_tensor;
    } else {
      PyErr_Format(PyExc_TypeError, "input %zd gives no DLPack capsule", k);
      status = -1;
    }
    given->pointers[k] = &given->tensors[k];
  }
  Py_XDECREF(version);
  Py_XDECREF(nothing);
  return status;
}

static PyObject* model_run(PyObject* self, PyObject* sequence) {
  ferrite_model* model = ((Model*)self)->model;
  Given given = {0};
  if (given_take(&given, sequence) != 0) {
    given_free(&given);
    return NULL;
  }
  const uint64_t count = ferrite_model_output_count(model);
  DLManagedTensorVersioned** outputs = calloc(count + 1, sizeof *outputs);
  int32_t status = FERRITE_ENOMEM;
  if (outputs) {
    Py_BEGIN_ALLOW_THREADS
    status = ferrite_run_alloc(model, given.pointers, (uint64_t)given.count, outputs, count);
    Py_END_ALLOW_THREADS
  }
  given_free(&given);
  PyObject* list = NULL;
  if (!outputs) {
    PyErr_NoMemory();
  } else if (status != FERRITE_OK) {
    raise_last();
  } else {
    list = PyList_New(0);
    for (uint64_t k = 0; k < count; ++k) {
      PyObject* tensor = tensor_of(outputs[k]);  // takes it over in any case
      if (list && (!tensor || PyList_Append(list, tensor) != 0)) Py_CLEAR(list);
      Py_XDECREF(tensor);
    }
  }
  free(outputs);
  return list;
}

static PyObject* model_compile(PyObject* self, PyObject* sequence) {
  ferrite_model* model = ((Model*)self)->model;
  Given given = {0};
  int32_t status = FERRITE_OK;
  const int taken = given_take(&given, sequence);
  if (taken == 0) {
    Py_BEGIN_ALLOW_THREADS
    status = ferrite_model_compile(model, given.pointers, (uint64_t)given.count);
    Py_END_ALLOW_THREADS
  }
  given_free(&given);
  if (taken != 0) return NULL;
  if (status != FERRITE_OK) return raise_last();
  Py_RETURN_NONE;
}

// compile_types([(type code, bits, device type, device, dims)]): compiles for tensors of these types.
static PyObject* model_compile_types(PyObject* self, PyObject* sequence) {
  const Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) return NULL;
  typedef struct {
    DLTensor tensor;
    int64_t dims[most_rank];
  } Type;
  Type* types = calloc((size_t)count + 1, sizeof *types);
  const DLTensor** pointers = calloc((size_t)count + 1, sizeof *pointers);
  int32_t status = types && pointers ? FERRITE_OK : FERRITE_ENOMEM;
  if (status != FERRITE_OK) PyErr_NoMemory();
  for (Py_ssize_t k = 0; status == FERRITE_OK && k < count; ++k) {
    int code, bits, device_type, device;
    PyObject* dims;
    PyObject* item = PySequence_GetItem(sequence, k);
    DLTensor* tensor = &types[k].tensor;
    if (!item || !PyArg_ParseTuple(item, "iiiiO", &code, &bits, &device_type, &device, &dims) ||
        (tensor->ndim = dims_from(dims, types[k].dims)) < 0) {
      status = FERRITE_EINVALID;
    } else {
      tensor->device = (DLDevice){(DLDeviceType)device_type, device};
      tensor->dtype = (DLDataType){(uint8_t)code, (uint8_t)bits, 1};
      tensor->shape = types[k].dims;
      pointers[k] = tensor;
    }
    Py_XDECREF(item);
  }
  if (!PyErr_Occurred()) {
    ferrite_model* model = ((Model*)self)->model;
    Py_BEGIN_ALLOW_THREADS
    status = ferrite_model_compile(model, pointers, (uint64_t)count);
    Py_END_ALLOW_THREADS
    if (status != FERRITE_OK) raise_last();
  }
  free(types);
  free((void*)pointers);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

static void take_text(void* context, const char* text, uint64_t bytes) {
  const PyGILState_STATE state = PyGILState_Ensure();
  *(PyObject**)context = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace");
  PyGILState_Release(state);
}

static PyObject* model_ledger(PyObject* self, PyObject* unused) {
  (void)unused;
  PyObject* text = NULL;
  int32_t status;
  Py_BEGIN_ALLOW_THREADS
  status = ferrite_model_ledger(((Model*)self)->model, &text, take_text);
  Py_END_ALLOW_THREADS
  return status == FERRITE_OK ? text : raise_last();
}

static PyObject* model_unsupported(PyObject* self, PyObject* unused) {
  (void)unused;
  PyObject* text = NULL;
  int32_t status;
  Py_BEGIN_ALLOW_THREADS
  status = ferrite_model_unsupported(((Model*)self)->model, &text, take_text);
  Py_END_ALLOW_THREADS
  return status == FERRITE_OK ? text : raise_last();
}

static PyObject* model_stats(PyObject* self, PyObject* unused) {
  (void)unused;
  ferrite_stats stats = {.size = sizeof stats};
  if (ferrite_model_stats(((Model*)self)->model, &stats) != FERRITE_OK) return raise_last();
  return Py_BuildValue("{sKsKsKsdsdsdsd}", "nodes", (unsigned long long)stats.nodes, "statements",
                       (unsigned long long)stats.statements, "kernels", (unsigned long long)stats.kernels, "compile_ms",
                       stats.compile_ms, "init_ms", stats.init_ms, "load_ms", stats.load_ms, "run_ms", stats.run_ms);
}

static PyMethodDef model_methods[] = {
    {"inputs", model_inputs, METH_NOARGS, "[(name, dtype, dims)]; a dim that is not fixed is its name, dims None: unknown."},
    {"outputs", model_outputs, METH_NOARGS, "As inputs()."},
    {"run", model_run, METH_O, "run(tensors) -> [Tensor]"},
    {"compile", model_compile, METH_O, "compile(tensors): compiles for their shapes."},
    {"compile_types", model_compile_types, METH_O, "compile_types(types): compiles for tensors of these types."},
    {"ledger", model_ledger, METH_NOARGS, "The decisions of the last program, as JSON."},
    {"unsupported", model_unsupported, METH_NOARGS, "A line for each node that cannot be imported."},
    {"stats", model_stats, METH_NOARGS, "Figures of the last program."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot model_slots[] = {{Py_tp_dealloc, model_free},
                                    {Py_tp_methods, model_methods},
                                    {Py_tp_doc, "An open model; see ferrite.Model."},
                                    {0, NULL}};
static PyType_Spec model_spec = {"ferrite._bridge.Model", sizeof(Model), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, model_slots};

// ---- Program: a compiled graph of torch.compile, called with a list of tensors

typedef struct {
  Py_ssize_t argument;  // index in the list of arguments; -1: `constant`
  PyObject* constant;
  int32_t rank;
  int32_t permutation[most_rank];  // dims of the program's input, as dims of the tensor; [0] = -1: in order
} ProgramInput;

typedef struct {
  Py_ssize_t argument;  // the argument that is the result; -1: computed; -2: None
  DLTensor prototype;   // contiguous, as the program stores it
  int64_t* dims;        // [rank] of the prototype
  int64_t* shape;       // [2 * rank]: shape and strides of the tensor that the caller gets; null: as the prototype
} ProgramOutput;

typedef struct {
  PyObject_HEAD
  PyObject* model;
  const fe_exchange_api* api;
  PyObject* api_capsule;
  Py_ssize_t input_count, output_count, computed_count;
  ProgramInput* inputs;
  ProgramOutput* outputs;
} Program;

static void program_free(PyObject* self) {
  Program* program = (Program*)self;
  PyTypeObject* type = Py_TYPE(self);
  for (Py_ssize_t k = 0; program->inputs && k < program->input_count; ++k) Py_XDECREF(program->inputs[k].constant);
  for (Py_ssize_t k = 0; program->outputs && k < program->output_count; ++k) {
    free(program->outputs[k].dims);
    free(program->outputs[k].shape);
  }
  free(program->inputs);
  free(program->outputs);
  Py_XDECREF(program->model);
  Py_XDECREF(program->api_capsule);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static int read_input(ProgramInput* input, PyObject* spec) {
  // (index of the argument or a tensor, permutation or None)
  PyObject *source, *permutation;
  if (!PyArg_ParseTuple(spec, "OO", &source, &permutation)) return -1;
  if (PyLong_Check(source)) {
    input->argument = PyLong_AsSsize_t(source);
  } else {
    input->argument = -1;
    input->constant = source;
    Py_INCREF(source);
  }
  input->permutation[0] = -1;
  if (permutation == Py_None) return 0;
  int64_t dims[most_rank];
  input->rank = dims_from(permutation, dims);
  if (input->rank < 0) return -1;
  for (int32_t k = 0; k < input->rank; ++k) {
    if (dims[k] < 0 || dims[k] >= input->rank) {
      PyErr_SetString(PyExc_ValueError, "a permutation has a dim that is out of range");
      return -1;
    }
    input->permutation[k] = (int32_t)dims[k];
  }
  return 0;
}

static int read_output(ProgramOutput* output, PyObject* spec) {
  // None, the index of an argument, or (code, bits, device type, device, dims, shape and strides or None)
  if (spec == Py_None) {
    output->argument = -2;
    return 0;
  }
  if (PyLong_Check(spec)) {
    output->argument = PyLong_AsSsize_t(spec);
    return 0;
  }
  int code, bits, device_type, device;
  PyObject *dims, *shape;
  if (!PyArg_ParseTuple(spec, "iiiiOO", &code, &bits, &device_type, &device, &dims, &shape)) return -1;
  int64_t read[most_rank];
  const int32_t rank = dims_from(dims, read);
  if (rank < 0) return -1;
  output->argument = -1;
  output->dims = calloc((size_t)rank + 1, sizeof *output->dims);
  if (!output->dims) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(output->dims, read, (size_t)rank * sizeof *read);
  output->prototype.device = (DLDevice){(DLDeviceType)device_type, device};
  output->prototype.ndim = rank;
  output->prototype.dtype = (DLDataType){(uint8_t)code, (uint8_t)bits, 1};
  output->prototype.shape = output->dims;
  if (shape == Py_None) return 0;
  const int32_t both = dims_from(shape, read);
  if (both < 0) return -1;
  if (both != 2 * rank) {
    PyErr_SetString(PyExc_ValueError, "an output has another number of strides than of dims");
    return -1;
  }
  output->shape = calloc((size_t)both + 1, sizeof *output->shape);
  if (!output->shape) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(output->shape, read, (size_t)both * sizeof *read);
  return 0;
}

static PyObject* program_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"model", "exchange_api", "inputs", "outputs", NULL};
  PyObject *model, *capsule, *inputs, *outputs;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOO", names, (PyTypeObject*)model_type, &model, &capsule, &inputs, &outputs))
    return NULL;
  const fe_exchange_api* api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (!api) return NULL;
  // An older table of the same major version may be what we know.
  while (api && api->header.version.major != 1) api = (const fe_exchange_api*)api->header.previous;
  if (!api || !api->view_of_object) {
    PyErr_SetString(PyExc_RuntimeError, "the tensor library's exchange API is of a version of DLPack that is not supported");
    return NULL;
  }
  Program* self = (Program*)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!self) return NULL;
  self->api = api;
  self->api_capsule = capsule;
  self->model = model;
  Py_INCREF(capsule);
  Py_INCREF(model);
  const Py_ssize_t in = PySequence_Size(inputs), out = PySequence_Size(outputs);
  if (in < 0 || out < 0) goto failed;
  self->inputs = calloc((size_t)in + 1, sizeof *self->inputs);
  self->outputs = calloc((size_t)out + 1, sizeof *self->outputs);
  if (!self->inputs || !self->outputs) {
    PyErr_NoMemory();
    goto failed;
  }
  for (Py_ssize_t k = 0; k < in; ++k) {
    PyObject* spec = PySequence_GetItem(inputs, k);
    self->input_count = k + 1;
    const int status = spec ? read_input(&self->inputs[k], spec) : -1;
    Py_XDECREF(spec);
    if (status != 0) goto failed;
  }
  for (Py_ssize_t k = 0; k < out; ++k) {
    PyObject* spec = PySequence_GetItem(outputs, k);
    self->output_count = k + 1;
    const int status = spec ? read_output(&self->outputs[k], spec) : -1;
    Py_XDECREF(spec);
    if (status != 0) goto failed;
    if (self->outputs[k].argument == -1) ++self->computed_count;
  }
  return (PyObject*)self;
failed:
  Py_DECREF(self);
  return NULL;
}

// An output of which the caller sees another order of dims than the memory's.
typedef struct {
  DLManagedTensorVersioned managed;
  DLManagedTensorVersioned* inner;
  int64_t shape[];
} Restrided;

static void restrided_free(DLManagedTensorVersioned* managed) {
  Restrided* made = (Restrided*)managed;
  if (made->inner->deleter) made->inner->deleter(made->inner);
  free(made);
}

static DLManagedTensorVersioned* restrided(DLManagedTensorVersioned* inner, const ProgramOutput* output) {
  const size_t rank = (size_t)output->prototype.ndim;
  Restrided* made = malloc(sizeof *made + 2 * rank * sizeof *made->shape);
  if (!made) return NULL;
  made->managed = *inner;
  made->managed.deleter = restrided_free;
  made->managed.manager_ctx = NULL;
  made->inner = inner;
  memcpy(made->shape, output->shape, 2 * rank * sizeof *made->shape);
  made->managed.dl_tensor.shape = made->shape;
  made->managed.dl_tensor.strides = made->shape + rank;
  return &made->managed;
}

static void set_allocation_error(void* context, const char* kind, const char* message) {
  (void)context;
  PyErr_SetString(strcmp(kind, "MemoryError") == 0 ? PyExc_MemoryError : PyExc_RuntimeError, message);
}

typedef struct {
  DLTensor view;
  int64_t shape[2 * most_rank];
} PermutedView;

// program(list) -> list. Empties the list of arguments, so that tensors that only it holds are freed after the run.
static PyObject* program_call(PyObject* object, PyObject* args, PyObject* kwargs) {
  (void)kwargs;
  Program* self = (Program*)object;
  PyObject* list;
  if (!PyArg_ParseTuple(args, "O", &list)) return NULL;
  if (!PyList_Check(list)) {
    PyErr_SetString(PyExc_TypeError, "a program is called with one list of its arguments");
    return NULL;
  }
  const size_t in = (size_t)self->input_count, computed = (size_t)self->computed_count;
  DLTensor* tensors = calloc(in + computed + 1, sizeof *tensors);
  DLTensor** pointers = calloc(in + computed + 1, sizeof *pointers);
  DLManagedTensorVersioned** managed = calloc(computed + 1, sizeof *managed);
  PermutedView* permuted = NULL;
  PyObject* arguments = PyList_GetSlice(list, 0, PyList_Size(list));  // keeps them alive during the run
  PyObject* results = NULL;
  size_t allocated = 0;
  if (!tensors || !pointers || !managed || !arguments) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
    goto done;
  }
  DLDevice device = {kDLCPU, 0};
  for (size_t k = 0; k < in; ++k) {
    const ProgramInput* input = &self->inputs[k];
    PyObject* tensor = input->constant ? input->constant : PyList_GetItem(arguments, input->argument);
    if (!tensor) goto done;
    DLTensor* view = &tensors[k];
    if (self->api->view_of_object(tensor, view) != 0) goto done;
    if (view->device.device_type != kDLCPU) device = view->device;
    pointers[k] = view;
    if (input->permutation[0] < 0) continue;
    if (view->ndim != input->rank) {
      PyErr_Format(PyExc_ValueError, "argument %zd has rank %d, and the program was compiled for rank %d", input->argument, view->ndim, input->rank);
      goto done;
    }
    if (!permuted && !(permuted = calloc(in, sizeof *permuted))) {
      PyErr_NoMemory();
      goto done;
    }
    PermutedView* other = &permuted[k];
    other->view = *view;
    for (int32_t d = 0; d < input->rank; ++d) {
      other->shape[d] = view->shape[input->permutation[d]];
      if (view->strides) other->shape[most_rank + d] = view->strides[input->permutation[d]];
    }
    other->view.shape = other->shape;
    if (view->strides) other->view.strides = other->shape + most_rank;
    pointers[k] = &other->view;
  }
  for (Py_ssize_t k = 0; k < self->output_count; ++k) {
    ProgramOutput* output = &self->outputs[k];
    if (output->argument != -1) continue;
    DLTensor prototype = output->prototype;
    if (self->api->allocate(&prototype, &managed[allocated], NULL, set_allocation_error) != 0) {
      if (!PyErr_Occurred()) PyErr_NoMemory();
      goto done;
    }
    tensors[in + allocated] = managed[allocated]->dl_tensor;
    pointers[in + allocated] = &tensors[in + allocated];
    if (output->prototype.device.device_type != kDLCPU) device = output->prototype.device;
    ++allocated;
  }
  if (computed > 0) {
    ferrite_run_options options = {.size = sizeof options};
    if (device.device_type != kDLCPU && self->api->current_stream(device.device_type, device.device_id, &options.stream) != 0) goto done;
    if (PyList_SetSlice(list, 0, PyList_Size(list), NULL) != 0) goto done;
    ferrite_model* model = ((Model*)self->model)->model;
    int32_t status;
    Py_BEGIN_ALLOW_THREADS
    status = ferrite_run_with(model, &options, (const DLTensor* const*)pointers, in, pointers + in, computed);
    Py_END_ALLOW_THREADS
    if (status != FERRITE_OK) {
      raise_last();
      goto done;
    }
  }
  results = PyList_New(self->output_count);
  for (Py_ssize_t k = 0, next = 0; results && k < self->output_count; ++k) {
    const ProgramOutput* output = &self->outputs[k];
    PyObject* result = NULL;
    if (output->argument == -2) {
      result = Py_None;
      Py_INCREF(result);
    } else if (output->argument >= 0) {
      result = PyList_GetItem(arguments, output->argument);
      Py_XINCREF(result);
    } else {
      DLManagedTensorVersioned* tensor = managed[next];
      if (output->shape) tensor = restrided(tensor, output);
      void* made = NULL;
      if (!tensor) {
        PyErr_NoMemory();
      } else {
        managed[next] = NULL;  // the library takes it over
        if (self->api->object_from_managed(tensor, &made) == 0) result = made;
      }
      ++next;
    }
    if (result)
      PyList_SetItem(results, k, result);
    else
      Py_CLEAR(results);
  }
done:
  for (size_t k = 0; managed && k < allocated; ++k)
    if (managed[k] && managed[k]->deleter) managed[k]->deleter(managed[k]);
  Py_XDECREF(arguments);
  free(permuted);
  free(managed);
  free(pointers);
  free(tensors);
  return results;
}

static PyMemberDef program_members[] = {{"model", T_OBJECT_EX, offsetof(Program, model), READONLY, "The program's model."},
                                        {NULL, 0, 0, 0, NULL}};
static PyType_Slot program_slots[] = {{Py_tp_new, program_new},
                                      {Py_tp_dealloc, program_free},
                                      {Py_tp_call, program_call},
                                      {Py_tp_members, program_members},
                                      {Py_tp_doc, "Program(model, exchange_api, inputs, outputs): called with a list of tensors, which it empties."},
                                      {0, NULL}};
static PyType_Spec program_spec = {"ferrite._bridge.Program", sizeof(Program), 0, Py_TPFLAGS_DEFAULT, program_slots};

// ---- the module

static PyObject* version(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyUnicode_FromString(ferrite_version());
}

static PyMethodDef functions[] = {{"version", version, METH_NOARGS, "The version of the library."},
                                  {"set_error_class", set_error_class, METH_O, "The class of the errors that are raised."},
                                  {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "ferrite._bridge", "The embedding API of Ferrite.", -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__bridge(void) {
  PyObject* made = PyModule_Create(&module);
  if (!made) return NULL;
  tensor_type = PyType_FromSpec(&tensor_spec);
  model_type = PyType_FromSpec(&model_spec);
  PyObject* session = PyType_FromSpec(&session_spec);
  PyObject* program = PyType_FromSpec(&program_spec);
  if (!tensor_type || !model_type || !session || !program || PyModule_AddObjectRef(made, "Tensor", tensor_type) != 0 ||
      PyModule_AddObjectRef(made, "Model", model_type) != 0 || PyModule_AddObjectRef(made, "Session", session) != 0 ||
      PyModule_AddObjectRef(made, "Program", program) != 0)
    Py_CLEAR(made);
  Py_XDECREF(session);
  Py_XDECREF(program);
  return made;
}
