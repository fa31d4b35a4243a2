// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/link/ports.h"

#include "core/ir/loop/indexed.h"

namespace ferrite::core::link {

std::vector<PortInfo> describe_ports(const loop::LoopProgram& program,
                                     std::span<const loop::BufferId> buffers) {
  std::vector<bool> has_versions(program.buffers.size());
  for (const auto& buffer : program.buffers)
    if (buffer.base != loop::none) has_versions[buffer.base] = true;
  const auto list = loop::list_of(program);
  std::vector<PortInfo> ports;
  for (loop::BufferId id : buffers) {
    const auto& buffer = program.buffers[id];
    const bool changed = buffer.role == loop::Role::input && has_versions[id];
    ports.push_back({buffer.name, buffer.dtype, buffer.dims, bytes_of(buffer.dtype, buffer.elements()),
                     changed, loop::indexed_name(list, id)});
  }
  return ports;
}

}  // namespace ferrite::core::link
