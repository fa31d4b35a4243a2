// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/loop/body_builder.h"

#include <algorithm>
#include <bit>

#include "core/ir/loop/interpret_primitive.h"
#include "core/ir/loop/scalar.h"

namespace ferrite::core::loop {

OpId BodyBuilder::add(BodyOp op) {
  if (auto folded = fold(op)) return *folded;
  return intern(std::move(op));
}

OpId BodyBuilder::intern(BodyOp op) {
  std::vector<uint64_t> key = {
      op.code, static_cast<uint64_t>(op.dtype), op.flags, op.a, op.b, op.c, op.buffer, op.bits};
  for (auto expr : op.index) key.push_back(expr.id);
  // The symbol is the result of an indirect and no operand, yet it belongs to the key: the recorder merges
  // equal indirects.
  if (op.code == FE_OP_INDIRECT) key.push_back(op.symbol);
  const auto [found, fresh] = known_.try_emplace(std::move(key), static_cast<OpId>(ops_.size()));
  if (fresh) ops_.push_back(std::move(op));
  return found->second;
}

OpId BodyBuilder::constant(DType dtype, uint64_t bits) {
  BodyOp op;
  op.code = FE_OP_CONSTANT;
  op.dtype = dtype;
  op.bits = bits;
  return intern(op);
}

OpId BodyBuilder::cast(OpId value, DType dtype) {
  if (ops_[value].dtype == dtype) return value;
  BodyOp op;
  op.code = static_cast<uint16_t>(Prim::cast_);
  op.dtype = dtype;
  op.a = value;
  return add(op);
}

const BodyOp* BodyBuilder::as_constant(OpId id) const {
  return id != none && ops_[id].code == FE_OP_CONSTANT ? &ops_[id] : nullptr;
}

std::optional<index::Range> BodyBuilder::index_range(OpId id) const {
  const auto& op = ops_[id];
  if (op.dtype != DType::i64_) return std::nullopt;
  if (op.code == FE_OP_INDEX) return pool_.range(op.index[0]);
  if (op.code == FE_OP_CONSTANT)
    return index::Range{static_cast<int64_t>(op.bits), static_cast<int64_t>(op.bits)};
  return std::nullopt;
}

std::optional<OpId> BodyBuilder::fold(const BodyOp& op) {
  if (op.is_prim()) return fold_prim(op);
  if (op.code == FE_OP_INDEX) {
    if (auto value = pool_.as_constant(op.index[0]))
      return constant(op.dtype, scalar::int_bits(op.dtype, *value));
  }
  if (op.code == FE_OP_LOAD && op.a != none) {
    const auto* mask = as_constant(op.a);
    if (mask && mask->bits == 0) return op.b;
    if (mask) {
      BodyOp unmasked = op;
      unmasked.a = unmasked.b = none;
      return intern(std::move(unmasked));
    }
  }
  return std::nullopt;
}

std::optional<OpId> BodyBuilder::fold_prim(const BodyOp& op) {
  const Prim prim = op.prim();
  const DType from = ops_[op.a].dtype;
  if (prim == Prim::cast_ && from == op.dtype && compute_type(from) == from) return op.a;
  if (prim == Prim::where_) {
    if (op.b == op.c) return op.b;
    if (const auto* condition = as_constant(op.a)) return condition->bits ? op.b : op.c;
    return std::nullopt;
  }
  if ((prim == Prim::and_ || prim == Prim::or_) && from == DType::bool_) {
    for (auto [known, other] : {std::pair{op.a, op.b}, std::pair{op.b, op.a}}) {
      const auto* value = as_constant(known);
      if (value) return (value->bits != 0) == (prim == Prim::and_) ? other : known;
    }
  }
  if (prim == Prim::lt_ || prim == Prim::le_ || prim == Prim::gt_ || prim == Prim::ge_) {
    auto a = index_range(op.a), b = index_range(op.b);
    if (a && b) {
      if (prim == Prim::gt_ || prim == Prim::ge_) std::swap(a, b);  // normalised to a < b or a <= b
      const bool strict = prim == Prim::lt_ || prim == Prim::gt_;
      if (strict ? a->hi < b->lo : a->hi <= b->lo) return constant(DType::bool_, 1);
      if (strict ? a->lo >= b->hi : a->lo > b->hi) return constant(DType::bool_, 0);
    }
  }
  if (prim == Prim::bitcast_ || (prim == Prim::cast_ && from == op.dtype)) {
    const auto* value = as_constant(op.a);
    return value ? std::optional(constant(op.dtype, value->bits)) : std::nullopt;
  }
  // Fold only operations that are exact; float arithmetic is left to the backend's precision.
  if (is_float(op.dtype) && prim != Prim::cast_) return std::nullopt;
  if (is_float(from) && prim != Prim::cast_) return std::nullopt;
  eval::Instruction instruction;
  instruction.prim = prim;
  instruction.dtype = op.dtype;
  instruction.from = from;
  std::vector<eval::Register> registers(4);
  uint32_t next = 0;
  for (auto [id, to] :
       {std::pair{op.a, &instruction.a}, std::pair{op.b, &instruction.b}, std::pair{op.c, &instruction.c}}) {
    if (id == none) continue;
    const auto* value = as_constant(id);
    if (!value) return std::nullopt;
    if (is_float(value->dtype))
      registers[next].f[0] = scalar::float_value(value->dtype, value->bits);
    else
      registers[next].i[0] = scalar::int_value(value->dtype, value->bits);
    *to = next++;
  }
  instruction.to = 3;
  eval::run_prim(instruction, registers.data(), 1);
  return constant(op.dtype, is_float(op.dtype) ? scalar::float_bits(op.dtype, registers[3].f[0])
                                               : scalar::int_bits(op.dtype, registers[3].i[0]));
}

namespace {

/// Marks everything that the stores need, through operands, index symbols, reductions and carries.
class Liveness {
 public:
  Liveness(const index::Pool& pool, const Statement& statement)
      : ops(statement.ops.size()),
        reductions(statement.reductions.size()),
        carries(statement.carries.size()),
        pool_(pool),
        s_(statement) {
    for (const auto& store : s_.stores) {
      need(store.value);
      need(store.mask);
      need_index(store.index);
    }
    while (!work_.empty()) {
      const auto& op = s_.ops[work_.back()];
      work_.pop_back();
      for (OpId id : {op.a, op.b, op.c}) need(id);
      need_index(op.index);
      if (op.code == FE_OP_REDUCED && !reductions[op.bits]) {
        reductions[op.bits] = true;
        need(s_.reductions[op.bits].element);
        need(s_.reductions[op.bits].index);
      }
      if (op.code == FE_OP_CARRIED && !carries[op.bits]) {
        carries[op.bits] = true;
        need(s_.carries[op.bits].next);
      }
    }
  }
  std::vector<bool> ops, reductions, carries;

 private:
  void need(OpId id) {
    if (id == none || ops[id]) return;
    ops[id] = true;
    work_.push_back(id);
  }
  void need_index(std::span<const index::Expr> index) {
    for (OpId id = 0; id < s_.ops.size(); ++id) {
      if (s_.ops[id].code != FE_OP_INDIRECT || ops[id]) continue;
      for (auto expr : index)
        if (pool_.depends_on(expr, s_.ops[id].symbol)) need(id);
    }
  }
  const index::Pool& pool_;
  const Statement& s_;
  std::vector<OpId> work_;
};

/// Keeps the marked elements; returns the new position of each.
template <class T>
std::vector<uint32_t> keep(std::vector<T>& list, const std::vector<bool>& marks) {
  std::vector<uint32_t> to(list.size(), none);
  std::vector<T> kept;
  for (size_t k = 0; k < list.size(); ++k) {
    if (!marks[k]) continue;
    to[k] = static_cast<uint32_t>(kept.size());
    kept.push_back(std::move(list[k]));
  }
  list = std::move(kept);
  return to;
}

}  // namespace

ProgramStatement copy_statement(LoopProgram& program, BufferId from, BufferId to) {
  const auto& buffer = program.buffers[from];
  ProgramStatement statement;
  statement.kind = FE_STATEMENT_MAP;
  BodyOp load;
  load.code = FE_OP_LOAD;
  load.dtype = buffer.dtype;
  load.buffer = from;
  for (const int64_t dim : buffer.dims) {
    if (dim == 1) {
      load.index.push_back(program.pool.constant(0));
      continue;
    }
    const Var var{program.pool.new_symbol({0, std::max<int64_t>(dim, 1) - 1}), dim, VarKind::parallel};
    load.index.push_back(program.pool.symbol(var.symbol));
    statement.vars.push_back(var);
  }
  statement.stores.push_back({to, load.index, 0, none, FE_STORE_SET});
  statement.ops.push_back(std::move(load));
  return statement;
}

void remove_dead(const index::Pool& pool, Statement& s) {
  const Liveness live(pool, s);
  const auto op_to = keep(s.ops, live.ops);
  const auto reduction_to = keep(s.reductions, live.reductions);
  const auto carry_to = keep(s.carries, live.carries);
  auto move = [&](OpId& id) {
    if (id != none) id = op_to[id];
  };
  for (auto& op : s.ops) {
    move(op.a), move(op.b), move(op.c);
    if (op.code == FE_OP_REDUCED) op.bits = reduction_to[op.bits];
    if (op.code == FE_OP_CARRIED) op.bits = carry_to[op.bits];
  }
  for (auto& reduction : s.reductions) move(reduction.element), move(reduction.index);
  for (auto& carry : s.carries) move(carry.next);
  for (auto& store : s.stores) move(store.value), move(store.mask);
  move(s.contract_a), move(s.contract_b);
  if (s.contract_a == none || s.contract_b == none || s.reductions.empty()) {
    s.contract_a = s.contract_b = none;
    s.contract_kind = FE_CONTRACT_GENERIC;
  }
}

}  // namespace ferrite::core::loop
