// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/run/mirrors.h"

namespace ferrite::core::run {

Mirrors::State& Mirrors::state_of(loop::BufferId buffer, const Place& home) {
  auto [found, added] = states_.try_emplace(buffer);
  // What no launch has written yet has contents where it came with them.
  if (added) found->second.home_valid = home.kind != Place::Kind::arena && home.kind != Place::Kind::output;
  return found->second;
}

void Mirrors::copy(uint32_t device, uint32_t direction, const Place& from, const Place& to,
                   std::vector<Launch>& steps) {
  Launch launch;
  launch.device = device;
  launch.copy = direction;
  launch.arguments = {from, to};
  steps.push_back(std::move(launch));
  ++copies_;
}

void Mirrors::bring_home(loop::BufferId buffer, const Place& home, std::vector<Launch>& steps) {
  auto& state = state_of(buffer, home);
  if (state.home_valid) return;
  for (const auto& [device, mirror] : state.mirrors) {
    if (!mirror.second) continue;
    copy(device, FE_COPY_TO_HOST, mirror.first, home, steps);
    state.home_valid = true;
    return;
  }
}

Place Mirrors::reach(uint32_t device, loop::BufferId buffer, const Place& home, bool written,
                     std::vector<Launch>& steps) {
  auto& state = state_of(buffer, home);
  if (executable_.devices[device]->host_memory) {
    bring_home(buffer, home, steps);
    if (written) {
      state.home_valid = true;
      for (auto& [other, mirror] : state.mirrors) mirror.second = false;
    }
    return home;
  }
  auto [found, added] = state.mirrors.try_emplace(device);
  auto& [place, valid] = found->second;
  const bool lasting = home.kind == Place::Kind::constant || home.kind == Place::Kind::persistent;
  if (added) {
    place.device = device;
    place.bytes = home.bytes;
    if (lasting) {
      place.kind = Place::Kind::persistent;
      place.number = executable_.add_persistent(device, home.bytes);
      copy(device, FE_COPY_TO_DEVICE, home, place, executable_.init);
      valid = true;
    } else {
      place.kind = Place::Kind::arena;
      place.offset = arenas_[device].offsets().at(buffer);
    }
  }
  if (!valid) {
    bring_home(buffer, home, steps);
    if (state.home_valid) copy(device, FE_COPY_TO_DEVICE, home, place, steps);
    valid = true;
  }
  if (written) {
    state.home_valid = false;
    for (auto& [other, mirror] : state.mirrors) mirror.second = other == device;
  }
  return place;
}

}  // namespace ferrite::core::run
