// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The measured peak performance of a device, and the least time of a kernel that follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/kernel_facts.h"
#include "core/support/error.h"
#include "runtime/device.h"

namespace ferrite::core::observe {

/// The peak bandwidth of a kernel that moves this many bytes.
struct Bandwidth {
  int64_t bytes = 0;
  double per_second = 0;
};

struct Peaks {
  double operations = 0;             ///< of f32, per second
  std::vector<Bandwidth> bandwidth;  ///< by bytes, ascending: data that fits into a cache is faster

  /// The bandwidth at the smallest measured size that is at least `bytes`, or at the largest one.
  double bandwidth_of(int64_t bytes) const;
};

/// The peaks of a device with this many workers, as save_peaks() stored them. None where they were not
/// measured or, with a warning (FE-T46), where their file is damaged.
std::optional<Peaks> load_peaks(const runtime::Device& device, int64_t workers);
/// Stores them in the user's cache folder; returns the file's path. FE-C10 where that fails.
Result<std::string> save_peaks(const runtime::Device& device, int64_t workers, const Peaks& peaks);

/// The roofline model (Williams, Waterman and Patterson, 2009): the larger of operations over peak and bytes
/// over bandwidth, in seconds. A kernel that moves and computes nothing takes exactly 0; the time of any
/// other one is unknown without peaks.
std::optional<double> estimate(const Facts& facts, const std::optional<Peaks>& peaks);
/// Whether memory bandwidth determines that time.
bool bound_by_memory(const Facts& facts, const Peaks& peaks);

}  // namespace ferrite::core::observe
