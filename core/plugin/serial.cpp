// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/plugin/serial.h"

#include <map>

namespace ferrite::core::plugin {

std::mutex& lock_of(const void* table) {
  // Process-wide, as loaded libraries are. A map never moves its elements.
  static std::mutex guard;
  static std::map<const void*, std::mutex> locks;
  std::lock_guard hold(guard);
  return locks[table];
}

}  // namespace ferrite::core::plugin
