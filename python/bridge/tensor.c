// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor: a result, as other libraries take it.
#include <stdlib.h>

#include "bridge.h"

typedef struct {
  PyObject_HEAD
  DLManagedTensorVersioned* managed;  // null once it was given away
} Tensor;

PyObject* tensor_type;

static void tensor_free(PyObject* self) {
  Tensor* tensor = (Tensor*)self;
  PyTypeObject* type = Py_TYPE(self);
  if (tensor->managed && tensor->managed->deleter) tensor->managed->deleter(tensor->managed);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* tensor_of(DLManagedTensorVersioned* managed) {
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
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &version, &device, &copy))
    return NULL;
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError,
                    "a result is given without a copy; copy it with the library that takes it");
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
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "The tensor as a capsule of DLPack."},
    {"__dlpack_device__", tensor_device, METH_NOARGS, "(device type, device number) in DLPack's numbers."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef tensor_members[] = {{"shape", tensor_shape, NULL, "The dims, as a tuple.", NULL},
                                       {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, tensor_free},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_members},
    {Py_tp_doc,
     "A result in memory of Ferrite: numpy.from_dlpack and torch.from_dlpack take it without a copy."},
    {0, NULL}};
PyType_Spec tensor_spec = {"ferrite._bridge.Tensor", sizeof(Tensor), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots};
