// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions over rows, such as column sums, that have too few results for one thread each, or narrow
// elements. A block covers as many adjacent columns as a cache line holds. Its threads divide the rows of
// these columns, and combine their results in shared memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

struct ColumnReductionPlan {
  size_t column = 0;          ///< the variable whose neighbours are adjacent in memory
  std::vector<size_t> outer;  ///< the other parallel variables
  int64_t lanes = 1;          ///< columns per thread
  int64_t across = 1;         ///< threads of a block along the columns
  int64_t down = 1;           ///< threads of a block along the rows; a power of two
  int64_t blocks = 0;

  unsigned threads() const { return static_cast<unsigned>(across * down); }
};

/// Returns nullopt if the kernel is no such reduction, if it has enough wide results for a thread each, or
/// too few for blocks of columns.
std::optional<ColumnReductionPlan> plan_column_reduction(const Target& target, loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_column_reduction(KernelContext& context, ThreadBlock& block, const ColumnReductionPlan& plan);

}  // namespace ferrite::emitter
