// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits the loops of one planned statement at given values of its first `fixed` variables.
#pragma once

#include "backends/llvm/ir/reduction_state.h"
#include "backends/llvm/nest/nest_plan.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

class StatementEmitter {
 public:
  /// Keeps references. `streams`: the memory behind the stores in plan.streams is aligned to their vectors.
  StatementEmitter(KernelContext& context, const StatementPlan& plan, bool streams);

  /// A variable that is iterated over [from, to) only.
  struct Range {
    size_t var;
    llvm::Value *from, *to;
    bool aligned = false;  ///< for the vector variable: `from` is a multiple of the lanes
  };
  /// Memory to prefetch while the current vectors are computed: the elements `distance` after those at
  /// `address`, which advances by one along the vector variable. This statement prefetches `parts` of `of`
  /// equal parts, from part `first` on.
  struct Ahead {
    loop::BufferId buffer;
    index::Expr address;
    int64_t distance;
    int64_t first = 0, parts = 1, of = 1;
    KernelContext::Level level = KernelContext::Level::second;
  };
  void prefetch_ahead(std::vector<Ahead> reads) { ahead_ = std::move(reads); }

  using Lanes = std::function<void(const std::vector<Point>&)>;  // the points of `unroll` vectors
  /// Other code that is emitted before the current vectors.
  void beside(Lanes other) { beside_ = std::move(other); }

  /// `skip` variables of plan.outer already have values in `point`.
  void emit(Point point, size_t skip, std::vector<Range> ranges);
  /// Emits the statement at vectors whose points have values of all but the reduction variables.
  void at(const std::vector<Point>& points);

 private:
  void walk_outer(const Point& point, size_t level);
  void walk_vector(const Point& point, const Range& range, const Lanes& body, unsigned unroll);
  void prefetch(Point point, unsigned vectors);

  /// A load that is contiguous along plan.inside, with the memory for its transposition block: element (v, w)
  /// at w * pitch + v. `rows`, if the block has as many rows as a vector has lanes: the untransposed block,
  /// element (w, v) at v * row_pitch + w.
  struct TransposeBlock {
    loop::OpId load;
    llvm::Value* transposed;
    int64_t pitch;
    llvm::Value* rows;
    int64_t row_pitch;
  };
  void walk_transpose_blocks(const Point& point);
  void transpose_block(const Point& point, const TransposeBlock& block, const Range& lines, const Range& row);
  llvm::Value* transposed(const TransposeBlock& block, llvm::Value* line, llvm::Value* at);

  void walk_strips(const Point& point);
  void take_rows(const Point& point, size_t level, const Range& strip);
  llvm::Value* strip_state(size_t number, const Point& point, const Range& strip);

  void each_apart(size_t count, const std::function<void(size_t)>& body);
  void reduce(const std::vector<Point>& points);
  void reduce_along_vector(const Point& point);
  void walk_reductions(const std::vector<Point>& points, size_t level, const Lanes& body);
  bool reduces_in_blocks() const;
  void walk_blocks(const std::vector<Point>& points, size_t level,
                   std::vector<std::vector<ReductionState>>& states,
                   std::vector<std::vector<ReductionState>>& totals, const Lanes& body);
  void serial(const Point& point);
  Range bounds(size_t var);

  KernelContext& context_;
  const StatementPlan& plan_;
  const loop::Statement& statement_;
  BodyEmitter body_;
  std::vector<Range> ranges_;
  std::vector<Ahead> ahead_;
  Lanes beside_;
  std::vector<TransposeBlock> transpose_blocks_;
  std::vector<ReductionState> strip_;       // by reduction: state of the current vector
  std::vector<llvm::Value*> strip_memory_;  // by reduction: states of all vectors of a strip
};

}  // namespace ferrite::emitter
