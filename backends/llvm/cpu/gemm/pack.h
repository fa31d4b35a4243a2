// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <vector>

#include "backends/llvm/cpu/gemm/plan.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

/// Where a block of an operand is packed to: element (outer, inner) at data[outer * row + inner], as its
/// packer says. Whole vectors are written: each row has room for one vector more than its elements.
struct PackedBlock {
  llvm::Value* data = nullptr;
  int64_t row = 0;
  llvm::Value* outer_from = nullptr;
  llvm::Value* outer_count = nullptr;
  llvm::Value* inner_from = nullptr;
  llvm::Value* inner_count = nullptr;
  bool pad = false;  ///< the vector after the last inner element is zeroed
};

/// Gives the point each of the variables by their flat coordinate, the last of which varies fastest.
void decode(KernelContext& context, Point& point, std::span<const loop::Var> vars, llvm::Value* flat);

/// Zeroes `count` elements from `data` on, whole vectors of them.
void store_zeros(KernelContext& context, llvm::Type* element, int lanes, llvm::Value* data,
                 llvm::Value* count);

/// Packs blocks of an operand whatever its index map is: convolution windows with their padding, gathered or
/// computed operands, transposed ones. Vectors run along the inner axis.
class BlockPacker {
 public:
  BlockPacker(KernelContext& context, const ContractPlan& plan, const Operand& operand, const Axis& outer,
              const Axis& inner);
  /// The value of operation `value` of a statement of the batch variables and the two axes, as `dtype`: that of the sums, or that which
  /// the operation, a load, has in memory.
  BlockPacker(KernelContext& context, const ContractPlan& plan, const loop::Statement& statement,
              loop::OpId value, DType dtype, const Axis& outer, const Axis& inner);

  /// Emits the packing of one block of batch entry `batch`.
  void emit(llvm::Value* batch, const PackedBlock& block);
  /// Whether vectors run along the whole inner axis, and not along pieces of it.
  bool even() const { return segments_.empty(); }

 private:
  using Chunk = std::function<void(Point& point, llvm::Value* column)>;

  void each_chunk(Point& point, const PackedBlock& block, const Chunk& chunk);
  void each_outer(Point& point, size_t var, llvm::Value* flat, const std::function<void(llvm::Value*)>& body);
  void pack_chunk(const Point& point, const PackedBlock& block, llvm::Value* outer, llvm::Value* column);

  KernelContext& context_;
  const ContractPlan& plan_;
  loop::OpId value_;
  DType dtype_;
  const Axis &outer_, &inner_;
  std::vector<loop::Var> segments_;  // of the inner axis, all but the one that vectors run along
  loop::Var along_;
  loop::Statement statement_;
  BodyEmitter body_;
};

/// Copies positions of a window that has a region: those inside of it vector by vector, zeros for the others.
class WindowPacker {
 public:
  /// Keeps references; the plan has a window with a region.
  WindowPacker(KernelContext& context, const ContractPlan& plan);

  /// Emits the copy of the lines of positions [y_from, y_to) of batch entry `batch` to `data`, rows of `pitch` elements of the
  /// plan's rows: one for each position, or planar for each channel of a line. `channels`: how many from `channel` on; null: all, from 0 on.
  void emit(llvm::Value* batch, llvm::Value* data, int64_t pitch, llvm::Value* y_from, llvm::Value* y_to,
            llvm::Value* channel, llvm::Value* channels);

 private:
  void interleaved_line(Point point, llvm::Value* line, llvm::Value* channel, llvm::Value* channels);
  void planar_line(Point point, llvm::Value* line);
  void copy(Point& point, llvm::Value* mask, llvm::Value* target);
  void zero(llvm::Value* from, llvm::Value* count);
  llvm::Value* at(llvm::Value* data, llvm::Value* element);

  KernelContext& context_;
  const ContractPlan& plan_;
  const Window& window_;
  BodyEmitter body_;
  llvm::Type* element_;
  llvm::Align align_;
  int64_t pitch_ = 0;
};

/// Packs blocks of columns that are contiguous along the depth, or are computed of what is: square blocks are made with vectors
/// along the depth, transposed round in registers and stored.
class TransposePacker {
 public:
  /// Keeps references.
  TransposePacker(KernelContext& context, const ContractPlan& plan);

  /// Emits the packing of one block of batch entry `batch`: whole vectors of columns, and depths up to the next multiple of the
  /// lanes.
  void emit(llvm::Value* batch, const PackedBlock& block);

 private:
  KernelContext& context_;
  const ContractPlan& plan_;
  loop::Statement statement_;
  BodyEmitter body_;
};

}  // namespace ferrite::emitter
