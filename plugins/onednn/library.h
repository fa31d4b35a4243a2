// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "dnnl.h"
#include "ferrite/provider.hpp"

namespace ferrite::onednn {

/// The provider of products and convolutions with oneDNN's epilogues for the CPU. `price` is a factor on its
/// costs.
std::unique_ptr<LibraryProvider> make_library(Host host, std::shared_ptr<const Library> library,
                                              double price);

}  // namespace ferrite::onednn
