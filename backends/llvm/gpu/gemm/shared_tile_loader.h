// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One operand of a contraction on its way from global to shared memory.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/llvm/gpu/gemm/gpu_gemm.h"
#include "backends/llvm/gpu/gemm/matrix_instruction.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

/// The statement of what makes a value, by the flat coordinates.
loop::Statement value_statement(const ContractPlan& plan, index::Pool& pool, loop::OpId value);

/// Brings pieces of `across` by `depth` elements: by the machine's copies where the plan says so, else through the threads' registers.
class SharedTileLoader {
 public:
  SharedTileLoader(KernelContext& context, ThreadBlock& block, const GpuGemmPlan& plan, bool columns);

  /// Where the pieces of the first stage lie.
  void lie_at(llvm::Value* memory) { memory_ = memory; }
  /// The piece of the stage that lies so many bytes (i64) further on.
  SharedPiece piece(llvm::Value* stage) const;

  /// The batch and the first row or column of all pieces, and the depth behind the last one (all i64).
  void begin(llvm::Value* batch, llvm::Value* first, llvm::Value* depth_end);

  /// A part of the thread's accesses: part number `part` of `parts` of them. Copies: those of the piece from the depth (i64) on to the
  /// stage's, zeros in place of what is behind the end. Else: elements are read into registers; behind the end the last piece's.
  void bring(llvm::Value* depth, llvm::Value* stage, int64_t part, int64_t parts);
  /// Writes what was read into registers to the stage's piece.
  void write(llvm::Value* stage);

 private:
  int64_t accesses() const { return across_ * plan_.tile.depth / side_.lanes / plan_.threads; }
  std::pair<llvm::Value*, llvm::Value*> place(int64_t access);
  loop::Statement make_statement();
  Point point_at(llvm::Value* across, llvm::Value* depth);
  void copy(llvm::Value* depth, llvm::Value* stage, int64_t access);
  void read(llvm::Value* depth, int64_t access);
  /// Where the load reads by the body's point.
  llvm::Value* pointer();
  llvm::Value* at_most(llvm::Value* value, int64_t last, bool certain);

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const GpuGemmPlan& plan_;
  const GpuGemmPlan::Side& side_;
  const Axis& axis_;
  const int64_t across_;
  /// The depth by its steps and what is inside of one, where copies are not evenly spaced along it: so what all of a step have in common,
  /// as a place of a window, is computed once.
  struct Parts {
    index::Symbol step, inside;
  };
  std::optional<Parts> parts_;
  loop::Statement statement_;
  BodyEmitter body_;
  llvm::Type* element_ = nullptr;
  /// Of copies: elements from one step of the depth to the next, and from one row or column to the next; none where that differs, or
  /// where what is there depends on where it is.
  std::optional<int64_t> depth_step_, across_step_;
  llvm::Value *memory_ = nullptr, *batch_ = nullptr, *first_ = nullptr, *depth_end_ = nullptr;
  std::vector<llvm::Value*> starts_;  // of the copies at the first step of the depth
  std::vector<llvm::Value*> values_;
};

}  // namespace ferrite::emitter
