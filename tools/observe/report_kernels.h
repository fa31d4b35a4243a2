// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report's kernels: their times over the runs, the table, the roofline.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/observe/observation.h"
#include "driver/observe/peaks.h"
#include "runtime/executable.h"

namespace ferrite::observe {

/// Seconds over the runs: the median, and the quartiles around it.
struct Spread {
  double low = 0, median = 0, high = 0;
};
/// `values` has at least one element. Quartiles are interpolated.
Spread spread_of(std::vector<double> values);

/// A kernel of the program, or a function of a plugin: all its launches of a run.
struct KernelRow {
  std::vector<std::string> names;  ///< model nodes of each launch
  const core::observe::Kernel* kernel = nullptr;
  Spread time;  ///< of all its launches in one run
  std::optional<double> floor;
  bool memory = false;  ///< the memory decides the floor
};

/// The times of all kernels.
struct KernelTimes {
  std::vector<KernelRow> rows;  ///< those that take longest first
  std::vector<size_t>
      rows_of_launches;  ///< by launch of a kernel or function, in the order of a run: its row
  double seconds = 0;    ///< the sum of all medians
};

/// `times`: by step of a run, seconds of each run. `seen` outlives the result.
KernelTimes kernel_times(const core::runtime::Executable& executable, const core::observe::Observation& seen,
                         std::span<const std::vector<double>> times,
                         const std::optional<core::observe::Peaks>& peaks);

namespace html {

/// The table, which the page's script sorts and folds.
std::string kernels(const KernelTimes& kernels, const std::optional<core::observe::Peaks>& peaks);
/// The roofline plot; empty where no peaks are known.
std::string roofline_section(const KernelTimes& kernels, const std::optional<core::observe::Peaks>& peaks);

}  // namespace html
}  // namespace ferrite::observe
