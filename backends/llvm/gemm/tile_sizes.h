// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses the sizes of a contraction from the machine's registers and caches: register block, depth of a
// pass, tile of a task.
#pragma once

#include "backends/llvm/gemm/plan.h"

namespace ferrite::emitter {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Geometry of one AMX register: 16 rows of 64 bytes, that is 32 bf16 elements or 16 sums per row.
constexpr int amx_rows = 16, amx_row_bytes = 64, amx_depth = 32;

/// Fills in the sizes of a plan whose operand accesses are decided. `shared`: other statements run between
/// its row blocks. Returns false if the registers do not hold the block that `config` requests.
bool choose_sizes(const Target& target, const GemmConfig& config, bool shared, GemmPlan& plan);

/// Cache lines of a panel (the columns of a register block) per depth step, or per AMX register of them.
int64_t lines_of_step(const GemmPlan& plan);
/// How many of the next panel's cache lines each row block prefetches per step.
int64_t lines_prefetched(const GemmPlan& plan);

}  // namespace ferrite::emitter
