// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/gemm/shared_tile_loader.h"

#include <llvm/IR/Constants.h>

#include <algorithm>
#include <array>

#include "backends/llvm/analysis/statement_values.h"

namespace ferrite::emitter {

loop::Statement value_statement(const GemmPlan& plan, index::Pool& pool, loop::OpId value) {
  const std::array roots{value};
  auto kept = keep_operations(plan.statement, needed_operations(plan.statement, pool, roots), false);
  kept.reductions.clear();
  kept.vars.clear();
  Replacements replacements;
  for (const auto* axis : {&plan.batch, &plan.rows, &plan.columns, &plan.depth}) {
    kept.vars.push_back({axis->symbol, axis->extent, loop::VarKind::parallel});
    if (axis->vars.size() != 1) expand_axis(pool, *axis, pool.symbol(axis->symbol), replacements);
  }
  substitute(kept, pool, replacements);
  return kept;
}

SharedTileLoader::SharedTileLoader(KernelContext& context, ThreadBlock& block, const GpuGemmPlan& plan,
                                   bool columns)
    : context_(context),
      builder_(context.builder),
      block_(block),
      plan_(plan),
      side_(columns ? plan.column : plan.row),
      axis_(columns ? plan.contract.columns : plan.contract.rows),
      across_(columns ? plan.tile.columns : plan.tile.rows),
      statement_(make_statement()),
      body_(context, statement_) {
  element_ = plan.matrix ? context.storage_type(side_.dtype) : context.value_type(plan.contract.accumulator);
  if (!side_.copied || parts_ || statement_.ops[side_.value].a != loop::none) return;
  auto& pool = context.kernel.pool;
  const auto address = body_.load_address(side_.value);
  depth_step_ = pool.coefficient(address, plan.contract.depth.symbol);
  across_step_ = pool.coefficient(address, axis_.symbol);
}

loop::Statement SharedTileLoader::make_statement() {
  auto& pool = context_.kernel.pool;
  auto made = value_statement(plan_.contract, pool, side_.value);
  if (!side_.copied) return made;
  const auto& load = made.ops[side_.value];
  const auto depth = plan_.contract.depth.symbol;
  // The address is not affine in the depth: split the depth into step and position inside the step.
  if (pool.coefficient(load.index[0], depth)) return made;
  const int64_t tile = plan_.tile.depth;
  parts_ = {pool.new_symbol({0, plan_.steps() - 1}), pool.new_symbol({0, tile - 1})};
  const auto position = pool.add(pool.mul(pool.symbol(parts_->step), tile), pool.symbol(parts_->inside));
  substitute(made, pool, {{depth, position}});
  return made;
}

SharedTile SharedTileLoader::tile(llvm::Value* stage) const {
  return {element_, side_.lines_along_depth, plan_.line(side_),
          builder_.CreateInBoundsGEP(builder_.getInt8Ty(), memory_, stage)};
}

/// Position of the thread's access in the tile, across and along the depth. Neighbouring threads read
/// adjacent memory, so the access is coalesced.
std::pair<llvm::Value*, llvm::Value*> SharedTileLoader::coordinates(int64_t access) {
  const int64_t inner = (side_.depth_inside ? plan_.tile.depth : across_) / side_.lanes,
                threads = plan_.threads;
  llvm::Value *outer = nullptr, *within = nullptr;
  if (threads % inner == 0) {
    outer = builder_.CreateNSWAdd(builder_.CreateUDiv(block_.thread(), context_.i64(inner)),
                                  context_.i64(access * (threads / inner)));
    within = builder_.CreateURem(block_.thread(), context_.i64(inner));
  } else {
    auto* flat = builder_.CreateNSWAdd(block_.thread(), context_.i64(access * threads));
    outer = builder_.CreateUDiv(flat, context_.i64(inner));
    within = builder_.CreateURem(flat, context_.i64(inner));
  }
  within = builder_.CreateNSWMul(within, context_.i64(side_.lanes));
  return side_.depth_inside ? std::pair(outer, within) : std::pair(within, outer);
}

Point SharedTileLoader::point_at(llvm::Value* across, llvm::Value* depth) {
  Point point;
  point.set(plan_.contract.batch.symbol, batch_);
  point.set(plan_.contract.rows.symbol, context_.i64(0));
  point.set(plan_.contract.columns.symbol, context_.i64(0));
  point.set(axis_.symbol, across);
  point.set(plan_.contract.depth.symbol, depth);
  return point;
}

llvm::Value* SharedTileLoader::pointer() {
  return builder_.CreateGEP(element_, context_.base(statement_.ops[side_.value].buffer),
                            body_.index(body_.load_address(side_.value)));
}

void SharedTileLoader::begin(llvm::Value* batch, llvm::Value* first, llvm::Value* depth_end) {
  batch_ = batch;
  first_ = first;
  depth_end_ = depth_end;
  starts_.clear();
  if (!side_.copied || !depth_step_) return;
  const int64_t inner = (side_.depth_inside ? plan_.tile.depth : across_) / side_.lanes,
                threads = plan_.threads;
  const int64_t outer_step = threads / inner;
  for (int64_t access = 0; access < accesses(); ++access) {
    if (access > 0 && (across_step_ || !side_.depth_inside) && threads % inner == 0) {
      // The other accesses are at constant distances from the first.
      const int64_t distance = access * outer_step * (side_.depth_inside ? *across_step_ : *depth_step_);
      starts_.push_back(builder_.CreateGEP(element_, starts_[0], context_.i64(distance)));
      continue;
    }
    const auto [across, inside] = coordinates(access);
    body_.start(point_at(builder_.CreateNSWAdd(first, across), inside));
    starts_.push_back(pointer());
  }
}

void SharedTileLoader::load_async(llvm::Value* depth, llvm::Value* stage, int64_t part, int64_t parts) {
  if (part == 0) values_.clear();
  for (int64_t access = accesses() * part / parts; access < accesses() * (part + 1) / parts; ++access)
    side_.copied ? copy(depth, stage, access) : read(depth, access);
}

void SharedTileLoader::copy(llvm::Value* depth, llvm::Value* stage, int64_t access) {
  const auto [across, inside] = coordinates(access);
  auto* outer = builder_.CreateNSWAdd(first_, across);
  auto* k = builder_.CreateNSWAdd(depth, inside);
  const auto& contract = plan_.contract;
  // If the depth is a multiple of the tile's, a step exists for all threads or for none.
  auto* exists = builder_.CreateICmpSLT(depth, depth_end_);
  if (contract.depth.extent % plan_.tile.depth != 0)
    exists = builder_.CreateAnd(exists, builder_.CreateICmpSLT(k, context_.i64(contract.depth.extent)));
  if (axis_.extent % across_ != 0)
    exists = builder_.CreateAnd(exists, builder_.CreateICmpSLT(outer, context_.i64(axis_.extent)));
  llvm::Value* from = nullptr;
  if (depth_step_) {
    from = builder_.CreateGEP(element_, starts_[static_cast<size_t>(access)],
                              builder_.CreateNSWMul(depth, context_.i64(*depth_step_)));
  } else {
    auto point = point_at(outer, k);
    if (parts_) {
      point.set(parts_->step, builder_.CreateUDiv(depth, context_.i64(plan_.tile.depth)));
      point.set(parts_->inside, inside);
    }
    body_.start(point);
    from = pointer();
    if (const auto mask = statement_.ops[side_.value].a; mask != loop::none)
      exists = builder_.CreateAnd(exists, body_.value(mask));
  }
  // The last vector of a row may be partial.
  llvm::Value* bytes = nullptr;
  if (const int64_t extent = side_.depth_inside ? contract.depth.extent : axis_.extent;
      extent % side_.lanes != 0) {
    auto* left = builder_.CreateNSWSub(context_.i64(extent), side_.depth_inside ? k : outer);
    auto* some = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, context_.i64(side_.lanes));
    bytes = builder_.CreateNSWMul(some, context_.i64(side_.bytes));
  }
  block_.copy(*block_.copy_of(side_.lanes * side_.bytes), tile(stage).at(builder_, across, inside), from,
              exists, bytes);
}

void SharedTileLoader::read(llvm::Value* depth, int64_t access) {
  const auto& contract = plan_.contract;
  const auto [across, inside] = coordinates(access);
  const int64_t across_lanes = side_.depth_inside ? 1 : side_.lanes;
  const int64_t depth_lanes = side_.depth_inside ? side_.lanes : 1;
  const bool even = contract.depth.extent % plan_.tile.depth == 0;
  // Past the end, load the last tile again: the address stays valid and nobody uses the elements.
  depth = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, depth,
                                         context_.i64((plan_.steps() - 1) * plan_.tile.depth));
  auto* wanted = builder_.CreateNSWAdd(depth, inside);
  auto point = point_at(at_most(builder_.CreateNSWAdd(first_, across), axis_.extent - across_lanes,
                                axis_.extent % across_ == 0),
                        at_most(wanted, contract.depth.extent - depth_lanes, even));
  point.lanes = static_cast<unsigned>(side_.lanes);
  point.vector = side_.depth_inside ? contract.depth.symbol : axis_.symbol;
  point.aligned = true;
  body_.start(point);
  auto* value = plan_.matrix ? body_.stored_lanes_of(side_.value) : body_.lanes_of(side_.value);
  if (!plan_.matrix && value->getType()->getScalarType() != element_)
    value = builder_.CreateFPExt(value, value->getType()->getWithNewType(element_));
  if (!even)
    value = builder_.CreateSelect(builder_.CreateICmpSLT(wanted, context_.i64(contract.depth.extent)), value,
                                  llvm::Constant::getNullValue(value->getType()));
  values_.push_back(value);
}

void SharedTileLoader::write(llvm::Value* stage) {
  if (side_.copied) return;
  const auto to = tile(stage);
  const auto bytes = static_cast<uint64_t>(side_.bytes), lanes = static_cast<uint64_t>(side_.lanes);
  for (int64_t access = 0; access < accesses(); ++access) {
    const auto [across, inside] = coordinates(access);
    auto* value = values_[static_cast<size_t>(access)];
    if (lanes == 1 || side_.lines_along_depth == side_.depth_inside) {
      builder_.CreateAlignedStore(value, to.at(builder_, across, inside), llvm::Align(bytes * lanes));
      continue;
    }
    // The tile is transposed in shared memory: store element by element.
    for (uint64_t k = 0; k < lanes; ++k) {
      auto* next = builder_.getInt64(k);
      auto* address = to.at(builder_, side_.depth_inside ? across : builder_.CreateNSWAdd(across, next),
                            side_.depth_inside ? builder_.CreateNSWAdd(inside, next) : inside);
      builder_.CreateAlignedStore(builder_.CreateExtractElement(value, k), address, llvm::Align(bytes));
    }
  }
}

llvm::Value* SharedTileLoader::at_most(llvm::Value* value, int64_t last, bool certain) {
  return certain ? value : builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, context_.i64(last));
}

}  // namespace ferrite::emitter
