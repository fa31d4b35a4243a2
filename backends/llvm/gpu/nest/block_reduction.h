// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Combines the reduction states of all threads of a block into one.
#pragma once

#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "backends/llvm/ir/reduction_state.h"

namespace ferrite::emitter {

class BlockReduction {
 public:
  /// Keeps references. `threads`: the threads of the block, a power of two.
  BlockReduction(KernelContext& context, ThreadBlock& block, int64_t threads)
      : context_(context), block_(block), threads_(threads) {}

  /// Combines one state value per thread into one, which every thread gets. It halves the number of states in
  /// each step, in an order that depends only on that number. All threads of the block must call it.
  ReductionState::Values combine(ReductionState& state, const ReductionState::Values& own);

 private:
  ReductionState::Values from_lane(const ReductionState::Values& own, unsigned distance);
  /// An array with an element for each of `count` threads; each `use` of a type has its own memory.
  llvm::Value* exchange(llvm::Type* type, unsigned use, int64_t count);

  KernelContext& context_;
  ThreadBlock& block_;
  const int64_t threads_;
  struct Exchange {
    llvm::Type* type;
    unsigned use;
    llvm::Value* memory;
  };
  std::vector<Exchange> exchanges_;
};

}  // namespace ferrite::emitter
