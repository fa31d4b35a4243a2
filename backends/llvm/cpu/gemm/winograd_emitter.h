// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "backends/llvm/gemm/plan.h"

namespace ferrite::emitter {

/// Emits the tasks of a plan with Winograd blocks.
void emit_winograd(KernelContext& context, const GemmPlan& plan);

}  // namespace ferrite::emitter
