// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a manifest says of a plugin over one of the libraries.
#pragma once

#include <string>

#include "ferrite/provider.hpp"

namespace ferrite::cuda_library {

struct Settings {
  std::string library, driver;  ///< shared libraries; of the first, empty: each that is known
  double price = 1;             ///< a factor of its costs
  int choices = 1;              ///< of the library's own, that are proposed for a kernel
  bool tf32 = false;            ///< f32 may be rounded to it
};

/// All of them have their defaults in the descriptor.
inline Settings read_settings(const AttrView& config) {
  return {.library = std::string(config.string("library")),
          .driver = std::string(config.string("driver")),
          .price = config.number("price"),
          .choices = static_cast<int>(config.integer("choices")),
          .tf32 = config.boolean("tf32")};
}

}  // namespace ferrite::cuda_library
