// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "dnnl.h"
#include "ferrite/provider.hpp"

namespace ferrite::onednn {

/// The provider for the CPU: products and convolutions with what oneDNN computes behind them. `price` is a factor of its costs.
std::unique_ptr<LibraryProvider> make_library(Host host, std::shared_ptr<const Library> library,
                                              double price);

}  // namespace ferrite::onednn
