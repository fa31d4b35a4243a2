// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements in sequence inside the loops that all of them share. The points of these loops are called rows.
#pragma once

#include "ferrite/emitter/kernel_context.h"
#include "ferrite/emitter/kernel_emitter.h"

namespace ferrite::emitter {

/// A result that bypasses the caches is written one row late, interleaved with the first statement of the
/// next row, which has nothing to write. Memory then has both reads and writes in flight all the time, and
/// arithmetic overlaps with them. After Lam, "Software pipelining" (1988), with one row per pipeline step.
void emit_rows(KernelContext& context, const Target& target, EmitResult& result);

}  // namespace ferrite::emitter
