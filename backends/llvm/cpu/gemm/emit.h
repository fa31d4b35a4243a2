// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A planned contraction between other statements: its row blocks are emitted where the caller needs them.
#pragma once

#include <memory>

#include "backends/llvm/gemm/plan.h"
#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {

class GemmEmitter;

class InnerGemm {
 public:
  /// Reserves workspace and emits the micro-kernels. Construct it at an insert point that dominates every
  /// emit(). Keeps references; the plan must come from plan_gemm_inside().
  InnerGemm(KernelContext& context, const GemmPlan& plan);
  ~InnerGemm();
  InnerGemm(InnerGemm&&) noexcept;

  /// Computes the rows [row_from, row_to), at most plan.tile_rows, at point number `point` of the shared
  /// loops that enclose the rows. `fresh`: the worker has not emitted rows of this point yet, so the columns
  /// have to be packed.
  void emit(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to, llvm::Value* fresh);

  // The members below need a plan with own_batches() == 1.

  /// Like emit(), for the columns [column_from, column_to), at most plan.tile_columns, which are packed on
  /// each call. `new_rows`: the rows have not been packed yet.
  void emit_columns(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to, llvm::Value* column_from,
                    llvm::Value* column_to, llvm::Value* new_rows);

  /// Like emit(), for the columns before `column_to`, which is a multiple of the register block's columns or
  /// their number. All columns are packed if they are `fresh`.
  void emit_front(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to, llvm::Value* column_to,
                  llvm::Value* fresh);

  /// For a plan with several passes over the depth, whose sums may be changed between passes: begin_sums()
  /// clears the sums of rows [row_from, row_to) and all columns; add_pass() adds plan.depth_tile steps of the
  /// depth, or the remainder, from `depth_from` on, to all rows or to those before `row_to`, which is a
  /// multiple of the register block's rows or their end; the last function runs the epilogue.
  void begin_sums(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to);
  void add_pass(llvm::Value* depth_from, llvm::Value* row_to = nullptr);
  void finish_sums();
  /// Prefetches the contiguous elements of the column operand at one column, or at one depth step, if there
  /// are any.
  void prefetch_ahead(llvm::Value* point, llvm::Value* number, bool by_depth);
  /// A row's sums for the plan.block_columns() columns from `panel` on; `panel` is a multiple of that number,
  /// and the sums are aligned to a vector.
  llvm::Value* sums_of(llvm::Value* row, llvm::Value* panel);

 private:
  std::unique_ptr<GemmEmitter> emitter_;
  int64_t batches_ = 1;  ///< batch entries of the statement at each point
};

}  // namespace ferrite::emitter
