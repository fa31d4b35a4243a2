// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a device reaches at most, as it was measured, and how long a kernel takes at least by that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/kernel_facts.h"
#include "core/support/error.h"
#include "runtime/device.h"

namespace ferrite::core::observe {

/// The most bytes a second while a kernel moves so many.
struct Bandwidth {
  int64_t bytes = 0;
  double per_second = 0;
};

struct Peaks {
  double operations = 0;             ///< of f32 a second
  std::vector<Bandwidth> bandwidth;  ///< by bytes, ascending: what fits into a cache is faster

  /// Of the smallest measured size that is at least this, or of the largest.
  double bandwidth_of(int64_t bytes) const;
};

/// The peaks of a device with so many workers, as save_peaks() left them; none where they were not measured, or, with a warning
/// (FE-T46), where their file is damaged.
std::optional<Peaks> load_peaks(const runtime::Device& device, int64_t workers);
/// Keeps them in the user's cache folder; gives the file's path. FE-C10 where that fails.
Result<std::string> save_peaks(const runtime::Device& device, int64_t workers, const Peaks& peaks);

/// The roofline model (Williams, Waterman and Patterson, 2009): the longer of operations over their peak and bytes over bandwidth, in
/// seconds. A kernel that moves and computes nothing takes exactly 0; without peaks it is not known how long another one takes.
std::optional<double> estimate(const Facts& facts, const std::optional<Peaks>& peaks);
/// Whether that time is the memory's.
bool bound_by_memory(const Facts& facts, const Peaks& peaks);

}  // namespace ferrite::core::observe
