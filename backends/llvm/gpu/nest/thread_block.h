// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The thread block that runs a kernel: its index in the grid, its threads, its shared memory.
#pragma once

#include <functional>
#include <span>
#include <string>

#include <llvm/IR/GlobalVariable.h>

#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {

/// Bytes of a thread's widest access; shared arrays are aligned to it.
inline constexpr int64_t bytes_of_access = 16;

class ThreadBlock {
 public:
  /// Keeps references. The builder must stand in the kernel's entry block.
  explicit ThreadBlock(KernelContext& context);

  llvm::Value* thread() const { return thread_; }  ///< i64, index of the thread in the block
  llvm::Value* number() const { return number_; }  ///< i64, index of the block in the grid
  const GpuMachine& machine() const { return machine_; }

  /// A barrier of all threads in the block; afterwards they see each other's writes.
  void barrier();
  /// Allocates an array in shared memory; its elements are not initialised.
  llvm::Value* shared(llvm::Type* element, int64_t count);
  int64_t shared_bytes() const { return shared_bytes_; }
  /// Creates the variable for all shared() arrays; call it after the last one. Returns the bytes of shared
  /// memory that the launch has to request instead, if they are too many for a variable.
  int64_t finish_shared();

  /// The machine's asynchronous copy of that many bytes; null if there is none.
  const GpuMachine::Copy* copy_of(int64_t bytes) const;
  /// Copies `from` in global memory to `to` in shared memory, or writes zeros if `exists` is false (null:
  /// true). `bytes` (i64; null: all): the number of valid bytes; the rest becomes zeros.
  void copy(const GpuMachine::Copy& copy, llvm::Value* to, llvm::Value* from, llvm::Value* exists,
            llvm::Value* bytes = nullptr);
  /// Commits the thread's copies since the last call as one group.
  void close_copies() { call(machine_.copies.close); }
  /// Waits until at most that many of the thread's copy groups are in flight. Other threads see the copied
  /// data after a barrier.
  void wait_for_copies(int64_t under_way);

  /// Limits the registers, so that a multiprocessor can run this many blocks concurrently.
  void make_resident(int64_t blocks);
  /// Makes each group of that many consecutive blocks a cluster.
  void make_cluster(int64_t blocks);
  /// A barrier of all threads in the cluster; afterwards they see each other's writes.
  void cluster_barrier();
  /// The address that corresponds to `address` in the shared memory of the cluster's block `number` (i64).
  llvm::Value* in_block(llvm::Value* address, llvm::Value* number);

  /// Whether the lanes of a warp can exchange values (shuffle).
  bool has_lanes() const { return !machine_.lanes.name.empty(); }
  /// Butterfly shuffle: the value of the lane whose number differs in the bits of `distance`. All lanes of
  /// the warp must take part.
  llvm::Value* from_lane(llvm::Value* value, unsigned distance);

  /// Calls `body(k)` for each k < count, distributed over `threads` threads.
  void divide(int64_t count, int64_t threads, const llvm::Twine& name,
              const std::function<void(llvm::Value*)>& body);

  /// Calls `work(mask)` for a thread's vector, of which `left` (i64) of `extent` elements exist; the mask is
  /// null if all do. Does nothing if none exists. `together`: elements of the vectors that the threads
  /// process in parallel; if it divides the extent, all elements exist.
  void vector(llvm::Value* left, int64_t extent, int64_t lanes, int64_t together,
              const std::function<void(llvm::Value*)>& work);

  /// Calls a function of the machine's table with its constant operands; returns i64 if it returns an
  /// integer.
  llvm::Value* call(const GpuMachine::Function& function);
  /// Calls another intrinsic.
  llvm::Value* call(const std::string& name, llvm::Type* result, std::span<llvm::Value* const> operands);

 private:
  KernelContext& context_;
  const GpuMachine& machine_;
  llvm::Value *thread_, *number_;
  llvm::GlobalVariable* memory_ = nullptr;  ///< has no size until finish_shared()
  int64_t shared_bytes_ = 0;
};

}  // namespace ferrite::emitter
