// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pieces of the report's page. Whatever comes from a model goes through escape().
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/observe/observation.h"
#include "driver/observe/peaks.h"

namespace ferrite::cli::html {

/// As text or in a quoted attribute: markup becomes entities; what is no UTF-8, and control characters,
/// become U+FFFD.
std::string escape(std::string_view text);

/// The beginning of a page, which loads nothing, and its end with the page's own script.
std::string head(std::string_view title);
std::string tail();

/// A text that is shown when it is asked for; nothing for an empty one. Very long ones end early and say so.
std::string folded(std::string_view title, std::string_view text);

/// A kernel as a point of the roofline.
struct RooflinePoint {
  size_t number = 0;     ///< in the table of kernels
  double intensity = 0;  ///< operations a byte
  double rate = 0;       ///< operations a second
  double share = 0;      ///< of the run's time, 0 to 1
  std::string name;
};
/// Rates over intensities, both logarithmic, below the roofs that the peaks are.
std::string roofline(std::span<const RooflinePoint> points, const core::observe::Peaks& peaks);

/// The arena over the launches: a rectangle for each buffer, as wide as it lives and as high as it is large.
std::string memory_map(const core::observe::Observation& seen);

}  // namespace ferrite::cli::html
