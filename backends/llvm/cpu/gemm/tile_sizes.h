// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sizes of a contraction: its register block, the depth of a pass and the tile of a task, from the machine's registers and caches.
#pragma once

#include "backends/llvm/cpu/gemm/plan.h"

namespace ferrite::emitter {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Fills in the sizes of a plan whose operands are known to be reached one way or another.
/// `shared`: other statements run between its blocks of rows. False where the registers do not hold the block that `config` asks for.
bool choose_sizes(const Target& target, const ContractConfig& config, bool shared, ContractPlan& plan);

/// Lines of the caches that one step of the depth, or one matrix tile of steps, has in a panel of columns.
int64_t lines_of_step(const ContractPlan& plan);
/// How many of them, in the next panel, each block of rows asks for.
int64_t lines_asked(const ContractPlan& plan);

}  // namespace ferrite::emitter
