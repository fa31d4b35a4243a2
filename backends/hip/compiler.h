// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "ferrite/provider.hpp"

namespace ferrite::hip {

/// Compiles kernels to code objects; needs no device.
std::unique_ptr<Provider> make_compiler();

}  // namespace ferrite::hip
