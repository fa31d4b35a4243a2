// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compilation with the caches and the autotuner of this process.
#pragma once

#include "core/compile.h"

namespace ferrite::core {

/// core::compile() with kernels stored in options.cache, and with measuring as options.tune requests.
Result<Compilation> compile(Source source, const plugin::Registry& registry, const CompileOptions& options,
                            Ledger& ledger);

}  // namespace ferrite::core
