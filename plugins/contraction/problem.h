// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A contraction in the numbers that libraries need: the result of reading a kernel, and the content of a
// blob.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "ferrite/kernel.hpp"

namespace ferrite::contraction {

/// A buffer of the launch, and the offset of its first element.
struct Operand {
  int64_t argument = -1;
  int64_t offset = 0;  // in elements
};

inline constexpr size_t most_addends = 2;

/// A loop, and its stride in each operand, in elements.
struct Loop {
  int64_t extent = 1;
  int64_t a = 0, b = 0, c = 0, bias = 0;
  std::array<int64_t, most_addends> addend{};
};

/// Input rows (or columns) of a convolution: row o * step + k * dilation - low, or 0 if that is outside [0,
/// size).
struct Window {
  int64_t size = 1, step = 1, dilation = 1, low = 0;
};

enum class Activation : int64_t { none, relu, tanh, sigmoid, silu, gelu, gelu_tanh };

/// c[l, m, n] = activation(sum over k of a[l, m, k] * b[l, k, n] + bias[n] + addends[l, m, n]). For a
/// convolution, m is a pair (output row, output column), k an input channel and a point of the window, and n
/// an output channel (and the group, in a depthwise convolution).
struct Problem {
  static constexpr size_t most_loops = 6;
  int64_t convolution = 0;  // 1: it is a convolution
  int64_t depthwise = 0;    // 1: n is also the channel of a, and k is the window alone
  DType type = f32;         // type of a and b
  DType result = f32;       // type of c, the bias and the addends
  uint32_t reserved = 0;
  int64_t loop_count = 0;
  std::array<Loop, most_loops> loops{};
  Loop m, n, k;                            // for a convolution, m is the output row
  Loop column, window_row, window_column;  // for a convolution only
  Window rows, columns;
  Operand a, b, c, bias;
  std::array<Operand, most_addends> addends{};
  int64_t addend_count = 0;
  Activation activation = Activation::none;
  int64_t packed = 0;   // b has a layout of the library
  int64_t swapped = 0;  // b is the kernel's first operand
  int64_t covered = 1;  // number of statements that the problem covers
  int64_t workers = 1;  // threads that share the work
};
static_assert(std::is_trivially_copyable_v<Problem>);

/// Whether read_problem() could have produced these numbers; those of a blob may come from anywhere.
bool is_sound(const Problem& problem);

/// The role of a weight's dim in the problem, for each dim of its buffer.
enum class Role : uint8_t { zero, n, k, window_row, window_column };

struct ReadProblem {
  Problem problem;
  uint32_t weight = 0;            ///< the buffer of b
  bool constant = false;          ///< b is a constant without a packed layout
  std::vector<Role> weight_dims;  ///< empty unless each dim of b has one of these roles
};

constexpr uint64_t bit_of(DType type) { return uint64_t{1} << static_cast<unsigned>(type); }

/// The abilities of a library among the problems that can be read.
struct Abilities {
  std::string library;          ///< name of the library, for messages
  uint64_t types = 0;           ///< bit_of() each operand type
  uint64_t epilogue_types = 0;  ///< operand types of products with an epilogue
  size_t addends = 0;           ///< maximum number, at most most_addends
  /// The addend of a product may repeat one element, or a row.
  bool addends_repeat = false;
  /// Convolution weights must be constants, because the library packs them.
  bool packs = false;
  /// The library computes convolutions with groups of several channels: a loop of the problem then iterates
  /// over a, b and c.
  bool groups = false;
  bool (*activates)(const Problem&, Activation) = [](const Problem&, Activation) { return false; };
};

/// Reads the problem of a kernel's leading statements, at most `most_statements`. Declines (ferrite::Failure)
/// with a reason if the library does not compute it.
ReadProblem read_problem(const loop::Kernel& kernel, const Abilities& abilities,
                         size_t most_statements = SIZE_MAX);

/// Decodes the kernel; fails with `<plugin>/kernel` if the bytes are none.
loop::Kernel read_kernel_of(std::span<const std::byte> bytes, std::string_view plugin);

}  // namespace ferrite::contraction
