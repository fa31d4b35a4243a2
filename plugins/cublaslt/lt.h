// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of cuBLASLt's C interface that is used, as in versions 12 and 13. It is declared here so that
// building needs no headers of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda_library/driver.h"

namespace ferrite::cublaslt {

namespace lt {

using Handle = void*;  // the library, a layout, a product description, or preferences

constexpr int success = 0;
constexpr int real_16f = 2, real_16bf = 14, real_32f = 0, real_64f = 1;
constexpr int compute_32f = 68, compute_32f_tf32 = 77, compute_64f = 70;
constexpr int32_t not_transposed = 0, transposed = 1;

// Attributes of a layout, of a product and of preferences.
constexpr int layout_batches = 5, layout_batch_stride = 6;
constexpr int product_a_transposed = 3, product_b_transposed = 4, product_epilogue = 7, product_bias = 8,
              product_bias_stride = 10, product_bias_type = 26;
constexpr uint32_t reduce_in_type_of_sums = 2;
constexpr int preference_workspace = 1, preference_reductions = 3, preference_alignment_a = 5,
              preference_alignment_b = 6, preference_alignment_c = 7, preference_alignment_d = 8;

constexpr uint32_t epilogue_none = 1, epilogue_relu = 2, epilogue_bias = 4, epilogue_gelu = 32;

/// Opaque; valid for the version of the library that returned it.
struct Algorithm {
  uint64_t data[8];
};
struct Found {
  Algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Found) == 96 && offsetof(Found, status) == 72);

}  // namespace lt

/// The functions of the opened library. Callable from any thread.
struct Library {
  size_t (*version)();
  int (*create)(lt::Handle*);
  int (*destroy)(lt::Handle);
  const char* (*status_name)(int);
  int (*layout_create)(lt::Handle*, int type, uint64_t rows, uint64_t columns, int64_t leading);
  int (*layout_destroy)(lt::Handle);
  int (*layout_set)(lt::Handle, int attribute, const void*, size_t bytes);
  int (*product_create)(lt::Handle*, int compute, int scale_type);
  int (*product_destroy)(lt::Handle);
  int (*product_set)(lt::Handle, int attribute, const void*, size_t bytes);
  int (*preference_create)(lt::Handle*);
  int (*preference_destroy)(lt::Handle);
  int (*preference_set)(lt::Handle, int attribute, const void*, size_t bytes);
  int (*search)(lt::Handle library, lt::Handle product, lt::Handle a, lt::Handle b, lt::Handle c,
                lt::Handle d, lt::Handle preferences, int most, lt::Found*, int* count);
  int (*multiply)(lt::Handle library, lt::Handle product, const void* alpha, const void* a,
                  lt::Handle a_layout, const void* b, lt::Handle b_layout, const void* beta, const void* c,
                  lt::Handle c_layout, void* d, lt::Handle d_layout, const lt::Algorithm*, void* workspace,
                  size_t workspace_bytes, void* stream);

  std::string text;  ///< version for fingerprints
};

/// Opens the library; an empty name tries all known names. Libraries stay loaded. Throws
/// cuda_library::Unavailable.
std::shared_ptr<const Library> open(const std::string& name);

}  // namespace ferrite::cublaslt
