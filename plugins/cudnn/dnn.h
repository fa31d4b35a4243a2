// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of cuDNN's graph interface that is used, as in version 9. It is declared here so that building
// needs no headers of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda_library/driver.h"

namespace ferrite::cudnn {

namespace dnn {

using Handle = void*;  // a handle of the library, or a descriptor

constexpr int success = 0;

// Kinds of descriptors.
constexpr int pointwise = 0, convolution = 1, engine = 2, engine_choice = 3, engine_search = 4,
              execution_plan = 5, convolution_forward = 10, pointwise_step = 13, graph = 15, arguments = 16,
              tensor = 17;

// Types of attributes.
constexpr int of_handle = 0, of_type = 1, of_boolean = 2, of_int64 = 3, of_float = 4, of_double = 5,
              of_pointer = 6, of_convolution_mode = 7, of_search_mode = 8, of_note = 11,
              of_pointwise_mode = 14, of_descriptor = 15, of_way = 19;

// Attributes, by kind of descriptor.
constexpr int pointwise_mode = 0, pointwise_precision = 1;
constexpr int convolution_precision = 100, convolution_mode = 101, convolution_dilations = 102,
              convolution_strides = 103, convolution_high = 104, convolution_low = 105,
              convolution_rank = 106;
constexpr int search_mode = 200, search_graph = 201, search_results = 202;
constexpr int choice_engine = 300;
constexpr int engine_notes = 1303, engine_ways = 1305;
constexpr int plan_handle = 400, plan_choice = 401, plan_workspace = 402;
constexpr int forward_alpha = 700, forward_beta = 701, forward_convolution = 702, forward_w = 703,
              forward_x = 704, forward_y = 705;
constexpr int step_pointwise = 750, step_x = 751, step_b = 752, step_y = 753;
constexpr int graph_handle = 800, graph_steps = 801;
constexpr int tensor_alignment = 900, tensor_type = 901, tensor_dims = 902, tensor_strides = 903,
              tensor_id = 906, tensor_virtual = 907;
constexpr int arguments_ids = 1000, arguments_pointers = 1001, arguments_workspace = 1003;

// Attribute values.
constexpr int real_32f = 0, real_64f = 1, real_16f = 2, real_16bf = 9;
constexpr int cross_correlation = 1;
// Numerical properties of an engine, and how it gets its code.
constexpr int note_tensor_cores = 0, note_narrow_inputs = 1, note_narrow_sums = 2, note_fft = 3,
              note_differing = 4, note_winograd = 5;
constexpr int way_compiles = 0;
constexpr int search_fallback = 2, search_best = 3;
constexpr int mode_add = 0, mode_relu = 100, mode_tanh = 101, mode_sigmoid = 102, mode_gelu = 104,
              mode_swish = 106, mode_gelu_tanh = 107;

}  // namespace dnn

/// The functions of the opened library. Callable from any thread, except for a handle and its stream.
struct Library {
  size_t (*version)();
  int (*create)(dnn::Handle*);
  int (*destroy)(dnn::Handle);
  int (*set_stream)(dnn::Handle, void* stream);
  const char* (*error_text)(int);
  int (*descriptor_create)(int kind, dnn::Handle*);
  int (*descriptor_destroy)(dnn::Handle);
  int (*descriptor_finish)(dnn::Handle);
  int (*set)(dnn::Handle, int attribute, int type, int64_t count, const void*);
  int (*get)(dnn::Handle, int attribute, int type, int64_t wanted, int64_t* count, void*);
  int (*execute)(dnn::Handle library, dnn::Handle plan, dnn::Handle arguments);

  std::string text;  ///< version for fingerprints
};

/// Opens the library; an empty name tries all known names. Libraries stay loaded. Throws
/// cuda_library::Unavailable.
std::shared_ptr<const Library> open(const std::string& name);

}  // namespace ferrite::cudnn
