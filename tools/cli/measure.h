// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a device reaches at most, measured with compiled kernels.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "driver/observe/peaks.h"
#include "runtime/target/number_table.h"
#include "tools/cli/common.h"

namespace ferrite::cli {

/// Times graphs, and notices where something else kept the machine busy meanwhile.
class Meter {
 public:
  /// Both outlive it.
  Meter(const core::Session& session, Progress& progress) : session_(session), progress_(progress) {}

  void show(std::string_view what) { progress_.update(what); }
  const core::Session& session() const { return session_; }
  /// The least seconds that a run of the graph takes. Where that was disturbed it is measured again, for some seconds in all. Errors
  /// are those of compiling and running. `kernels`: that it is to be, 0 for any number; 0 seconds where it is another number of them.
  Result<double> time(const core::CompileOptions& options, const std::string& text, size_t kernels = 0);
  /// FE-T48, a warning: what was disturbed until now, and how; none where nothing was.
  std::optional<Error> disturbance() const;

 private:
  /// Runs for some tenths of a second.
  struct Round {
    double least = 0;   ///< seconds of a run
    double wall = 0;    ///< seconds of all of them
    double waited = 0;  ///< of the time that threads had, what they waited for a processor
    double apart = 0;   ///< by which the least of one half of the runs is more than that of the other half
    bool disturbed() const;
  };
  static Result<Round> run(const core::Program& program, core::runtime::Executable::Context& context,
                           std::span<const void* const> in, std::span<void* const> out);

  const core::Session& session_;
  Progress& progress_;
  double repeated_ = 0;  ///< seconds
  size_t measured_ = 0, disturbed_ = 0;
  double waited_ = 0, apart_ = 0;  ///< the most of those that were
};

/// The numbers of the device by which kernels are made, as far as they can be measured so that they are the same the next
/// time: how many workers the machine has, rates of one worker, and what it takes until dividing a kernel pays. 0: not measured.
/// Takes seconds. Errors are those of compiling and running.
Result<fe_target_numbers> measure_numbers(Meter& meter, const core::CompileOptions& options);

/// The highest rates of several sizes: matrix products for operations, reading and copying for bandwidth. Takes seconds.
/// Errors are those of compiling and running.
Result<core::observe::Peaks> measure_peaks(Meter& meter, const core::CompileOptions& options);

}  // namespace ferrite::cli
