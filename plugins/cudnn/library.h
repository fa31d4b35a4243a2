// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "ferrite/provider.hpp"

namespace ferrite::cudnn {

struct Settings {
  std::string library, driver;  ///< shared libraries; of the first, empty: each that is known
  double price = 1;             ///< a factor of its costs
  int choices = 2;              ///< engines that are proposed for a convolution
  bool tf32 = false;            ///< f32 may be rounded to it
};

/// The provider for NVIDIA's devices: convolutions with what cuDNN computes behind them. It opens the library with the first device.
std::unique_ptr<LibraryProvider> make_library(Host host, Settings settings);

}  // namespace ferrite::cudnn
