// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Handles {index, generation}, and the arena that issues them.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <vector>

#include "ferrite/abi/graph.h"

namespace ferrite::core::graph {

/// {index, generation} in 64 bits, as fe_node and fe_value carry it; 0 is none. A handle of an erased item or
/// of another graph is stale, even if its slot was reused: find() returns null and edits return FE-G03.
template <class Tag>
struct Handle {
  uint64_t bits = 0;
  constexpr uint32_t index() const { return static_cast<uint32_t>(bits); }
  constexpr uint32_t generation() const { return static_cast<uint32_t>(bits >> 32); }
  constexpr explicit operator bool() const { return bits != 0; }
  friend constexpr auto operator<=>(Handle, Handle) = default;
};
using NodeId = Handle<struct NodeTag>;
using ValueId = Handle<struct ValueTag>;
static_assert(sizeof(NodeId) == sizeof(fe_node) && sizeof(ValueId) == sizeof(fe_value));

/// A generation is the graph's tag (12 bits, not 0) above the slot's own count (20 bits). A slot never issues
/// a count twice; it is retired when its counts run out.
template <class Id, class T>
class Arena {
 public:
  static constexpr uint32_t count_bits = 20, tags = 1u << 12;

  const T* find(Id id) const {
    const bool live = id && id.index() < slots_.size() && slots_[id.index()].generation == id.generation();
    return live ? &slots_[id.index()].item : nullptr;
  }
  T& operator[](uint32_t index) { return slots_[index].item; }
  const T& operator[](uint32_t index) const { return slots_[index].item; }
  Id id_of(uint32_t index) const { return {uint64_t{slots_[index].generation} << 32 | index}; }

  Id allocate(uint32_t tag, T item) {
    uint32_t index = static_cast<uint32_t>(slots_.size());
    if (free_.empty()) {
      slots_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    Slot& slot = slots_[index];
    slot.generation = tag << count_bits | ++slot.issued;
    slot.item = std::move(item);
    return id_of(index);
  }
  /// Makes the handle stale but keeps the contents, for revive().
  void kill(Id id) { slots_[id.index()].generation = 0; }
  void revive(Id id) { slots_[id.index()].generation = id.generation(); }
  /// Drops the contents of a dead slot and makes it available again.
  void release(uint32_t index) {
    slots_[index].item = T();
    if (slots_[index].issued + 1 < 1u << count_bits) free_.push_back(index);
  }

 private:
  struct Slot {
    uint32_t generation = 0;  // 0: dead
    uint32_t issued = 0;      // the last count issued
    T item;
  };
  std::deque<Slot> slots_;  // a deque: references to items stay valid while others are added
  std::vector<uint32_t> free_;
};

}  // namespace ferrite::core::graph
