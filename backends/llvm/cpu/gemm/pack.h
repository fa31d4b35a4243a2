// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backends/llvm/gemm/plan.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

/// Destination of a packed operand block: element (outer, inner) is at data[outer * row + inner], unless the
/// packer says otherwise. Packers write whole vectors, so each row has room for one vector more than its
/// elements.
struct PackedBlock {
  llvm::Value* data = nullptr;
  int64_t row = 0;
  llvm::Value* outer_from = nullptr;
  llvm::Value* outer_count = nullptr;
  llvm::Value* inner_from = nullptr;
  llvm::Value* inner_count = nullptr;
  bool pad = false;  ///< the vector after the last inner element is zeroed
};

/// Binds each variable in the point, from the flat coordinate; the last variable varies fastest.
void decode(KernelContext& context, Point& point, std::span<const loop::Var> vars, llvm::Value* flat);

/// Zeroes `count` elements from `data` on, rounded up to whole vectors.
void store_zeros(KernelContext& context, llvm::Type* element, int lanes, llvm::Value* data,
                 llvm::Value* count);

/// Prefetches the lines of `bytes` bytes from `first` on into the first-level cache.
void prefetch_lines(KernelContext& context, llvm::Value* first, llvm::Value* bytes);

/// Zeroes the sums of a register block, which are in whole vectors, with rows `stride` elements apart.
void clear_block(KernelContext& context, const GemmPlan& plan, llvm::Value* sums, int64_t stride);

/// Packs blocks of an operand with any index map: convolution windows with padding, gathered or computed
/// operands, transposed ones. Vectors run along the inner axis.
class BlockPacker {
 public:
  BlockPacker(KernelContext& context, const GemmPlan& plan, const Operand& operand, const Axis& outer,
              const Axis& inner);
  /// Packs the value of operation `value` of a statement over the batch variables and the two axes. `dtype`:
  /// the type of the sums, or the type that the operation, then a load, has in memory.
  BlockPacker(KernelContext& context, const GemmPlan& plan, const loop::Statement& statement,
              loop::OpId value, DType dtype, const Axis& outer, const Axis& inner);

  /// Emits the packing of one block of batch entry `batch`.
  void emit(llvm::Value* batch, const PackedBlock& block);
  /// Whether vectors cover the inner axis as a whole, rather than segments of it.
  bool even() const { return segments_.empty(); }

 private:
  using Chunk = std::function<void(Point& point, llvm::Value* column)>;

  void each_chunk(Point& point, const PackedBlock& block, const Chunk& chunk);
  void each_outer(Point& point, size_t var, llvm::Value* flat, const std::function<void(llvm::Value*)>& body);
  void pack_chunk(const Point& point, const PackedBlock& block, llvm::Value* outer, llvm::Value* column);

  KernelContext& context_;
  const GemmPlan& plan_;
  loop::OpId value_;
  DType dtype_;
  const Axis &outer_, &inner_;
  std::vector<loop::Var> segments_;  // variables of the inner axis, but for that along which vectors run
  loop::Var along_;
  loop::Statement statement_;
  BodyEmitter body_;
};

/// Copies positions of a window that has a region: positions inside the region vector by vector, zeros
/// elsewhere.
class WindowPacker {
 public:
  /// Keeps references; the plan has a window with a region.
  WindowPacker(KernelContext& context, const GemmPlan& plan);

  /// Emits the copy of the position lines [y_from, y_to) of batch entry `batch` to `data`. Each row has
  /// `pitch` elements of the plan's row type: one row per position, or, if planar, one per channel of a line.
  /// `channels`: the number of channels from `channel` on; null: all, from 0 on.
  void emit(llvm::Value* batch, llvm::Value* data, int64_t pitch, llvm::Value* y_from, llvm::Value* y_to,
            llvm::Value* channel, llvm::Value* channels);

 private:
  void interleaved_line(Point point, llvm::Value* line, llvm::Value* channel, llvm::Value* channels);
  void planar_line(Point point, llvm::Value* line);
  void copy(Point& point, llvm::Value* mask, llvm::Value* target);
  void zero(llvm::Value* from, llvm::Value* count);
  llvm::Value* at(llvm::Value* data, llvm::Value* element);

  KernelContext& context_;
  const GemmPlan& plan_;
  const Window& window_;
  BodyEmitter body_;
  llvm::Type* element_;
  llvm::Align align_;
  int64_t pitch_ = 0;
};

/// Packs columns that are contiguous along the depth, or computed from operands that are. It computes square
/// blocks with vectors along the depth, transposes them in registers, and stores them.
class TransposePacker {
 public:
  /// Keeps references.
  TransposePacker(KernelContext& context, const GemmPlan& plan);

  /// Emits the packing of one block of batch entry `batch`: whole vectors of columns. It writes up to one
  /// vector of depth steps after the last one.
  void emit(llvm::Value* batch, const PackedBlock& block);

 private:
  void square(Point& point, std::span<llvm::Value* const> columns, llvm::Value* target, int64_t row);

  KernelContext& context_;
  const GemmPlan& plan_;
  std::vector<loop::Var> segments_;  // variables of the depth, but for that along which vectors run
  loop::Var along_;
  loop::Statement statement_;
  BodyEmitter body_;
};

}  // namespace ferrite::emitter
