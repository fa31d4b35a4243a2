// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of evaluation and the index arithmetic of a body; body_memory.cpp has memory, body_prims.cpp
// primitives.
#include "ferrite/emitter/body_emitter.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <cmath>
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

index::Expr element_address(index::Pool& pool, const loop::Buffer& buffer,
                            const std::vector<index::Expr>& index) {
  std::vector<index::Term> terms;
  for (size_t k = 0; k < index.size(); ++k) terms.push_back({index[k], buffer.strides[k]});
  return pool.linear(buffer.offset, terms);
}

std::vector<int64_t> lane_offsets(index::Pool& pool, index::Expr expr, index::Symbol vector, unsigned lanes) {
  std::vector<int64_t> offsets(lanes);
  if (const auto step = pool.coefficient(expr, vector)) {
    for (unsigned k = 0; k < lanes; ++k) offsets[k] = *step * k;
    return offsets;
  }
  // The algebra decides whether (lanes * t + k) div 2 and the like differ from lane 0's value by a constant.
  const auto range = pool.symbol_range(vector);
  const auto t = pool.symbol(pool.new_symbol({0, range.hi / lanes}));
  const auto at_lane = [&](unsigned k) {
    const index::Term terms[] = {{t, lanes}};
    const std::pair<index::Symbol, index::Expr> replacement[] = {{vector, pool.linear(k, terms)}};
    return pool.substitute(expr, replacement);
  };
  const auto first = at_lane(0);
  for (unsigned k = 1; k < lanes; ++k) {
    const index::Term difference[] = {{at_lane(k), 1}, {first, -1}};
    const auto distance = pool.range(pool.linear(0, difference));
    if (distance.lo != distance.hi) return {};
    offsets[k] = distance.lo;
  }
  return offsets;
}

bool begins_at_vectors(index::Pool& pool, index::Expr address, index::Symbol vector, unsigned lanes) {
  const std::pair<index::Symbol, index::Expr> start[] = {{vector, pool.constant(0)}};
  return pool.coefficient(address, vector) == 1 && pool.divisor(pool.substitute(address, start)) % lanes == 0;
}

unsigned vectors_of_window(const std::vector<int64_t>& offsets) {
  if (offsets.empty()) return 0;
  constexpr int64_t most = 4;
  const auto [low, high] = std::ranges::minmax(offsets);
  const auto lanes = static_cast<int64_t>(offsets.size());
  const int64_t vectors = (high - low) / lanes + 1;
  return vectors <= most ? static_cast<unsigned>(vectors) : 0;
}

std::vector<bool> element_part(index::Pool& pool, const loop::Statement& statement) {
  std::vector<bool> element(statement.ops.size());
  auto reads = [&](const std::vector<index::Expr>& index, size_t before) {
    for (auto expr : index) {
      for (const auto& var : statement.vars)
        if (var.kind == loop::VarKind::reduction && pool.depends_on(expr, var.symbol)) return true;
      for (size_t j = 0; j < before; ++j)
        if (statement.ops[j].code == FE_OP_INDIRECT && element[j] &&
            pool.depends_on(expr, statement.ops[j].symbol))
          return true;
    }
    return false;
  };
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    auto depends = [&](loop::OpId id) { return id != loop::none && element[id]; };
    element[k] =
        op.code != FE_OP_REDUCED && (depends(op.a) || depends(op.b) || depends(op.c) || reads(op.index, k));
  }
  return element;
}

bool stores_elements(index::Pool& pool, const loop::Statement& statement, const loop::Store& store,
                     const std::vector<bool>& element) {
  if (element[store.value] || (store.mask != loop::none && element[store.mask])) return true;
  for (auto expr : store.index) {
    for (const auto& var : statement.vars)
      if (var.kind == loop::VarKind::reduction && pool.depends_on(expr, var.symbol)) return true;
    for (size_t k = 0; k < statement.ops.size(); ++k)
      if (element[k] && statement.ops[k].code == FE_OP_INDIRECT &&
          pool.depends_on(expr, statement.ops[k].symbol))
        return true;
  }
  return false;
}

BodyEmitter::BodyEmitter(KernelContext& context, const loop::Statement& statement)
    : context_(context),
      builder_(context.builder),
      statement_(statement),
      pool_(context.kernel.pool),
      moved_(loop::moved_values(statement)) {
  const auto& ops = statement.ops;
  auto bound_by = [&](const std::vector<index::Expr>& index) {
    std::vector<loop::OpId> result;
    for (loop::OpId k = 0; k < ops.size(); ++k) {
      if (ops[k].code != FE_OP_INDIRECT) continue;
      for (auto expr : index)
        if (pool_.depends_on(expr, ops[k].symbol)) {
          result.push_back(k);
          break;
        }
    }
    return result;
  };
  for (const auto& op : ops) {
    bool load = op.code == FE_OP_LOAD && !context.kernel.buffers[op.buffer].packing;
    load_address_.push_back(load ? element_address(pool_, context.kernel.buffers[op.buffer], op.index)
                                 : index::Expr{});
    bindings_.push_back(op.index.empty() ? std::vector<loop::OpId>{} : bound_by(op.index));
  }
  auto element = element_part(pool_, statement);
  for (size_t k = 0; k < statement.stores.size(); ++k) {
    const auto& store = statement.stores[k];
    store_address_.push_back(element_address(pool_, context.kernel.buffers[store.buffer], store.index));
    store_bindings_.push_back(bound_by(store.index));
    bool at_elements = stores_elements(pool_, statement, store, element);
    (at_elements ? element_stores_ : finish_stores_).push_back(k);
  }
  reduced_.resize(statement.reductions.size());
  carried_.resize(statement.carries.size());
  start({});
}

void BodyEmitter::start(const Point& point) {
  point_ = point;
  values_.assign(statement_.ops.size(), nullptr);
  stored_.assign(statement_.ops.size(), nullptr);
  shuffled_.assign(statement_.ops.size(), false);
  std::fill(reduced_.begin(), reduced_.end(), nullptr);
  std::fill(carried_.begin(), carried_.end(), nullptr);
  indirect_.clear();
  scalar_cache_.clear();
}

void BodyEmitter::move(const Point& point, std::span<const index::Symbol> along) {
  point_ = point;
  std::vector<index::Symbol> moving(along.begin(), along.end());
  const auto moves = [&](index::Expr expr) {
    return std::ranges::any_of(moving, [&](index::Symbol symbol) { return pool_.depends_on(expr, symbol); });
  };
  std::vector<bool> differs(statement_.ops.size());
  for (size_t k = 0; k < differs.size(); ++k) {
    const auto& op = statement_.ops[k];
    const auto of = [&](loop::OpId id) { return id != loop::none && differs[id]; };
    differs[k] = of(op.a) || of(op.b) || of(op.c) || std::ranges::any_of(op.index, moves);
    if (!differs[k]) continue;
    values_[k] = stored_[k] = nullptr;
    shuffled_[k] = false;
    if (op.code == FE_OP_INDIRECT) moving.push_back(op.symbol);
  }
  std::erase_if(indirect_,
                [&](const auto& bound) { return std::ranges::find(moving, bound.first) != moving.end(); });
  std::erase_if(scalar_cache_, [&](const auto& known) { return moves(known.first); });
}

void BodyEmitter::bind_reduced(size_t number, llvm::Value* value) { reduced_[number] = value; }
void BodyEmitter::bind_carried(size_t number, llvm::Value* value) { carried_[number] = value; }

llvm::Value* BodyEmitter::spread(llvm::Value* value) { return context_.splat(value, point_.lanes); }

llvm::Type* BodyEmitter::carried_type(size_t number, unsigned lanes) {
  const DType dtype = statement_.carries[number].dtype;
  if (!moved_.carries[number]) return context_.value_type(dtype, lanes);
  auto* type = context_.storage_type(dtype);
  return lanes == 1 ? type : llvm::FixedVectorType::get(type, lanes);
}

llvm::Constant* BodyEmitter::first_carried(size_t number) {
  const auto& carry = statement_.carries[number];
  return moved_.carries[number] ? stored_constant(carry.dtype, carry.init_bits)
                                : constant(carry.dtype, carry.init_bits);
}

llvm::Value* BodyEmitter::next_carried(size_t number) {
  const auto next = statement_.carries[number].next;
  return moved_.carries[number] ? stored_lanes_of(next) : lanes_of(next);
}

bool BodyEmitter::is_moved(loop::OpId op) const {
  const DType dtype = statement_.ops[op].dtype;
  return moved_.part[op] && compute_type(dtype) != dtype;
}

bool BodyEmitter::is_widened(loop::OpId id) const {
  if (!is_moved(id)) return false;
  const auto& op = statement_.ops[id];
  if (op.code == FE_OP_LOAD) return moved_.whole[id];
  return op.code == FE_OP_CARRIED || (op.is_prim() && op.prim() == Prim::bitcast_);
}

void BodyEmitter::bind_stored(loop::OpId load, llvm::Value* stored) {
  if (is_moved(load)) stored_[load] = stored;
  values_[load] = widen(stored, statement_.ops[load].dtype);
}

llvm::Value* BodyEmitter::value(loop::OpId root) {
  if (!values_[root]) emit_with_operands(root, false);
  return values_[root];
}

llvm::Value* BodyEmitter::stored(loop::OpId root) {
  if (!is_moved(root)) return narrow(value(root), statement_.ops[root].dtype);
  if (!stored_[root]) emit_with_operands(root, true);
  return stored_[root];
}

void BodyEmitter::emit_with_operands(loop::OpId root, bool as_stored) {
  // Operands have smaller numbers: mark downwards, emit upwards, without recursion since bodies may be long.
  std::vector<bool> needed(root + 1), needed_stored(root + 1);
  (as_stored ? needed_stored : needed)[root] = true;
  auto need = [&](loop::OpId id) {
    if (id != loop::none && !values_[id]) needed[id] = true;
  };
  auto need_stored = [&](loop::OpId id) {
    if (id == loop::none) return;
    if (!is_moved(id)) return need(id);
    if (!stored_[id]) needed_stored[id] = true;
  };
  for (loop::OpId k = root + 1; k-- > 0;) {
    if (!needed[k] && !needed_stored[k]) continue;
    const auto& op = statement_.ops[k];
    for (auto id : bindings_[k]) need(id);
    if (needed[k] && is_widened(k)) need_stored(k);
    if (needed_stored[k]) {
      const bool chooses = op.code == FE_OP_LOAD || (op.is_prim() && op.prim() == Prim::where_);
      chooses ? need(op.a) : need_stored(op.a);
      need_stored(op.b), need_stored(op.c);
    }
    if (!needed[k] || is_widened(k)) continue;
    if (const auto argument = erf_plus_one(op); argument != loop::none) {
      need(argument);
      continue;
    }
    const bool takes_bits = op.is_prim() && op.prim() == Prim::bitcast_;
    takes_bits ? need_stored(op.a) : need(op.a);
    need(op.b), need(op.c);
  }
  for (loop::OpId k = 0; k <= root; ++k) {
    if (needed_stored[k]) stored_[k] = emit_stored(k);
    if (needed[k]) emit(k);
  }
}

void BodyEmitter::emit(loop::OpId id) {
  const auto& op = statement_.ops[id];
  if (is_widened(id)) {
    auto* stored_form = stored(id);
    values_[id] = widen_loaded(stored_form, op.dtype, shuffled_[id]);
    return;
  }
  switch (op.code) {
    case FE_OP_LOAD: values_[id] = emit_load(op, id, false); return;
    case FE_OP_CONSTANT: values_[id] = constant(op.dtype, op.bits); return;
    case FE_OP_INDEX: values_[id] = emit_index_op(op); return;
    case FE_OP_INDIRECT: emit_indirect(op, id); return;
    case FE_OP_REDUCED: values_[id] = reduced_[op.bits]; return;
    case FE_OP_CARRIED: values_[id] = carried_[op.bits]; return;
    default: values_[id] = emit_prim(op); return;
  }
}

llvm::Value* BodyEmitter::emit_stored(loop::OpId id) {
  const auto& op = statement_.ops[id];
  switch (op.code) {
    case FE_OP_LOAD: return emit_load(op, id, true);
    case FE_OP_CONSTANT: return stored_constant(op.dtype, op.bits);
    case FE_OP_CARRIED: return carried_[op.bits];
    default: break;
  }
  if (op.prim() == Prim::where_) return choose_stored(value(op.a), stored(op.b), stored(op.c));
  if (op.prim() == Prim::cast_) return stored(op.a);
  auto* bits = bits_for_bitcast(op.a);
  return builder_.CreateBitCast(bits, bits->getType()->getWithNewType(context_.storage_type(op.dtype)));
}

llvm::Value* BodyEmitter::choose_stored(llvm::Value* condition, llvm::Value* yes, llvm::Value* no) {
  const auto is_vector = [](llvm::Value* value) { return value->getType()->isVectorTy(); };
  if (is_vector(condition) || is_vector(yes) || is_vector(no))
    condition = spread(condition), yes = spread(yes), no = spread(no);
  auto* type = yes->getType();
  auto* bits = type->getWithNewType(builder_.getIntNTy(type->getScalarSizeInBits()));
  yes = builder_.CreateBitCast(yes, bits);
  no = builder_.CreateBitCast(no, bits);
  auto* chosen = builder_.CreateSelect(condition, yes, no);
  return builder_.CreateBitCast(chosen, type);
}

llvm::Constant* BodyEmitter::stored_constant(DType dtype, uint64_t bits) {
  const llvm::APInt word(static_cast<unsigned>(bits_of(dtype)), bits);
  auto* type = context_.storage_type(dtype);
  if (type->isIntegerTy()) return llvm::ConstantInt::get(type, word);
  return llvm::ConstantFP::get(type, llvm::APFloat(type->getFltSemantics(), word));
}

llvm::Constant* BodyEmitter::constant(DType dtype, uint64_t bits) {
  auto* type = context_.value_type(dtype);
  switch (dtype) {
    case DType::f32_:
      return llvm::ConstantFP::get(
          type, llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, bits & 0xffffffffu)));
    case DType::f64_:
      return llvm::ConstantFP::get(type, llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, bits)));
    default:
      if (is_float(dtype)) return llvm::ConstantFP::get(type, float_value(dtype, bits));
      return llvm::ConstantInt::get(type, llvm::APInt(64, bits).trunc(type->getIntegerBitWidth()));
  }
}

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
