// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state that all parts of one kernel's emission share: the function, its buffers, small helpers.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <span>
#include <vector>

#include "ferrite/emitter/target.h"
#include "ferrite/emitter/vector_math.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

/// CPU entry: `void entry(void* const* buffers, i64 begin, i64 end, i64 worker, char* workspace, i64* error)`
/// runs the tasks [begin, end). `buffers` has a pointer for each non-local buffer in the kernel's order;
/// `workspace` is this worker's slice.
/// GPU entry: `kernel entry(void* buffer0, void* buffer1, ..., i64* error)`, with pointers to global memory;
/// a block is a task.
class KernelContext {
 public:
  KernelContext(llvm::Module& module, const Target& target, loop::Kernel& kernel, std::string_view entry);

  llvm::Module& module;
  const Target& target;
  loop::Kernel& kernel;
  llvm::IRBuilder<> builder;
  VectorMath math;

  llvm::Function* function = nullptr;
  llvm::Value* begin = nullptr;
  llvm::Value* end = nullptr;
  llvm::Value* workspace = nullptr;
  llvm::Value* error = nullptr;
  int64_t workspace_bytes = 0;  ///< bytes reserved so far, per worker

  /// The type of a dtype in memory: i8 for bool and f8, i16 for bf16, half for f16, otherwise the type
  /// itself.
  llvm::Type* storage_type(DType dtype);
  /// The type in which the body computes: i1 for bool, float for f8, f16 and bf16, otherwise the type itself.
  llvm::Type* value_type(DType dtype);
  llvm::Type* value_type(DType dtype, unsigned lanes);
  static unsigned storage_bytes(DType dtype) { return static_cast<unsigned>(bits_of(dtype)) / 8; }

  /// Pointer to the start of a buffer, without its `offset`. A small LOCAL is a stack slot that becomes a
  /// register; a larger one lies in the workspace. On a GPU it is null until move_base().
  llvm::Value* base(loop::BufferId buffer) const { return bases_[buffer]; }
  /// From now on the buffer is addressed from this pointer.
  void move_base(loop::BufferId buffer, llvm::Value* base) { bases_[buffer] = base; }
  /// Marks a load or store of a buffer as not aliasing the other buffers. Buffers may share memory only if
  /// each point reads the elements that it overwrites.
  void mark(llvm::Instruction* access, loop::BufferId buffer);

  /// Prefetches the cache line at `address` for a read or a write soon; an invalid address does no harm.
  enum class Level { first, second };
  static void prefetch(llvm::IRBuilder<>& builder, llvm::Value* address, bool to_write, Level level);

  /// A slot in the entry block, promoted to a register by the pipeline.
  llvm::AllocaInst* slot(llvm::Type* type, const llvm::Twine& name = "");
  /// Reserves bytes of the worker's workspace, 64-byte aligned.
  llvm::Value* take_workspace(int64_t bytes);

  llvm::Value* i64(int64_t value) { return builder.getInt64(static_cast<uint64_t>(value)); }
  llvm::BasicBlock* block(const llvm::Twine& name);
  /// `for (i = from; i < to; i += step) body(i)`; the builder ends after the loop. The body may add blocks.
  void loop(llvm::Value* from, llvm::Value* to, int64_t step, const llvm::Twine& name,
            const std::function<void(llvm::Value*)>& body);
  /// `if (condition) body()`.
  void when(llvm::Value* condition, const llvm::Twine& name, const std::function<void()>& body);
  /// The value of each variable, from the flat coordinate; the last variable varies fastest.
  std::vector<llvm::Value*> coordinates(std::span<const loop::Var> vars, llvm::Value* flat);
  /// Quotient of a non-negative i64, or remainder if `rest`. `fits`: the value is below 2^31, so machines
  /// with 32-bit registers can divide in 32 bits.
  llvm::Value* divide(llvm::Value* value, int64_t by, bool fits, bool rest);
  /// <lanes x i1>, lane k set where k < count (an i64).
  llvm::Value* lane_mask(llvm::Value* count, unsigned lanes);
  /// <0, 1, 2, ...> of an integer type.
  llvm::Constant* iota(llvm::Type* integer, unsigned lanes, int64_t step = 1);
  /// f16 <-> f32, also on machines without an instruction for it.
  llvm::Value* widen_half(llvm::Value* half);
  llvm::Value* narrow_half(llvm::Value* value);
  /// f32 -> bf16 bits, with the machine's instruction if it has one.
  llvm::Value* narrow_bf16(llvm::Value* value);
  /// The bits of an 8-bit float -> f32.
  llvm::Value* widen_f8(llvm::Value* bits, DType dtype);
  /// Memory that may be read in place of elements that do not exist: four vectors of zeros; on a GPU, in
  /// global memory.
  llvm::Value* nowhere();
  /// The same for one element, in a buffer that is not empty.
  llvm::Value* nowhere(loop::BufferId buffer);
  llvm::Value* splat(llvm::Value* value, unsigned lanes);

  /// Runs `body()` with the builder in the entry block of another, empty function, with these pointers to the
  /// buffers. The kernel's own arguments are not accessible there.
  void within(llvm::Function* other, std::vector<llvm::Value*> bases, const std::function<void()>& body);

 private:
  void begin_range(std::string_view entry);
  void begin_grid(std::string_view entry);

  llvm::Value* nowhere_ = nullptr;
  std::vector<llvm::Value*> bases_;
  std::vector<llvm::MDNode*> scope_, others_;  // alias scopes, by buffer
};

}  // namespace ferrite::emitter
