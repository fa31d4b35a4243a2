// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/tune/single_group.h"

#include <algorithm>
#include <cstring>

#include "core/ir/loop/scalar.h"

namespace ferrite::core::tune {
namespace {

using schedule::BufferId;
using schedule::Role;
using schedule::Schedule;

/// Contents for a constant that has none yet.
loop::Constant made_up(const loop::ProgramBuffer& buffer) {
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(buffer.bytes()));
  fill(buffer.dtype, *bytes);
  loop::Constant constant;
  constant.data = bytes->data();
  constant.bytes = bytes->size();
  constant.owned = std::move(bytes);
  return constant;
}

}  // namespace

void fill(DType dtype, std::span<std::byte> bytes) {
  std::ranges::fill(bytes, std::byte{0});
  if (!is_float(dtype) || bits_of(dtype) < 8) return;
  const size_t width = static_cast<size_t>(bits_of(dtype)) / 8;
  constexpr size_t period = 1021;  // not a multiple of a vector's lanes
  std::vector<std::byte> pattern(period * width);
  uint32_t state = 1;
  for (size_t k = 0; k < period; ++k) {
    state = state * 1664525 + 1013904223;
    const double value = static_cast<double>(state >> 16) / 32768 - 1;
    const uint64_t bits = loop::scalar::float_bits(dtype, value == 0 ? 0.5 : value);
    std::memcpy(&pattern[k * width], &bits, width);
  }
  for (size_t done = 0; done < bytes.size(); done += pattern.size())
    std::memcpy(&bytes[done], pattern.data(), std::min(pattern.size(), bytes.size() - done));
}

Schedule alone(const Schedule& schedule, size_t group, const std::set<BufferId>& constants) {
  const auto arguments = schedule::KernelMaker(schedule).make(group);
  Schedule result = schedule;
  auto& program = result.program;
  program.inputs.clear();
  program.outputs.clear();
  const auto become = [](loop::ProgramBuffer& buffer, Role role, uint32_t kind, size_t number) {
    buffer.role = role;
    buffer.kind = kind;
    buffer.number = static_cast<uint32_t>(number);
  };
  // Ports that the group does not access become ordinary buffers without accesses.
  for (auto& buffer : program.buffers)
    if (buffer.role == Role::input || buffer.role == Role::output)
      become(buffer, Role::temporary, FE_BUFFER_OUTPUT, 0);
  size_t argument = 0;
  for (const auto& buffer : arguments.kernel.buffers) {
    if (buffer.kind == FE_BUFFER_LOCAL) continue;
    const BufferId id = arguments.arguments[argument++];
    auto& own = program.buffers[id];
    if (buffer.kind == FE_BUFFER_OUTPUT) {
      become(own, Role::output, FE_BUFFER_OUTPUT, program.outputs.size());
      program.outputs.push_back(id);
    } else if (own.role == Role::constant && program.constants[own.number].data) {
      // A constant of the model keeps its contents.
      continue;
    } else if (own.role == Role::constant || constants.contains(id)) {
      become(own, Role::constant, FE_BUFFER_CONSTANT, program.constants.size());
      program.constants.push_back(made_up(own));
    } else {
      become(own, Role::input, FE_BUFFER_INPUT, program.inputs.size());
      program.inputs.push_back(id);
    }
  }
  result.groups = {schedule.groups[group]};
  schedule::number_by_group(result);
  return result;
}

}  // namespace ferrite::core::tune
