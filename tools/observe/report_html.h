// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of the report's page. Whatever comes from a model goes through escape().
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/observe/observation.h"
#include "driver/observe/peaks.h"

namespace ferrite::observe::html {

/// Escapes a text for HTML, also for quoted attributes: markup becomes entities; invalid UTF-8 and control
/// characters become U+FFFD.
std::string escape(std::string_view text);

/// The start of a page that loads no other file, and its end with the page's own script.
std::string head(std::string_view title);
std::string tail();

/// A text that the reader can unfold; an empty string for an empty text. Very long texts are cut, with a
/// note.
std::string folded(std::string_view title, std::string_view text);

/// A kernel as a point of the roofline plot.
struct RooflinePoint {
  size_t number = 0;     ///< in the table of kernels
  double intensity = 0;  ///< operations a byte
  double rate = 0;       ///< operations a second
  double share = 0;      ///< of the run's time, 0 to 1
  std::string name;
};
/// The roofline plot: rates over arithmetic intensities, both logarithmic, below the limits that the peaks
/// set.
std::string roofline(std::span<const RooflinePoint> points, const core::observe::Peaks& peaks);

/// The arena over the launches: a rectangle for each buffer; its width is the buffer's
/// lifetime and its height the buffer's size.
std::string memory_map(const core::observe::Observation& seen);

}  // namespace ferrite::observe::html
