// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The epilogue of a contraction: every operation between its sums and the stores of its results.
#pragma once

#include "backends/llvm/gemm/plan.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

/// Flat coordinates of a register block's first row and column; all are i64.
struct GemmCoordinates {
  llvm::Value *batch = nullptr, *row = nullptr, *column = nullptr;
};

/// The part that CPUs and GPUs share: the epilogue of one vector of sums.
class GemmEpilogue {
 public:
  /// Keeps references.
  GemmEpilogue(KernelContext& context, const GemmPlan& plan);

  /// Emits the epilogue of one vector of columns, or of a single sum if the plan has one lane. `mask`: the
  /// lanes that exist; null: all.
  void emit_vector(const GemmCoordinates& place, llvm::Value* sums, llvm::Value* mask);

  /// Begins a point at the given coordinates; body() then evaluates index expressions of the flat coordinates
  /// there.
  void start(const GemmCoordinates& place) { body_.start(point_at(place)); }
  BodyEmitter& body() { return body_; }

 protected:
  llvm::Type* accumulator() { return context_.value_type(plan_.accumulator); }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const GemmPlan& plan_;
  index::Symbol group_, lane_;  // column = lanes * group + lane
  loop::Statement statement_;   // over the flat coordinates
  BodyEmitter body_;

 private:
  loop::Statement finish_statement();
  Point point_at(const GemmCoordinates& place);
};

}  // namespace ferrite::emitter
