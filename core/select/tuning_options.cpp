// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/select/tuning_options.h"

#include <charconv>
#include <cmath>

namespace ferrite::core::tune {

Result<void> read_mode(std::string_view text, Options& options) {
  if (text == "off" || text == "cached") {
    options.mode = text == "off" ? Mode::off : Mode::cached;
    return {};
  }
  double seconds = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (fault != std::errc() || end != text.data() + text.size() || !std::isfinite(seconds) || seconds <= 0)
    return error(FE_EINVALID, "FE-M03",
                 "'tune' is '{}'; write \"off\", \"cached\" or the seconds to measure, as in \"30\"", text);
  options.mode = Mode::measure;
  options.seconds = seconds;
  return {};
}

std::string store_folder(const std::string& kernel_folder) {
  return kernel_folder.empty() ? std::string() : kernel_folder + "/decisions";
}

}  // namespace ferrite::core::tune
