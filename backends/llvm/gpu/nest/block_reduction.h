// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The states of a reduction of all threads of a block as one.
#pragma once

#include <vector>

#include "backends/llvm/gpu/nest/thread_block.h"
#include "backends/llvm/ir/reduction_state.h"

namespace ferrite::emitter {

class BlockReduction {
 public:
  /// Keeps references. `threads`: of the block, a power of two.
  BlockReduction(KernelContext& context, ThreadBlock& block, int64_t threads)
      : context_(context), block_(block), threads_(threads) {}

  /// One value of the state a thread, all as one, for every thread: by halves, in an order that depends on nothing but their number.
  /// All threads of the block are here.
  ReductionState::Values combine(ReductionState& state, const ReductionState::Values& own);

 private:
  ReductionState::Values from_lane(const ReductionState::Values& own, unsigned distance);
  /// An element for each of `count` threads; one memory for each `use` of a type.
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
