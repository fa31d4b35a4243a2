// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rewrites a kernel for a provider that does not know every kind of statement, or every form of one.
#pragma once

#include <cstdint>

#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::kernel {

/// A set of FE_STATEMENT_* kinds, a bit each.
constexpr uint64_t kind_bit(uint32_t kind) { return uint64_t{1} << kind; }
inline constexpr uint64_t required_kinds = kind_bit(FE_STATEMENT_MAP) | kind_bit(FE_STATEMENT_REDUCE) |
                                           kind_bit(FE_STATEMENT_SCATTER) | kind_bit(FE_STATEMENT_SERIAL);

/// FE_FLAT_PROLOGUES and the like: what a kernel has that not every provider takes.
uint64_t features_of(const ferrite::loop::Kernel& kernel);

/// Leaves only statements of the kinds in `supported`, which includes the required ones, or is 0 for all, and in forms that
/// `features` has. A contract becomes the reduction that it is. Gives whether anything changed. Errors: FE-K07 a kind that no
/// rewrite removes.
Result<bool> legalise(ferrite::loop::Kernel& kernel, uint64_t supported, uint64_t features);

}  // namespace ferrite::core::kernel
