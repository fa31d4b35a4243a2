// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The epilogue of a contraction: every operation between its sums and the stores of its results.
#pragma once

#include <vector>

#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/cpu/gemm/plan.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

/// Flat coordinates of a register block's first row and column; all are i64.
struct GemmCoordinates {
  llvm::Value *batch = nullptr, *row = nullptr, *column = nullptr;
};

class GemmEpilogue {
 public:
  /// Keeps references.
  GemmEpilogue(KernelContext& context, const GemmPlan& plan);

  /// Whether a register block's sums go from registers straight into the epilogue. This holds if one pass
  /// over the depth completes them and the epilogue is short enough to be emitted once per sum.
  bool in_registers() const { return in_registers_; }

  /// For epilogues in registers: emits `internal void name(ptr rows, ptr columns, i64 batch, i64 row, i64
  /// column, ptr of each buffer...)`. A counted outer loop adds a parameter `i64 trips`; prefetching of
  /// panels adds their distance. The function is a micro-kernel with the epilogue of its sums, which have
  /// `columns` columns.
  llvm::Function* emit_kernel(const llvm::Twine& name, const MicroShape& shape, int64_t columns,
                              const llvm::AttributeList& attributes);
  void call_kernel(llvm::Value* kernel, const MicroStart& start, const GemmCoordinates& place);

  /// The same for sums in memory, `stride` elements from row to row, for the rows up to `row_end` and the
  /// columns up to `column_end`.
  void emit_block(const GemmCoordinates& place, llvm::Value* row_end, llvm::Value* column_end,
                  llvm::Value* sums, int64_t stride);

  /// Emits the epilogue of one vector of columns, or of a single sum if the plan has one lane. `mask`: the
  /// lanes that exist; null: all.
  void emit_vector(const GemmCoordinates& place, llvm::Value* sums, llvm::Value* mask);

  /// Prefetches the lines that the epilogue of the rows up to `row_end` needs, so that they arrive while the
  /// sums are computed.
  void prefetch(const GemmCoordinates& place, llvm::Value* row_end);

  /// Begins a point at the given coordinates; body() then evaluates index expressions of the flat coordinates
  /// there.
  void start(const GemmCoordinates& place) { body_.start(point_at(place)); }
  BodyEmitter& body() { return body_; }

 private:
  /// Memory that each block reads or writes once and that exceeds the second-level cache: residual operands
  /// and results.
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
  Point point_at(const GemmCoordinates& place);
  llvm::Type* accumulator() { return context_.value_type(plan_.accumulator); }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const GemmPlan& plan_;
  index::Symbol group_, lane_;  // column = lanes * group + lane
  loop::Statement statement_;   // over the flat coordinates
  BodyEmitter body_;
  std::vector<loop::BufferId> buffers_;  // buffers that the statement accesses
  std::vector<Stream> streams_;
  bool in_registers_ = false;
};

}  // namespace ferrite::emitter
