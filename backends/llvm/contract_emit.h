// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A planned contraction among other statements: its blocks of rows are emitted where they are needed.
#pragma once

#include <memory>

#include "contract_plan.h"
#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {

class ContractEmitter;

class InnerContract {
 public:
  /// Takes workspace and emits micro-kernels: at a place that comes before each emit(). Keeps references; the plan is of
  /// plan_contract_inside().
  InnerContract(KernelContext& context, const ContractPlan& plan);
  ~InnerContract();
  InnerContract(InnerContract&&) noexcept;

  /// The rows [row_from, row_to), at most plan.tile_rows, at point number `point` of the shared loops before the rows. `fresh`: the
  /// worker has not emitted rows of this point yet, so that its columns have to be packed.
  void emit(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to, llvm::Value* fresh);

 private:
  std::unique_ptr<ContractEmitter> emitter_;
  int64_t batches_ = 1;  ///< of the statement's own, at each point
};

}  // namespace ferrite::emitter
