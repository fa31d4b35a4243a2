// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows that a block reads several times, as softmax and normalisations do. A thread owns the same elements
// each time, as many adjacent ones as its widest access takes. Intermediate values between statements stay in
// its registers, and so do elements that several statements read.
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
  int64_t points = 1;  ///< points of the shared loops; each is a block
  int64_t extent = 0;  ///< trip count of each statement's own loop
  unsigned lanes = 1;  ///< adjacent elements per access of a thread
  unsigned threads = 1;
  int64_t chunks = 1;  ///< chunks of `lanes` elements per thread
  /// Rows in memory that stay in registers from the first statement that reads them on: the buffer, and the
  /// address where the row begins.
  std::vector<std::pair<loop::BufferId, index::Expr>> kept;
  std::vector<loop::BufferId> forwarded;  ///< results that later statements read
  std::set<size_t> waits;  ///< statements that overwrite elements that other threads read earlier

  /// Whether every thread has all its chunks.
  bool even() const { return chunks * threads * lanes == extent; }
};

/// Returns nullopt unless every statement is a map or a reduction over such a row and can process it in
/// vectors, and a row fits into the registers of a block.
std::optional<RowReductionPlan> plan_row_reduction(const Target& target, loop::Kernel& kernel);

/// Emits the kernel at the builder's insert point.
void emit_row_reduction(KernelContext& context, ThreadBlock& block, const RowReductionPlan& plan);

}  // namespace ferrite::emitter
