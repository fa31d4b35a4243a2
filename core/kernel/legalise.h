// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rewrites a kernel for a provider that does not know every kind of statement.
#pragma once

#include <cstdint>

#include "core/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::kernel {

/// A set of FE_STATEMENT_* kinds, a bit each.
constexpr uint64_t kind_bit(uint32_t kind) { return uint64_t{1} << kind; }
inline constexpr uint64_t required_kinds = kind_bit(FE_STATEMENT_MAP) | kind_bit(FE_STATEMENT_REDUCE) |
                                           kind_bit(FE_STATEMENT_SCATTER) | kind_bit(FE_STATEMENT_SERIAL);

/// Leaves only statements of the kinds in `supported`, which includes the required ones. A contract becomes the reduction
/// that it is. Errors: FE-K07 a kind that no rewrite removes.
Result<void> legalise(ferrite::loop::Kernel& kernel, uint64_t supported);

}  // namespace ferrite::core::kernel
