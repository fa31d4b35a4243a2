// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rewrites a kernel for a provider that supports only some kinds or forms of statements.
#pragma once

#include <cstdint>

#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::kernel {

/// The bit of an FE_STATEMENT_* kind in a set of kinds.
constexpr uint64_t kind_bit(uint32_t kind) { return uint64_t{1} << kind; }
inline constexpr uint64_t required_kinds = kind_bit(FE_STATEMENT_MAP) | kind_bit(FE_STATEMENT_REDUCE) |
                                           kind_bit(FE_STATEMENT_SCATTER) | kind_bit(FE_STATEMENT_SERIAL);

/// The optional features that a kernel uses: FE_FLAT_PROLOGUES and the like.
uint64_t features_of(const ferrite::loop::Kernel& kernel);

/// Rewrites the kernel until all its statements are of the kinds in `supported` (which includes the required
/// kinds; 0: all kinds) and use only `features`. A contract becomes the equivalent reduction. Returns whether
/// anything changed. FE-K07 for a kind that no rewrite removes.
Result<bool> legalise(ferrite::loop::Kernel& kernel, uint64_t supported, uint64_t features);

}  // namespace ferrite::core::kernel
