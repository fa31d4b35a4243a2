// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What follows the sums of a contraction: the epilogue, up to the stores of the results.
#pragma once

#include <vector>

#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/cpu/gemm/plan.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

/// Flat coordinates, all i64; of a register block: its first row and column.
struct ContractPlace {
  llvm::Value *batch = nullptr, *row = nullptr, *column = nullptr;
};

class ContractFinish {
 public:
  /// Keeps references.
  ContractFinish(KernelContext& context, const ContractPlan& plan);

  /// Whether a register block's sums go straight into the epilogue: they are complete after one pass over the depth, and
  /// the epilogue is short enough to be written out for each of them.
  bool in_registers() const { return in_registers_; }

  /// In registers: `internal void name(ptr rows, ptr columns, i64 batch, i64 row, i64 column, ptr of each buffer...)`,
  /// where turns are counted also `i64 turns`, where panels are asked for also how far they are: a micro-kernel and what follows its
  /// sums, of which there are as many columns as `columns` says.
  llvm::Function* emit_kernel(const llvm::Twine& name, const MicroShape& shape, int64_t columns,
                              const llvm::AttributeList& attributes);
  void call_kernel(llvm::Value* kernel, const MicroStart& start, const ContractPlace& place);

  /// The same over sums in memory, `stride` from row to row, for the rows up to `row_end` and the columns up to `column_end`.
  void emit_block(const ContractPlace& place, llvm::Value* row_end, llvm::Value* column_end,
                  llvm::Value* sums, int64_t stride);

  /// Of one vector of columns; a lone sum where the plan's lanes are one. `mask`: the lanes that exist, null for all.
  void emit_vector(const ContractPlace& place, llvm::Value* sums, llvm::Value* mask);

  /// Asks for the lines that follow the sums of the rows up to `row_end`, so that they come while the sums are made.
  void prefetch(const ContractPlace& place, llvm::Value* row_end);

  /// Begins a point at the place, where body() then gives index expressions of the flat coordinates their value.
  void start(const ContractPlace& place) { body_.start(point_at(place)); }
  BodyEmitter& body() { return body_; }

 private:
  /// What each block reads or writes once, of more than the second-level cache keeps: residual operands and results.
  struct Stream {
    loop::BufferId buffer;
    index::Expr address;
    bool store;
  };

  loop::Statement finish_statement();
  void find_streams();
  bool is_short() const;
  std::vector<loop::BufferId> buffers() const;
  llvm::FunctionType* kernel_type();
  Point point_at(const ContractPlace& place);
  llvm::Type* accumulator() { return context_.value_type(plan_.accumulator); }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const ContractPlan& plan_;
  index::Symbol group_, lane_;  // column = lanes * group + lane
  loop::Statement statement_;   // over the flat coordinates
  BodyEmitter body_;
  std::vector<loop::BufferId> buffers_;  // that the statement touches
  std::vector<Stream> streams_;
  bool in_registers_ = false;
};

}  // namespace ferrite::emitter
