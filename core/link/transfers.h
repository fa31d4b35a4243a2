// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transfers: the staging copies of buffers in the memories of devices, and the copy operations that a launch
// needs.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/link/arena_plan.h"
#include "runtime/executable.h"

namespace ferrite::core::link {

using namespace ferrite::core::runtime;

/// Tracks which memory has each buffer's newest contents, while launches are listed in their order. The
/// primary slot of a buffer is in the host's memory, or in the arena of the devices that can access it; that
/// of a port is the caller's memory. All other slots of a buffer are copies.
class Transfers {
 public:
  /// `arenas`: by device, the offsets of the buffers that its kernels access.
  Transfers(Executable& executable, std::span<const ArenaPlan> arenas)
      : executable_(executable), arenas_(arenas) {}

  /// The slot of the buffer for `device` at the next launch of `steps`. Adds the copies to `steps` that must
  /// precede the launch. If the launch writes the buffer (`written`), all other copies are stale after it.
  BufferSlot reach(uint32_t device, loop::BufferId buffer, const BufferSlot& primary, bool written,
                   std::vector<Launch>& steps);

  /// Copies the newest contents back to the buffer's primary slot, unless they are there.
  void copy_to_primary(loop::BufferId buffer, const BufferSlot& primary, std::vector<Launch>& steps);

  /// The slot of the buffer in a memory's arena.
  BufferSlot arena_slot(uint32_t memory, loop::BufferId buffer, int64_t bytes) const;

  struct Transfer {
    loop::BufferId buffer;
    uint32_t from, to;  ///< memories: of a device, or Executable::host
    bool at_load;
    int64_t bytes;
  };
  /// All copies so far, in their order.
  std::span<const Transfer> listed() const { return transfers_; }

 private:
  struct Copy {
    BufferSlot slot;
    bool valid = false;  ///< it has the newest contents
  };
  struct State {
    bool primary_valid = false;
    std::map<uint32_t, Copy> copies;  ///< by memory
  };
  State& state_of(loop::BufferId buffer, const BufferSlot& primary);
  /// Whether the devices with these memories copy directly from one to the other.
  bool are_peers(uint32_t memory, uint32_t other) const;
  /// Adds a copy. One of the slots is in the host's memory, or both are in the memories of peers.
  void copy(loop::BufferId buffer, const BufferSlot& from, const BufferSlot& to, std::vector<Launch>& steps);

  Executable& executable_;
  const std::span<const ArenaPlan> arenas_;
  std::map<loop::BufferId, State> states_;
  std::vector<Transfer> transfers_;
};

}  // namespace ferrite::core::link
