// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A candidate for a kernel, compiled and loaded alone, which can be timed.
#pragma once

#include <memory>
#include <vector>

#include "core/link/builder.h"

namespace ferrite::core::tune {

class Trial {
 public:
  /// Compiles and loads a placed schedule, and allocates its inputs and outputs. Errors are those of these
  /// steps; FE-K22 where a provider was dropped meanwhile.
  static Result<std::unique_ptr<Trial>> make(const schedule::Schedule& schedule,
                                             const runtime::Devices& devices,
                                             const select::Placement& placement,
                                             const link::BuildOptions& options,
                                             select::CandidateBlocklist blocklist);

  /// Runs for about this many seconds: once to warm up, then at least three times. Returns the least time of
  /// a run's kernels, without copies between memories, over this call and all earlier ones.
  Result<double> measure(double seconds);

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  Result<std::byte*> take(const runtime::PortInfo& port);

  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::shared_ptr<runtime::Executable> executable_;
  std::unique_ptr<runtime::Executable::Context> context_;
  double least_ = 0;  ///< 0: not run yet
};

}  // namespace ferrite::core::tune
