// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/ir/interleave.h"

#include <algorithm>
#include <vector>

#include "backends/llvm/target/instruction_order.h"

namespace ferrite::emitter {

void interleave(llvm::IRBuilder<>& builder, size_t count, const std::function<void(size_t)>& sequence) {
  auto* block = builder.GetInsertBlock();
  const size_t before = block->size();
  std::vector<size_t> ends;
  for (size_t k = 0; k < count; ++k) {
    sequence(k);
    ends.push_back(block->size());
  }
  const bool straight = builder.GetInsertBlock() == block && builder.GetInsertPoint() == block->end();
  if (!straight || count < 2) return;
  // Only code in a single basic block can be interleaved.
  mark_side_by_side(*block->getParent());
  std::vector<std::vector<llvm::Instruction*>> sequences(count);
  size_t number = 0, longest = 0;
  for (auto& instruction : *block) {
    if (number >= before)
      sequences[static_cast<size_t>(std::ranges::upper_bound(ends, number) - ends.begin())].push_back(
          &instruction);
    ++number;
  }
  for (const auto& each : sequences) longest = std::max(longest, each.size());
  for (size_t k = 0; k < longest; ++k)
    for (const auto& each : sequences)
      if (k < each.size()) each[k]->moveBefore(*block, block->end());
}

}  // namespace ferrite::emitter
