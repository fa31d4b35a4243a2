// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The base of the plugin ABI: status classes, calls, sinks, types. C11, no dependencies. v0 may change; v1
// will be frozen for ever.
//
// Rules for every table and struct in this folder:
//  - Every struct begins with `size` (in bytes, set by the side that fills the struct). A receiver reads
//    min(size, its own size) and treats the rest as zero. Tables are append-only within a major version; each
//    append increments `rev`.
//  - Every slot is `int32_t f(void* self, fe_call*, const fe_X_args*, fe_X_out*)`; a null slot means
//    unsupported.
//  - Fixed-width integers only: no enum, bool or long, and no padding at the tail. Arrays have a stride.
//    Fields named `reserved` are 0.
//  - No exception, no ownership of memory and no thread-local state crosses the boundary.
//  - Strings and arrays are borrowed: those in arguments are valid during the call, unless a comment says
//    otherwise. Pointers may be null only where a comment says so.
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
#define FE_EUNSUPPORTED 1  // declined: the caller tries the next candidate
#define FE_EINVALID 2      // bad input; the text says where
#define FE_EINTERNAL 3     // a defect in the callee
#define FE_ENOMEM 4
#define FE_EDEVICE 5
#define FE_ECANCELLED 6
#define FE_ESTALE 7  // a handle of an erased item, or of another graph

// A borrowed UTF-8 string.
typedef struct fe_string {
  const char* data;  // not NUL-terminated; may be null if length is 0
  uint64_t length;   // bytes
} fe_string;

// A borrowed array: element k is at data + k * stride bytes. Valid as long as the struct that contains it.
typedef struct fe_array {
  const void* data;  // may be null if count is 0
  uint64_t count;
  uint64_t stride;  // bytes from one element to the next
} fe_array;

// Output of unknown length. The callee may call write() any number of times; the host appends.
typedef struct fe_sink {
  uint64_t size;
  void* self;                                                      // the first argument of write
  int32_t (*write)(void* self, const void* data, uint64_t bytes);  // copies the bytes
} fe_sink;

// One call across the boundary. The caller of the slot owns it; it is valid until the slot returns.
typedef struct fe_call {
  uint64_t size;
  void* host;  // the first argument of the functions
  // Sets the error of this call: `code` is "FE-G07" or "<plugin id>/<name>", `text` is for people. Both are
  // copied. A later call replaces an earlier one.
  void (*set_error)(void* host, fe_string code, fe_string text);
  // Non-zero once the host wants the callee to stop; long loops should poll it.
  int32_t (*cancelled)(void* host);
} fe_call;

// For slots without arguments or results.
typedef struct fe_none {
  uint64_t size;
} fe_none;

// Element types: FE_DTYPE_f32 and so on, from dtypes.def.
#define FE_CLASS_BOOL 0
#define FE_CLASS_INT 1
#define FE_CLASS_UINT 2
#define FE_CLASS_FLOAT 3
#define FE_CLASS_COMPLEX 4
typedef uint16_t fe_dtype;

// A dimension: >= 0 is a static size; < 0 is the symbolic expression number -(1 + dim) of the graph.
typedef int64_t fe_dim;

#define FE_LAYOUT_ANY 0u
#define FE_LAYOUT_STRIDED 1u
#define FE_LAYOUT_BLOCKED 2u
#define FE_LAYOUT_OPAQUE 3u

// The type of a tensor.
typedef struct fe_tensor_type {
  uint64_t size;
  fe_dtype dtype;
  uint16_t layout;         // FE_LAYOUT_*
  uint32_t rank;           // number of dims
  const fe_dim* dims;      // [rank]; may be null if rank is 0
  const int64_t* strides;  // [rank] in elements if the layout is strided, else null
  int64_t offset;          // in elements
  uint32_t alignment;      // in bytes; 0: the dtype's own
  uint32_t device;         // index into the program's device table
} fe_tensor_type;

#ifdef __cplusplus
}
#endif
#endif
