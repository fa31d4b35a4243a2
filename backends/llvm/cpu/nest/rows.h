// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements one after the other inside the points of the variables that all of them share, which are called rows.
#pragma once

#include "ferrite/emitter/kernel_context.h"
#include "ferrite/emitter/kernel_emitter.h"

namespace ferrite::emitter {

/// A result that goes past the caches is written a row late, beside the statement that comes before it at the row behind, where
/// nothing is in the way: memory has as much to read as to write then all the time, and arithmetic meanwhile. After Lam, "Software
/// pipelining" (1988), with a row for a step.
void emit_rows(KernelContext& context, const Target& target, EmitResult& result);

}  // namespace ferrite::emitter
