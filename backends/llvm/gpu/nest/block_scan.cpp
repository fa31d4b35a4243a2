// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/nest/block_scan.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "backends/llvm/ir/reduction_state.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

namespace {

class ScanEmitter {
 public:
  ScanEmitter(KernelContext& context, ThreadBlock& block, const BlockScanPlan& plan)
      : context_(context),
        builder_(context.builder),
        block_(block),
        plan_(plan),
        statement_(context.kernel.statements[0]),
        body_(context, statement_) {
    for (size_t k = 0; k < plan.states.size(); ++k) {
      const auto& carry = statement_.carries[k];
      const auto& state = plan.states[k];
      auto* type = context.value_type(carry.dtype);
      running_.push_back(context.slot(type, "running"));
      builder_.CreateStore(body_.constant(carry.dtype, carry.init_bits), running_.back());
      identities_.push_back(identity_of(state.combine, carry.dtype, type));
      memory_.push_back(block.shared(type, values_in_memory()));
    }
  }

  void emit() {
    const auto rows = std::span(statement_.vars).first(statement_.parallel_count());
    const auto coordinates = context_.coordinates(rows, block_.number());
    const int64_t chunk = int64_t{plan_.threads} * plan_.lanes;
    context_.loop(context_.i64(0), context_.i64(plan_.extent), chunk, "chunk", [&](llvm::Value* first) {
      auto* wanted =
          builder_.CreateNSWAdd(first, builder_.CreateNSWMul(block_.thread(), context_.i64(plan_.lanes)));
      auto* exists = builder_.CreateICmpSLT(wanted, context_.i64(plan_.extent));
      const auto& step = statement_.vars.back();
      Point point;
      for (size_t k = 0; k < rows.size(); ++k) point.set(rows[k].symbol, coordinates[k]);
      // Threads past the end read the last vector; `exists` discards its values.
      point.set(step.symbol, builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, wanted,
                                                            context_.i64(plan_.extent - plan_.lanes)));
      point.vector = step.symbol;
      point.lanes = plan_.lanes;
      point.aligned = true;
      body_.start(point);
      for (size_t k = 0; k < plan_.states.size(); ++k) body_.bind_carried(k, scan(k, exists));
      context_.when(exists, "exists", [&] {
        std::vector<size_t> stores(statement_.stores.size());
        for (size_t k = 0; k < stores.size(); ++k) stores[k] = k;
        body_.store(stores);
      });
    });
  }

 private:
  /// The value carried into each of the thread's steps; also advances the running value past the chunk.
  llvm::Value* scan(size_t number, llvm::Value* exists) {
    auto* given = body_.lanes_of(plan_.states[number].value);
    std::vector<llvm::Value*> sums;  // inclusive scan over the thread's steps
    for (unsigned lane = 0; lane < plan_.lanes; ++lane) {
      auto* value = plan_.lanes == 1 ? given : builder_.CreateExtractElement(given, uint64_t{lane});
      value = builder_.CreateSelect(exists, value, identities_[number]);
      sums.push_back(lane == 0 ? value : combine(number, sums.back(), value));
    }
    const auto [before, all] = across_block(number, sums.back());
    auto* old = builder_.CreateLoad(running_[number]->getAllocatedType(), running_[number]);
    auto* start = combine(number, old, before);
    builder_.CreateStore(combine(number, old, all), running_[number]);
    if (plan_.lanes == 1) return start;
    llvm::Value* carried = llvm::PoisonValue::get(given->getType());
    for (unsigned lane = 0; lane < plan_.lanes; ++lane)
      carried = builder_.CreateInsertElement(
          carried, lane == 0 ? start : combine(number, start, sums[lane - 1]), uint64_t{lane});
    return carried;
  }

  // Result of a scan across threads.
  struct Scanned {
    llvm::Value *before, *all;  ///< combined values of the lower threads, and of all threads
  };

  /// Scans within each warp and then over the warps if lanes can exchange values; otherwise over the whole
  /// block.
  Scanned across_block(size_t number, llvm::Value* own) {
    const int64_t together = block_.has_lanes() ? block_.machine().warp : plan_.threads;
    Scanned scanned{identities_[number], own};
    for (int64_t distance = 1; distance < together; distance *= 2) {
      auto* other = from_thread(number, scanned.all, distance);
      auto* upper =
          builder_.CreateICmpNE(builder_.CreateAnd(block_.thread(), context_.i64(distance)), context_.i64(0));
      auto* more = combine(number, other, scanned.before);
      scanned.before = builder_.CreateSelect(upper, more, scanned.before);
      scanned.all = combine(number, scanned.all, other);
    }
    const int64_t warps = plan_.threads / together;
    if (warps == 1) return scanned;
    auto* type = own->getType();
    const auto address = [&](llvm::Value* warp) {
      return builder_.CreateInBoundsGEP(type, memory_[number], warp);
    };
    auto* warp = context_.divide(block_.thread(), together, true, false);
    block_.barrier();  // all reads of the previous contents must be done
    auto* first =
        builder_.CreateICmpEQ(context_.divide(block_.thread(), together, true, true), context_.i64(0));
    context_.when(first, "lane", [&] { builder_.CreateStore(scanned.all, address(warp)); });
    block_.barrier();
    llvm::Value *lower = identities_[number], *all = identities_[number];
    for (int64_t k = 0; k < warps; ++k) {
      auto* part = builder_.CreateLoad(type, address(context_.i64(k)));
      all = combine(number, all, part);
      // After the last lower warp the value stays unchanged.
      lower = builder_.CreateSelect(builder_.CreateICmpSLT(context_.i64(k), warp), all, lower);
    }
    return {combine(number, lower, scanned.before), all};
  }

  llvm::Value* from_thread(size_t number, llvm::Value* value, int64_t distance) {
    if (block_.has_lanes()) return block_.from_lane(value, static_cast<unsigned>(distance));
    const auto address = [&](llvm::Value* thread) {
      return builder_.CreateInBoundsGEP(value->getType(), memory_[number], thread);
    };
    block_.barrier();
    builder_.CreateStore(value, address(block_.thread()));
    block_.barrier();
    return builder_.CreateLoad(value->getType(),
                               address(builder_.CreateXor(block_.thread(), context_.i64(distance))));
  }

  int64_t values_in_memory() const {
    return block_.has_lanes() ? plan_.threads / block_.machine().warp : plan_.threads;
  }
  llvm::Value* combine(size_t number, llvm::Value* lower, llvm::Value* upper) {
    return body_.prim(plan_.states[number].combine, statement_.carries[number].dtype, {lower, upper});
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const BlockScanPlan& plan_;
  const loop::Statement& statement_;
  BodyEmitter body_;
  // By carried value.
  std::vector<llvm::AllocaInst*> running_;
  std::vector<llvm::Constant*> identities_;
  std::vector<llvm::Value*> memory_;
};

/// Adjacent elements per access: a full access of the narrowest elements that are adjacent along the steps.
unsigned lanes_of(loop::Kernel& kernel, const loop::Statement& statement) {
  const auto& step = statement.vars.back();
  int64_t narrowest = 0;
  const auto take = [&](loop::BufferId buffer, const std::vector<index::Expr>& index) {
    const auto distance =
        kernel.pool.coefficient(element_address(kernel.pool, kernel.buffers[buffer], index), step.symbol);
    const int64_t bytes = KernelContext::storage_bytes(kernel.buffers[buffer].dtype);
    if (distance && std::abs(*distance) == 1 && (narrowest == 0 || bytes < narrowest)) narrowest = bytes;
  };
  for (const auto& op : statement.ops)
    if (op.code == FE_OP_LOAD) take(op.buffer, op.index);
  for (const auto& store : statement.stores) take(store.buffer, store.index);
  int64_t lanes = narrowest == 0 ? 1 : bytes_of_access / narrowest;
  while (step.extent % lanes != 0) lanes /= 2;
  return static_cast<unsigned>(lanes);
}

}  // namespace

std::optional<BlockScanPlan> plan_block_scan(const Target& target, loop::Kernel& kernel) {
  const auto& statement = kernel.statements[0];
  auto states = kernel.statements.size() == 1 ? loop::running_states(kernel.pool, statement) : std::nullopt;
  if (!states) return std::nullopt;
  BlockScanPlan plan;
  plan.states = std::move(*states);
  for (const auto& var : std::span(statement.vars).first(statement.parallel_count()))
    plan.points *= var.extent;
  plan.extent = statement.vars.back().extent;
  if (plan.extent == 0) return std::nullopt;
  plan.lanes = lanes_of(kernel, statement);
  const auto& machine = *target.grid;
  plan.threads = static_cast<unsigned>(std::clamp<int64_t>(
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(plan.extent / plan.lanes))), machine.warp,
      machine.threads));
  return plan;
}

void emit_block_scan(KernelContext& context, ThreadBlock& block, const BlockScanPlan& plan) {
  ScanEmitter(context, block, plan).emit();
}

}  // namespace ferrite::emitter
