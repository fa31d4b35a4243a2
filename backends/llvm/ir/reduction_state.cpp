// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/ir/reduction_state.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

#include "backends/llvm/analysis/row_maximum.h"

namespace ferrite::emitter {

namespace {

/// The accumulator type if the statement does not give one.
DType accumulator_of(const loop::Reduction& reduction, DType element) {
  if (reduction.kind == FE_REDUCE_ANY || reduction.kind == FE_REDUCE_ALL) return boolean;
  if (reduction.accumulator != DType::none) return compute_type(reduction.accumulator);
  return compute_type(element);
}

/// The primitive that combines two values; for argmax and argmin, of the values alone.
Prim combining_prim(uint32_t kind, DType dtype) {
  switch (kind) {
    case FE_REDUCE_PROD: return dtype == boolean ? Prim::and_ : Prim::mul_;
    case FE_REDUCE_ALL: return Prim::and_;
    case FE_REDUCE_ANY: return Prim::or_;
    case FE_REDUCE_MAX:
    case FE_REDUCE_ARGMAX: return Prim::max_;
    case FE_REDUCE_MIN:
    case FE_REDUCE_ARGMIN: return Prim::min_;
    default: return dtype == boolean ? Prim::or_ : Prim::add_;
  }
}

/// The largest number of the narrowest type for the indices; no index reaches it.
llvm::Constant* no_index(llvm::Type* type) {
  return llvm::ConstantInt::get(type, llvm::APInt::getSignedMaxValue(type->getScalarSizeInBits()));
}

}  // namespace

ReductionState::ReductionState(KernelContext& context, BodyEmitter& body, const loop::Statement& statement,
                               size_t number, unsigned lanes)
    : context_(context),
      body_(body),
      statement_(statement),
      reduction_(statement.reductions[number]),
      number_(number),
      element_dtype_(statement.ops[reduction_.element].dtype),
      dtype_(accumulator_of(reduction_, element_dtype_)),
      lanes_(lanes) {
  if (by_index()) dtype_ = compute_type(element_dtype_);
  // A maximum that drops NaN is one operation instead of three; GPUs have an instruction for the full one.
  drops_nan_ = !context.target.grid && reduction_.kind == FE_REDUCE_MAX && is_float(dtype_) &&
               sum_keeps_nan(context.kernel.pool, context.kernel, statement);
  value_ = context.slot(context.value_type(dtype_, lanes), "accumulator");
  if (!by_index()) return;
  const auto& source = statement.ops[reduction_.index];
  bool narrow =
      source.code == FE_OP_INDEX && context.kernel.pool.range(source.index[0]).hi < (int64_t{1} << 30);
  index_type_ = context.value_type(narrow ? i32 : i64, lanes);
  index_ = context.slot(index_type_, "accumulator.index");
}

llvm::Constant* identity_of(Prim prim, DType dtype, llvm::Type* type) {
  const bool least = prim == Prim::min_;
  if (prim != Prim::min_ && prim != Prim::max_) {
    if (prim == Prim::and_) return llvm::Constant::getAllOnesValue(type);
    if (prim != Prim::mul_) return llvm::Constant::getNullValue(type);
    return type->isFloatingPointTy() ? llvm::ConstantFP::get(type, 1.0) : llvm::ConstantInt::get(type, 1);
  }
  if (type->isFloatingPointTy()) return llvm::ConstantFP::getInfinity(type, !least);
  const unsigned bits = type->getIntegerBitWidth();
  const auto number =
      is_signed(dtype) ? (least ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getSignedMinValue(bits))
                       : (least ? llvm::APInt::getMaxValue(bits) : llvm::APInt::getMinValue(bits));
  return llvm::ConstantInt::get(type, number);
}

llvm::Constant* ReductionState::identity() {
  return identity_of(combining_prim(reduction_.kind, dtype_), dtype_, context_.value_type(dtype_));
}

void ReductionState::reset() {
  auto& builder = context_.builder;
  builder.CreateStore(context_.splat(identity(), lanes_), value_);
  if (index_) builder.CreateStore(no_index(index_type_), index_);
}

ReductionState::Values ReductionState::values() {
  auto& builder = context_.builder;
  Values state;
  state.value = builder.CreateLoad(value_->getAllocatedType(), value_);
  if (index_) state.index = builder.CreateLoad(index_->getAllocatedType(), index_);
  return state;
}

void ReductionState::take(llvm::Value* mask) {
  auto& builder = context_.builder;
  Values element;
  element.value = context_.splat(body_.cast(body_.value(reduction_.element), element_dtype_, dtype_), lanes_);
  if (index_) {
    auto* index = context_.splat(body_.value(reduction_.index), lanes_);
    element.index = context_.builder.CreateSExtOrTrunc(index, index_type_);
  }
  auto old = values();
  auto next = combine(old, element);
  if (mask) {
    next.value = builder.CreateSelect(mask, next.value, old.value);
    if (index_) next.index = builder.CreateSelect(mask, next.index, old.index);
  }
  builder.CreateStore(next.value, value_);
  if (index_) builder.CreateStore(next.index, index_);
}

ReductionState::Values ReductionState::combine(const Values& a, const Values& b) {
  auto& builder = context_.builder;
  if (drops_nan_) return {builder.CreateSelect(builder.CreateFCmpOGT(b.value, a.value), b.value, a.value)};
  if (!by_index()) return {body_.prim(combining_prim(reduction_.kind, dtype_), dtype_, {a.value, b.value})};
  // b wins if it is better than a, or if it alone is NaN, or if both are equal (or both NaN) and its index is
  // smaller.
  auto compare = reduction_.kind == FE_REDUCE_ARGMAX ? Prim::gt_ : Prim::lt_;
  auto* better = body_.prim(compare, dtype_, {b.value, a.value});
  auto* same = body_.prim(Prim::eq_, dtype_, {b.value, a.value});
  if (is_float(dtype_)) {
    auto* a_nan = builder.CreateFCmpUNO(a.value, a.value);
    auto* b_nan = builder.CreateFCmpUNO(b.value, b.value);
    better = builder.CreateOr(better, builder.CreateAnd(b_nan, builder.CreateNot(a_nan)));
    same = builder.CreateOr(same, builder.CreateAnd(a_nan, b_nan));
  }
  auto* chosen = builder.CreateOr(better, builder.CreateAnd(same, builder.CreateICmpSLT(b.index, a.index)));
  return {builder.CreateSelect(chosen, b.value, a.value), builder.CreateSelect(chosen, b.index, a.index)};
}

ReductionState::Values ReductionState::across(Values values) {
  auto& builder = context_.builder;
  if (lanes_ == 1) return values;
  for (unsigned half = lanes_ / 2; half > 1; half /= 2) {
    llvm::SmallVector<int, 64> low(half), high(half);
    for (unsigned k = 0; k < half; ++k) low[k] = static_cast<int>(k), high[k] = static_cast<int>(k + half);
    auto part = [&](llvm::Value* value, llvm::ArrayRef<int> which) {
      return value ? builder.CreateShuffleVector(value, which) : nullptr;
    };
    values = combine({part(values.value, low), part(values.index, low)},
                     {part(values.value, high), part(values.index, high)});
  }
  // Stop at two lanes: the x86 code generator of LLVM 22 miscompiles a sum that ends in vectors of one lane.
  const auto lane = [&](uint64_t number) {
    const auto part = [&](llvm::Value* value) {
      return value ? builder.CreateExtractElement(value, number) : nullptr;
    };
    return Values{part(values.value), part(values.index)};
  };
  return combine(lane(0), lane(1));
}

llvm::Value* ReductionState::result(const Values& values) {
  DType wanted = dtype_;
  for (const auto& op : statement_.ops)
    if (op.code == FE_OP_REDUCED && op.bits == number_) wanted = compute_type(op.dtype);
  if (!by_index()) return body_.cast(values.value, dtype_, wanted);
  // After an empty reduction the index is 0.
  auto& builder = context_.builder;
  auto* type = values.index->getType();
  auto* none = builder.CreateICmpEQ(values.index, no_index(type));
  auto* index = builder.CreateSelect(none, llvm::Constant::getNullValue(type), values.index);
  return body_.cast(index, type->getScalarSizeInBits() == 32 ? i32 : i64, wanted);
}

}  // namespace ferrite::emitter
