// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the candidate of a kernel is chosen: by cost, by stored measurements, or by new measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/support/error.h"

namespace ferrite::core::tune {

enum class Mode : uint8_t {
  off,     ///< by the cost model
  cached,  ///< from the store, else by the cost model
  measure  ///< from the store, else by measurement, as far as the budget lasts
};

struct Options {
  Mode mode = Mode::off;
  double seconds = 0;            ///< the budget of Mode::measure, for all kernels of a compilation
  std::string folder;            ///< of the store; empty: nothing is stored
  std::string replay;            ///< a decisions lock whose candidates are used instead; empty: none
  std::string lock;              ///< a decisions lock to write; empty: none
  bool libraries_first = false;  ///< a library's offer is taken whatever its cost, for checks of libraries
  std::function<void(std::string_view)> progress;  ///< if not empty, called with the progress of measuring
};

/// Parses "off", "cached" or a number of seconds above 0 into mode and seconds; FE-M03 for anything else.
Result<void> read_mode(std::string_view text, Options& options);

/// The folder of stored decisions, inside the folder of compiled kernels; empty where kernels are not stored.
std::string store_folder(const std::string& kernel_folder);

}  // namespace ferrite::core::tune
