// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The primitives of prims.def on scalars and vectors. Lanes that do not exist hold arbitrary values, so no
// operation may trap.
#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "backends/llvm/analysis/row_maximum.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

namespace {

llvm::CmpInst::Predicate float_predicate(Prim prim) {
  switch (prim) {
    case Prim::eq_: return llvm::CmpInst::FCMP_OEQ;
    case Prim::ne_: return llvm::CmpInst::FCMP_UNE;
    case Prim::lt_: return llvm::CmpInst::FCMP_OLT;
    case Prim::le_: return llvm::CmpInst::FCMP_OLE;
    case Prim::gt_: return llvm::CmpInst::FCMP_OGT;
    default: return llvm::CmpInst::FCMP_OGE;
  }
}

llvm::CmpInst::Predicate integer_predicate(Prim prim, bool is_signed) {
  switch (prim) {
    case Prim::eq_: return llvm::CmpInst::ICMP_EQ;
    case Prim::ne_: return llvm::CmpInst::ICMP_NE;
    case Prim::lt_: return is_signed ? llvm::CmpInst::ICMP_SLT : llvm::CmpInst::ICMP_ULT;
    case Prim::le_: return is_signed ? llvm::CmpInst::ICMP_SLE : llvm::CmpInst::ICMP_ULE;
    case Prim::gt_: return is_signed ? llvm::CmpInst::ICMP_SGT : llvm::CmpInst::ICMP_UGT;
    default: return is_signed ? llvm::CmpInst::ICMP_SGE : llvm::CmpInst::ICMP_UGE;
  }
}

bool is_comparison(Prim prim) { return prim >= Prim::eq_ && prim <= Prim::ge_; }

}  // namespace

llvm::Value* BodyEmitter::emit_prim(const loop::BodyOp& op) {
  if (is_comparison(op.prim()))
    if (auto* narrow = compare_indices(op)) return narrow;
  if (const auto argument = erf_plus_one(op); argument != loop::none)
    return context_.math.one_plus_erf(value(argument));
  if (op.prim() == Prim::bitcast_) {
    auto* bits = bits_for_bitcast(op.a);
    auto* result =
        builder_.CreateBitCast(bits, bits->getType()->getWithNewType(context_.storage_type(op.dtype)));
    return widen(result, op.dtype);
  }
  std::vector<llvm::Value*> operands;
  bool vector = false;
  for (auto id : {op.a, op.b, op.c}) {
    if (id == loop::none) continue;
    operands.push_back(value(id));
    vector = vector || operands.back()->getType()->isVectorTy();
  }
  if (vector)
    for (auto& operand : operands) operand = spread(operand);
  if (op.prim() == Prim::cast_) return cast(operands[0], statement_.ops[op.a].dtype, op.dtype);
  DType dtype = statement_.ops[op.prim() == Prim::where_ ? op.b : op.a].dtype;
  // exp(x - row maximum) has no positive argument, which saves the overflow handling.
  auto* result = op.prim() == Prim::exp_ && maximum_taken_off(pool_, context_.kernel, statement_, op.a)
                     ? context_.math.exp_of_negative(operands[0])
                     : prim(op.prim(), dtype, operands);
  return context_.kernel.numerics == 1 && is_float(op.dtype) ? round_to(result, op.dtype) : result;
}

/// The bits for a bitcast: the stored form if the value was only moved, else those of ferrite::float_bits.
llvm::Value* BodyEmitter::bits_for_bitcast(loop::OpId id) {
  const auto& op = statement_.ops[id];
  if (!is_moved(id)) {
    auto* computed = value(id);
    return bits_of_narrow_nan(narrow(computed, op.dtype), computed, op.dtype);
  }
  if (moved_.whole[id] || op.code == FE_OP_LOAD) return stored(id);
  if (op.prim() == Prim::cast_) return bits_for_bitcast(op.a);
  auto *yes = bits_for_bitcast(op.b), *no = bits_for_bitcast(op.c);
  return choose_stored(value(op.a), yes, no);
}

/// For f16 and bf16, gives a NaN the bits of ferrite::float_bits: some machines' conversions return a NaN of
/// their own.
llvm::Value* BodyEmitter::bits_of_narrow_nan(llvm::Value* bits, llvm::Value* value, DType dtype) {
  if (dtype != f16 && dtype != bf16) return bits;
  auto* type = bits->getType()->getWithNewType(builder_.getInt16Ty());
  auto number = [&](uint16_t word) { return llvm::ConstantInt::get(type, word); };
  auto* wide = builder_.CreateBitCast(value, type->getWithNewType(builder_.getInt32Ty()));
  auto* upper = builder_.CreateTrunc(builder_.CreateLShr(wide, 16), type);
  auto* nan = dtype == bf16 ? builder_.CreateOr(upper, number(0x40))
                            : builder_.CreateOr(builder_.CreateAnd(upper, number(0x8000)), number(0x7e00));
  return builder_.CreateSelect(builder_.CreateFCmpUNO(value, value), nan, builder_.CreateBitCast(bits, type));
}

/// Returns x if the operation is 1 + erf(x) and no rounding is required in between; else none.
loop::OpId BodyEmitter::erf_plus_one(const loop::BodyOp& op) {
  const bool rounds = context_.kernel.numerics == 1 && op.dtype != f32;
  if (!op.is_prim() || op.prim() != Prim::add_ || compute_type(op.dtype) != f32 || rounds) return loop::none;
  for (const auto& [sum, other] : {std::pair(op.a, op.b), {op.b, op.a}}) {
    const auto& erf = statement_.ops[sum];
    const auto& one = statement_.ops[other];
    if (!erf.is_prim() || erf.prim() != Prim::erf_ || values_[sum]) continue;
    if (one.code == FE_OP_CONSTANT &&
        llvm::cast<llvm::ConstantFP>(constant(one.dtype, one.bits))->isExactlyValue(1.0))
      return erf.a;
  }
  return loop::none;
}

/// Decides a comparison for all lanes of the point from the ranges of its variables, if possible. Most points
/// of a window lie inside the operand.
std::optional<bool> BodyEmitter::decide(Prim comparison, index::Expr a, index::Expr b) {
  std::vector<std::pair<index::Symbol, index::Expr>> values;
  for (const auto& [symbol, value] : point_.symbols)
    if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(value); known && symbol != point_.vector)
      values.emplace_back(symbol, pool_.constant(known->getSExtValue()));
  const index::Term terms[] = {{pool_.substitute(a, values), 1}, {pool_.substitute(b, values), -1}};
  const auto [low, high] = pool_.range(pool_.linear(0, terms));
  const auto either = [](bool yes, bool no) { return yes || no ? std::optional(yes) : std::nullopt; };
  switch (comparison) {
    case Prim::eq_: return either(low == 0 && high == 0, low > 0 || high < 0);
    case Prim::ne_: return either(low > 0 || high < 0, low == 0 && high == 0);
    case Prim::lt_: return either(high < 0, low >= 0);
    case Prim::le_: return either(high <= 0, low > 0);
    case Prim::gt_: return either(low > 0, high <= 0);
    default: return either(low >= 0, high < 0);
  }
}

/// A comparison of index expressions: a constant if decided, or on 32-bit lanes if all values fit; null
/// otherwise.
llvm::Value* BodyEmitter::compare_indices(const loop::BodyOp& op) {
  constexpr int64_t limit = int64_t{1} << 30;
  auto side = [&](loop::OpId id) -> std::optional<index::Expr> {
    const auto& operand = statement_.ops[id];
    if (operand.dtype != i64) return std::nullopt;
    if (operand.code == FE_OP_CONSTANT) {
      auto value = static_cast<int64_t>(operand.bits);
      if (value <= -limit || value >= limit) return std::nullopt;
      return pool_.constant(value);
    }
    if (operand.code != FE_OP_INDEX) return std::nullopt;
    for (auto id_bound : bindings_[id])
      if (!values_[id_bound]) return std::nullopt;
    const index::Expr roots[] = {operand.index[0]};
    for (auto part : pool_.post_order(roots)) {
      auto range = pool_.range(part);
      if (range.lo <= -limit || range.hi >= limit) return std::nullopt;
    }
    return operand.index[0];
  };
  auto a = side(op.a), b = side(op.b);
  if (!a || !b) return nullptr;
  if (const auto known = decide(op.prim(), *a, *b)) return builder_.getInt1(*known);
  if (!varies(*a) && !varies(*b)) return nullptr;
  auto* type = builder_.getInt32Ty();
  auto predicate = integer_predicate(op.prim(), true);
  auto emit_side = [&](index::Expr expr) -> llvm::Value* {
    if (varies(expr)) return lane_index(expr, type);
    return spread(builder_.CreateTrunc(scalar_index(expr), type));
  };
  auto* left = emit_side(*a);
  return builder_.CreateICmp(predicate, left, emit_side(*b));
}

llvm::Value* BodyEmitter::prim(Prim prim, DType dtype, const std::vector<llvm::Value*>& operands) {
  if (prim == Prim::where_) return builder_.CreateSelect(operands[0], operands[1], operands[2]);
  return is_float(dtype) ? float_prim(prim, operands) : integer_prim(prim, dtype, operands);
}

llvm::Value* BodyEmitter::float_prim(Prim prim, const std::vector<llvm::Value*>& operands) {
  auto* a = operands[0];
  auto* b = operands.size() > 1 ? operands[1] : nullptr;
  auto& math = context_.math;
  auto constant = [&](double value) { return llvm::ConstantFP::get(a->getType(), value); };
  switch (prim) {
    case Prim::add_: return builder_.CreateFAdd(a, b);
    case Prim::sub_: return builder_.CreateFSub(a, b);
    case Prim::mul_: return builder_.CreateFMul(a, b);
    case Prim::div_: return builder_.CreateFDiv(a, b);
    case Prim::rem_: return math.fmod(a, b);
    case Prim::mod_: {
      auto* rest = math.fmod(a, b);
      auto* zero = constant(0);
      auto* differs = builder_.CreateXor(builder_.CreateFCmpOLT(rest, zero), builder_.CreateFCmpOLT(b, zero));
      // A remainder with the wrong sign is moved by one divisor.
      auto* moved = builder_.CreateSelect(differs, builder_.CreateFAdd(rest, b), rest);
      auto* signed_zero = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, zero, b);
      return builder_.CreateSelect(builder_.CreateFCmpOEQ(rest, zero), signed_zero, moved);
    }
    case Prim::neg_: return builder_.CreateFNeg(a);
    case Prim::abs_: return math.abs(a);
    case Prim::sign_: return math.sign(a);
    case Prim::min_: return math.min_nan(a, b);
    case Prim::max_: return math.max_nan(a, b);
    case Prim::fma_: return math.fma(a, b, operands[2]);
    case Prim::exp_: return math.exp(a);
    case Prim::exp2_: return math.exp2(a);
    case Prim::expm1_: return math.expm1(a);
    case Prim::log_: return math.log(a);
    case Prim::log2_: return math.log2(a);
    case Prim::log1p_: return math.log1p(a);
    case Prim::sqrt_: return math.sqrt(a);
    case Prim::rsqrt_: return math.rsqrt(a);
    case Prim::reciprocal_: return math.reciprocal(a);
    case Prim::sin_: return math.sin(a);
    case Prim::cos_: return math.cos(a);
    case Prim::tan_: return math.tan(a);
    case Prim::asin_: return math.asin(a);
    case Prim::acos_: return math.acos(a);
    case Prim::atan_: return math.atan(a);
    case Prim::sinh_: return math.sinh(a);
    case Prim::cosh_: return math.cosh(a);
    case Prim::tanh_: return math.tanh(a);
    case Prim::asinh_: return math.asinh(a);
    case Prim::acosh_: return math.acosh(a);
    case Prim::atanh_: return math.atanh(a);
    case Prim::erf_: return math.erf(a);
    case Prim::pow_: return math.pow(a, b);
    case Prim::atan2_: return math.atan2(a, b);
    case Prim::floor_: return math.floor(a);
    case Prim::ceil_: return math.ceil(a);
    case Prim::round_: return math.round_even(a);
    case Prim::trunc_: return math.trunc(a);
    case Prim::isnan_: return builder_.CreateFCmpUNO(a, a);
    case Prim::isinf_:
      return builder_.CreateFCmpOEQ(math.abs(a), llvm::ConstantFP::getInfinity(a->getType()));
    default: return builder_.CreateFCmp(float_predicate(prim), a, b);
  }
}

llvm::Value* BodyEmitter::integer_prim(Prim prim, DType dtype, const std::vector<llvm::Value*>& operands) {
  auto* a = operands[0];
  auto* b = operands.size() > 1 ? operands[1] : nullptr;
  auto* type = a->getType();
  bool is_bool = dtype == boolean, sign = is_signed(dtype);
  auto* zero = llvm::Constant::getNullValue(type);
  auto* all_ones = llvm::Constant::getAllOnesValue(type);
  // Integer division never traps: it gives 0 for a zero divisor, and the lowest value divided by -1 wraps to
  // itself.
  auto divide = [&](bool remainder) -> llvm::Value* {
    auto* one = llvm::ConstantInt::get(type, 1);
    auto* by_zero = builder_.CreateICmpEQ(b, zero);
    auto* by_minus_one = sign ? builder_.CreateICmpEQ(b, all_ones) : nullptr;
    auto* safe = builder_.CreateSelect(sign ? builder_.CreateOr(by_zero, by_minus_one) : by_zero, one, b);
    llvm::Value* result;
    if (remainder) {
      result = sign ? builder_.CreateSRem(a, safe) : builder_.CreateURem(a, safe);
    } else {
      result = sign ? builder_.CreateSDiv(a, safe) : builder_.CreateUDiv(a, safe);
      if (sign) result = builder_.CreateSelect(by_minus_one, builder_.CreateNeg(a), result);
    }
    return builder_.CreateSelect(by_zero, zero, result);
  };
  // Some code generators mask an out-of-range shift amount even under a select; clamp it for grids.
  const auto amount = [&] {
    if (!context_.target.grid) return b;
    auto* most = llvm::ConstantInt::get(type, type->getScalarSizeInBits() - 1);
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b, most);
  };
  auto shift = [&](llvm::Value* shifted) {
    return builder_.CreateSelect(
        builder_.CreateICmpULT(b, llvm::ConstantInt::get(type, type->getScalarSizeInBits())), shifted, zero);
  };
  switch (prim) {
    case Prim::add_: return builder_.CreateAdd(a, b);
    case Prim::sub_: return builder_.CreateSub(a, b);
    case Prim::mul_: return builder_.CreateMul(a, b);
    case Prim::div_: return divide(false);
    case Prim::rem_: return divide(true);
    case Prim::mod_: {
      auto* rest = divide(true);
      if (!sign) return rest;
      auto* differs = builder_.CreateAnd(builder_.CreateICmpNE(rest, zero),
                                         builder_.CreateICmpSLT(builder_.CreateXor(rest, b), zero));
      return builder_.CreateSelect(differs, builder_.CreateAdd(rest, b), rest);
    }
    case Prim::neg_: return builder_.CreateNeg(a);
    case Prim::abs_:
      return sign ? builder_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, builder_.getFalse()) : a;
    case Prim::sign_: {
      auto* positive = builder_.CreateZExt(builder_.CreateICmpNE(a, zero), type);
      return sign ? builder_.CreateOr(
                        builder_.CreateAShr(a, llvm::ConstantInt::get(type, type->getScalarSizeInBits() - 1)),
                        positive)
                  : positive;
    }
    case Prim::min_:
      if (is_bool) return builder_.CreateAnd(a, b);
      return builder_.CreateBinaryIntrinsic(sign ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a, b);
    case Prim::max_:
      if (is_bool) return builder_.CreateOr(a, b);
      return builder_.CreateBinaryIntrinsic(sign ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a, b);
    case Prim::and_: return builder_.CreateAnd(a, b);
    case Prim::or_: return builder_.CreateOr(a, b);
    case Prim::xor_: return builder_.CreateXor(a, b);
    case Prim::not_: return builder_.CreateNot(a);
    // An oversized shift is poison, which the select discards.
    case Prim::shl_: return shift(builder_.CreateShl(a, amount()));
    case Prim::shr_: return shift(sign ? builder_.CreateAShr(a, amount()) : builder_.CreateLShr(a, amount()));
    case Prim::pow_: return integer_power(dtype, a, b);
    default: return builder_.CreateICmp(integer_predicate(prim, sign), a, b);
  }
}

/// base to the power exponent by repeated squaring, modulo 2^n; a negative exponent gives the truncated
/// quotient.
llvm::Value* BodyEmitter::integer_power(DType dtype, llvm::Value* base, llvm::Value* exponent) {
  auto* type = base->getType();
  auto* zero = llvm::Constant::getNullValue(type);
  auto* one = llvm::ConstantInt::get(type, 1);
  auto* minus_one = llvm::Constant::getAllOnesValue(type);
  auto* before = builder_.GetInsertBlock();
  auto* head = context_.block("power");
  auto* exit = context_.block("power.end");
  builder_.CreateBr(head);
  builder_.SetInsertPoint(head);
  auto* result = builder_.CreatePHI(type, 2);
  auto* square = builder_.CreatePHI(type, 2);
  auto* left = builder_.CreatePHI(type, 2);
  result->addIncoming(one, before), square->addIncoming(base, before), left->addIncoming(exponent, before);
  auto* odd = builder_.CreateICmpNE(builder_.CreateAnd(left, one), zero);
  auto* next = builder_.CreateSelect(odd, builder_.CreateMul(result, square), result);
  auto* rest = builder_.CreateLShr(left, one);
  result->addIncoming(next, head);
  square->addIncoming(builder_.CreateMul(square, square), head);
  left->addIncoming(rest, head);
  auto* any = builder_.CreateICmpNE(rest, zero);
  builder_.CreateCondBr(any->getType()->isVectorTy() ? builder_.CreateOrReduce(any) : any, head, exit);
  builder_.SetInsertPoint(exit);
  if (!is_signed(dtype)) return next;
  auto* alternating =
      builder_.CreateSelect(builder_.CreateICmpNE(builder_.CreateAnd(exponent, one), zero), minus_one, one);
  auto* unit = builder_.CreateSelect(builder_.CreateICmpEQ(base, minus_one), alternating, zero);
  auto* negative = builder_.CreateSelect(builder_.CreateICmpEQ(base, one), one, unit);
  return builder_.CreateSelect(builder_.CreateICmpSLT(exponent, zero), negative, next);
}

llvm::Value* BodyEmitter::cast(llvm::Value* value, DType from, DType to) {
  if (from == to) return value;
  auto* type = value->getType()->getWithNewType(context_.value_type(to));
  if (is_float(from)) {
    if (to == boolean) return builder_.CreateFCmpUNE(value, llvm::Constant::getNullValue(value->getType()));
    if (is_float(to)) {
      if (compute_type(from) == compute_type(to)) return round_to(value, to);
      // Rounding to f32 first would round twice.
      if (from == f64 && to != f32) return round_to(context_.math.round_to_odd(value), to);
      return builder_.CreateFPCast(value, type);
    }
    auto* integer = llvm::cast<llvm::IntegerType>(context_.value_type(to));
    return context_.math.float_to_int_saturating(value, integer, is_signed(to));
  }
  if (to == boolean) return builder_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  if (is_float(to))
    return round_to(is_signed(from) ? builder_.CreateSIToFP(value, type) : builder_.CreateUIToFP(value, type),
                    to);
  return is_signed(from) ? builder_.CreateSExtOrTrunc(value, type) : builder_.CreateZExtOrTrunc(value, type);
}

}  // namespace ferrite::emitter
