// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of oneDNN's C interface that is used, as in versions 2.6 and later of major version 2. It is
// declared here so that building needs no headers of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ferrite::onednn {

namespace dnnl {

constexpr int max_dims = 12;
using Dims = int64_t[max_dims];

constexpr int success = 0;
constexpr int cpu_engine = 1, in_order = 1, user_scratchpad = 1;
constexpr int bf16 = 2, f32 = 3;
constexpr int blocked = 2;  // format kinds
constexpr int any = 1;      // format tags
constexpr int forward_inference = 96, convolution_direct = 1;
constexpr int query_impl = 8, query_src = 129, query_weights = 131, query_dst = 133, query_scratchpad = 136;
constexpr int arg_src = 1, arg_dst = 17, arg_weights = 33, arg_bias = 41, arg_scratchpad = 80;
constexpr int eltwise_relu = 0x1f, eltwise_tanh = 0x2f, eltwise_logistic = 0xaf, eltwise_swish = 0xdf,
              eltwise_gelu_erf = 0x30;

struct Blocking {
  Dims strides;  // strides of the outer dims, in elements
  int inner_count;
  Dims inner_blocks, inner_dims;  // outermost first
};
struct MemoryDesc {
  int rank;
  Dims dims;
  int dtype;
  Dims padded_dims, padded_offsets;
  int64_t offset;
  int format_kind;
  union {
    Blocking blocking;
    char other[296];
  } layout;
  struct {
    uint64_t flags;
    int compensation_mask;
    float scale_adjust;
    int other_mask;
    char reserved[60];
  } extra;
};
static_assert(sizeof(MemoryDesc) == 696 && offsetof(MemoryDesc, extra) == 616);
/// Large enough for the description of any operation.
struct alignas(16) OperationDesc {
  std::byte bytes[8192];
};
struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};
using Handle = void*;
struct Argument {
  int kind;
  Handle memory;
};

}  // namespace dnnl

/// The reason why the library is not used: FE-P85 it cannot be opened, FE-P86 its version does not fit.
struct Unavailable {
  std::string code, text;
};

/// The functions of the opened library. Callable from any thread, except where oneDNN says otherwise.
struct Library {
  Library() = default;
  ~Library() {
    if (engine) engine_destroy(engine);
  }
  Library(const Library&) = delete;

  const dnnl::Version* (*version)();
  int (*engine_create)(dnnl::Handle*, int kind, size_t index);
  int (*engine_destroy)(dnnl::Handle);
  int (*stream_create)(dnnl::Handle*, dnnl::Handle engine, unsigned flags);
  int (*stream_destroy)(dnnl::Handle);
  int (*memory_desc_init_by_strides)(dnnl::MemoryDesc*, int rank, const int64_t* dims, int dtype,
                                     const int64_t* strides);
  int (*memory_desc_init_by_tag)(dnnl::MemoryDesc*, int rank, const int64_t* dims, int dtype, int tag);
  int (*memory_desc_equal)(const dnnl::MemoryDesc*, const dnnl::MemoryDesc*);
  size_t (*memory_desc_get_size)(const dnnl::MemoryDesc*);
  int (*matmul_desc_init)(void*, const dnnl::MemoryDesc* src, const dnnl::MemoryDesc* weights,
                          const dnnl::MemoryDesc* bias, const dnnl::MemoryDesc* dst);
  int (*dilated_convolution_forward_desc_init)(void*, int prop, int algorithm, const dnnl::MemoryDesc* src,
                                               const dnnl::MemoryDesc* weights, const dnnl::MemoryDesc* bias,
                                               const dnnl::MemoryDesc* dst, const int64_t* strides,
                                               const int64_t* dilates, const int64_t* low,
                                               const int64_t* high);
  int (*primitive_desc_create)(dnnl::Handle*, const void* operation, dnnl::Handle attr, dnnl::Handle engine,
                               dnnl::Handle hint);
  int (*primitive_desc_destroy)(dnnl::Handle);
  const dnnl::MemoryDesc* (*primitive_desc_query_md)(dnnl::Handle, int what, int index);
  int (*primitive_desc_query)(dnnl::Handle, int what, int index, void* result);
  int (*reorder_primitive_desc_create)(dnnl::Handle*, const dnnl::MemoryDesc* from, dnnl::Handle from_engine,
                                       const dnnl::MemoryDesc* to, dnnl::Handle to_engine, dnnl::Handle attr);
  int (*primitive_create)(dnnl::Handle*, dnnl::Handle desc);
  int (*primitive_execute)(dnnl::Handle, dnnl::Handle stream, int count, const dnnl::Argument*);
  int (*primitive_destroy)(dnnl::Handle);
  int (*memory_create)(dnnl::Handle*, const dnnl::MemoryDesc*, dnnl::Handle engine, void* data);
  int (*memory_destroy)(dnnl::Handle);
  int (*primitive_attr_create)(dnnl::Handle*);
  int (*primitive_attr_destroy)(dnnl::Handle);
  int (*primitive_attr_set_post_ops)(dnnl::Handle, dnnl::Handle);
  int (*primitive_attr_set_scratchpad_mode)(dnnl::Handle, int);
  int (*post_ops_create)(dnnl::Handle*);
  int (*post_ops_destroy)(dnnl::Handle);
  int (*post_ops_append_sum)(dnnl::Handle, float scale);
  int (*post_ops_append_eltwise)(dnnl::Handle, float scale, int algorithm, float alpha, float beta);
  // From the OpenMP that the library uses; null if it uses none.
  int (*omp_get_max_threads)();
  void (*omp_set_num_threads)(int);

  dnnl::Handle engine = nullptr;  ///< engine for the CPU
  std::string text;               ///< version for fingerprints
};

/// Opens the library and creates an engine. Libraries stay loaded. Throws Unavailable.
std::shared_ptr<const Library> open(const std::string& name);

/// During its lifetime, oneDNN uses only this thread: the host's pool distributes the work, and a second pool
/// would compete with it.
class OneThread {
 public:
  explicit OneThread(const Library& library) : library_(library) {
    if (!library_.omp_set_num_threads) return;
    before_ = library_.omp_get_max_threads();
    if (before_ != 1) library_.omp_set_num_threads(1);
  }
  ~OneThread() {
    if (library_.omp_set_num_threads && before_ != 1) library_.omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;

 private:
  const Library& library_;
  int before_ = 1;
};

}  // namespace ferrite::onednn
