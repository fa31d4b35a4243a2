// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "ferrite/provider.hpp"

namespace ferrite::level_zero {

/// Compiles kernels to SPIR-V; needs no device.
std::unique_ptr<Provider> make_compiler();

}  // namespace ferrite::level_zero
