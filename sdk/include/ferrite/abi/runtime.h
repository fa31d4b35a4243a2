// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runtime owns devices: memory, modules, launches. It opens its driver at run time.
#ifndef FERRITE_ABI_RUNTIME_H
#define FERRITE_ABI_RUNTIME_H

#include "ferrite/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fe_device_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
} fe_device_args;
typedef struct fe_device_count_out {
  uint64_t size;
  uint32_t count;
  uint32_t reserved;
} fe_device_count_out;
typedef struct fe_describe_out {
  uint64_t size;
  fe_sink description;    // bytes for provider.open_target
  fe_sink name;           // for people
  int32_t dlpack_device;  // DLPack's number of the device kind
  uint32_t host_memory;   // 1: the device reads and writes host pointers
  uint64_t alignment;     // of allocations, bytes
  uint64_t capacity;      // bytes, 0 = unknown
} fe_describe_out;
typedef struct fe_alloc_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  uint64_t bytes;
} fe_alloc_args;
typedef struct fe_alloc_out {
  uint64_t size;
  void* data;
} fe_alloc_out;
typedef struct fe_free_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  void* data;
} fe_free_args;
#define FE_COPY_TO_DEVICE 0u
#define FE_COPY_TO_HOST 1u
#define FE_COPY_ON_DEVICE 2u
typedef struct fe_copy_args {
  uint64_t size;
  uint32_t device;
  uint32_t kind;
  void* to;
  const void* from;
  uint64_t bytes;
} fe_copy_args;
typedef struct fe_module_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  fe_array blobs; /* of fe_array: bytes */
  fe_string name;
} fe_module_args;
typedef struct fe_module_out {
  uint64_t size;
  void* module;
} fe_module_out;
typedef struct fe_function_args {
  uint64_t size;
  void* module;
  fe_string entry;
} fe_function_args;
// What a function reaches through one argument of a launch.
typedef struct fe_argument_needs {
  int64_t bytes;     // that the buffer has at least
  uint32_t written;  // 1: it is written to
  uint32_t reserved;
} fe_argument_needs;
// The numbers are what the code itself says that its launches need; the host refuses a kernel that is said to need others, and
// buffers that are too few or too small. It sets tasks to -1 before it asks: where they stay so, nothing is said.
typedef struct fe_function_out {
  uint64_t size;
  void* function;
  int64_t tasks;
  int64_t grain;
  int64_t workspace_bytes;  // per worker
  fe_array arguments;  // of fe_argument_needs, lives as long as the module. Empty: nothing is said of them
} fe_function_out;
// buffers: one pointer for each non-local buffer of the kernel, in its order. error: two words {kernel, code} set by checked
// indices, in memory that the device can write; null may stand for them where the kernel checks none. workspace: workers x
// workspace_bytes, aligned as allocations are.
typedef struct fe_launch_args {
  uint64_t size;
  void* function;
  void* const* buffers;
  uint64_t buffer_count;
  int64_t tasks;
  int64_t grain;
  void* workspace;
  int64_t workspace_bytes;
  int64_t workers;  // at most this many host threads; 0 = all
  int64_t* error;
} fe_launch_args;

// The target that code was compiled for, as open_target took it.
typedef struct fe_accept_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  fe_array description;  // bytes
} fe_accept_args;

typedef struct fe_runtime {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;
  void* self;
  fe_string id;
  int32_t (*device_count)(void* self, fe_call*, const fe_none*, fe_device_count_out*);
  int32_t (*describe)(void* self, fe_call*, const fe_device_args*, fe_describe_out*);
  int32_t (*alloc)(void* self, fe_call*, const fe_alloc_args*, fe_alloc_out*);
  int32_t (*free)(void* self, fe_call*, const fe_free_args*, fe_none*);
  int32_t (*copy)(void* self, fe_call*, const fe_copy_args*, fe_none*);
  int32_t (*module_load)(void* self, fe_call*, const fe_module_args*, fe_module_out*);
  int32_t (*module_unload)(void* self, fe_call*, const fe_module_out*, fe_none*);
  int32_t (*function)(void* self, fe_call*, const fe_function_args*, fe_function_out*);
  int32_t (*launch)(void* self, fe_call*, const fe_launch_args*, fe_none*);
  // rev 2
  // FE_OK where code for the target runs on the device, FE_EUNSUPPORTED with the reason where it does not. A runtime without this
  // slot runs what was compiled for its own description alone.
  int32_t (*accept)(void* self, fe_call*, const fe_accept_args*, fe_none*);
  // rev 3
  // Waits until all copies and launches that were given to the device are done, and says what failed of them. Needed where launches and
  // copies return before their work is done.
  int32_t (*synchronise)(void* self, fe_call*, const fe_device_args*, fe_none*);
} fe_runtime;

#ifdef __cplusplus
}
#endif
#endif
