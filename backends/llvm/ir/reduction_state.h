// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The running state of one reduction: an accumulator (and, for argmax and argmin, the index of the element it holds).
#pragma once

#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

/// What combining it with another value by the primitive, an associative one, leaves as that is.
llvm::Constant* identity_of(Prim prim, DType dtype, llvm::Type* type);

class ReductionState {
 public:
  struct Values {
    llvm::Value* value = nullptr;
    llvm::Value* index = nullptr;  ///< i32 or i64; argmax and argmin only
  };

  /// State of `lanes` independent accumulators, held in slots that become registers.
  ReductionState(KernelContext& context, BodyEmitter& body, const loop::Statement& statement, size_t number,
                 unsigned lanes);

  /// Stores the identity.
  void reset();
  /// Takes in the element of the point that `body` is at. Lanes outside `mask` (null = none) keep their state.
  void take(llvm::Value* mask);
  Values values();
  /// Replaces the state, which has no index.
  void set(llvm::Value* value) { context_.builder.CreateStore(value, value_); }
  llvm::Type* type() const { return value_->getAllocatedType(); }
  /// Both states as one.
  Values combine(const Values& a, const Values& b);
  /// All lanes as one, by halves.
  Values across(Values values);
  /// What FE_OP_REDUCED of this number gives.
  llvm::Value* result(const Values& values);

 private:
  bool by_index() const { return reduction_.kind == FE_REDUCE_ARGMAX || reduction_.kind == FE_REDUCE_ARGMIN; }
  llvm::Constant* identity();

  KernelContext& context_;
  BodyEmitter& body_;
  const loop::Statement& statement_;
  const loop::Reduction& reduction_;
  size_t number_;
  DType element_dtype_, dtype_;  ///< of the element, of the accumulator
  bool drops_nan_ = false;       ///< what is made of the result gets a NaN in another way
  unsigned lanes_;
  llvm::AllocaInst* value_ = nullptr;
  llvm::AllocaInst* index_ = nullptr;
  llvm::Type* index_type_ = nullptr;
};

}  // namespace ferrite::emitter
