// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A contraction as libraries compute it, in numbers: what a kernel is read into, and what a blob holds.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "ferrite/kernel.hpp"

namespace ferrite::contraction {

/// A buffer of the launch, and where its first element lies.
struct Operand {
  int64_t argument = -1;
  int64_t offset = 0;  // elements
};

inline constexpr size_t most_addends = 2;

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

enum class Activation : int64_t { none, relu, tanh, sigmoid, silu, gelu, gelu_tanh };

/// c[l, m, n] = activation(sum over k of a[l, m, k] * b[l, k, n] + bias[n] + addends[l, m, n]).
/// As a convolution m is a pair (output row, output column), k an input channel and a point of the window, and n an output channel
/// (and the group, where each channel is one of its own).
struct Problem {
  static constexpr size_t most_loops = 6;
  int64_t convolution = 0;  // 1: it is one
  int64_t depthwise = 0;    // 1: n is channel of a, too, and there is no k but the window
  DType type = f32;         // of a and b
  DType result = f32;       // of c, the bias and addends
  uint32_t reserved = 0;
  int64_t loop_count = 0;
  std::array<Loop, most_loops> loops{};
  Loop m, n, k;                            // convolution: m is the output row
  Loop column, window_row, window_column;  // of a convolution
  Window rows, columns;
  Operand a, b, c, bias;
  std::array<Operand, most_addends> addends{};
  int64_t addend_count = 0;
  Activation activation = Activation::none;
  int64_t packed = 0;   // b lies in a layout of the library's
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

constexpr uint64_t bit_of(DType type) { return uint64_t{1} << static_cast<unsigned>(type); }

/// What a library computes of what can be read.
struct Abilities {
  std::string library;          ///< its name, for reasons
  uint64_t types = 0;           ///< bit_of() those of operands
  uint64_t epilogue_types = 0;  ///< of operands with whose products more is computed
  size_t addends = 0;           ///< at most most_addends
  /// An addend to products may repeat one element, or a row.
  bool addends_repeat = false;
  /// Weights of convolutions have to be constants, because they are packed.
  bool packs = false;
  /// Convolutions with groups of several channels: a loop of the problem steps over a, b and c then.
  bool groups = false;
  bool (*activates)(const Problem&, Activation) = [](const Problem&, Activation) { return false; };
};

/// The problem that the leading statements of a kernel, at most so many, are. Declines (ferrite::Failure) with the reason what the
/// library does not compute.
ReadProblem read_problem(const loop::Kernel& kernel, const Abilities& abilities,
                         size_t most_statements = SIZE_MAX);

/// The kernel that these bytes are; fails with `<plugin>/kernel` where they are none.
loop::Kernel read_kernel_of(std::span<const std::byte> bytes, std::string_view plugin);

}  // namespace ferrite::contraction
