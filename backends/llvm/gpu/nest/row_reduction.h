// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows that a block goes over several times, such as those of softmax and of normalisations: a thread has the same elements each time,
// as many neighbours at once as its widest access takes, and what lives between the statements stays in its registers, as does what several
// of them read.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

struct RowReductionPlan {
  int64_t points = 1;  ///< of the shared loops: a block each
  int64_t extent = 0;  ///< of the loop that is each statement's own
  unsigned lanes = 1;  ///< neighbours that a thread takes at once
  unsigned threads = 1;
  int64_t chunks = 1;  ///< of `lanes` elements that a thread has
  /// Rows in memory that stay in registers from the first statement that reads them on: buffers, and where they begin.
  std::vector<std::pair<loop::BufferId, index::Expr>> kept;
  std::vector<loop::BufferId> forwarded;  ///< results that later statements read
  std::set<size_t> waits;                 ///< statements that overwrite what other threads have read before

  /// Whether all threads have all of their chunks.
  bool even() const { return chunks * threads * lanes == extent; }
};

/// Nothing where a statement is no map or reduction over such a row, or does not go over it in vectors.
std::optional<RowReductionPlan> plan_grid_rows(const Target& target, loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_grid_rows(KernelContext& context, ThreadBlock& block, const RowReductionPlan& plan);

}  // namespace ferrite::emitter
