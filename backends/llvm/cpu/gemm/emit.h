// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A planned contraction among other statements: its blocks of rows are emitted where they are needed.
#pragma once

#include <memory>

#include "backends/llvm/cpu/gemm/plan.h"
#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {

class ContractEmitter;

/// Entries of the batch that the statement has for itself at each point of the shared loops.
int64_t own_batches(const ContractPlan& plan, uint32_t shared);

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

  // The rest is of plans with own_batches() of 1.

  /// The same of the columns [column_from, column_to), at most plan.tile_columns, which are packed each time. `new_rows`: those were not
  /// packed yet.
  void emit_columns(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to, llvm::Value* column_from,
                    llvm::Value* column_to, llvm::Value* new_rows);

  /// Of a plan of several passes over the depth, whose sums others may change between the passes: zeros for the rows [row_from, row_to)
  /// and all columns; plan.depth_tile steps of the depth, or what is left of it, from `depth_from` on; what follows the sums.
  void begin_sums(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to);
  void add_pass(llvm::Value* depth_from);
  void finish_sums();
  /// Asks for what lies side by side of the columns' operand at one column, or at one step of the depth, if anything does.
  void ask_ahead(llvm::Value* point, llvm::Value* number, bool by_depth);
  /// A row's sums of the plan.block_columns() columns from `panel` on, a multiple of them; they begin at a vector.
  llvm::Value* sums_of(llvm::Value* row, llvm::Value* panel);

 private:
  std::unique_ptr<ContractEmitter> emitter_;
  int64_t batches_ = 1;  ///< of the statement's own, at each point
};

}  // namespace ferrite::emitter
