// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "cuda_library/settings.h"

namespace ferrite::cudnn {

/// The provider for NVIDIA's devices: convolutions with what cuDNN computes behind them. It opens the library with the first device.
/// `settings.choices`: engines that are proposed for a convolution.
std::unique_ptr<LibraryProvider> make_library(Host host, cuda_library::Settings settings);

}  // namespace ferrite::cudnn
