// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/gemm/pack.h"

#include <array>

#include "backends/llvm/analysis/statement_values.h"
#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/ir/transpose.h"

namespace ferrite::emitter {
namespace {

/// Whether every index in the statement is affine in the flat coordinate of the axis.
bool is_even(const loop::Statement& statement, index::Pool& pool, index::Symbol symbol) {
  for (const auto& op : statement.ops)
    for (auto expr : op.index)
      if (!pool.coefficient(expr, symbol)) return false;
  return true;
}

loop::Statement pack_statement(const GemmPlan& plan, const Operand& operand, index::Pool& pool) {
  const std::array roots{operand.value};
  auto kept = keep_operations(plan.statement, needed_operations(plan.statement, pool, roots), false);
  kept.reductions.clear();
  return kept;
}

/// Splits the inner axis into segments and the variable that vectors run along: the whole axis if the
/// statement is affine in it, else its last variable.
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

/// The statement that computes the operand, over the flat coordinate of the columns.
loop::Statement flat_columns(const GemmPlan& plan, const Operand& operand, index::Pool& pool) {
  auto statement = pack_statement(plan, operand, pool);
  if (plan.columns.vars.size() == 1) return statement;
  Replacements replacements;
  expand_axis(pool, plan.columns, pool.symbol(plan.columns.symbol), replacements);
  statement.vars.push_back({plan.columns.symbol, plan.columns.extent, loop::VarKind::parallel});
  substitute(statement, pool, replacements);
  return statement;
}

/// Calls `body` for each vector of [from, to), in ascending order, with its first element and its mask of
/// valid lanes (null: all). Only the last vector is masked, and none if all are known to be `whole`.
void each_vector(KernelContext& context, llvm::Value* from, llvm::Value* to, unsigned lanes, bool whole,
                 const llvm::Twine& name, const std::function<void(llvm::Value*, llvm::Value*)>& body) {
  auto& builder = context.builder;
  if (whole)
    return context.loop(from, to, lanes, name, [&](llvm::Value* element) { body(element, nullptr); });
  auto* rest = builder.CreateURem(builder.CreateSub(to, from), context.i64(lanes));
  auto* last = builder.CreateSub(to, rest);
  context.loop(from, last, lanes, name, [&](llvm::Value* element) { body(element, nullptr); });
  context.when(builder.CreateICmpNE(rest, context.i64(0)), name + ".rest",
               [&] { body(last, context.lane_mask(rest, lanes)); });
}

}  // namespace

BlockPacker::BlockPacker(KernelContext& context, const GemmPlan& plan, const Operand& operand,
                         const Axis& outer, const Axis& inner)
    : BlockPacker(context, plan, pack_statement(plan, operand, context.kernel.pool),
                  operand.dtype == plan.accumulator ? operand.value : operand.load, operand.dtype, outer,
                  inner) {}

BlockPacker::BlockPacker(KernelContext& context, const GemmPlan& plan, const loop::Statement& statement,
                         loop::OpId value, DType dtype, const Axis& outer, const Axis& inner)
    : context_(context),
      plan_(plan),
      value_(value),
      dtype_(dtype),
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

void prefetch_lines(KernelContext& context, llvm::Value* first, llvm::Value* bytes) {
  auto& builder = context.builder;
  context.loop(context.i64(0), bytes, cache_line, "line", [&](llvm::Value* byte) {
    KernelContext::prefetch(builder, builder.CreateGEP(builder.getInt8Ty(), first, byte), false,
                            KernelContext::Level::first);
  });
}

void clear_block(KernelContext& context, const GemmPlan& plan, llvm::Value* sums, int64_t stride) {
  auto* type = context.value_type(plan.accumulator);
  auto* vector = llvm::FixedVectorType::get(type, static_cast<unsigned>(plan.lanes));
  const llvm::Align alignment(static_cast<uint64_t>(plan.lanes * bits_of(plan.accumulator) / 8));
  for (int64_t r = 0; r < plan.block_rows; ++r)
    for (int64_t c = 0; c < plan.block_columns(); c += plan.lanes)
      context.builder.CreateAlignedStore(
          llvm::Constant::getNullValue(vector),
          context.builder.CreateInBoundsGEP(type, sums, context.i64(r * stride + c)), alignment);
}

/// Calls `chunk` at each vector of the block's inner elements, in ascending order, with its position in a
/// packed row. A vector may write past the end of its segment; the next one overwrites those elements, so the
/// order matters.
void BlockPacker::each_chunk(Point& point, const PackedBlock& block, const Chunk& chunk) {
  auto& builder = context_.builder;
  point.vector = along_.symbol;
  point.lanes = static_cast<unsigned>(plan_.lanes);
  const auto* count = llvm::dyn_cast<llvm::ConstantInt>(block.inner_count);
  const bool whole = count && (segments_.empty() ? count->getSExtValue() % plan_.lanes == 0
                                                 : count->getSExtValue() == inner_.extent &&
                                                       along_.extent % plan_.lanes == 0);
  auto run = [&](llvm::Value* start, llvm::Value* from, llvm::Value* to) {
    each_vector(context_, from, to, point.lanes, whole, "pack", [&](llvm::Value* element, llvm::Value* mask) {
      point.set(along_.symbol, element);
      point.mask = mask;
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

/// Calls `body` at each flat coordinate of the outer axis, with one loop per variable.
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
  auto* type = context_.storage_type(dtype_);
  body_.start(point);
  auto* value = dtype_ == plan_.accumulator ? widen_float(builder, body_.lanes_of(value_), type)
                                            : body_.stored_lanes_of(value_);
  auto* element = builder.CreateAdd(builder.CreateMul(outer, context_.i64(block.row)), column);
  builder.CreateAlignedStore(value, builder.CreateInBoundsGEP(type, block.data, element),
                             llvm::Align(static_cast<uint64_t>(bits_of(dtype_)) / 8));
}

void BlockPacker::emit(llvm::Value* batch, const PackedBlock& block) {
  auto& builder = context_.builder;
  Point point;
  decode(context_, point, plan_.batch.vars, batch);
  const auto* count = llvm::dyn_cast<llvm::ConstantInt>(block.outer_count);
  const bool plain = even() && outer_.vars.size() == 1;
  if (!plain && count && count->getSExtValue() == outer_.extent) {
    // Iterate over the outer axis inside: the address computation for a vector is then shared by all of it.
    each_chunk(point, block, [&](Point& at, llvm::Value* column) {
      each_outer(at, 0, context_.i64(0), [&](llvm::Value* outer) { pack_chunk(at, block, outer, column); });
    });
  } else {
    context_.loop(context_.i64(0), block.outer_count, 1, "outer", [&](llvm::Value* outer) {
      decode(context_, point, outer_.vars, builder.CreateAdd(block.outer_from, outer));
      each_chunk(point, block, [&](Point& at, llvm::Value* column) { pack_chunk(at, block, outer, column); });
    });
  }
  // The micro-kernel multiplies whole vectors: clear the lanes after the last column.
  if (!block.pad) return;
  auto* type = context_.storage_type(dtype_);
  auto* zero =
      llvm::Constant::getNullValue(llvm::FixedVectorType::get(type, static_cast<unsigned>(plan_.lanes)));
  context_.loop(context_.i64(0), block.outer_count, 1, "pad", [&](llvm::Value* outer) {
    auto* element = builder.CreateAdd(builder.CreateMul(outer, context_.i64(block.row)), block.inner_count);
    builder.CreateAlignedStore(zero, builder.CreateInBoundsGEP(type, block.data, element),
                               llvm::Align(static_cast<uint64_t>(bits_of(dtype_)) / 8));
  });
}

TransposePacker::TransposePacker(KernelContext& context, const GemmPlan& plan)
    : context_(context),
      plan_(plan),
      statement_(split_inner(flat_columns(plan, plan.column, context.kernel.pool), context.kernel.pool,
                             plan.depth, segments_, along_)),
      body_(context, statement_) {}

/// Computes a vector of depth steps for each column, and stores their transposition.
void TransposePacker::square(Point& point, std::span<llvm::Value* const> columns, llvm::Value* target,
                             int64_t row) {
  auto& builder = context_.builder;
  auto* accumulator = context_.value_type(plan_.accumulator);
  const llvm::Align align(static_cast<uint64_t>(bits_of(plan_.accumulator)) / 8);
  std::vector<llvm::Value*> rows;
  for (auto* column : columns) {
    point.set(plan_.columns.symbol, column);
    body_.start(point);
    rows.push_back(widen_float(builder, body_.lanes_of(plan_.column.value), accumulator));
  }
  transpose_square(builder, rows);
  for (size_t k = 0; k < rows.size(); ++k)
    builder.CreateAlignedStore(
        rows[k], builder.CreateConstInBoundsGEP1_64(accumulator, target, k * static_cast<uint64_t>(row)),
        align);
}

void TransposePacker::emit(llvm::Value* batch, const PackedBlock& block) {
  auto& builder = context_.builder;
  const auto lanes = static_cast<unsigned>(plan_.lanes);
  auto* accumulator = context_.value_type(plan_.accumulator);
  Point point;
  decode(context_, point, plan_.batch.vars, batch);
  point.vector = along_.symbol;
  point.lanes = lanes;
  context_.loop(context_.i64(0), block.inner_count, lanes, "transpose", [&](llvm::Value* column) {
    // Columns past the edge repeat the last one; their sums are never stored.
    auto* last = builder.CreateSub(block.inner_count, context_.i64(1));
    std::vector<llvm::Value*> columns(lanes);
    for (unsigned l = 0; l < lanes; ++l)
      columns[l] = builder.CreateAdd(
          block.inner_from, builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                          builder.CreateAdd(column, context_.i64(l)), last));
    // The steps [from, to) of the variable along which vectors run; `start`: that of its step 0 in the block.
    const auto run = [&](llvm::Value* start, llvm::Value* from, llvm::Value* to) {
      each_vector(context_, from, to, lanes, plan_.depth.extent % lanes == 0 && segments_.empty(), "depth",
                  [&](llvm::Value* k, llvm::Value* mask) {
                    point.mask = mask;
                    point.set(along_.symbol, k);
                    auto* step = builder.CreateMul(builder.CreateAdd(start, k), context_.i64(block.row));
                    square(
                        point, columns,
                        builder.CreateInBoundsGEP(accumulator, block.data, builder.CreateAdd(step, column)),
                        block.row);
                  });
    };
    auto* end = builder.CreateAdd(block.outer_from, block.outer_count);
    if (segments_.empty()) return run(builder.CreateNeg(block.outer_from), block.outer_from, end);
    // A vector may write past the end of its segment; the next one overwrites those steps.
    auto* extent = context_.i64(along_.extent);
    auto* first = builder.CreateUDiv(block.outer_from, extent);
    auto* behind = builder.CreateUDiv(builder.CreateAdd(end, context_.i64(along_.extent - 1)), extent);
    context_.loop(first, behind, 1, "segment", [&](llvm::Value* number) {
      decode(context_, point, segments_, number);
      auto* start = builder.CreateSub(builder.CreateMul(number, extent), block.outer_from);
      auto* from =
          builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, context_.i64(0), builder.CreateNeg(start));
      auto* to = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, extent,
                                               builder.CreateSub(block.outer_count, start));
      run(start, from, to);
    });
  });
}

}  // namespace ferrite::emitter
