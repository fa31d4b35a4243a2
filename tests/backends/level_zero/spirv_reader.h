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
  size_t bytes;  // size of a value; 0: unknown
};
struct EntryPoint {
  std::vector<Argument> arguments;
  std::optional<Size3> group_size;  // the only one allowed for launches
};
struct SpirV {
  Words words;
  std::map<std::string, EntryPoint> entries;
};

/// Reads information that OpenCL does not provide about a program made from bitcode: the kernels' argument
/// kinds and group sizes. Rewrites constructs that llvm-spirv-15 cannot process: an OpConstantNull of a
/// scalar type, and an OpPhi after an OpSwitch that reaches its block through several cases. nullopt if the
/// words are not SPIR-V.
std::optional<SpirV> read_spirv(std::span<const uint32_t> words);

}  // namespace pocl_driver
