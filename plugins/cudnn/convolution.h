// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A convolution in cuDNN's terms: images [n, channels, rows, columns] in any order of dims.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "contraction/problem.h"
#include "cuda_library/device.h"
#include "ferrite/provider.hpp"

namespace ferrite::cudnn {

struct Tensor {
  std::array<int64_t, 4> dims{1, 1, 1, 1}, strides{1, 1, 1, 1};  // elements
  contraction::Operand place;
};

/// y = activation(x * w + bias + r); `groups`: the number of channels of x, divided by that of w.
struct Convolution {
  DType type = f32, result = f32;
  bool tf32 = false;
  Tensor x, w, y, bias, r;
  bool has_bias = false, has_r = false;
  std::array<int64_t, 2> steps{1, 1}, dilations{1, 1}, low{0, 0}, high{0, 0};
  contraction::Activation activation = contraction::Activation::none;

  std::string text() const;  ///< for listings
  /// Whether the library reorders images for a plain convolution but not for one with an epilogue.
  bool is_better_alone() const;
  /// The alignment of a tensor's first element, in bytes: at most 16.
  int64_t alignment(const Tensor& tensor, DType type_of_it) const;
  /// Estimate from the device's rates and the fraction of them that the library attains.
  double seconds(const cuda_library::Device& device) const;
};

/// Declines convolutions that cuDNN cannot express.
Convolution convolution_of(const contraction::Problem& problem, bool tf32);

/// Whether the weights are constants with another order than the images, whose channels are innermost.
bool wants_packing(const contraction::ReadProblem& read);
/// Weights with innermost channels: the layout that `packed` denotes.
OperandLayout packing_of(const contraction::ReadProblem& read);

}  // namespace ferrite::cudnn
