// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The base of the plugin ABI: status classes, calls, sinks, types. C11, no dependency. Frozen for ever with v1; v0 may change.
//
// Rules that hold for every table and struct in this folder:
//  - every struct starts with `size` (bytes, set by whoever fills it); a receiver reads min(size, its own size) and treats
//    the rest as zero. Tables are append-only within a major version and bump `rev` with each append.
//  - every slot is `int32_t f(void* self, fe_call*, const fe_X_args*, fe_X_out*)`; a null slot means unsupported.
//  - fixed-width integers only, no enum, bool or long, no padding at the tail; arrays carry a stride.
//  - no exception, no ownership of memory and no thread-local state crosses the boundary.
#ifndef FERRITE_ABI_BASE_H
#define FERRITE_ABI_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FE_ABI_MAJOR 0u
#define FE_ABI_MINOR 1u

// Status classes returned by every slot.
#define FE_OK 0
#define FE_EUNSUPPORTED 1  // declined: the caller falls through to the next candidate
#define FE_EINVALID 2      // bad input; the text says where
#define FE_EINTERNAL 3     // a defect in the callee
#define FE_ENOMEM 4
#define FE_EDEVICE 5
#define FE_ECANCELLED 6
#define FE_ESTALE 7  // a handle of something erased, or of another graph

typedef struct fe_string {
  const char* data;
  uint64_t length;
} fe_string;

// A borrowed array; element k starts at data + k*stride bytes. Valid as long as the struct that holds it.
typedef struct fe_array {
  const void* data;
  uint64_t count;
  uint64_t stride;
} fe_array;

// Output of unknown length: the callee calls write() as often as it likes; the host appends.
typedef struct fe_sink {
  uint64_t size;
  void* self;
  int32_t (*write)(void* self, const void* data, uint64_t bytes);
} fe_sink;

// One call across the boundary. Owned by the caller of the slot, valid until the slot returns.
typedef struct fe_call {
  uint64_t size;
  void* host;
  // Sets the error of this call: `code` as "FE-G07" or "<plugin id>/<name>", text for people. Later calls win.
  void (*set_error)(void* host, fe_string code, fe_string text);
  // Non-zero once the host wants the callee to give up; long loops ask now and then.
  int32_t (*cancelled)(void* host);
} fe_call;

// For slots that take or return nothing beyond the call itself.
typedef struct fe_none {
  uint64_t size;
} fe_none;

// dtype codes: FE_DTYPE_f32 and so on, from dtypes.def.
#define FE_CLASS_BOOL 0
#define FE_CLASS_INT 1
#define FE_CLASS_UINT 2
#define FE_CLASS_FLOAT 3
#define FE_CLASS_COMPLEX 4
typedef uint16_t fe_dtype;

// A dimension: >= 0 is its size; < 0 is a symbolic expression of the graph, -(1 + expression number).
typedef int64_t fe_dim;

#define FE_LAYOUT_ANY 0u
#define FE_LAYOUT_STRIDED 1u
#define FE_LAYOUT_BLOCKED 2u
#define FE_LAYOUT_OPAQUE 3u

typedef struct fe_tensor_type {
  uint64_t size;
  fe_dtype dtype;
  uint16_t layout;  // FE_LAYOUT_*
  uint32_t rank;
  const fe_dim* dims;      // [rank]
  const int64_t* strides;  // [rank] in elements when layout is strided, else null
  int64_t offset;          // in elements
  uint32_t alignment;      // bytes, 0 = the dtype's own
  uint32_t device;         // index into the program's device table
} fe_tensor_type;

#ifdef __cplusplus
}
#endif
#endif
