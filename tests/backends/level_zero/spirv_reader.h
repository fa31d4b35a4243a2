// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pocl_driver {

using Words = std::vector<uint32_t>;
using Size3 = std::array<uint32_t, 3>;

struct Argument {
  enum Kind { Value, Pointer, Local } kind;
  size_t bytes;  // of a value; 0 is unknown
};
struct EntryPoint {
  std::vector<Argument> arguments;
  std::optional<Size3> group_size;  // the only one that the kernel may be launched with
};
struct SpirV {
  Words words;
  std::map<std::string, EntryPoint> entries;
};

/// Reads what OpenCL does not tell about a program made from bitcode: the kernels' argument kinds and group sizes. Rewrites what
/// llvm-spirv-15 stops at: an OpConstantNull of a scalar type, an OpPhi after an OpSwitch that goes to its block by several cases.
/// Nothing if the words are not SPIR-V's.
std::optional<SpirV> read_spirv(std::span<const uint32_t> words);

}  // namespace pocl_driver
