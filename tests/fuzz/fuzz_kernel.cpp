// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any bytes as a flat kernel: refused with a reason, or read as a kernel that can be printed, flattened and,
// where it is small, interpreted.
#include <cstdio>
#include <cstdlib>

#include "core/ir/kernel/flatten.h"
#include "core/ir/loop/interpreter.h"
#include "core/ir/text/print_loops.h"
#include "ferrite/kernel.hpp"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// Whether all loops and buffers together are small enough to run.
bool is_small(const ferrite::loop::Kernel& kernel) {
  constexpr int64_t limit = 1 << 12;
  int64_t work = 0;
  for (const auto& buffer : kernel.buffers) {
    if (buffer.bytes() > limit) return false;
    work += buffer.bytes();
  }
  for (const auto& statement : kernel.statements) {
    int64_t points = 1;
    for (const auto& var : statement.vars) {
      if (var.extent > limit || points > limit) return false;
      points *= var.extent;
    }
    work += points * static_cast<int64_t>(1 + statement.ops.size());
  }
  return work < limit * 16;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string error;
  auto kernel = ferrite::read_kernel(std::as_bytes(std::span(data, size)), &error);
  if (!kernel) {
    require(!error.empty(), "a refusal without a reason");
    return 0;
  }
  require(!ferrite::core::loop::print(*kernel).empty(), "a kernel without text");
  if (auto flat = ferrite::core::kernel::flatten(*kernel))
    require(ferrite::read_kernel(flat->bytes).has_value(), "a flattened kernel that does not read");
  if (!is_small(*kernel)) return 0;
  std::vector<std::vector<std::byte>> memory;
  std::vector<ferrite::core::loop::Memory> views;
  for (const auto& buffer : kernel->buffers)
    memory.emplace_back(static_cast<size_t>(std::max<int64_t>(buffer.bytes(), 0)));
  for (auto& bytes : memory) views.emplace_back(bytes);
  auto result = ferrite::core::loop::evaluate(*kernel, views);
  require(result || !result.error().code.empty(), "an error without a code");
  return 0;
}
