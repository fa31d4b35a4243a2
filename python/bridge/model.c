// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Model: an open model, run on tensors that come by DLPack.
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

PyObject* model_type;

const char** names_of(PyObject* sequence, uint64_t* count, PyObject* held) {
  const Py_ssize_t length = PySequence_Size(sequence);
  if (length < 0) return NULL;
  const char** names = calloc((size_t)length + 1, sizeof *names);
  if (!names) {
    PyErr_NoMemory();
    return NULL;
  }
  for (Py_ssize_t k = 0; k < length; ++k) {
    PyObject* item = PySequence_GetItem(sequence, k);
    const int kept = item && PyList_Append(held, item) == 0;
    Py_XDECREF(item);
    if (!kept || !(names[k] = PyUnicode_AsUTF8AndSize(item, NULL))) {
      free(names);
      return NULL;
    }
  }
  *count = (uint64_t)length;
  return names;
}

PyObject* model_of(PyObject* session, ferrite_model* opened) {
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

static void model_free(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  ferrite_model_free(((Model*)self)->model);
  Py_XDECREF(((Model*)self)->session);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject* ports(ferrite_model* model, uint64_t count,
                       int32_t (*describe)(const ferrite_model*, uint64_t, ferrite_port*)) {
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
      PyTuple_SetItem(
          dims, d,
          port.dims[d] >= 0 ? PyLong_FromLongLong(port.dims[d]) : PyUnicode_FromString(port.dim_names[d]));
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
      PyErr_Format(PyExc_TypeError,
                   "input %zd is no tensor: its type has no method __dlpack__; give a numpy array, a "
                   "torch.Tensor or another DLPack tensor",
                   k);
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
      given->tensors[k] =
          ((DLManagedTensorVersioned*)PyCapsule_GetPointer(capsule, "dltensor_versioned"))->dl_tensor;
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

// save(tensors, [target], path): compiles for the shapes of the tensors and writes a package.
static PyObject* model_save(PyObject* self, PyObject* args) {
  PyObject *sequence, *names;
  const char* path;
  if (!PyArg_ParseTuple(args, "OOs:save", &sequence, &names, &path)) return NULL;
  PyObject* held = PyList_New(0);
  uint64_t count = 0;
  const char** targets = held ? names_of(names, &count, held) : NULL;
  Given given = {0};
  int32_t status = FERRITE_OK;
  const int taken = targets ? given_take(&given, sequence) : -1;
  if (taken == 0) {
    Py_BEGIN_ALLOW_THREADS
    status = ferrite_model_save(((Model*)self)->model, given.pointers, (uint64_t)given.count, targets, count,
                                path);
    Py_END_ALLOW_THREADS
  }
  free((void*)targets);
  Py_XDECREF(held);
  given_free(&given);
  if (taken != 0) return NULL;
  if (status != FERRITE_OK) return raise_last();
  Py_RETURN_NONE;
}

static void take_bytes(void* context, const void* data, uint64_t bytes) { take_text(context, data, bytes); }

// Compiles for tensors of these types, [(type code, bits, device type, device, dims)]. `package`: null, or
// receives the bytes of the program's package. -1 with an error set.
static int compile_for(PyObject* self, PyObject* sequence, Text* package) {
  const Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) return -1;
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
    status = package ? ferrite_model_package(model, pointers, (uint64_t)count, package, take_bytes)
                     : ferrite_model_compile(model, pointers, (uint64_t)count);
    Py_END_ALLOW_THREADS
    if (status != FERRITE_OK) raise_last();
  }
  free(types);
  free((void*)pointers);
  return PyErr_Occurred() ? -1 : 0;
}

static PyObject* model_compile_types(PyObject* self, PyObject* sequence) {
  if (compile_for(self, sequence, NULL) != 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject* model_package(PyObject* self, PyObject* sequence) {
  Text package = {NULL, 0};
  PyObject* bytes = NULL;
  if (compile_for(self, sequence, &package) == 0)
    bytes =
        package.data ? PyBytes_FromStringAndSize(package.data, (Py_ssize_t)package.bytes) : PyErr_NoMemory();
  free(package.data);
  return bytes;
}

void take_text(void* context, const char* text, uint64_t bytes) {
  Text* taken = context;
  taken->data = malloc(bytes + 1);
  taken->bytes = bytes;
  if (taken->data) memcpy(taken->data, text, bytes);
}

PyObject* string_of(Text text, int32_t status) {
  PyObject* string = NULL;
  if (status != FERRITE_OK)
    raise_last();
  else if (!text.data)
    PyErr_NoMemory();
  else
    string = PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.bytes, "replace");
  free(text.data);
  return string;
}

static PyObject* model_ledger(PyObject* self, PyObject* unused) {
  (void)unused;
  Text text = {NULL, 0};
  int32_t status;
  Py_BEGIN_ALLOW_THREADS
  status = ferrite_model_ledger(((Model*)self)->model, &text, take_text);
  Py_END_ALLOW_THREADS
  return string_of(text, status);
}

static PyObject* model_unsupported(PyObject* self, PyObject* unused) {
  (void)unused;
  Text text = {NULL, 0};
  int32_t status;
  Py_BEGIN_ALLOW_THREADS
  status = ferrite_model_unsupported(((Model*)self)->model, &text, take_text);
  Py_END_ALLOW_THREADS
  return string_of(text, status);
}

// changed_regions(phase, numbers of the real outputs)
static PyObject* model_changed_regions(PyObject* self, PyObject* args) {
  const char* phase;
  PyObject* sequence;
  if (!PyArg_ParseTuple(args, "sO", &phase, &sequence)) return NULL;
  const Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) return NULL;
  uint64_t* outputs = calloc((size_t)count + 1, sizeof *outputs);
  if (!outputs) return PyErr_NoMemory();
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* item = PySequence_GetItem(sequence, k);
    outputs[k] = item ? PyLong_AsUnsignedLongLong(item) : 0;
    Py_XDECREF(item);
  }
  PyObject* regions = NULL;
  if (!PyErr_Occurred()) {
    Text text = {NULL, 0};
    int32_t status;
    Py_BEGIN_ALLOW_THREADS
    status = ferrite_model_changed_regions(((Model*)self)->model, phase, outputs, (uint64_t)count, &text,
                                           take_text);
    Py_END_ALLOW_THREADS
    regions = string_of(text, status);
  }
  free(outputs);
  return regions;
}

// The pairs (dims, order) of a sequence, with their numbers in one block; NULL with an exception.
static ferrite_saved_order* orders_of(PyObject* sequence, uint64_t* count) {
  PyObject* pairs = PySequence_Tuple(sequence);
  if (!pairs) return NULL;
  const Py_ssize_t size = PyTuple_Size(pairs);
  ferrite_saved_order* orders = NULL;
  Py_ssize_t numbers = 0;
  for (Py_ssize_t k = 0; k < size; ++k) {
    PyObject *dims, *order;
    if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, k), "O!O!", &PyTuple_Type, &dims, &PyTuple_Type, &order))
      goto done;
    if (PyTuple_Size(dims) != PyTuple_Size(order)) {
      PyErr_SetString(PyExc_ValueError, "an order is as long as the dims");
      goto done;
    }
    numbers += 2 * PyTuple_Size(dims);
  }
  orders = calloc(1, (size_t)size * sizeof *orders + (size_t)numbers * sizeof(int64_t) + 1);
  if (!orders) {
    PyErr_NoMemory();
    goto done;
  }
  int64_t* next = (int64_t*)(orders + size);
  for (Py_ssize_t k = 0; k < size; ++k) {
    const int64_t* parts[2];
    Py_ssize_t rank = 0;
    for (int part = 0; part < 2; ++part) {
      PyObject* list = PyTuple_GetItem(PyTuple_GetItem(pairs, k), part);
      rank = PyTuple_Size(list);
      parts[part] = next;
      for (Py_ssize_t d = 0; d < rank; ++d) *next++ = PyLong_AsLongLong(PyTuple_GetItem(list, d));
    }
    orders[k] = (ferrite_saved_order){parts[0], parts[1], (uint64_t)rank};
  }
  *count = (uint64_t)size;
  if (PyErr_Occurred()) {
    free(orders);
    orders = NULL;
  }
done:
  Py_DECREF(pairs);
  return orders;
}

// partition(forward outputs, kinds of the inputs as bytes, memory budget, saved, recomputed, orders, donate
// saved, first stage)
static PyObject* model_partition(PyObject* self, PyObject* args) {
  Model* model = (Model*)self;
  unsigned long long forward_outputs;
  const char* kinds;
  Py_ssize_t kind_count;
  PyObject *saved, *recomputed, *orders;
  int donates;
  ferrite_partition_options options = {.size = sizeof options};
  if (!PyArg_ParseTuple(args, "Ky#dOOOps", &forward_outputs, &kinds, &kind_count, &options.memory_budget,
                        &saved, &recomputed, &orders, &donates, &options.first_stage))
    return NULL;
  const uint64_t count = ferrite_model_input_count(model->model);
  if ((uint64_t)kind_count != count)
    return PyErr_Format(PyExc_ValueError, "%zd kinds for %llu inputs", kind_count, (unsigned long long)count);
  options.forward_outputs = forward_outputs;
  options.donate_saved = (uint64_t)donates;
  options.input_kinds = (const uint8_t*)kinds;
  PyObject* held = PyList_New(0);
  const char** saved_names = held ? names_of(saved, &options.saved_count, held) : NULL;
  const char** recomputed_names = saved_names ? names_of(recomputed, &options.recomputed_count, held) : NULL;
  ferrite_saved_order* saved_orders = recomputed_names ? orders_of(orders, &options.order_count) : NULL;
  PyObject* parts = NULL;
  if (saved_orders) {
    options.orders = saved_orders;
    options.reorder_op = "transpose";
    options.saved = saved_names;
    options.recomputed = recomputed_names;
    ferrite_model *forward = NULL, *backward = NULL;
    int32_t status;
    Py_BEGIN_ALLOW_THREADS
    status = ferrite_model_partition(model->model, &options, &forward, &backward);
    Py_END_ALLOW_THREADS
    if (status != FERRITE_OK) {
      raise_last();
    } else {
      PyObject* first = model_of(model->session, forward);
      PyObject* second = model_of(model->session, backward);  // takes the handle over in any case
      parts = first && second ? PyTuple_Pack(2, first, second) : NULL;
      Py_XDECREF(first);
      Py_XDECREF(second);
    }
  }
  free(saved_orders);
  free(saved_names);
  free(recomputed_names);
  Py_XDECREF(held);
  return parts;
}

static PyObject* model_joint(PyObject* self, PyObject* args) {
  Model* model = (Model*)self;
  unsigned long long forward_outputs;
  const char* first_stage;
  if (!PyArg_ParseTuple(args, "Ks", &forward_outputs, &first_stage)) return NULL;
  ferrite_model* joint = NULL;
  int32_t status;
  Py_BEGIN_ALLOW_THREADS
  status = ferrite_model_joint(model->model, forward_outputs, first_stage, &joint);
  Py_END_ALLOW_THREADS
  return status == FERRITE_OK ? model_of(model->session, joint) : raise_last();
}

static PyObject* model_stats(PyObject* self, PyObject* unused) {
  (void)unused;
  ferrite_stats stats = {.size = sizeof stats};
  if (ferrite_model_stats(((Model*)self)->model, &stats) != FERRITE_OK) return raise_last();
  return Py_BuildValue("{sKsKsKsdsdsdsd}", "nodes", (unsigned long long)stats.nodes, "statements",
                       (unsigned long long)stats.statements, "kernels", (unsigned long long)stats.kernels,
                       "compile_ms", stats.compile_ms, "init_ms", stats.init_ms, "load_ms", stats.load_ms,
                       "run_ms", stats.run_ms);
}

static PyMethodDef model_methods[] = {
    {"inputs", model_inputs, METH_NOARGS,
     "[(name, dtype, dims)]; a dim that is not fixed is its name, dims None: unknown."},
    {"outputs", model_outputs, METH_NOARGS, "As inputs()."},
    {"run", model_run, METH_O, "run(tensors) -> [Tensor]"},
    {"compile", model_compile, METH_O, "compile(tensors): compiles for their shapes."},
    {"compile_types", model_compile_types, METH_O,
     "compile_types(types): compiles for tensors of these types."},
    {"package", model_package, METH_O,
     "package(types): compiles for tensors of these types, and gives the program as bytes, which "
     "Session.load reads."},
    {"save", model_save, METH_VARARGS, "save(tensors, targets, path): compiles and writes a package."},
    {"ledger", model_ledger, METH_NOARGS, "The decisions of the last program, as JSON."},
    {"unsupported", model_unsupported, METH_NOARGS, "A line for each node that cannot be imported."},
    {"changed_regions", model_changed_regions, METH_VARARGS,
     "changed_regions(phase, outputs): what passes change, as JSON."},
    {"partition", model_partition, METH_VARARGS,
     "partition(forward_outputs, input_kinds, memory_budget, saved, recomputed, orders, donate_saved, "
     "first_stage): the models (forward, backward) of a joint model; orders: pairs (dims, order) of tuples."},
    {"joint", model_joint, METH_VARARGS,
     "joint(forward_outputs, first_stage): the model as a joint one that is not divided."},
    {"stats", model_stats, METH_NOARGS, "Figures of the last program."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot model_slots[] = {{Py_tp_dealloc, model_free},
                                    {Py_tp_methods, model_methods},
                                    {Py_tp_doc, "An open model; see ferrite.Model."},
                                    {0, NULL}};
PyType_Spec model_spec = {"ferrite._bridge.Model", sizeof(Model), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, model_slots};
