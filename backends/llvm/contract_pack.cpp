// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "contract_pack.h"

#include <array>

#include "contract_micro.h"
#include "contract_statement.h"
#include "transpose.h"

namespace ferrite::emitter {
namespace {

/// Whether every index that the statement keeps moves evenly along the flat coordinate of the axis.
bool is_even(const loop::Statement& statement, index::Pool& pool, index::Symbol symbol) {
  for (const auto& op : statement.ops)
    for (auto expr : op.index)
      if (!pool.coefficient(expr, symbol)) return false;
  return true;
}

loop::Statement pack_statement(const ContractPlan& plan, const Operand& operand, index::Pool& pool) {
  const std::array roots{operand.value};
  auto kept = keep_operations(plan.statement, needed_operations(plan.statement, pool, roots), false);
  kept.reductions.clear();
  return kept;
}

/// The statement, and the inner axis as segments and the variable that vectors run along: the whole axis
/// when the statement moves evenly along it, else its last variable.
loop::Statement split_inner(loop::Statement statement, index::Pool& pool, const Axis& inner,
                            std::vector<loop::Var>& segments, loop::Var& along) {
  along = {inner.symbol, inner.extent, loop::VarKind::parallel};
  if (inner.vars.size() == 1) return statement;
  auto flat = statement;
  Replacements replacements;
  expand_axis(pool, inner, pool.symbol(inner.symbol), replacements);
  substitute(flat, pool, replacements);
  if (is_even(flat, pool, inner.symbol)) {
    flat.vars.push_back(along);
    return flat;
  }
  segments.assign(inner.vars.begin(), inner.vars.end() - 1);
  along = inner.vars.back();
  return statement;
}

}  // namespace

BlockPacker::BlockPacker(KernelContext& context, const ContractPlan& plan, const Operand& operand,
                         const Axis& outer, const Axis& inner)
    : BlockPacker(context, plan, pack_statement(plan, operand, context.kernel.pool), operand.value, outer,
                  inner) {}

BlockPacker::BlockPacker(KernelContext& context, const ContractPlan& plan, const loop::Statement& statement,
                         loop::OpId value, const Axis& outer, const Axis& inner)
    : context_(context),
      plan_(plan),
      value_(value),
      outer_(outer),
      inner_(inner),
      statement_(split_inner(statement, context.kernel.pool, inner, segments_, along_)),
      body_(context, statement_) {}

void decode(KernelContext& context, Point& point, std::span<const loop::Var> vars, llvm::Value* flat) {
  const auto coordinates = context.coordinates(vars, flat);
  for (size_t v = 0; v < vars.size(); ++v) point.set(vars[v].symbol, coordinates[v]);
}

void store_zeros(KernelContext& context, llvm::Type* element, int lanes, llvm::Value* data,
                 llvm::Value* count) {
  auto& builder = context.builder;
  auto* zeros =
      llvm::Constant::getNullValue(llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes)));
  const llvm::Align align(element->getScalarSizeInBits() / 8);
  context.loop(context.i64(0), count, lanes, "zero", [&](llvm::Value* number) {
    builder.CreateAlignedStore(zeros, builder.CreateInBoundsGEP(element, data, number), align);
  });
}

/// Calls `chunk` at each vector of the block's inner elements, ascending, with its position in a packed row:
/// a vector may write past the end of its segment, and the next one then writes over that.
void BlockPacker::each_chunk(Point& point, const PackedBlock& block, const Chunk& chunk) {
  auto& builder = context_.builder;
  point.vector = along_.symbol;
  point.lanes = static_cast<unsigned>(plan_.lanes);
  const auto* count = llvm::dyn_cast<llvm::ConstantInt>(block.inner_count);
  const bool whole = count && count->getSExtValue() == inner_.extent && along_.extent % plan_.lanes == 0;
  auto run = [&](llvm::Value* start, llvm::Value* from, llvm::Value* to) {
    context_.loop(from, to, plan_.lanes, "pack", [&](llvm::Value* element) {
      point.set(along_.symbol, element);
      point.mask = whole ? nullptr : context_.lane_mask(builder.CreateSub(to, element), point.lanes);
      chunk(point, builder.CreateAdd(start, element));
    });
  };
  auto* end = builder.CreateAdd(block.inner_from, block.inner_count);
  if (segments_.empty()) return run(builder.CreateNeg(block.inner_from), block.inner_from, end);
  auto* extent = context_.i64(along_.extent);
  auto* first = builder.CreateUDiv(block.inner_from, extent);
  auto* last = builder.CreateUDiv(builder.CreateAdd(end, context_.i64(along_.extent - 1)), extent);
  context_.loop(first, last, 1, "segment", [&](llvm::Value* number) {
    decode(context_, point, segments_, number);
    auto* start = builder.CreateSub(builder.CreateMul(number, extent), block.inner_from);
    if (whole) return run(start, context_.i64(0), extent);
    auto* from =
        builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, context_.i64(0), builder.CreateNeg(start));
    auto* to = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, extent,
                                             builder.CreateSub(block.inner_count, start));
    run(start, from, to);
  });
}

/// Calls `body` at each flat coordinate of the whole outer axis, one loop a variable.
void BlockPacker::each_outer(Point& point, size_t var, llvm::Value* flat,
                             const std::function<void(llvm::Value*)>& body) {
  if (var == outer_.vars.size()) return body(flat);
  auto& builder = context_.builder;
  auto* extent = context_.i64(outer_.vars[var].extent);
  context_.loop(context_.i64(0), extent, 1, "outer", [&](llvm::Value* value) {
    point.set(outer_.vars[var].symbol, value);
    each_outer(point, var + 1, builder.CreateAdd(builder.CreateMul(flat, extent), value), body);
  });
}

void BlockPacker::pack_chunk(const Point& point, const PackedBlock& block, llvm::Value* outer,
                             llvm::Value* column) {
  auto& builder = context_.builder;
  auto* accumulator = context_.value_type(plan_.accumulator);
  body_.start(point);
  auto* value = widen_float(builder, body_.lanes_of(value_), accumulator);
  auto* element = builder.CreateAdd(builder.CreateMul(outer, context_.i64(block.row)), column);
  builder.CreateAlignedStore(value, builder.CreateInBoundsGEP(accumulator, block.data, element),
                             llvm::Align(static_cast<uint64_t>(bits_of(plan_.accumulator)) / 8));
}

void BlockPacker::emit(llvm::Value* batch, const PackedBlock& block) {
  auto& builder = context_.builder;
  Point point;
  decode(context_, point, plan_.batch.vars, batch);
  const auto* count = llvm::dyn_cast<llvm::ConstantInt>(block.outer_count);
  const bool plain = even() && outer_.vars.size() == 1;
  if (!plain && count && count->getSExtValue() == outer_.extent) {
    // Down the whole outer axis for each vector: where the vector lies is worked out once for all of it.
    each_chunk(point, block, [&](Point& at, llvm::Value* column) {
      each_outer(at, 0, context_.i64(0), [&](llvm::Value* outer) { pack_chunk(at, block, outer, column); });
    });
  } else {
    context_.loop(context_.i64(0), block.outer_count, 1, "outer", [&](llvm::Value* outer) {
      decode(context_, point, outer_.vars, builder.CreateAdd(block.outer_from, outer));
      each_chunk(point, block, [&](Point& at, llvm::Value* column) { pack_chunk(at, block, outer, column); });
    });
  }
  if (!block.pad) return;
  auto* accumulator = context_.value_type(plan_.accumulator);
  auto* zero = llvm::Constant::getNullValue(
      llvm::FixedVectorType::get(accumulator, static_cast<unsigned>(plan_.lanes)));
  context_.loop(context_.i64(0), block.outer_count, 1, "pad", [&](llvm::Value* outer) {
    auto* element = builder.CreateAdd(builder.CreateMul(outer, context_.i64(block.row)), block.inner_count);
    builder.CreateAlignedStore(zero, builder.CreateInBoundsGEP(accumulator, block.data, element),
                               llvm::Align(static_cast<uint64_t>(bits_of(plan_.accumulator)) / 8));
  });
}

void pack_transposed(KernelContext& context, const ContractPlan& plan, llvm::Value* source, DType dtype,
                     const PackedBlock& block) {
  auto& builder = context.builder;
  const auto lanes = static_cast<unsigned>(plan.lanes);
  auto* accumulator = context.value_type(plan.accumulator);
  auto* element = context.storage_type(dtype);
  auto* loaded = llvm::FixedVectorType::get(element, lanes);
  const llvm::Align source_align(static_cast<uint64_t>(bits_of(dtype)) / 8);
  const llvm::Align align(static_cast<uint64_t>(bits_of(plan.accumulator)) / 8);
  context.loop(context.i64(0), block.inner_count, lanes, "transpose", [&](llvm::Value* column) {
    auto* last = builder.CreateSub(block.inner_count, context.i64(1));
    std::vector<llvm::Value*> starts(lanes);
    for (unsigned l = 0; l < lanes; ++l) {
      auto* number = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                   builder.CreateAdd(column, context.i64(l)), last);
      starts[l] = builder.CreateInBoundsGEP(element, source,
                                            builder.CreateMul(number, context.i64(plan.column.stride)));
    }
    context.loop(context.i64(0), block.outer_count, lanes, "depth", [&](llvm::Value* k) {
      auto* mask = plan.depth.extent % lanes == 0
                       ? nullptr
                       : context.lane_mask(builder.CreateSub(block.outer_count, k), lanes);
      std::vector<llvm::Value*> rows(lanes);
      for (unsigned l = 0; l < lanes; ++l) {
        auto* pointer = builder.CreateInBoundsGEP(element, starts[l], k);
        rows[l] = mask ? builder.CreateMaskedLoad(loaded, pointer, source_align, mask,
                                                  llvm::Constant::getNullValue(loaded))
                       : static_cast<llvm::Value*>(builder.CreateAlignedLoad(loaded, pointer, source_align));
        rows[l] = widen_float(builder, rows[l], accumulator);
      }
      transpose_square(builder, rows);
      auto* target = builder.CreateInBoundsGEP(
          accumulator, block.data, builder.CreateAdd(builder.CreateMul(k, context.i64(block.row)), column));
      for (unsigned l = 0; l < lanes; ++l)
        builder.CreateAlignedStore(
            rows[l], builder.CreateConstInBoundsGEP1_64(accumulator, target, l * block.row), align);
    });
  });
}

}  // namespace ferrite::emitter
