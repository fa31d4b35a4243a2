// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Program: a compiled graph of torch.compile, called with a list of tensors.
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

#include <structmember.h>
#include "dlpack_exchange.h"

typedef struct {
  Py_ssize_t argument;  // index in the list of arguments; -1: `constant`
  PyObject* constant;
  int mutated;  // the program changes its memory
  int32_t rank;
  int32_t permutation[most_rank];  // dims of the program's input, as dims of the tensor; [0] = -1: in order
  DLDataType dtype;
  PyObject* library_dtype;  // the same as an object of the tensor library
} ProgramInput;

typedef struct {
  Py_ssize_t argument;  // the argument that is the result; -1: computed; -2: None
  DLTensor prototype;   // contiguous, as the program stores it
  int64_t* dims;        // [rank] of the prototype
  int64_t* shape;  // [2 * rank]: shape and strides of the tensor that the caller gets; null: as the prototype
} ProgramOutput;

typedef struct {
  PyObject_HEAD
  PyObject* model;
  const fe_exchange_api* api;
  PyObject* api_capsule;
  Py_ssize_t input_count, output_count, computed_count;
  int mutates;          // some input
  long long workspace;  // bytes of the device's memory that a run needs; -1: not yet known
  ProgramInput* inputs;
  ProgramOutput* outputs;
  PyObject* recipe;
  void* scratch;  // memory of a run, while no run has it; who holds the interpreter's lock may take it
} Program;

// The descriptions of the tensors of a run.
typedef struct {
  DLTensor* tensors;                   // [inputs + computed outputs]
  DLTensor** pointers;                 // [inputs + computed outputs]
  DLManagedTensorVersioned** managed;  // [computed outputs], null at first
  void* memory;
} Scratch;

static Scratch take_scratch(Program* program) {
  const size_t count = (size_t)(program->input_count + program->computed_count);
  const size_t results = (size_t)program->computed_count;
  Scratch scratch = {.memory = program->scratch};
  program->scratch = NULL;
  if (!scratch.memory)
    scratch.memory = malloc(count * (sizeof *scratch.tensors + sizeof *scratch.pointers) +
                            results * sizeof *scratch.managed + 1);
  if (!scratch.memory) return scratch;
  scratch.tensors = scratch.memory;
  scratch.pointers = (DLTensor**)(scratch.tensors + count);
  scratch.managed = (DLManagedTensorVersioned**)(scratch.pointers + count);
  if (results > 0) memset(scratch.managed, 0, results * sizeof *scratch.managed);
  return scratch;
}

static void give_back(Program* program, Scratch scratch) {
  if (program->scratch)
    free(scratch.memory);  // that of a run at the same time
  else
    program->scratch = scratch.memory;
}

static void program_free(PyObject* self) {
  Program* program = (Program*)self;
  PyTypeObject* type = Py_TYPE(self);
  for (Py_ssize_t k = 0; program->inputs && k < program->input_count; ++k) {
    Py_XDECREF(program->inputs[k].constant);
    Py_XDECREF(program->inputs[k].library_dtype);
  }
  for (Py_ssize_t k = 0; program->outputs && k < program->output_count; ++k) {
    free(program->outputs[k].dims);
    free(program->outputs[k].shape);
  }
  free(program->inputs);
  free(program->outputs);
  free(program->scratch);
  Py_XDECREF(program->model);
  Py_XDECREF(program->recipe);
  Py_XDECREF(program->api_capsule);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static int read_input(ProgramInput* input, PyObject* spec) {
  // (index of the argument or a tensor, permutation or None, code and bits of the dtype, the library's dtype,
  // whether the program changes it)
  PyObject *source, *permutation, *dtype;
  int code, bits;
  if (!PyArg_ParseTuple(spec, "OOiiOp", &source, &permutation, &code, &bits, &dtype, &input->mutated))
    return -1;
  input->dtype = (DLDataType){(uint8_t)code, (uint8_t)bits, 1};
  input->library_dtype = dtype;
  Py_INCREF(dtype);
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
  static char* names[] = {"model", "exchange_api", "inputs", "outputs", "recipe", NULL};
  PyObject *model, *capsule, *inputs, *outputs, *recipe = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOO|O", names, (PyTypeObject*)model_type, &model,
                                   &capsule, &inputs, &outputs, &recipe))
    return NULL;
  const fe_exchange_api* api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (!api) return NULL;
  // An older table of the same major version may be what we know.
  while (api && api->header.version.major != 1) api = (const fe_exchange_api*)api->header.previous;
  if (!api || !api->view_of_object) {
    PyErr_SetString(PyExc_RuntimeError,
                    "the tensor library's exchange API is of a version of DLPack that is not supported");
    return NULL;
  }
  Program* self = (Program*)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!self) return NULL;
  self->api = api;
  self->api_capsule = capsule;
  self->model = model;
  self->recipe = recipe;
  self->workspace = -1;
  Py_INCREF(capsule);
  Py_INCREF(model);
  Py_INCREF(recipe);
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
    if (self->inputs[k].mutated) self->mutates = 1;
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

/// Whether the elements lie row by row, without gaps.
static int is_contiguous(const DLTensor* tensor) {
  if (!tensor->strides) return 1;
  int64_t expected = 1;
  for (int32_t k = tensor->ndim; k-- > 0;) {
    if (tensor->shape[k] != 1 && tensor->strides[k] != expected) return 0;
    expected *= tensor->shape[k];
  }
  return 1;
}

/// A copy of a tensor as the program stores it: permuted, and contiguous. PyTorch may give other strides than
/// it predicted when the program was compiled, and the memory of a device is not copied by the program.
static PyObject* contiguous_copy(PyObject* tensor, const ProgramInput* input) {
  PyObject* permuted = tensor;
  Py_INCREF(tensor);
  if (input->permutation[0] >= 0) {
    PyObject* dims = PyTuple_New(input->rank);
    for (int32_t k = 0; dims && k < input->rank; ++k)
      PyTuple_SetItem(dims, k, PyLong_FromLong(input->permutation[k]));
    Py_DECREF(permuted);
    permuted = dims ? PyObject_CallMethod(tensor, "permute", "(O)", dims) : NULL;
    Py_XDECREF(dims);
  }
  PyObject* copy = permuted ? PyObject_CallMethod(permuted, "contiguous", NULL) : NULL;
  Py_XDECREF(permuted);
  return copy;
}

/// -1 with an error set for an input that the program changes: it would change the copy.
static int refuse_copy(const ProgramInput* input) {
  if (!input->mutated) return 0;
  PyErr_Format(PyExc_ValueError,
               "argument %zd is changed by the program and has another dtype, gaps, or other strides than "
               "the program was compiled for; make it contiguous",
               input->argument);
  return -1;
}

/// Views a tensor that a list then holds; takes the reference over. -1 with an error set, also for no tensor.
static int view_held(const Program* self, PyObject* list, PyObject* tensor, DLTensor* view) {
  if (!tensor) return -1;
  const int status = PyList_Append(list, tensor);
  Py_DECREF(tensor);
  return status == 0 ? self->api->view_of_object(tensor, view) : -1;
}

static void set_allocation_error(void* context, const char* kind, const char* message) {
  (void)context;
  PyErr_SetString(strcmp(kind, "MemoryError") == 0 ? PyExc_MemoryError : PyExc_RuntimeError, message);
}

/// The handle of a driver's legacy stream where null means no stream.
static void* const legacy_stream = (void*)1;

typedef struct {
  DLTensor view;
  int64_t shape[2 * most_rank];
} PermutedView;

/// Allocates the workspace of a run, so that the library's allocator reuses it for other tensors of the
/// stream.
static int allocate_workspace(Program* self, DLTensor** inputs, DLDevice device,
                              DLManagedTensorVersioned** made, ferrite_run_options* options) {
  if (self->workspace < 0) {
    // Only tensors tell in which memory a program expects them.
    Py_ssize_t on_device = 0;
    for (Py_ssize_t k = 0; k < self->input_count; ++k) on_device += inputs[k]->device.device_type != kDLCPU;
    if (on_device == 0) return 0;
    uint64_t bytes = 0;
    int32_t status;
    ferrite_model* model = ((Model*)self->model)->model;
    Py_BEGIN_ALLOW_THREADS
    status =
        ferrite_model_workspace(model, (const DLTensor* const*)inputs, (uint64_t)self->input_count, &bytes);
    Py_END_ALLOW_THREADS
    if (status != FERRITE_OK) {
      raise_last();
      return -1;
    }
    self->workspace = (long long)bytes;
  }
  if (self->workspace == 0) return 0;
  int64_t count = self->workspace;
  DLTensor prototype = {
      .device = device, .ndim = 1, .dtype = {.code = kDLUInt, .bits = 8, .lanes = 1}, .shape = &count};
  if (self->api->allocate(&prototype, made, NULL, set_allocation_error) != 0) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return -1;
  }
  options->workspace = (*made)->dl_tensor.data;
  options->workspace_bytes = (uint64_t)count;
  return 0;
}

// program(list) -> list. Empties the list of arguments, so that tensors that only it holds are freed after
// the run.
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
  const Scratch scratch = take_scratch(self);
  if (!scratch.memory) return PyErr_NoMemory();
  DLTensor* tensors = scratch.tensors;
  DLTensor** pointers = scratch.pointers;
  DLManagedTensorVersioned** managed = scratch.managed;
  PermutedView* permuted = NULL;
  PyObject* results = NULL;
  size_t allocated = 0;
  DLManagedTensorVersioned* workspace = NULL;
  DLDevice device = {kDLCPU, 0};
  for (size_t k = 0; k < in; ++k) {
    const ProgramInput* input = &self->inputs[k];
    PyObject* tensor = input->constant ? input->constant : PyList_GetItem(list, input->argument);
    if (!tensor) goto done;
    DLTensor* view = &tensors[k];
    if (self->api->view_of_object(tensor, view) != 0) goto done;
    if (view->dtype.code != input->dtype.code || view->dtype.bits != input->dtype.bits) {
      // PyTorch predicted another dtype for a node that it ran itself.
      if (refuse_copy(input) != 0) goto done;
      tensor = PyObject_CallMethod(tensor, "to", "O", input->library_dtype);
      if (view_held(self, list, tensor, view) != 0) goto done;
    }
    if (view->device.device_type != kDLCPU) device = view->device;
    pointers[k] = view;
    if (input->permutation[0] >= 0) {
      if (view->ndim != input->rank) {
        PyErr_Format(PyExc_ValueError, "argument %zd has rank %d, and the program was compiled for rank %d",
                     input->argument, view->ndim, input->rank);
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
    if (view->device.device_type == kDLCPU || is_contiguous(pointers[k])) continue;
    if (refuse_copy(input) != 0) goto done;
    if (view_held(self, list, contiguous_copy(tensor, input), view) != 0) goto done;
    pointers[k] = view;
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
  if (computed > 0 || self->mutates) {
    // PyTorch's own kernels report a bad index later, too; waiting for the checks of each program would leave
    // the device idle in between.
    ferrite_run_options options = {.size = sizeof options, .defer_checks = 1};
    if (device.device_type != kDLCPU) {
      if (self->api->current_stream(device.device_type, device.device_id, &options.stream) != 0) goto done;
      // PyTorch's default stream is the driver's legacy stream, whose handle is null in one form and this in
      // the other. A run without a stream would not wait for PyTorch's work.
      if (!options.stream) options.stream = legacy_stream;
      if (allocate_workspace(self, pointers, device, &workspace, &options) != 0) goto done;
    }
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
      result = PyList_GetItem(list, output->argument);
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
  if (workspace && workspace->deleter) workspace->deleter(workspace);
  for (size_t k = 0; k < allocated; ++k)
    if (managed[k] && managed[k]->deleter) managed[k]->deleter(managed[k]);
  free(permuted);
  give_back(self, scratch);
  // The list has kept the arguments, and copies that the program took instead, alive during the run.
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  const int cleared = PyList_SetSlice(list, 0, PyList_Size(list), NULL);
  if (type)
    PyErr_Restore(type, value, trace);
  else if (cleared != 0)
    Py_CLEAR(results);
  return results;
}

static PyMemberDef program_members[] = {
    {"model", T_OBJECT_EX, offsetof(Program, model), READONLY, "The program's model."},
    {"recipe", T_OBJECT_EX, offsetof(Program, recipe), READONLY,
     "The recipe from which another process makes the program again; None: there is none."},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot program_slots[] = {{Py_tp_new, program_new},
                                      {Py_tp_dealloc, program_free},
                                      {Py_tp_call, program_call},
                                      {Py_tp_members, program_members},
                                      {Py_tp_doc,
                                       "Program(model, exchange_api, inputs, outputs, recipe=None): called "
                                       "with a list of tensors, which it empties."},
                                      {0, NULL}};
PyType_Spec program_spec = {"ferrite._bridge.Program", sizeof(Program), 0, Py_TPFLAGS_DEFAULT, program_slots};
