// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/link/transfers.h"

#include <algorithm>

namespace ferrite::core::link {

Transfers::State& Transfers::state_of(loop::BufferId buffer, const BufferSlot& home) {
  auto [found, added] = states_.try_emplace(buffer);
  // A buffer that no launch has written yet is valid at home only if it came with contents.
  if (added)
    found->second.home_valid = home.kind != BufferSlot::Kind::arena && home.kind != BufferSlot::Kind::output;
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

void Transfers::copy_home(loop::BufferId buffer, const BufferSlot& home, std::vector<Launch>& steps) {
  auto& state = state_of(buffer, home);
  if (state.home_valid) return;
  const auto newest =
      std::ranges::find_if(state.copies, [](const auto& mirror) { return mirror.second.second; });
  if (newest == state.copies.end()) return;
  constexpr uint32_t host = Executable::host;
  BufferSlot from = newest->second.first;
  // Between devices of different runtimes the copy goes through the host's memory.
  const uint32_t at_home = executable_.memory_of(home);
  if (at_home != host && newest->first != host && !are_peers(at_home, newest->first)) {
    auto& [place, valid] =
        state.copies.try_emplace(host, arena_slot(host, buffer, home), false).first->second;
    copy(buffer, from, place, steps);
    valid = true;
    from = place;
  }
  copy(buffer, from, home, steps);
  state.home_valid = true;
}

BufferSlot Transfers::arena_slot(uint32_t memory, loop::BufferId buffer, const BufferSlot& home) const {
  BufferSlot place;
  place.device = memory == Executable::host ? executable_.home() : memory;
  place.bytes = home.bytes;
  place.offset = arenas_[place.device].offsets().at(buffer);
  return place;
}

BufferSlot Transfers::reach(uint32_t device, loop::BufferId buffer, const BufferSlot& home, bool written,
                            std::vector<Launch>& steps) {
  auto& state = state_of(buffer, home);
  constexpr uint32_t host = Executable::host;
  const uint32_t memory = executable_.memory_of(device);
  const auto write = [&](bool at_home) {
    if (!written) return;
    state.home_valid = at_home;
    // A write makes all other copies stale.
    for (auto& [other, mirror] : state.copies) mirror.second = !at_home && other == memory;
  };
  if (memory == executable_.memory_of(home)) {
    copy_home(buffer, home, steps);
    write(true);
    return home;
  }
  if (auto found = state.copies.find(memory); found == state.copies.end()) {
    if (home.kind == BufferSlot::Kind::constant || home.kind == BufferSlot::Kind::persistent) {
      BufferSlot place;
      place.kind = BufferSlot::Kind::persistent;
      place.device = memory;
      place.bytes = home.bytes;
      place.number = executable_.add_persistent(memory, home.bytes);
      copy(buffer, home, place, executable_.init);
      state.copies.emplace(memory, std::pair(place, true));
    } else {
      state.copies.emplace(memory, std::pair(arena_slot(memory, buffer, home), false));
    }
  }
  auto& [place, valid] = state.copies.at(memory);
  const auto peer = std::ranges::find_if(state.copies, [&](const auto& mirror) {
    return mirror.second.second && are_peers(memory, mirror.first);
  });
  // A direct copy from a peer saves the way through the home.
  if (!valid && !state.home_valid && peer != state.copies.end()) {
    copy(buffer, peer->second.first, place, steps);
    valid = true;
  }
  if (!valid) {
    copy_home(buffer, home, steps);
    if (state.home_valid) {
      BufferSlot from = home;
      const uint32_t at_home = executable_.memory_of(home);
      if (at_home != host && memory != host && !are_peers(at_home, memory))
        from = reach(executable_.home(), buffer, home, false, steps);
      copy(buffer, from, place, steps);
    }
    valid = true;
  }
  write(false);
  return place;
}

}  // namespace ferrite::core::link
