// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measuring elapsed time.
#pragma once

#include <chrono>

namespace ferrite::core {

inline double milliseconds_between(std::chrono::steady_clock::time_point start,
                                   std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - start).count();
}
inline double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return milliseconds_between(start, std::chrono::steady_clock::now());
}

}  // namespace ferrite::core
