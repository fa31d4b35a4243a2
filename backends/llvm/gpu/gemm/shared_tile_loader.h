// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads one operand of a contraction from global to shared memory.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/llvm/gpu/gemm/gpu_gemm.h"
#include "backends/llvm/gpu/gemm/matrix_instruction.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

/// The statement that computes one value, over the flat coordinates.
loop::Statement value_statement(const GemmPlan& plan, index::Pool& pool, loop::OpId value);

/// Loads tiles of `across` by `depth` elements: by the machine's asynchronous copies if the plan says so,
/// else through the threads' registers.
class SharedTileLoader {
 public:
  SharedTileLoader(KernelContext& context, ThreadBlock& block, const GpuGemmPlan& plan, bool columns);

  /// Sets the address of the first stage's tile.
  void set_memory(llvm::Value* memory) { memory_ = memory; }
  /// The tile of the stage at this byte offset (i64).
  SharedTile tile(llvm::Value* stage) const;

  /// Sets the batch entry, the first row or column of all tiles, and the end of the depth (all i64).
  void begin(llvm::Value* batch, llvm::Value* first, llvm::Value* depth_end);

  /// Issues part `part` of `parts` of the thread's accesses. With copies: copies the tile from `depth` (i64)
  /// on to the stage; elements past the end become zeros. Without: loads elements into registers; past the
  /// end, it loads the last tile again.
  void load_async(llvm::Value* depth, llvm::Value* stage, int64_t part, int64_t parts);
  /// Writes the elements from registers to the stage's tile.
  void write(llvm::Value* stage);

 private:
  int64_t accesses() const { return across_ * plan_.tile.depth / side_.lanes / plan_.threads; }
  std::pair<llvm::Value*, llvm::Value*> coordinates(int64_t access);
  loop::Statement make_statement();
  Point point_at(llvm::Value* across, llvm::Value* depth);
  void copy(llvm::Value* depth, llvm::Value* stage, int64_t access);
  void read(llvm::Value* depth, int64_t access);
  /// The address that the load reads at the body's point.
  llvm::Value* pointer();
  llvm::Value* at_most(llvm::Value* value, int64_t last, bool certain);

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const GpuGemmPlan& plan_;
  const GpuGemmPlan::Side& side_;
  const Axis& axis_;
  const int64_t across_;
  /// The depth as step and position inside a step, if copies are not evenly spaced along it. Terms that a
  /// whole step shares, such as the position of a window, are then computed once.
  struct Parts {
    index::Symbol step, inside;
  };
  std::optional<Parts> parts_;
  loop::Statement statement_;
  BodyEmitter body_;
  llvm::Type* element_ = nullptr;
  /// For copies: elements from one depth step to the next, and from one row or column to the next. Absent if
  /// the distance varies, or if a mask depends on the position.
  std::optional<int64_t> depth_step_, across_step_;
  llvm::Value *memory_ = nullptr, *batch_ = nullptr, *first_ = nullptr, *depth_end_ = nullptr;
  std::vector<llvm::Value*> starts_;  // addresses of the copies at the first depth step
  std::vector<llvm::Value*> values_;
};

}  // namespace ferrite::emitter
