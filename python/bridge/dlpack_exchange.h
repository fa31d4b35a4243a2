// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// DLPack's C exchange API (DLPack 1.3), binary compatible with dlpack/dlpack.h: functions with which a
// library of tensors gives its tensors to C code without calls of Python. A type of tensors has it as the
// capsule "dlpack_exchange_api" in its attribute __dlpack_c_exchange_api__.
#ifndef FERRITE_DLPACK_EXCHANGE_H
#define FERRITE_DLPACK_EXCHANGE_H

#include "ferrite/dlpack.h"

typedef struct fe_exchange_header {
  DLPackVersion version;
  struct fe_exchange_header* previous;  // an older version of the table, or null
} fe_exchange_header;

// All functions need the GIL, return 0 or set a Python error and return -1. None waits for a device.
typedef struct fe_exchange_api {
  fe_exchange_header header;
  // Allocates a contiguous tensor with the prototype's dtype, shape and device.
  int (*allocate)(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, DLManagedTensorVersioned** out);
  // Takes the tensor over.
  int (*object_from_managed)(DLManagedTensorVersioned* tensor, void** out_object);
  // Borrows: the view is valid while the object lives and is not resized. May be null.
  int (*view_of_object)(void* object, DLTensor* out);
  int (*current_stream)(DLDeviceType device_type, int32_t device_id, void** out_stream);
} fe_exchange_api;

#endif
