// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A contraction as oneDNN computes it, in numbers: what a kernel is read into, and what a blob holds.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "ferrite/kernel.hpp"

namespace ferrite::onednn {

/// A buffer of the launch, and where its first element lies.
struct Operand {
  int64_t argument = -1;
  int64_t offset = 0;  // elements
};

constexpr size_t most_addends = 2;

/// A loop, and how far its steps go in each operand, in elements.
struct Loop {
  int64_t extent = 1;
  int64_t a = 0, b = 0, c = 0, bias = 0;
  std::array<int64_t, most_addends> addend{};
};

/// Input rows (or columns) of a convolution: row o * step + k * dilation - low, 0 where that is outside of [0, size).
struct Window {
  int64_t size = 1, step = 1, dilation = 1, low = 0;
};

/// c[l, m, n] = activation(sum over k of a[l, m, k] * b[l, k, n] + bias[n] + addends[l, m, n]).
/// As a convolution m is a pair (output row, output column), k an input channel and a point of the window, and n an output channel
/// (and the group, where each channel is one of its own).
struct Problem {
  static constexpr size_t most_loops = 6;
  int64_t convolution = 0;  // 1: it is one
  int64_t depthwise = 0;    // 1: n is channel of a, too, and there is no k but the window
  int64_t bf16 = 0, bf16_result = 0;
  int64_t loop_count = 0;
  std::array<Loop, most_loops> loops{};
  Loop m, n, k;                            // convolution: m is the output row
  Loop column, window_row, window_column;  // of a convolution
  Window rows, columns;
  Operand a, b, c, bias;
  std::array<Operand, most_addends> addends{};
  int64_t addend_count = 0;
  int64_t activation = 0;  // of oneDNN; 0: none
  float alpha = 0, beta = 0;
  int64_t packed = 0;   // b lies in oneDNN's layout
  int64_t swapped = 0;  // b is what the kernel has first
  int64_t covered = 1;  // statements
  int64_t workers = 1;  // threads that it is shared out to
};
static_assert(std::is_trivially_copyable_v<Problem>);

/// Whether the numbers are some that read_problem() gives: those of a blob may come from anywhere.
bool is_sound(const Problem& problem);

/// What of a problem a weight's coordinates are, dim by dim of its buffer.
enum class Role : uint8_t { zero, n, k, window_row, window_column };

struct ReadProblem {
  Problem problem;
  uint32_t weight = 0;            ///< the buffer of b
  bool constant = false;          ///< b is one, and not in a layout yet
  std::vector<Role> weight_dims;  ///< empty where b has another form than one of these a dim
};

/// The problem that the leading statements of a kernel are. Declines (ferrite::Failure) with the reason what oneDNN does not compute.
ReadProblem read_problem(const loop::Kernel& kernel);

}  // namespace ferrite::onednn
