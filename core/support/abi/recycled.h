// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records that are never freed, because a plugin may keep a pointer to one.
#pragma once

#include <cstddef>
#include <mutex>

namespace ferrite::core {

/// Records of one type. Returned records are reused in the order of their return, and only once `rest` others
/// are waiting. A stale pointer therefore leads to a finished record, and not soon to another owner's.
/// Any-thread.
template <class Record>
class Recycled {
 public:
  static constexpr size_t rest = 64;

  static Record* take() {
    Waiting& waiting = all();
    {
      std::lock_guard lock(waiting.mutex);
      if (waiting.count > rest) {
        --waiting.count;
        Link* oldest = waiting.first;
        waiting.first = oldest->next;
        return oldest;
      }
    }
    return new Link();
  }
  /// Returns a record that came from take().
  static void give(Record* record) {
    auto* link = static_cast<Link*>(record);
    link->next = nullptr;
    Waiting& waiting = all();
    std::lock_guard lock(waiting.mutex);
    (waiting.count++ == 0 ? waiting.first : waiting.last->next) = link;
    waiting.last = link;
  }

 private:
  struct Link : Record {
    Link* next = nullptr;
  };
  struct Waiting {
    std::mutex mutex;
    Link *first = nullptr, *last = nullptr;
    size_t count = 0;
  };
  static Waiting& all() {
    static auto& waiting = *new Waiting();
    return waiting;
  }
};

}  // namespace ferrite::core
