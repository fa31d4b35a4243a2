// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The running state of one reduction: an accumulator (and, for argmax and argmin, the index of the element it
// holds).
#pragma once

#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

/// The identity of an associative primitive: combining it with any value gives that value.
llvm::Constant* identity_of(Prim prim, DType dtype, llvm::Type* type);

class ReductionState {
 public:
  struct Values {
    llvm::Value* value = nullptr;
    llvm::Value* index = nullptr;  ///< i32 or i64; argmax and argmin only
  };

  /// The state of `lanes` independent accumulators, in stack slots that become registers.
  ReductionState(KernelContext& context, BodyEmitter& body, const loop::Statement& statement, size_t number,
                 unsigned lanes);

  /// Sets the state to the identity.
  void reset();
  /// Adds the element at `body`'s point to the state. Lanes outside `mask` (null: no mask) keep their state.
  void take(llvm::Value* mask);
  Values values();
  /// Replaces a state that has no index.
  void set(llvm::Value* value) { context_.builder.CreateStore(value, value_); }
  llvm::Type* type() const { return value_->getAllocatedType(); }
  /// Combines two states into one.
  Values combine(const Values& a, const Values& b);
  /// Reduces all lanes to one, by repeated halving.
  Values across(Values values);
  /// The value of FE_OP_REDUCED with this number.
  llvm::Value* result(const Values& values);

 private:
  bool by_index() const { return reduction_.kind == FE_REDUCE_ARGMAX || reduction_.kind == FE_REDUCE_ARGMIN; }
  llvm::Constant* identity();

  KernelContext& context_;
  BodyEmitter& body_;
  const loop::Statement& statement_;
  const loop::Reduction& reduction_;
  size_t number_;
  DType element_dtype_, dtype_;  ///< type of the element, type of the accumulator
  bool drops_nan_ = false;  ///< NaNs may be dropped: they reach all results of this reduction in another way
  unsigned lanes_;
  llvm::AllocaInst* value_ = nullptr;
  llvm::AllocaInst* index_ = nullptr;
  llvm::Type* index_type_ = nullptr;
};

}  // namespace ferrite::emitter
