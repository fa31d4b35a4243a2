// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The provider: kernels in, ELF objects out, for this CPU or another.
#pragma once

#include <memory>

#include "ferrite/provider.hpp"

namespace ferrite::cpu {

/// Provider "cpu". Any-thread.
std::unique_ptr<Provider> make_compiler();

}  // namespace ferrite::cpu
