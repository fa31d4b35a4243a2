// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compilation with the caches and the autotuner of this program.
#pragma once

#include "core/compile.h"

namespace ferrite::core {

/// core::compile() with kernels kept in options.cache, and measuring as options.tune asks for.
Result<Compilation> compile(Source source, const plugin::Registry& registry, const CompileOptions& options,
                            Ledger& ledger);

}  // namespace ferrite::core
