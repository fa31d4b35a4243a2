// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of evaluation of a body; body_indices.cpp has index arithmetic, body_memory.cpp memory,
// body_prims.cpp primitives.
#include "ferrite/emitter/body_emitter.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

namespace ferrite::emitter {

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
      // The symbol of an INDIRECT operation varies if the operation does.
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
    // A packed buffer has no strides, so its loads have no linear address.
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
  // Operands precede their users, so one pass finds all operations that differ. An INDIRECT operation that
  // differs moves its own symbol, too.
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
  // Lookups take the first binding of a symbol, so an old one would hide the new one.
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
  // A masked load may give a computed value elsewhere: its stored form is rounded, and its value is not.
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
    // This may mark k itself, so it comes before the test of its stored form.
    if (needed[k] && is_widened(k)) need_stored(k);
    if (needed_stored[k]) {
      // The mask of a load and the condition of a selection are values; only what they choose is moved.
      const bool chooses = op.code == FE_OP_LOAD || (op.is_prim() && op.prim() == Prim::where_);
      chooses ? need(op.a) : need_stored(op.a);
      need_stored(op.b), need_stored(op.c);
    }
    if (!needed[k] || is_widened(k)) continue;
    // 1 + erf(x) reads x alone. If another operation here needs the erf, the erf has a value by the time the
    // sum is emitted, and emit_prim() adds 1 to it instead.
    if (const auto argument = erf_plus_one(op); argument != loop::none) {
      need(argument);
      continue;
    }
    const bool takes_bits = op.is_prim() && op.prim() == Prim::bitcast_;
    takes_bits ? need_stored(op.a) : need(op.a);
    need(op.b), need(op.c);
  }
  for (loop::OpId k = 0; k <= root; ++k) {
    // The stored form comes first: a widened value is made of it.
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
  // Only a cast to the same type moves its operand.
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

}  // namespace ferrite::emitter
