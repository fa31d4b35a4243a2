// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions over rows, such as sums of columns, that have too few results for a thread each, or narrow elements: a block has as many
// neighbouring columns as a line of memory holds, its threads the rows of them in turns, and what they have is combined in shared memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

struct ColumnReductionPlan {
  size_t column = 0;          ///< the variable along which neighbours lie side by side
  std::vector<size_t> outer;  ///< the other parallel variables
  int64_t lanes = 1;          ///< columns that a thread takes at once
  int64_t across = 1;         ///< threads of a block side by side
  int64_t down = 1;           ///< and one behind the other; a power of two
  int64_t blocks = 0;

  unsigned threads() const { return static_cast<unsigned>(across * down); }
};

/// Nothing where the kernel is no such reduction, where its results are threads enough for wide elements, or so few that blocks of columns
/// are not.
std::optional<ColumnReductionPlan> plan_grid_columns(const Target& target, loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_grid_columns(KernelContext& context, ThreadBlock& block, const ColumnReductionPlan& plan);

}  // namespace ferrite::emitter
