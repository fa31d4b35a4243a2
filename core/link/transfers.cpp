// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/link/transfers.h"

#include <algorithm>

namespace ferrite::core::link {

Transfers::State& Transfers::state_of(loop::BufferId buffer, const BufferSlot& primary) {
  auto [found, added] = states_.try_emplace(buffer);
  // A buffer that no launch has written yet is valid in its primary slot only if it came with contents.
  if (added)
    found->second.primary_valid =
        primary.kind != BufferSlot::Kind::arena && primary.kind != BufferSlot::Kind::output;
  return found->second;
}

bool Transfers::are_peers(uint32_t memory, uint32_t other) const {
  if (memory == Executable::host || other == Executable::host) return false;
  const auto &device = *executable_.devices[memory], &peer = *executable_.devices[other];
  return device.runtime == peer.runtime && device.has_streams();
}

void Transfers::copy(loop::BufferId buffer, const BufferSlot& from, const BufferSlot& to,
                     std::vector<Launch>& steps) {
  const bool from_host = executable_.memory_of(from) == Executable::host;
  const bool to_host = executable_.memory_of(to) == Executable::host;
  Launch launch;
  launch.device = executable_.memory_of(to_host ? from : to);
  launch.copy = to_host ? FE_COPY_TO_HOST : from_host ? FE_COPY_TO_DEVICE : FE_COPY_PEER;
  launch.arguments = {from, to};
  transfers_.push_back({buffer, executable_.memory_of(from), executable_.memory_of(to),
                        &steps == &executable_.init, from.bytes});
  steps.push_back(std::move(launch));
}

void Transfers::copy_to_primary(loop::BufferId buffer, const BufferSlot& primary,
                                std::vector<Launch>& steps) {
  auto& state = state_of(buffer, primary);
  if (state.primary_valid) return;
  const auto newest = std::ranges::find_if(state.copies, [](const auto& copy) { return copy.second.valid; });
  if (newest == state.copies.end()) return;
  constexpr uint32_t host = Executable::host;
  BufferSlot from = newest->second.slot;
  // Between devices of different runtimes the copy goes through the host's memory.
  const uint32_t primary_memory = executable_.memory_of(primary);
  if (primary_memory != host && newest->first != host && !are_peers(primary_memory, newest->first)) {
    auto& host_copy =
        state.copies.try_emplace(host, Copy{arena_slot(host, buffer, primary.bytes), false}).first->second;
    copy(buffer, from, host_copy.slot, steps);
    host_copy.valid = true;
    from = host_copy.slot;
  }
  copy(buffer, from, primary, steps);
  state.primary_valid = true;
}

BufferSlot Transfers::arena_slot(uint32_t memory, loop::BufferId buffer, int64_t bytes) const {
  BufferSlot slot;
  slot.device = memory == Executable::host ? executable_.default_device() : memory;
  slot.bytes = bytes;
  slot.offset = arenas_[slot.device].offsets().at(buffer);
  return slot;
}

BufferSlot Transfers::reach(uint32_t device, loop::BufferId buffer, const BufferSlot& primary, bool written,
                            std::vector<Launch>& steps) {
  auto& state = state_of(buffer, primary);
  constexpr uint32_t host = Executable::host;
  const uint32_t memory = executable_.memory_of(device);
  const auto write = [&](bool to_primary) {
    if (!written) return;
    state.primary_valid = to_primary;
    // A write makes all other copies stale.
    for (auto& [other, copy] : state.copies) copy.valid = !to_primary && other == memory;
  };
  if (memory == executable_.memory_of(primary)) {
    copy_to_primary(buffer, primary, steps);
    write(true);
    return primary;
  }
  if (auto found = state.copies.find(memory); found == state.copies.end()) {
    if (primary.kind == BufferSlot::Kind::constant || primary.kind == BufferSlot::Kind::persistent) {
      BufferSlot slot;
      slot.kind = BufferSlot::Kind::persistent;
      slot.device = memory;
      slot.bytes = primary.bytes;
      slot.number = executable_.add_persistent(memory, primary.bytes);
      copy(buffer, primary, slot, executable_.init);
      state.copies.emplace(memory, Copy{slot, true});
    } else {
      state.copies.emplace(memory, Copy{arena_slot(memory, buffer, primary.bytes), false});
    }
  }
  auto& [slot, valid] = state.copies.at(memory);
  const auto peer = std::ranges::find_if(
      state.copies, [&](const auto& copy) { return copy.second.valid && are_peers(memory, copy.first); });
  // A direct copy from a peer avoids the detour through the primary slot.
  if (!valid && !state.primary_valid && peer != state.copies.end()) {
    copy(buffer, peer->second.slot, slot, steps);
    valid = true;
  }
  if (!valid) {
    copy_to_primary(buffer, primary, steps);
    if (state.primary_valid) {
      BufferSlot from = primary;
      const uint32_t primary_memory = executable_.memory_of(primary);
      if (primary_memory != host && memory != host && !are_peers(primary_memory, memory))
        from = reach(executable_.default_device(), buffer, primary, false, steps);
      copy(buffer, from, slot, steps);
    }
    valid = true;
  }
  write(false);
  return slot;
}

}  // namespace ferrite::core::link
