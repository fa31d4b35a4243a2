// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Time limits. Long-running functions poll them.
#pragma once

#include <chrono>
#include <optional>

#include "core/support/error.h"

namespace ferrite::core {

/// A point in time that must not be passed; without a limit it never comes.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  Deadline() = default;
  explicit Deadline(std::optional<std::chrono::milliseconds> limit) : limit_(limit) {
    if (limit) moment_ = Clock::now() + *limit;
  }
  bool passed() const { return limit_ && Clock::now() > moment_; }
  /// FE-M21 if the deadline has passed.
  Result<void> check() const {
    if (!passed()) return {};
    return error(FE_ECANCELLED, "FE-M21",
                 "it took longer than timeout_ms = {}; give it more time, or disable it", limit_->count());
  }

 private:
  std::optional<std::chrono::milliseconds> limit_;
  Clock::time_point moment_;
};

}  // namespace ferrite::core
