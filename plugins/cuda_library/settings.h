// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The manifest's settings for a plugin over one of the libraries.
#pragma once

#include <string>

#include "ferrite/provider.hpp"

namespace ferrite::cuda_library {

struct Settings {
  std::string library, driver;  ///< paths of shared libraries; `library` empty: all known names
  double price = 1;             ///< factor on its costs
  int choices = 1;              ///< number of the library's choices that are proposed per kernel
  bool tf32 = false;            ///< f32 may be rounded to tf32
};

/// All settings have defaults in the descriptor.
inline Settings read_settings(const AttrView& config) {
  return {.library = std::string(config.string("library")),
          .driver = std::string(config.string("driver")),
          .price = config.number("price"),
          .choices = static_cast<int>(config.integer("choices")),
          .tf32 = config.boolean("tf32")};
}

}  // namespace ferrite::cuda_library
