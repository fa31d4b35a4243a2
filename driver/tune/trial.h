// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A candidate for a kernel, compiled and loaded alone, which can be timed.
#pragma once

#include <memory>
#include <vector>

#include "core/link/builder.h"

namespace ferrite::core::tune {

class Trial {
 public:
  /// Compiles and loads a schedule as it was placed, with memory for what it reads and writes. The errors of doing so; FE-K22
  /// where a provider was dropped meanwhile.
  static Result<std::unique_ptr<Trial>> make(const schedule::Schedule& schedule,
                                             const runtime::Devices& devices,
                                             const select::Placement& placement,
                                             const runtime::BuildOptions& options,
                                             select::CandidateBlocklist blocklist);

  /// Runs for about so many seconds, at least three times after one that warms up. The least time of the kernels of one run,
  /// without copies between memories, of this call and all earlier ones.
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
  double least_ = 0;  ///< 0: it did not run yet
};

}  // namespace ferrite::core::tune
