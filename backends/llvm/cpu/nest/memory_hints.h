// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hints to the memory system for planned statements: streaming stores that bypass the caches, and prefetches.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backends/llvm/nest/nest_emitter.h"

namespace ferrite::emitter {

/// Emits the loops of planned statements. If some of their stores bypass the caches, the loops are emitted
/// twice: for memory that is aligned to vectors and for memory that is not.
void with_streams(KernelContext& context, std::span<const StatementPlan> plans,
                  const std::function<void(bool streams)>& emit);

/// Prefetches of the data that a statement reads in order, one page ahead. Hardware prefetchers stop at the
/// end of a page, and do not look far enough ahead if arithmetic fills the time between two lines. In the
/// latter case there is a second prefetch into the first-level cache, shortly before the use. Reductions over
/// the data do not need it, and some are slightly slower with it.
std::vector<StatementEmitter::Ahead> next_pages(const Target& target, loop::Kernel& kernel,
                                                const StatementPlan& plan);

/// Prefetches of the next row's data, by statement, split equally among the statements that read the current
/// row again. Without them, memory is idle during the work on one row.
std::vector<std::vector<StatementEmitter::Ahead>> next_rows(const Target& target, loop::Kernel& kernel,
                                                            std::span<const StatementPlan> plans);

/// Like next_rows(), for the next block of rows, if the last statement runs for the whole block after the
/// others. Most prefetches are in that statement: its writes keep the memory busy, while the other statements
/// work on a row in a cache and leave the memory idle.
std::vector<std::vector<StatementEmitter::Ahead>> next_block(const Target& target, loop::Kernel& kernel,
                                                             std::span<const StatementPlan> plans,
                                                             int64_t rows);

}  // namespace ferrite::emitter
