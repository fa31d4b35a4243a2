// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transfers: which buffers a device without the host's memory has copies of, and the copies that a launch needs.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/link/arena_plan.h"
#include "runtime/executable.h"

namespace ferrite::core::runtime {

/// Follows where each buffer's newest contents lie while launches are listed in their order. The home of a buffer is where the
/// devices that reach the host's memory have it; that of a port where the caller has it.
class Transfers {
 public:
  /// `arenas`: by device, where the buffers lie that its kernels touch.
  Transfers(Executable& executable, std::span<const ArenaPlan> arenas)
      : executable_(executable), arenas_(arenas) {}

  /// Where `device` finds the buffer at the next launch of `steps`, which gets the copies that must come before it. A buffer that is `written` is nowhere else valid after that launch.
  BufferSlot reach(uint32_t device, loop::BufferId buffer, const BufferSlot& home, bool written,
                   std::vector<Launch>& steps);

  /// Makes the home of a buffer valid again.
  void bring_home(loop::BufferId buffer, const BufferSlot& home, std::vector<Launch>& steps);

  struct Transfer {
    loop::BufferId buffer;
    uint32_t from, to;  ///< memories: of a device, or Executable::host
    bool at_load;
    int64_t bytes;
  };
  /// All copies that were listed, in their order.
  std::span<const Transfer> listed() const { return transfers_; }

 private:
  struct State {
    bool home_valid = false;
    std::map<uint32_t, std::pair<BufferSlot, bool>>
        copies;  ///< by memory: where, and whether its contents are the newest
  };
  State& state_of(loop::BufferId buffer, const BufferSlot& home);
  /// Where a memory's arena has the buffer.
  BufferSlot arena_slot(uint32_t memory, loop::BufferId buffer, const BufferSlot& home) const;
  /// Whether devices with these memories copy from one to the other.
  bool are_peers(uint32_t memory, uint32_t other) const;
  /// One of the two is in the host's memory, or they are in those of peers.
  void copy(loop::BufferId buffer, const BufferSlot& from, const BufferSlot& to, std::vector<Launch>& steps);

  Executable& executable_;
  const std::span<const ArenaPlan> arenas_;
  std::map<loop::BufferId, State> states_;
  std::vector<Transfer> transfers_;
};

}  // namespace ferrite::core::runtime
