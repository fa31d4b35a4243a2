// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits the loops of one planned statement at given values of its first `fixed` variables.
#pragma once

#include "ferrite/emitter/body_emitter.h"
#include "statement_plan.h"

namespace ferrite::emitter {

class StatementEmitter {
 public:
  /// Keeps references.
  StatementEmitter(KernelContext& context, const StatementPlan& plan);

  /// A variable that is walked over [from, to) only.
  struct Range {
    size_t var;
    llvm::Value *from, *to;
  };
  /// `skip` variables of plan.outer have values in `point` already.
  void emit(Point point, size_t skip, const std::optional<Range>& range);

 private:
  using Lanes = std::function<void(const std::vector<Point>&)>;  // the points of `unroll` vectors

  void walk_outer(const Point& point, size_t level);
  void walk_vector(const Point& point, const Lanes& body, unsigned unroll);
  void at(const std::vector<Point>& points);
  void reduce(const std::vector<Point>& points);
  void reduce_along_vector(const Point& point);
  void walk_reductions(const std::vector<Point>& points, size_t level, const Lanes& body);
  void serial(const Point& point);
  std::pair<llvm::Value*, llvm::Value*> bounds(size_t var);

  KernelContext& context_;
  const StatementPlan& plan_;
  const loop::Statement& statement_;
  BodyEmitter body_;
  std::optional<Range> range_;
};

}  // namespace ferrite::emitter
