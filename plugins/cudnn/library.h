// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "cuda_library/settings.h"

namespace ferrite::cudnn {

/// The provider of convolutions with cuDNN's epilogues for NVIDIA's devices. It opens the library with the
/// first device. `settings.choices`: number of engines proposed per convolution.
std::unique_ptr<LibraryProvider> make_library(Host host, cuda_library::Settings settings);

}  // namespace ferrite::cudnn
