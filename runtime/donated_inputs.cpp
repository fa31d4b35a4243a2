// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of donated inputs in the host's memory: after its last use in a run, its pages go back to the
// system.
#include <algorithm>

#include "core/support/host_memory.h"
#include "runtime/executable.h"

namespace ferrite::core::runtime {
namespace {

/// Smaller inputs are not worth a call of the system.
constexpr int64_t released_bytes = int64_t{1} << 20;

}  // namespace

std::vector<Executable::Released> Executable::plan_released() const {
  std::vector<Released> list;
  // Elsewhere a step may still run when it was launched.
  if (devices.size() != 1 || !devices[0]->host_memory || devices[0]->has_streams()) return list;
  std::vector<bool> left(inputs.size());  // donated, and not used by any later step
  for (size_t k = 0; k < inputs.size(); ++k)
    left[k] = inputs[k].donated && !inputs[k].changed && inputs[k].bytes >= released_bytes;
  for (const auto& slot : output_slots)
    if (slot.kind == BufferSlot::Kind::input) left[slot.number] = false;
  for (size_t step = steps.size(); step-- > 0;)
    for (const auto& slot : steps[step].arguments) {
      if (slot.kind != BufferSlot::Kind::input || !left[slot.number]) continue;
      left[slot.number] = false;
      list.push_back({step, slot.number});
    }
  std::ranges::reverse(list);
  return list;
}

void Executable::release_inputs(size_t step, const Buffers& buffers, size_t& released) const {
  for (; released < released_.size() && released_[released].step == step; ++released) {
    const auto input = released_[released].input;
    release_pages(buffers.inputs[input], inputs[input].bytes);
  }
}

}  // namespace ferrite::core::runtime
