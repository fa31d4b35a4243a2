// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "cuda_library/settings.h"

namespace ferrite::cublaslt {

/// The provider for NVIDIA's devices: products with what cuBLASLt computes behind them. It opens the library with the first device.
/// `settings.choices`: algorithms that are proposed for a product.
std::unique_ptr<LibraryProvider> make_library(Host host, cuda_library::Settings settings);

}  // namespace ferrite::cublaslt
