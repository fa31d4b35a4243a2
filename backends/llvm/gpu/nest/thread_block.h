// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The block that runs a kernel: its place in the grid, its threads, the memory that they share.
#pragma once

#include <functional>
#include <span>
#include <string>

#include <llvm/IR/GlobalVariable.h>

#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {

/// The widest access that a thread makes; shared arrays begin at multiples of it.
inline constexpr int64_t bytes_of_access = 16;

class ThreadBlock {
 public:
  /// Keeps references; the builder stands in the kernel's entry.
  explicit ThreadBlock(KernelContext& context);

  llvm::Value* thread() const { return thread_; }  ///< i64, its number in the block
  llvm::Value* number() const { return number_; }  ///< i64, the block's number in the grid
  const GpuMachine& machine() const { return machine_; }

  /// All threads of the block wait, and see what the others wrote.
  void barrier();
  /// An array of the block; its elements are not initialised.
  llvm::Value* shared(llvm::Type* element, int64_t count);
  int64_t shared_bytes() const { return shared_bytes_; }
  /// Makes a variable of what was asked for, behind the last shared(). The bytes that a launch has to ask for instead, where they are too
  /// many for a variable.
  int64_t finish_shared();

  /// The machine's copy of so many bytes, beside the threads' work; null where there is none.
  const GpuMachine::Copy* copy_of(int64_t bytes) const;
  /// Writes what is at `from` in global memory, or zeros where `exists` (null: it does) does not hold, to `to` in shared memory. `bytes`:
  /// so many exist (i64; null: all), behind which are zeros.
  void copy(const GpuMachine::Copy& copy, llvm::Value* to, llvm::Value* from, llvm::Value* exists,
            llvm::Value* bytes = nullptr);
  /// Makes one group of the copies that the thread asked for since the last one.
  void close_copies() { call(machine_.copies.close); }
  /// The thread waits until at most so many of its groups are under way. The other threads see what was copied behind a barrier.
  void wait_for_copies(int64_t under_way);

  /// The code generator leaves registers for so many blocks on a multiprocessor.
  void make_resident(int64_t blocks);
  /// As many consecutive blocks as the number says are a cluster.
  void make_cluster(int64_t blocks);
  /// All threads of the cluster wait, and see what the others wrote.
  void cluster_barrier();
  /// The same place in the shared memory of a block of the cluster, by its number there (i64).
  llvm::Value* in_block(llvm::Value* place, llvm::Value* number);

  /// Whether the lanes of a warp can give each other values.
  bool has_lanes() const { return !machine_.lanes.name.empty(); }
  /// The value of the lane whose number differs in the bits of `distance`. All lanes of the warp are here.
  llvm::Value* from_lane(llvm::Value* value, unsigned distance);

  /// `body(k)` for each k < count, one thread of `threads` each.
  void divide(int64_t count, int64_t threads, const llvm::Twine& name,
              const std::function<void(llvm::Value*)>& body);

  /// `work(mask)` of a thread's vector, of which `left` (i64) elements of `extent` exist: null where all do. Of none nothing is done.
  /// `together`: elements of the vectors that threads take at once; where the extent is a multiple of it, all exist.
  void vector(llvm::Value* left, int64_t extent, int64_t lanes, int64_t together,
              const std::function<void(llvm::Value*)>& work);

  /// Of the table, with its own operands; an i64 where it gives an integer.
  llvm::Value* call(const GpuMachine::Function& function);
  /// Another intrinsic.
  llvm::Value* call(const std::string& name, llvm::Type* result, std::span<llvm::Value* const> operands);

 private:
  KernelContext& context_;
  const GpuMachine& machine_;
  llvm::Value *thread_, *number_;
  llvm::GlobalVariable* memory_ = nullptr;  ///< of no size until finish_shared()
  int64_t shared_bytes_ = 0;
};

}  // namespace ferrite::emitter
