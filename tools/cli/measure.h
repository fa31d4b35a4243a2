// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The peak performance of a device, measured with compiled kernels.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "driver/observe/peaks.h"
#include "runtime/target/number_table.h"
#include "tools/cli/common.h"

namespace ferrite::cli {

/// Times graphs, and notices when other programs kept the machine busy meanwhile.
class Meter {
 public:
  /// Keeps references to both arguments.
  Meter(const core::Session& session, Progress& progress) : session_(session), progress_(progress) {}

  void show(std::string_view what) { progress_.update(what); }
  const core::Session& session() const { return session_; }
  /// The least time of a run of the graph, in seconds. A disturbed measurement is repeated, for a few seconds
  /// in total. Errors are those of compiling and running. `kernels`: the number of kernels that the graph
  /// must give, 0 for any; the result is 0 where the number differs.
  Result<double> time(const core::CompileOptions& options, const std::string& text, size_t kernels = 0);
  /// FE-T48, a warning: the disturbances so far; none where there were none.
  std::optional<Error> disturbance() const;

 private:
  /// Runs for some tenths of a second.
  struct Round {
    double least = 0;   ///< seconds of a run
    double wall = 0;    ///< seconds of all runs
    double waited = 0;  ///< the part of the threads' time during which they waited for a processor
    double apart = 0;   ///< the relative difference between the least times of the two halves of the runs
    bool disturbed() const;
  };
  static Result<Round> run(const core::Program& program, core::runtime::Executable::Context& context,
                           std::span<const void* const> in, std::span<void* const> out);

  const core::Session& session_;
  Progress& progress_;
  double repeated_ = 0;  ///< seconds
  size_t measured_ = 0, disturbed_ = 0;
  double waited_ = 0, apart_ = 0;  ///< the largest values of disturbed rounds
};

/// The device's numbers that guide the generation of kernels, as far as they can be measured reproducibly:
/// the number of workers, the rates of one worker, and the cost of dividing a kernel. 0: not measured. Takes
/// seconds. Errors are those of compiling and running.
Result<fe_target_numbers> measure_numbers(Meter& meter, const core::CompileOptions& options);

/// The highest rates over several sizes: matrix products for operations, reading and copying for bandwidth.
/// Takes seconds. Errors are those of compiling and running.
Result<core::observe::Peaks> measure_peaks(Meter& meter, const core::CompileOptions& options);

}  // namespace ferrite::cli
