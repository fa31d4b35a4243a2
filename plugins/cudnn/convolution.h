// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A convolution as cuDNN has it: of images [n, channels, rows, columns] in any order of dims.
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

/// y = activation(x * w + bias + r): `groups` is how many times x has the channels of w.
struct Convolution {
  DType type = f32, result = f32;
  bool tf32 = false;
  Tensor x, w, y, bias, r;
  bool has_bias = false, has_r = false;
  std::array<int64_t, 2> steps{1, 1}, dilations{1, 1}, low{0, 0}, high{0, 0};
  contraction::Activation activation = contraction::Activation::none;

  std::string text() const;  ///< for listings
  /// Whether the library brings images into another order for a convolution alone, and not for one with something behind it.
  bool is_better_alone() const;
  /// To which a tensor's first element is aligned, bytes: at most 16.
  int64_t alignment(const Tensor& tensor, DType type_of_it) const;
  /// By the device's rates, and how much of them the library reaches.
  double seconds(const cuda_library::Device& device) const;
};

/// Declines what cuDNN has no form for.
Convolution convolution_of(const contraction::Problem& problem, bool tf32);

/// Whether the weights are constants that lie otherwise than the images, whose channels are innermost.
bool wants_packing(const contraction::ReadProblem& read);
/// Weights with their channels innermost: what `packed` stands for.
OperandLayout packing_of(const contraction::ReadProblem& read);

}  // namespace ferrite::cudnn
