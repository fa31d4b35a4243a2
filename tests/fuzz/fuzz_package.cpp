// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libFuzzer: any bytes as the program of a package whose hashes are right. What is read names only what is
// there.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "runtime/package/program.h"

using namespace ferrite::core;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::byte> weights(256);
  constexpr uint64_t code_bytes = 256;
  const auto kinds = package::kinds_in(std::as_bytes(std::span(data, size)));
  const auto read = package::read_program(std::as_bytes(std::span(data, size)), weights, code_bytes);
  if (!read) {
    if (read.error().code != "FE-K52" || read.error().text.empty()) std::abort();
    return 0;
  }
  const auto& executable = *read->executable;
  if (read->parts.size() != executable.kernels.size() || read->needs.empty()) std::abort();
  if (!std::ranges::equal(kinds, read->needs, {}, {}, &runtime::Target::kind)) std::abort();
  for (const auto& part : read->parts)
    if (part.offset + part.bytes > code_bytes) std::abort();
  const auto check = [](const auto& launches, const auto& arena_bytes) {
    for (const auto& launch : launches)
      for (const auto& place : launch.arguments)
        if (place.kind == runtime::BufferSlot::Kind::arena &&
            place.offset + place.bytes > arena_bytes.at(place.device))
          std::abort();
  };
  check(executable.init, executable.init_arena_bytes);
  check(executable.steps, executable.arena_bytes);
  for (const auto& constant : executable.constants)
    if (constant.data < weights.data() || constant.data + constant.bytes > weights.data() + weights.size())
      std::abort();
  return 0;
}
