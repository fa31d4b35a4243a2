// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The index arithmetic of a body.
#include "ferrite/emitter/body_emitter.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "ferrite/abi/error_words.h"

namespace ferrite::emitter {

namespace {

/// Indices below this bound are computed in 32 bits. The margin covers lanes of a tail and threads past the
/// last point, which exceed an extent.
constexpr int64_t small_index = int64_t{1} << 30;

/// Writes an index to the error words, unless they are in use. `outside`: whether it is out of range; for
/// vectors, by lane.
void report_index(KernelContext& context, llvm::Value* outside, llvm::Value* given, DType dtype,
                  const loop::BodyOp& op) {
  auto& builder = context.builder;
  auto& llvm_context = context.module.getContext();
  const auto& grid = context.target.grid;
  const auto scope = grid ? llvm_context.getOrInsertSyncScopeID(grid->grid_scope)
                          : llvm::SyncScope::ID(llvm::SyncScope::System);
  constexpr auto order = llvm::AtomicOrdering::Monotonic;
  // The lower half of the first error word: all devices can exchange 32-bit words.
  auto* word = builder.getInt32Ty();
  auto* claim =
      builder.CreateAtomicCmpXchg(context.error, llvm::ConstantInt::get(word, 0),
                                  llvm::ConstantInt::get(word, 1), llvm::Align(4), order, order, scope);
  context.when(builder.CreateExtractValue(claim, 1), "index.report", [&] {
    auto* type = given->getType()->getWithNewType(builder.getInt64Ty());
    auto* number = is_signed(dtype) ? builder.CreateSExt(given, type) : builder.CreateZExt(given, type);
    if (outside->getType()->isVectorTy()) {
      auto* least = llvm::ConstantInt::getSigned(type, std::numeric_limits<int64_t>::min());
      number = builder.CreateIntMaxReduce(builder.CreateSelect(outside, number, least), true);
    }
    const int64_t flags = FE_BAD_INDEX_TOLD | (op.flags == FE_INDIRECT_WRAP ? FE_BAD_INDEX_WRAPS : 0u) |
                          (!is_signed(dtype) ? FE_BAD_INDEX_UNSIGNED : 0u);
    llvm::Value* words[] = {number, context.i64(static_cast<int64_t>(op.bits)), context.i64(flags)};
    for (uint64_t k = 0; k < std::size(words); ++k)
      builder.CreateStore(words[k],
                          builder.CreateConstInBoundsGEP1_64(builder.getInt64Ty(), context.error, k + 1));
  });
}

}  // namespace

llvm::Value* BodyEmitter::emit_index_op(const loop::BodyOp& op) {
  auto* value = index(op.index[0]);
  auto* type = context_.value_type(op.dtype, value->getType()->isVectorTy() ? point_.lanes : 1);
  if (is_float(op.dtype)) return round_to(builder_.CreateSIToFP(value, type), op.dtype);
  if (op.dtype == boolean)
    return builder_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  return builder_.CreateSExtOrTrunc(value, type);
}

void BodyEmitter::emit_indirect(const loop::BodyOp& op, loop::OpId id) {
  auto* given = value(op.a);
  auto* type = given->getType()->getWithNewType(builder_.getInt64Ty());
  DType dtype = statement_.ops[op.a].dtype;
  auto* position = is_signed(dtype) ? builder_.CreateSExt(given, type) : builder_.CreateZExt(given, type);
  auto* zero = llvm::Constant::getNullValue(type);
  auto* extent = llvm::ConstantInt::getSigned(type, static_cast<int64_t>(op.bits));
  auto* last = llvm::ConstantInt::getSigned(type, std::max<int64_t>(static_cast<int64_t>(op.bits) - 1, 0));
  // A u64 of 2^63 or more is not negative; it is beyond every extent.
  if (op.flags == FE_INDIRECT_WRAP && is_signed(dtype))
    position = builder_.CreateSelect(builder_.CreateICmpSLT(position, zero),
                                     builder_.CreateAdd(position, extent), position);
  if (op.flags == FE_INDIRECT_WRAP || op.flags == FE_INDIRECT_CHECK) {
    llvm::Value* outside = builder_.CreateICmpUGE(position, extent);
    if (outside->getType()->isVectorTy() && point_.mask) outside = builder_.CreateAnd(outside, point_.mask);
    auto* any = outside->getType()->isVectorTy() ? builder_.CreateOrReduce(outside) : outside;
    context_.when(any, "index.error", [&] { report_index(context_, outside, given, dtype, op); });
  }
  // Clamp even after a report: the kernel goes on, and its accesses must stay valid.
  if (op.flags != FE_INDIRECT_ASSUME)
    position = is_signed(dtype) ? builder_.CreateBinaryIntrinsic(
                                      llvm::Intrinsic::smax, zero,
                                      builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, position, last))
                                : builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, position, last);
  indirect_.emplace_back(op.symbol, position);
  values_[id] = position;
}

bool BodyEmitter::varies(index::Expr expr) {
  if (point_.lanes == 1) return false;
  if (point_.vector != Point::no_symbol && pool_.depends_on(expr, point_.vector)) return true;
  for (const auto& [symbol, bound] : indirect_)
    if (bound->getType()->isVectorTy() && pool_.depends_on(expr, symbol)) return true;
  return false;
}

llvm::Value* BodyEmitter::index(index::Expr expr) {
  if (!varies(expr)) return scalar_index(expr);
  auto place = address(expr);
  auto* base = context_.splat(place.base, point_.lanes);
  return builder_.CreateAdd(base, place.lane);
}

BodyEmitter::Address BodyEmitter::address(index::Expr expr) {
  Address result;
  if (!varies(expr)) {
    result.base = scalar_index(expr);
    result.step = 0;
    return result;
  }
  auto affine = pool_.affine(expr);
  std::vector<index::Term> uniform, varying;
  int64_t step = 0;
  auto sort = [&](index::Expr part, int64_t coefficient) {
    (varies(part) ? varying : uniform).push_back({part, coefficient});
  };
  for (const auto& [symbol, coefficient] : affine.terms) {
    if (symbol == point_.vector) {
      step = coefficient;
      uniform.push_back({pool_.symbol(symbol), coefficient});
    } else {
      sort(pool_.symbol(symbol), coefficient);
    }
  }
  for (const auto& [part, coefficient] : affine.rest) sort(part, coefficient);
  result.base = scalar_index(pool_.linear(affine.constant, uniform));
  auto* word = builder_.getInt64Ty();
  if (varying.empty()) {
    result.step = step;
    const int64_t lanes = point_.lanes;
    const auto whole = [&](const auto& term) { return term.second % lanes == 0; };
    result.whole =
        point_.aligned && affine.constant % lanes == 0 &&
        std::ranges::all_of(affine.terms,
                            [&](const auto& term) { return term.first == point_.vector || whole(term); }) &&
        std::ranges::all_of(affine.rest, whole);
    result.lane = context_.iota(word, point_.lanes, step);
    for (unsigned k = 0; k < point_.lanes; ++k) result.offsets.push_back(step * k);
    return result;
  }
  auto lanes = pool_.linear(0, varying);
  const bool found = std::ranges::any_of(indirect_, [&](const auto& bound) {
    return bound.second->getType()->isVectorTy() && pool_.depends_on(lanes, bound.first);
  });
  if (point_.aligned && !found) {
    auto offsets = lane_offsets(pool_, lanes, point_.vector, point_.lanes);
    for (unsigned k = 0; k < offsets.size(); ++k) offsets[k] += step * k;
    if (!offsets.empty()) {
      std::vector<llvm::Constant*> distances;
      for (const auto offset : offsets) distances.push_back(llvm::ConstantInt::getSigned(word, offset));
      result.base = builder_.CreateAdd(result.base, scalar_index(lanes));
      result.lane = llvm::ConstantVector::get(distances);
      if (std::ranges::all_of(offsets, [](int64_t offset) { return offset == 0; })) result.step = 0;
      result.offsets = std::move(offsets);
      return result;
    }
  }
  // 32-bit lanes if all intermediate values fit; a tail's lanes exceed the extent by less than a vector.
  const index::Expr roots[] = {lanes};
  auto small = [&](index::Expr part) {
    auto range = pool_.range(part);
    return range.lo > -small_index && range.hi < small_index;
  };
  auto nodes = pool_.post_order(roots);
  auto* type = std::all_of(nodes.begin(), nodes.end(), small) ? builder_.getInt32Ty() : word;
  auto* value = lane_index(lanes, type);
  if (step != 0) value = builder_.CreateAdd(value, context_.iota(type, point_.lanes, step));
  result.lane = builder_.CreateSExt(value, llvm::FixedVectorType::get(word, point_.lanes));
  return result;
}

namespace {

/// Emits an expression over values of one integer type, scalar or vector.
struct IndexArithmetic {
  llvm::IRBuilder<>& builder;
  index::Pool& pool;
  llvm::Type* type;
  std::function<llvm::Value*(index::Expr)> operand;
  std::function<llvm::Value*(index::Symbol)> variable;
  bool halves = false;  ///< compute values that fit in 32 bits, for machines with 32-bit registers

  llvm::Value* number(int64_t value) { return llvm::ConstantInt::getSigned(type, value); }

  llvm::Value* constant(int64_t value) { return number(value); }
  llvm::Value* symbol(index::Symbol symbol) { return variable(symbol); }
  llvm::Value* sum(int64_t constant, std::span<const index::Term> given) {
    std::vector<index::Term> terms(given.begin(), given.end());
    llvm::Value* total = nullptr;
    const bool small = is_small(constant, terms);
    for (const auto& term : terms) {
      auto* value = small ? half(operand(term.expr)) : operand(term.expr);
      if (term.coefficient != 1)
        value = builder.CreateMul(value, llvm::ConstantInt::getSigned(value->getType(), term.coefficient), "",
                                  false, small);
      total = total ? builder.CreateAdd(total, value, "", false, small) : value;
    }
    if (!total) return number(constant);
    if (small) total = builder.CreateSExt(total, type);
    return constant == 0 ? total : builder.CreateAdd(total, number(constant));
  }
  llvm::Value* mul(index::Expr a, index::Expr b) { return builder.CreateMul(operand(a), operand(b)); }
  llvm::Value* min(index::Expr a, index::Expr b) {
    return builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, operand(a), operand(b));
  }
  llvm::Value* max(index::Expr a, index::Expr b) {
    return builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, operand(a), operand(b));
  }
  bool plain(index::Expr a, index::Expr b) const { return pool.range(a).lo >= 0 && pool.range(b).lo > 0; }
  /// Whether a sum is computed in 32 bits: all of it must fit, even in threads past the end, whose result is
  /// unused.
  bool is_small(int64_t constant, std::span<const index::Term> terms) const {
    if (!halves || !type->isIntegerTy(64) || terms.empty()) return false;
    if (terms.size() == 1 && terms[0].coefficient == 1) return false;
    double most = std::abs(static_cast<double>(constant));
    for (const auto& term : terms) {
      const auto range = pool.range(term.expr);
      most += std::abs(static_cast<double>(term.coefficient)) *
              std::max(std::abs(static_cast<double>(range.lo)), std::abs(static_cast<double>(range.hi)));
    }
    return most < static_cast<double>(small_index);
  }
  /// Whether both operands fit in 32 bits.
  bool fits(index::Expr a, index::Expr b) const {
    constexpr int64_t limit = int64_t{1} << 31;
    return halves && type->isIntegerTy(64) && pool.range(a).hi < limit && pool.range(b).hi < limit;
  }
  llvm::Value* half(llvm::Value* value) { return builder.CreateTrunc(value, builder.getInt32Ty()); }
  llvm::Value* floordiv(index::Expr a, index::Expr b) {
    auto *x = operand(a), *d = operand(b);
    if (plain(a, b) && fits(a, b)) return builder.CreateZExt(builder.CreateUDiv(half(x), half(d)), type);
    if (plain(a, b)) return builder.CreateUDiv(x, d);
    auto* quotient = builder.CreateSDiv(x, d);
    return builder.CreateAdd(quotient, builder.CreateSExt(inexact(x, d), type));
  }
  llvm::Value* mod(index::Expr a, index::Expr b) {
    auto *x = operand(a), *d = operand(b);
    if (plain(a, b) && fits(a, b)) return builder.CreateZExt(builder.CreateURem(half(x), half(d)), type);
    if (plain(a, b)) return builder.CreateURem(x, d);
    auto* rest = builder.CreateSRem(x, d);
    return builder.CreateSelect(inexact(x, d), builder.CreateAdd(rest, d), rest);
  }
  /// Whether truncation rounded the quotient up.
  llvm::Value* inexact(llvm::Value* x, llvm::Value* d) {
    auto* rest = builder.CreateSRem(x, d);
    auto* zero = llvm::Constant::getNullValue(type);
    return builder.CreateAnd(builder.CreateICmpNE(rest, zero),
                             builder.CreateICmpSLT(builder.CreateXor(rest, d), zero));
  }
};

}  // namespace

llvm::Value* BodyEmitter::scalar_index(index::Expr root) {
  auto known = [&](index::Expr expr) -> llvm::Value* {
    for (const auto& [cached, value] : scalar_cache_)
      if (cached == expr) return value;
    return nullptr;
  };
  if (auto* value = known(root)) return value;
  IndexArithmetic arithmetic{builder_,
                             pool_,
                             builder_.getInt64Ty(),
                             known,
                             [&](index::Symbol symbol) -> llvm::Value* {
                               for (const auto& [name, value] : point_.symbols)
                                 if (name == symbol) return value;
                               for (const auto& [name, value] : indirect_)
                                 if (name == symbol) return value;
                               return nullptr;
                             },
                             context_.target.grid.has_value()};
  const index::Expr roots[] = {root};
  for (auto expr : pool_.post_order(roots))
    if (!known(expr)) scalar_cache_.emplace_back(expr, pool_.visit(expr, arithmetic));
  return known(root);
}

llvm::Value* BodyEmitter::lane_index(index::Expr root, llvm::Type* integer) {
  auto* type = llvm::FixedVectorType::get(integer, point_.lanes);
  std::vector<std::pair<index::Expr, llvm::Value*>> cache;
  auto known = [&](index::Expr expr) -> llvm::Value* {
    for (const auto& [cached, value] : cache)
      if (cached == expr) return value;
    return nullptr;
  };
  auto uniform = [&](llvm::Value* value) {
    return context_.splat(builder_.CreateTrunc(value, integer), point_.lanes);
  };
  IndexArithmetic arithmetic{
      builder_,
      pool_,
      type,
      known,
      [&](index::Symbol symbol) -> llvm::Value* {
        for (const auto& [name, value] : indirect_)
          if (name == symbol)
            return value->getType()->isVectorTy() ? builder_.CreateTrunc(value, type) : uniform(value);
        auto* first = scalar_index(pool_.symbol(symbol));
        if (symbol != point_.vector) return uniform(first);
        return builder_.CreateAdd(uniform(first), context_.iota(integer, point_.lanes));
      },
      false};
  const index::Expr roots[] = {root};
  for (auto expr : pool_.post_order(roots))
    cache.emplace_back(expr, varies(expr) ? pool_.visit(expr, arithmetic) : uniform(scalar_index(expr)));
  return known(root);
}

}  // namespace ferrite::emitter
