// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the memory behind planned statements is told: stores that go past the caches, reads that are asked for ahead.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backends/llvm/cpu/nest/nest_emitter.h"

namespace ferrite::emitter {

/// Emits the loops of planned statements: where some of their stores go past the caches, once for memory that is aligned to vectors
/// and once for memory that is not.
void with_streams(KernelContext& context, std::span<const StatementPlan> plans,
                  const std::function<void(bool streams)>& emit);

/// What a statement reads of memory in order, a page before it gets there: processors look ahead by themselves up to the end of a page,
/// and where arithmetic fills the time between two lines, not far enough; for the latter once more, shortly before, into the first-level
/// cache. Sums of what is read are fast without, some a little slower.
std::vector<StatementEmitter::Ahead> next_pages(const Target& target, loop::Kernel& kernel,
                                                const StatementPlan& plan);

/// What the next row reads that memory has to bring, by statement: asked for in equal shares by the statements that read this row of
/// it once more. Without that, memory waits while a row is worked on.
std::vector<std::vector<StatementEmitter::Ahead>> next_rows(const Target& target, loop::Kernel& kernel,
                                                            std::span<const StatementPlan> plans);

/// As next_rows, for the next so many rows, where the last statement is done for all of this block behind the others. Most of them are
/// asked for there: what writes takes the memory's time, which the others, whose row is in a cache, fill with little.
std::vector<std::vector<StatementEmitter::Ahead>> next_block(const Target& target, loop::Kernel& kernel,
                                                             std::span<const StatementPlan> plans,
                                                             int64_t rows);

}  // namespace ferrite::emitter
