// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/analysis/row_maximum.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {
namespace {

using loop::BodyOp;
using loop::BufferId;
using loop::Statement;

bool is_load(const BodyOp& op) { return op.code == FE_OP_LOAD && op.a == loop::none; }

/// The load that gives a value, possibly through a cast; else null.
const BodyOp* loaded(const Statement& statement, loop::OpId id) {
  const auto* op = &statement.ops[id];
  if (op->is_prim() && op->prim() == Prim::cast_) op = &statement.ops[op->a];
  return is_load(*op) && is_float(op->dtype) ? op : nullptr;
}

/// The single loop of a statement inside the shared ones; null if there are several.
const loop::Var* inner_loop(const loop::Kernel& kernel, const Statement& statement) {
  const loop::Var* found = nullptr;
  for (size_t k = kernel.shared; k < statement.vars.size(); ++k) {
    if (statement.vars[k].extent == 1) continue;
    if (found) return nullptr;
    found = &statement.vars[k];
  }
  return found;
}

/// That loop if it is a reduction loop, else null.
const loop::Var* reduced_loop(const loop::Kernel& kernel, const Statement& statement) {
  const auto* loop = inner_loop(kernel, statement);
  return loop && loop->kind == loop::VarKind::reduction ? loop : nullptr;
}

bool is_row_scalar(const loop::Kernel& kernel, BufferId buffer) {
  return kernel.buffers[buffer].kind == FE_BUFFER_LOCAL && kernel.buffers[buffer].extent() <= 1;
}

/// Whether the statement stores only the maximum of the elements that it loads along a row.
bool finds_maximum(const loop::Kernel& kernel, const Statement& statement) {
  if (statement.kind != FE_STATEMENT_REDUCE || statement.stores.size() != 1 ||
      statement.reductions.size() != 1)
    return false;
  const auto& store = statement.stores[0];
  return statement.reductions[0].kind == FE_REDUCE_MAX && store.mask == loop::none &&
         store.mode == FE_STORE_SET && statement.ops[store.value].code == FE_OP_REDUCED &&
         loaded(statement, statement.reductions[0].element) && reduced_loop(kernel, statement);
}

/// Whether a NaN operand makes the result NaN, whatever the other operands are.
bool passes_nan(const BodyOp& op) {
  switch (op.prim()) {
    case Prim::add_:
    case Prim::sub_:
    case Prim::mul_:
    case Prim::div_:
    case Prim::neg_:
    case Prim::fma_:
    case Prim::exp_:
    case Prim::log_:
    case Prim::sqrt_:
    case Prim::reciprocal_: return true;
    case Prim::cast_: return is_float(op.dtype);
    default: return false;
  }
}

/// Follows the values computed from a maximum through the statements after it.
class Follower {
 public:
  Follower(index::Pool& pool, const loop::Kernel& kernel, const Statement& maximum)
      : pool_(pool), kernel_(kernel), maximum_(maximum), made_{maximum.stores[0].buffer} {}

  bool all_kept() {
    bool after = false;
    for (const auto& statement : kernel_.statements) {
      if (after && !keeps(statement)) return false;
      after = after || &statement == &maximum_;
    }
    return after;
  }

 private:
  /// Facts about a value: `made`: it depends on the maximum. `of_row`: it is NaN if any element of the row
  /// is. `of_element`: it is NaN if the element at the current point of the loops is.
  struct Value {
    bool made = false, of_row = false, of_element = false;
  };

  bool keeps(const Statement& statement) {
    const auto values = values_of(statement);
    const auto made = [&](loop::OpId id) { return id != loop::none && values[id].made; };
    if (std::ranges::none_of(values, &Value::made)) return true;
    if (statement.kind != FE_STATEMENT_MAP && statement.kind != FE_STATEMENT_REDUCE) return false;
    // A value that depends on the maximum must not select which element is loaded.
    for (const auto& op : statement.ops)
      if ((op.code == FE_OP_LOAD || op.code == FE_OP_INDIRECT) && made(op.a)) return false;
    for (const auto& store : statement.stores) {
      if (!made(store.value) && !made(store.mask)) continue;
      if (made(store.mask) || store.mode != FE_STORE_SET) return false;
      const auto& value = values[store.value];
      if (kernel_.buffers[store.buffer].kind != FE_BUFFER_LOCAL) {
        if (!value.of_row) return false;
        continue;
      }
      if (!made_.insert(store.buffer).second) return false;
      if (value.of_row && store.mask == loop::none && is_row_scalar(kernel_, store.buffer))
        of_row_.insert(store.buffer);
    }
    return true;
  }

  std::vector<Value> values_of(const Statement& statement) {
    std::vector<Value> values(statement.ops.size());
    for (size_t k = 0; k < values.size(); ++k) {
      const auto& op = statement.ops[k];
      auto& value = values[k];
      if (op.code == FE_OP_REDUCED) {
        const auto& reduction = statement.reductions[op.bits];
        const auto& element = values[reduction.element];
        value.made = element.made || (reduction.index != loop::none && values[reduction.index].made);
        // A sum over the row contains every element, so a single NaN makes it NaN.
        value.of_row = reduction.kind == FE_REDUCE_SUM && (element.of_row || element.of_element) &&
                       reduced_loop(kernel_, statement);
        continue;
      }
      for (const auto id : {op.a, op.b, op.c})
        if (id != loop::none) value.made = value.made || values[id].made;
      if (op.code == FE_OP_LOAD) {
        value.made = value.made || made_.contains(op.buffer);
        value.of_row = is_load(op) && of_row_.contains(op.buffer);
      } else if (op.is_prim() && is_float(op.dtype) && passes_nan(op)) {
        for (const auto id : {op.a, op.b, op.c}) {
          if (id == loop::none) continue;
          value.of_row = value.of_row || values[id].of_row;
          value.of_element = value.of_element || values[id].of_element;
        }
        if (op.prim() == Prim::sub_ &&
            maximum_taken_off(pool_, kernel_, statement, static_cast<loop::OpId>(k)) == &maximum_)
          value.of_element = true;
      }
    }
    return values;
  }

  index::Pool& pool_;
  const loop::Kernel& kernel_;
  const Statement& maximum_;
  std::set<BufferId> made_, of_row_;
};

}  // namespace

const Statement* maximum_taken_off(index::Pool& pool, const loop::Kernel& kernel, const Statement& statement,
                                   loop::OpId id) {
  const auto& ops = statement.ops;
  const auto& difference = ops[id];
  if (!difference.is_prim() || difference.prim() != Prim::sub_ || !loaded(statement, difference.a) ||
      !is_load(ops[difference.b]))
    return nullptr;
  const auto &element = *loaded(statement, difference.a), &top = ops[difference.b];
  if (!is_row_scalar(kernel, top.buffer)) return nullptr;
  const auto stores_to = [](const Statement& other, BufferId buffer) {
    return std::ranges::any_of(other.stores, [&](const loop::Store& s) { return s.buffer == buffer; });
  };
  const Statement* maximum = nullptr;
  for (const auto& other : kernel.statements) {
    // Nothing may store to the maximum or to the row between the two statements.
    if (maximum && (stores_to(other, top.buffer) || stores_to(other, element.buffer))) return nullptr;
    if (!maximum && stores_to(other, top.buffer)) maximum = &other;
  }
  if (!maximum || !finds_maximum(kernel, *maximum)) return nullptr;
  const auto& compared = maximum->ops[maximum->reductions[0].element];
  const auto& reduced = *loaded(*maximum, maximum->reductions[0].element);
  // Casts are monotonic: the elements must be rounded exactly as the maximum was.
  const auto dtype = ops[difference.a].dtype;
  if (kernel.buffers[top.buffer].dtype != dtype || (compared.code != FE_OP_LOAD && compared.dtype != dtype))
    return nullptr;
  const auto *row = inner_loop(kernel, statement), *rows = inner_loop(kernel, *maximum);
  if (reduced.buffer != element.buffer || !row || row->extent != rows->extent) return nullptr;
  std::vector<std::pair<index::Symbol, index::Expr>> same = {{rows->symbol, pool.symbol(row->symbol)}};
  for (size_t k = 0; k < kernel.shared; ++k)
    same.emplace_back(maximum->vars[k].symbol, pool.symbol(statement.vars[k].symbol));
  const auto& buffer = kernel.buffers[element.buffer];
  const bool alike = pool.substitute(element_address(pool, buffer, reduced.index), same) ==
                     element_address(pool, buffer, element.index);
  return alike ? maximum : nullptr;
}

bool sum_keeps_nan(index::Pool& pool, const loop::Kernel& kernel, const Statement& statement) {
  // Emitters work on rewritten statements, which store to the same buffers as the kernel's.
  const auto maximum = std::ranges::find_if(kernel.statements, [&](const Statement& other) {
    return finds_maximum(kernel, other) && !statement.stores.empty() &&
           other.stores[0].buffer == statement.stores[0].buffer;
  });
  return maximum != kernel.statements.end() && is_row_scalar(kernel, maximum->stores[0].buffer) &&
         Follower(pool, kernel, *maximum).all_kept();
}

}  // namespace ferrite::emitter
