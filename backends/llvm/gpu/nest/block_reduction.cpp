// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/nest/block_reduction.h"

#include <algorithm>

namespace ferrite::emitter {

ReductionState::Values BlockReduction::combine(ReductionState& state, const ReductionState::Values& own) {
  auto& builder = context_.builder;
  auto* thread = block_.thread();
  const auto address = [&](llvm::Value* memory, llvm::Type* type, llvm::Value* number) {
    return builder.CreateInBoundsGEP(type, memory, number);
  };
  auto values = own;
  // Reduce each warp with shuffles if the machine has them; then there is one value per warp.
  int64_t count = threads_;
  if (block_.has_lanes()) {
    const int64_t warp = std::min<int64_t>(block_.machine().warp, threads_);
    for (int64_t half = warp / 2; half > 0; half /= 2)
      values = state.combine(values, from_lane(values, static_cast<unsigned>(half)));
    count /= warp;
    if (count == 1) return values;
  }
  auto* memory = exchange(values.value->getType(), 0, count);
  auto* indices = values.index ? exchange(values.index->getType(), 1, count) : nullptr;
  const auto write = [&](const ReductionState::Values& given, llvm::Value* number) {
    builder.CreateStore(given.value, address(memory, given.value->getType(), number));
    if (indices) builder.CreateStore(given.index, address(indices, given.index->getType(), number));
  };
  const auto read = [&](llvm::Value* number) {
    ReductionState::Values result;
    result.value =
        builder.CreateLoad(values.value->getType(), address(memory, values.value->getType(), number));
    if (indices)
      result.index =
          builder.CreateLoad(values.index->getType(), address(indices, values.index->getType(), number));
    return result;
  };
  block_.barrier();  // all reads of the previous contents must be done
  if (count < threads_) {
    const int64_t warp = threads_ / count;
    context_.when(builder.CreateICmpEQ(context_.divide(thread, warp, true, true), context_.i64(0)), "lane",
                  [&] { write(values, context_.divide(thread, warp, true, false)); });
    block_.barrier();
    // There are few values, so every thread combines all of them.
    std::vector<ReductionState::Values> parts;
    for (int64_t k = 0; k < count; ++k) parts.push_back(read(context_.i64(k)));
    for (size_t half = parts.size() / 2; half > 0; half /= 2)
      for (size_t k = 0; k < half; ++k) parts[k] = state.combine(parts[k], parts[k + half]);
    return parts[0];
  }
  write(values, thread);
  for (int64_t half = threads_ / 2; half > 0; half /= 2) {
    block_.barrier();
    context_.when(builder.CreateICmpSLT(thread, context_.i64(half)), "combine", [&] {
      write(state.combine(read(thread), read(builder.CreateNSWAdd(thread, context_.i64(half)))), thread);
    });
  }
  block_.barrier();
  return read(context_.i64(0));
}

ReductionState::Values BlockReduction::from_lane(const ReductionState::Values& own, unsigned distance) {
  return {block_.from_lane(own.value, distance), own.index ? block_.from_lane(own.index, distance) : nullptr};
}

llvm::Value* BlockReduction::exchange(llvm::Type* type, unsigned use, int64_t count) {
  for (const auto& known : exchanges_)
    if (known.type == type && known.use == use) return known.memory;
  exchanges_.push_back({type, use, block_.shared(type, count)});
  return exchanges_.back().memory;
}

}  // namespace ferrite::emitter
