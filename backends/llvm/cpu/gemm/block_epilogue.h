// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The epilogue of a register block: inside the micro-kernel, on sums in registers, or on sums in memory.
#pragma once

#include <vector>

#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/gemm/epilogue.h"

namespace ferrite::emitter {

class BlockEpilogue : public GemmEpilogue {
 public:
  /// Keeps references.
  BlockEpilogue(KernelContext& context, const GemmPlan& plan);

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

  /// Prefetches the lines that the epilogue of the rows up to `row_end` needs, so that they arrive while the
  /// sums are computed.
  void prefetch(const GemmCoordinates& place, llvm::Value* row_end);

 private:
  /// Memory that each block reads or writes once and that exceeds the second-level cache: residual operands
  /// and results.
  struct Stream {
    loop::BufferId buffer;
    index::Expr address;
    bool store;
  };

  void find_streams();
  bool is_short() const;
  std::vector<loop::BufferId> buffers() const;
  llvm::FunctionType* kernel_type();

  std::vector<loop::BufferId> buffers_;  // buffers that the statement accesses
  std::vector<Stream> streams_;
  bool in_registers_ = false;
};

}  // namespace ferrite::emitter
