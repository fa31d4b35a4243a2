// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What decides between the candidates of a kernel: costs alone, what was measured before, or what is measured now.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ferrite::core::tune {

enum class Mode : uint8_t {
  off,     ///< the cost model
  cached,  ///< what the store has, else the cost model
  measure  ///< what the store has, else measurements, as far as the budget goes
};

struct Options {
  Mode mode = Mode::off;
  double seconds = 0;  ///< the budget of Mode::measure, for all kernels of a compilation
  std::string folder;  ///< of the store; empty: nothing is kept
  std::string replay;  ///< a decisions lock whose candidates are taken instead of all that; empty: none
  std::string lock;    ///< a decisions lock to write; empty: none
  bool libraries_first =
      false;  ///< what a library offers is taken, whatever it costs: what checks of libraries want
  std::function<void(std::string_view)> progress;  ///< where not empty: told how far measuring is
};

/// "off", "cached" or seconds above 0 into mode and seconds; false for anything else.
bool read_mode(std::string_view text, Options& options);

/// Where decisions lie: in a folder within that of compiled kernels; empty where those are not kept.
std::string store_folder(const std::string& kernel_folder);

}  // namespace ferrite::core::tune
