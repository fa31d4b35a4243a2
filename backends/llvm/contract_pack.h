// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>

#include "contract_plan.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

/// Where a block of an operand is packed to: element (outer, inner) at data[outer * row + inner], as
/// accumulators. Whole vectors are written: each row has room for one vector more than its elements.
struct PackedBlock {
  llvm::Value* data = nullptr;
  int64_t row = 0;
  llvm::Value* outer_from = nullptr;
  llvm::Value* outer_count = nullptr;
  llvm::Value* inner_from = nullptr;
  llvm::Value* inner_count = nullptr;
  bool pad = false;  ///< the vector after the last inner element is zeroed
};

/// Packs blocks of an operand whatever its index map is: convolution windows with their padding, gathered or
/// computed operands, transposed ones. Vectors run along the inner axis.
class BlockPacker {
 public:
  BlockPacker(KernelContext& context, const ContractPlan& plan, const Operand& operand, const Axis& outer,
              const Axis& inner);

  /// Emits the packing of one block of batch entry `batch`.
  void emit(llvm::Value* batch, const PackedBlock& block);

 private:
  using Chunk = std::function<void(Point& point, llvm::Value* column)>;

  void decode(Point& point, std::span<const loop::Var> vars, llvm::Value* flat);
  void each_chunk(Point& point, const PackedBlock& block, const Chunk& chunk);
  void each_outer(Point& point, size_t var, llvm::Value* flat, const std::function<void(llvm::Value*)>& body);
  void pack_chunk(const Point& point, const PackedBlock& block, llvm::Value* outer, llvm::Value* column);

  KernelContext& context_;
  const ContractPlan& plan_;
  const Operand& operand_;
  const Axis &outer_, &inner_;
  std::vector<loop::Var> segments_;  // of the inner axis, all but the one that vectors run along
  loop::Var along_;
  loop::Statement statement_;
  BodyEmitter body_;
};

/// Packs a block of columns that are contiguous along the depth: square blocks are loaded, transposed in
/// registers and stored. Writes whole vectors of columns, and depths up to the next multiple of the lanes.
/// `source` is the element of the first column at depth 0.
void pack_transposed(KernelContext& context, const ContractPlan& plan, llvm::Value* source, DType dtype,
                     const PackedBlock& block);

}  // namespace ferrite::emitter
